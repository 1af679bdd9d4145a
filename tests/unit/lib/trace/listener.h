/* Records firings without a kernel: for test programs that are also linked with -Wl,--wrap=sonde_probe_fire_values. */
#pragma once

#include "fixture.h"

static struct firing {
    uint64_t high, low, span_id, id;
    int status;
    char model[80], request_id[80]; /* of request_start; of both */
    int probe;
} firings[64];
static unsigned firing_count;

static inline void listen_to_all(int by)
{
    for (int i = HEARD_REQUEST_START; i < HEARD_PROBES; i++)
        attach_to(i, by);
    firing_count = 0;
}

void __real_sonde_probe_fire_values(const struct sonde_probe *probe, unsigned count, const struct sonde_value *values);
void __wrap_sonde_probe_fire_values(const struct sonde_probe *probe, unsigned count, const struct sonde_value *values);

void __wrap_sonde_probe_fire_values(const struct sonde_probe *probe, unsigned count, const struct sonde_value *values)
{
    const volatile uint16_t *first = (const volatile uint16_t *)atomic_load(&trace_listeners);
    unsigned at = __atomic_fetch_add(&firing_count, 1, __ATOMIC_RELAXED);
    if (at < sizeof(firings) / sizeof(firings[0])) {
        struct firing *f = &firings[at];
        *f = (struct firing){.high = values[0].bits,
                             .low = values[1].bits,
                             .span_id = values[2].bits,
                             .id = values[3].bits,
                             .probe = (int)(probe->semaphore - first)};
        if (f->probe == HEARD_REQUEST_START)
            snprintf(f->model, sizeof(f->model), "%s", (const char *)(uintptr_t)values[4].bits);
        if (f->probe == HEARD_REQUEST_END)
            f->status = (int)values[4].bits;
        if (f->probe <= HEARD_REQUEST_END)
            snprintf(f->request_id, sizeof(f->request_id), "%s", (const char *)(uintptr_t)values[5].bits);
        assert_int_equal(count, f->probe <= HEARD_REQUEST_END ? 6 : 4);
    }
    __real_sonde_probe_fire_values(probe, count, values);
}
