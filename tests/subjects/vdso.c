/* Asks for the time for ever: the samples' leaves lie in the vdso, which is in no file. `vdso [SECONDS]` */
#include "subject.h"

#include <time.h>

KEEP static uint64_t ask_time(void)
{
    uint64_t sum = 0;
    while (!subject_over) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        sum += (uint64_t)t.tv_nsec;
    }
    return sum;
}

int main(int argc, char **argv)
{
    subject_end_after(subject_seconds(argc, argv, 1));
    subject_ready("main;ask_time");
    uint64_t sum = ask_time();
    STAY;
    return subject_end() + (int)(sum & 0);
}
