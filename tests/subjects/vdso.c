/* Asks for the time for ever: the samples' leaves lie in the vdso, which is in no file. `vdso [SECONDS]`
 * With SUBJECT_FIRE it asks for a time that the vdso makes a system call for: clock_gettime(). */
#include "subject.h"

#include <time.h>

KEEP static uint64_t ask_time(void)
{
    uint64_t sum = 0;
    subject_wait_to_fire();
    while (!subject_over) {
        struct timespec t;
        clock_gettime(subject_firings ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
        if (subject_firings)
            subject_over = --subject_firings == 0;
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
