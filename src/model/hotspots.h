/* Functions over time: the time of each in every one of some windows, for those with the most time or the largest
 * change, and the sum of all others. Functions are distinguished by their text (frame_text of model/frame.h), kind
 * and mapping. Usage: hotspots_new, set the windows' times, hotspots_add for each window's profile, hotspots_finish;
 * then plain data. Not thread-safe. */
#pragma once

#include "model/profile.h"

#include <stdbool.h>

struct hotspots_options {
    bool total;     /* a function's total time, callees included; otherwise its self time */
    bool by_change; /* rank by the largest difference of rates between windows; otherwise by the time in all windows
                       together */
    uint32_t max;   /* number of functions listed */
};

struct hotspots_window {
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    uint64_t duration_ns;      /* monitored time in the window */
    uint64_t value;            /* of all functions */
    uint64_t others;           /* of all functions not listed: with those listed it adds up to `value` exactly. 0 with
                                     `total`, where times overlap */
};

struct hotspot {
    const char *function, *mapping;
    enum frame_kind kind;
    uint64_t value;
    uint64_t *values; /* by window */
};

struct hotspots {
    struct hotspots_options options;
    uint64_t start_unix_ns; /* of the first window, by the present offset between the clocks */
    uint64_t now_ns;        /* CLOCK_MONOTONIC at the time of the query; set by the caller */
    uint64_t period;        /* sampling period, at full detail */
    uint64_t dropped;       /* samples that did not fit into the windows */
    struct hotspots_window *windows;
    uint32_t window_count;
    struct hotspot *rows; /* in order of rank; equal ones by name */
    uint32_t row_count;
    uint32_t function_count;    /* functions with any time; row_count of them are listed */
    uint64_t *values;           /* storage of the rows' values */
    struct hotspots_sums *sums; /* private */
};

/* `windows`: their number. Their times are zeros, for the caller to set; it frees `*ret`. -ENOMEM. */
int hotspots_new(const struct hotspots_options *options, uint32_t windows, struct hotspots **ret);
void hotspots_free(struct hotspots *h);
DEFINE_FREEP(hotspots)

/* Adds the entries of `p` that match `filter` (NULL: all) to window number `window`, which must exist; copies them.
 * Must not follow hotspots_finish. -ENOMEM: `h` can only be freed. */
int hotspots_add(struct hotspots *h, uint32_t window, const struct profile *p, const struct profile_filter *filter);

/* Ranks the functions and makes the rows; to be called once, at the end. -ENOMEM: `h` can only be freed. */
int hotspots_finish(struct hotspots *h);
