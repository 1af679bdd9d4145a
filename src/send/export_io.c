/* See export_io.h. */
#include "send/export_io.h"

#include "base/clock.h"

#include <assert.h>

extern const struct otlp_transport OTLP_TRANSPORT_SYMBOL; /* lib/otlp/curl.c */

void export_end_init(struct export_end *e)
{
    e->begun_ns = 0;
    pthread_mutex_init(&e->lock, NULL); /* cannot fail on Linux */
    clock_cond_init(&e->changed);
}

void export_end_fini(struct export_end *e)
{
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
}

void export_end_begin(struct export_end *e, uint64_t now_ns)
{
    assert(now_ns); /* 0 means not yet */
    pthread_mutex_lock(&e->lock);
    if (!e->begun_ns)
        e->begun_ns = now_ns;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

uint64_t export_end_begun_ns(struct export_end *e)
{
    pthread_mutex_lock(&e->lock);
    const uint64_t begun_ns = e->begun_ns;
    pthread_mutex_unlock(&e->lock);
    return begun_ns;
}

bool export_end_pause(struct export_end *e, uint64_t end_ns)
{
    const struct timespec end = clock_timespec_of(end_ns);
    pthread_mutex_lock(&e->lock);
    for (int r = 0; !e->begun_ns && r == 0;)
        r = pthread_cond_timedwait(&e->changed, &e->lock, &end);
    const bool goes_on = !e->begun_ns;
    pthread_mutex_unlock(&e->lock);
    return goes_on;
}

static uint64_t read_system_clock(void *argument)
{
    (void)argument;
    return clock_monotonic_ns();
}

static bool pause_thread(void *argument, unsigned ms)
{
    return export_end_pause(argument, clock_monotonic_ns() + ms * 1000000ull);
}

struct export_io export_io_system(struct export_end *end)
{
    return (struct export_io){&OTLP_TRANSPORT_SYMBOL, read_system_clock, pause_thread, end};
}
