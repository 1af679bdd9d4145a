/* See background.h. */
#include "background.h"

#include <signal.h>
#include <sonde/trace.h>

uint64_t trace_clock_ns(void *unused)
{
    (void)unused;
    return sonde_trace_now_ns();
}

struct timespec trace_deadline(unsigned ms)
{
    const uint64_t ns = sonde_trace_now_ns() + (uint64_t)ms * 1000000;
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

int trace_conditions_init(pthread_cond_t *a, pthread_cond_t *b)
{
    pthread_condattr_t monotonic;
    int r = pthread_condattr_init(&monotonic);
    if (r != 0)
        return -r;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(a, &monotonic);
    pthread_cond_init(b, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return 0;
}

int trace_background_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(ret_thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}
