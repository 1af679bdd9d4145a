/* The windows of an agent, one for each type of samples that arrive: a new type needs no code here. They share a fixed
 * memory. Thread-safe: the pipeline's thread adds, HTTP threads find windows and query them. */
#pragma once

#include "aggregate/window.h"
#include "model/metric.h"

struct windows;

struct windows_options {
    uint64_t slot_ns; /* of every window; see window.h */
    uint32_t slots;
    uint32_t types_max;      /* number of windows, at most WINDOWS_TYPES_MAX */
    size_t max_bytes;        /* of all windows: each of the types_max gets an equal share. 0: unbounded */
    size_t detail_max_bytes; /* of the windows that keep the time of samples to 20 ms: they share it equally */
};

#define WINDOWS_TYPES_MAX 16

/* Copies `options`; windows are created as types arrive. The caller frees `*ret`. -EINVAL: types_max is 0 or more than
 * WINDOWS_TYPES_MAX; -ENOMEM. */
int windows_new(const struct windows_options *options, struct windows **ret);
void windows_free(struct windows *w);
DEFINE_FREEP(windows)

/* Announces samples of a type, with their sampling period (see struct profile). From now on queries return an empty
 * profile instead of -EOPNOTSUPP. Must not be called twice for a type, nor after its first sample. `type` is borrowed.
 * Like windows_add, for the pipeline's thread only. 0, -ENOSPC when there are types_max windows, or as window_new. */
int windows_expect(struct windows *w, const struct sample_type *type, uint64_t period);

/* The window of a type, borrowed until windows_free; NULL: no sample of it has arrived or was announced. */
struct window *windows_find(const struct windows *w, const struct sample_type *type);

/* See window_observe; without a window of that type, does nothing. */
void windows_observe(struct windows *w, const struct sample_type *type, bool is_observed, uint64_t now_ns);

/* Adds a sample to the window of its type, which is created if missing, without a sampling period. Returns like
 * window_add; -ENOSPC also when there are types_max windows of other types. */
int windows_add(struct windows *w, const struct sample *s);

/* Like window_snapshot and window_region for filter->type, which may be sample_type_wall (wall_time.h). Samples of
 * intervals have no position within a slot: a region of them covers whole slots. -EOPNOTSUPP: there is no window of the
 * type. windows_region: -ERANGE: in the future. */
int windows_snapshot(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                     struct profile **ret);
int windows_region(struct windows *w, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
                   const struct profile_filter *filter, struct profile **ret);

/* Changes max_bytes and detail_max_bytes of the options. Returns how many slots with samples that drops (window_limit).
 * The pipeline's thread. */
size_t windows_limit(struct windows *w, size_t max_bytes, size_t detail_max_bytes);

/* See window_trim, for every window. */
void windows_trim(struct windows *w);

size_t windows_bytes(struct windows *w);
/* Adds the metrics of all windows together. */
void windows_metrics(struct windows *w, struct metric_set *set);
