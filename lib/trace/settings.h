/* Settings while a server runs: the layers command line <- global <- model, field by field, and the decision
 * which request is traced. A change makes a new `trace_settings` object and a counter from 0; traces in
 * flight keep the old.
 *
 * A sampler is changed under its manager's lock and asked without one: the question is one counter that is
 * compared with the number at which the next sample is due. Only when that is reached the lock is taken. */
#pragma once

#include "config.h"
#include "output.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* What a trace needs of the settings that it was started under. */
struct trace_settings {
    atomic_uint refs;
    unsigned level;
    uint32_t log_frequency;
    struct trace_output output; /* the set of rotated files; the writer's alone */
};

/* Those of what is not recorded: no level. Never changed, neither counted nor freed. */
extern struct trace_settings trace_settings_none;

struct trace_settings *trace_settings_ref(struct trace_settings *s);
void trace_settings_unref(struct trace_settings *s);

enum trace_field { TRACE_LEVEL = 1, TRACE_RATE = 2, TRACE_COUNT = 4, TRACE_LOG_FREQUENCY = 8, TRACE_FIELDS = 15 };

/* What one call of the trace protocol asks for. */
struct trace_update {
    unsigned set, clear; /* of enum trace_field */
    struct trace_values values;
};

struct trace_sampler {
    _Atomic uint64_t seen, due; /* sampled when seen reaches due; UINT64_MAX: never */
    struct trace_values values; /* in force; count is what is left of it */
    unsigned specified;         /* fields of this layer's own */
    struct trace_settings *settings;
};

/* Makes `s` a sampler with the values of the layer below and none of its own. -ENOMEM. */
int trace_sampler_init(struct trace_sampler *s, const struct trace_values *below, bool works);
void trace_sampler_fini(struct trace_sampler *s);

/* The values of a layer after an update; *ret_specified are its own fields then. All others are those of the
 * layer below, also where the update does not name them: a count that is not the layer's own is whole again.
 */
struct trace_values trace_layered(const struct trace_sampler *s, const struct trace_values *below,
                                  const struct trace_update *update, unsigned *ret_specified);

/* Puts values into force: a new settings object, the counter from 0. `works`: false when they cannot be
 * traced with (no file). -ENOMEM, and nothing changed. */
int trace_sampler_set(struct trace_sampler *s, const struct trace_values *values, unsigned specified, bool works);

/* The quick question, without a lock. True: ask trace_sampler_take. */
static inline bool trace_sampler_is_due(struct trace_sampler *s)
{
    uint64_t due = atomic_load_explicit(&s->due, memory_order_relaxed);
    if (due == UINT64_MAX)
        return false;
    return atomic_fetch_add_explicit(&s->seen, 1, memory_order_relaxed) + 1 >= due;
}

/* Under the lock: the settings to trace with, a reference for the caller; NULL when another request was
 * quicker. */
struct trace_settings *trace_sampler_take(struct trace_sampler *s);

/* Under the lock, for a request whose caller wants it traced: past rate and count, only the level decides. */
struct trace_settings *trace_sampler_force(struct trace_sampler *s);
