/* Functions over time: what each took in every one of some windows, of those that took most or changed most, and what
 * all others took together. Functions are told apart by what people read (frame_text of model/frame.h), by their kind
 * and their file. Plain data but for its making: hotspots_new, its windows' times by the maker, hotspots_add of each
 * window's profile, hotspots_finish. Not thread-safe. */
#pragma once

#include "model/profile.h"

#include <stdbool.h>

struct hotspots_options {
    bool total;     /* a function's time with all that it called; else its own alone */
    bool by_change; /* first those whose rates differ most between windows; else those that took most of all windows
                       together */
    uint32_t max;   /* functions that are told */
};

struct hotspots_window {
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    uint64_t duration_ns;      /* so much of it was looked at */
    uint64_t weight_ns;        /* of all functions */
    uint64_t others_ns; /* of all that are not told: with these it adds up to weight_ns, exactly. 0 with `total`, where
                           they overlap */
};

struct hotspot {
    const char *function, *mapping;
    enum frame_kind kind;
    uint64_t weight_ns;
    uint64_t *weights_ns; /* by window */
};

struct hotspots {
    struct hotspots_options options;
    uint64_t start_unix_ns; /* of the first window, by the offset between the clocks now */
    uint64_t now_ns;        /* CLOCK_MONOTONIC when it was asked for; set by who asked */
    uint64_t period_ns;     /* of the sampling, at full detail */
    uint64_t dropped;       /* samples that the windows had no room for */
    struct hotspots_window *windows;
    uint32_t window_count;
    struct hotspot *rows; /* in order of rank; equal ones by name */
    uint32_t row_count;
    uint32_t function_count;    /* that took anything; row_count of them are told */
    uint64_t *weights_ns;       /* what the rows point into */
    struct hotspots_sums *sums; /* private */
};

int hotspots_new(const struct hotspots_options *options, uint32_t windows, struct hotspots **ret);
void hotspots_free(struct hotspots *h);
DEFINE_FREEP(hotspots)

/* Adds what matches `filter` (NULL: all) to a window; copies what it needs. -ENOMEM. */
int hotspots_add(struct hotspots *h, uint32_t window, const struct profile *p, const struct profile_filter *filter);

/* Ranks what was added; once, at the end. -ENOMEM. */
int hotspots_finish(struct hotspots *h);
