/* Clocks; see clock.h. */
#include "base/clock.h"

#define SECOND_NS 1000000000u
#define NEAR_NS   10000
#define TRIES_MAX 20 /* limit for machines where reading the clock is a slow system call */

uint64_t clock_ns_of(struct timespec t)
{
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

struct timespec clock_timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / SECOND_NS), .tv_nsec = (long)(ns % SECOND_NS)};
}

static uint64_t read_clock_ns(clockid_t id)
{
    struct timespec t = {0};
    clock_gettime(id, &t);
    return clock_ns_of(t);
}

uint64_t clock_monotonic_ns(void)
{
    return read_clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_boot_ns(void)
{
    return read_clock_ns(CLOCK_BOOTTIME);
}

uint64_t clock_unix_ns(void)
{
    return read_clock_ns(CLOCK_REALTIME);
}

uint64_t clock_process_cpu_ns(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? read_clock_ns(clock) : 0;
}

uint64_t clock_thread_cpu_ns(void)
{
    return read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Reads CLOCK_REALTIME between two readings of CLOCK_MONOTONIC; repeats when these are far apart because the thread
 * was preempted in between. */
uint64_t clock_unix_from_monotonic(uint64_t monotonic_ns)
{
    uint64_t before_ns, unix_ns, apart_ns;
    int tries = 0;
    do {
        before_ns = clock_monotonic_ns();
        unix_ns = clock_unix_ns();
        apart_ns = clock_monotonic_ns() - before_ns;
    } while (apart_ns > NEAR_NS && ++tries < TRIES_MAX);
    return unix_ns - (before_ns + apart_ns / 2) + monotonic_ns;
}

void clock_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic); /* these calls cannot fail on Linux */
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

const char *clock_time_of_day(uint64_t unix_ns, char out[CLOCK_TEXT_BYTES])
{
    const time_t seconds = (time_t)(unix_ns / SECOND_NS);
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(out, CLOCK_TEXT_BYTES, "%H:%M:%S", &local);
    return out;
}
