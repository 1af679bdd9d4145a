/* Run-time settings: the layers command line <- global <- model, field by field, and the sampling decision. A change
 * creates a new `trace_settings` object and resets the counter; traces in flight keep the old object.
 *
 * A sampler is changed under its manager's lock but queried without: a query increments one counter and compares it
 * with the number of the next sample. The lock is taken only when that is reached. */
#pragma once

#include "config.h"
#include "output.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The settings that a trace was started with. */
struct trace_settings {
    atomic_uint refs;
    unsigned level;
    uint32_t log_frequency;
    struct trace_output output; /* the current rotated file; used by the writer thread only */
};

/* The settings of traces that are not recorded: no level. Constant, neither counted nor freed. */
extern struct trace_settings trace_settings_none;

struct trace_settings *trace_settings_ref(struct trace_settings *s);
void trace_settings_unref(struct trace_settings *s);

enum trace_field { TRACE_LEVEL = 1, TRACE_RATE = 2, TRACE_COUNT = 4, TRACE_LOG_FREQUENCY = 8, TRACE_FIELDS = 15 };

/* The request of one call of the trace protocol. */
struct trace_update {
    unsigned set, clear; /* bit masks of enum trace_field */
    struct trace_values values;
};

struct trace_sampler {
    _Atomic uint64_t seen, due; /* sampled when seen reaches due; UINT64_MAX: never */
    struct trace_values values; /* in force; count is the remaining number */
    unsigned specified;         /* bit mask of the fields set in this layer */
    struct trace_settings *settings;
};

/* Initialises a sampler with the values of the layer below and none of its own. -ENOMEM. */
int trace_sampler_init(struct trace_sampler *s, const struct trace_values *below, bool works);
void trace_sampler_fini(struct trace_sampler *s);

/* Computes the values of a layer after an update; *ret_specified is the new mask of its own fields. All other fields
 * come from the layer below, also those that the update does not mention: an inherited count starts anew. */
struct trace_values trace_layered(const struct trace_sampler *s, const struct trace_values *below,
                                  const struct trace_update *update, unsigned *ret_specified);

/* Activates values: new settings object, counter reset. `works`: false if tracing is impossible (no file). -ENOMEM:
 * nothing changed. */
int trace_sampler_set(struct trace_sampler *s, const struct trace_values *values, unsigned specified, bool works);

/* The lock-free check. True: call trace_sampler_take. */
static inline bool trace_sampler_is_due(struct trace_sampler *s)
{
    uint64_t due = atomic_load_explicit(&s->due, memory_order_relaxed);
    if (due == UINT64_MAX)
        return false;
    return atomic_fetch_add_explicit(&s->seen, 1, memory_order_relaxed) + 1 >= due;
}

/* Under the lock: returns a reference to the settings to trace with; NULL: another request took the sample. */
struct trace_settings *trace_sampler_take(struct trace_sampler *s);

/* Under the lock: the same for a request that its caller wants traced, regardless of rate and count; only the level
 * matters. */
struct trace_settings *trace_sampler_force(struct trace_sampler *s);
