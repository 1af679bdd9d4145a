/* Reads the clock in a loop: the samples' leaves are in the vdso, which is in no file. `vdso [SECONDS]` With
 * WORKLOAD_FIRE it reads a clock that the vdso reads by a system call: clock_gettime(). */
#include "workload.h"

#include <time.h>

KEEP static uint64_t ask_time(void)
{
    uint64_t sum = 0;
    workload_wait_to_fire();
    while (!workload_over) {
        struct timespec t;
        clock_gettime(workload_firings ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
        if (workload_firings)
            workload_over = --workload_firings == 0;
        sum += (uint64_t)t.tv_nsec;
    }
    return sum;
}

int main(int argc, char **argv)
{
    workload_end_after(workload_seconds(argc, argv, 1));
    workload_ready("main;ask_time");
    uint64_t sum = ask_time();
    STAY;
    return workload_end() + (int)(sum & 0);
}
