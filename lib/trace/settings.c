/* Layers of settings, and samplers. Locking is done by the manager. */
#include "settings.h"

#include <errno.h>
#include <stdlib.h>

struct trace_settings trace_settings_none;

struct trace_settings *trace_settings_ref(struct trace_settings *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void trace_settings_unref(struct trace_settings *s)
{
    if (!s || s == &trace_settings_none || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    trace_output_close(&s->output);
    free(s);
}

int trace_sampler_set(struct trace_sampler *s, const struct trace_values *values, unsigned specified, bool works)
{
    struct trace_settings *settings = calloc(1, sizeof(*settings));
    if (!settings)
        return -ENOMEM;
    atomic_init(&settings->refs, 1);
    settings->level = values->level;
    settings->log_frequency = values->log_frequency;
    trace_output_init(&settings->output);
    trace_settings_unref(s->settings);
    s->settings = settings;
    s->values = *values;
    s->specified = specified;
    bool active = works && values->level && values->rate && values->count != 0;
    /* A request between the two stores may be sampled early or late, as if it had come before or after the change. */
    atomic_store_explicit(&s->seen, 0, memory_order_relaxed);
    atomic_store_explicit(&s->due, active ? values->rate : UINT64_MAX, memory_order_relaxed);
    return 0;
}

int trace_sampler_init(struct trace_sampler *s, const struct trace_values *below, bool works)
{
    s->settings = NULL;
    return trace_sampler_set(s, below, 0, works);
}

void trace_sampler_fini(struct trace_sampler *s)
{
    trace_settings_unref(s->settings);
    s->settings = NULL;
    atomic_store_explicit(&s->due, UINT64_MAX, memory_order_relaxed);
}

/* The value of a field: from the update, this layer or the layer below. */
#define LAYERED(field, name)                                                                                           \
    (update->set & (field) ? update->values.name : specified & (field) ? s->values.name : below->name)

struct trace_values trace_layered(const struct trace_sampler *s, const struct trace_values *below,
                                  const struct trace_update *update, unsigned *ret_specified)
{
    unsigned specified = (s->specified & ~update->clear) | update->set;
    *ret_specified = specified;
    return (struct trace_values){
        .level = LAYERED(TRACE_LEVEL, level),
        .rate = LAYERED(TRACE_RATE, rate),
        .count = LAYERED(TRACE_COUNT, count),
        .log_frequency = LAYERED(TRACE_LOG_FREQUENCY, log_frequency),
    };
}

struct trace_settings *trace_sampler_take(struct trace_sampler *s)
{
    uint64_t due = atomic_load_explicit(&s->due, memory_order_relaxed);
    /* Compare with the total number seen: two requests may arrive here in the wrong order and both be due. */
    if (due == UINT64_MAX || atomic_load_explicit(&s->seen, memory_order_relaxed) < due)
        return NULL;
    if (s->values.count > 0)
        s->values.count--;
    atomic_store_explicit(&s->due, s->values.count == 0 ? UINT64_MAX : due + s->values.rate, memory_order_relaxed);
    return trace_settings_ref(s->settings);
}

struct trace_settings *trace_sampler_force(struct trace_sampler *s)
{
    return s->values.level ? trace_settings_ref(s->settings) : NULL;
}
