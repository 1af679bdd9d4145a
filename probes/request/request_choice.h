/* Which requests get a record, as pure functions of the counters of their process: for request.bpf.c, and for the
 * requests of HTTP/2, which the source puts together.
 *
 * A process has a budget of records a second. Which requests get one is decided by a threshold that follows the
 * traffic; and whatever is an eighth slower than all before it in the same second always gets one, so that the slowest
 * (to within that eighth) are there whatever the threshold was. So do some that failed, and a sample that is chosen at
 * random, whatever their duration: the usual durations come from it. The others are counted. */
#pragma once

#include "probes/request.h"

#define REQUEST_WINDOW_SHIFT 30 /* 1.07 s */

/* How many requests of a window may be in the sample while each is chosen with the probability 2^-shift. All of up to
 * 64 are; the more requests there are, the fewer. Beyond 64 the sample has at least half as many. In a sudden burst it
 * also has the requests that were chosen with each smaller shift. */
#define REQUEST_SAMPLES_MOST  64
#define REQUEST_SAMPLES_LEAST 8

static inline __attribute__((always_inline)) __u32 request_window_samples(__u32 shift)
{
    __u32 most = REQUEST_SAMPLES_MOST >> ((shift + 1) / 2 & 31);
    return most > REQUEST_SAMPLES_LEAST ? most : REQUEST_SAMPLES_LEAST;
}

/* Doubles the probability for the next window, if as many requests as in this one do not lower it again. */
static inline __attribute__((always_inline)) void request_turn_samples(struct request_process *p)
{
    __u32 shift = p->sample_shift & 31;
    if (shift && p->window_requests <= (__u64)request_window_samples(shift - 1) << (shift - 1))
        p->sample_shift = shift - 1;
    p->window_samples = 0;
    p->window_requests = 0;
}

/* A second is over: the threshold for the next. Never above what the slowest of the last second took. */
static inline __attribute__((always_inline)) void request_turn_window(struct request_process *p, __u64 window,
                                                                      __u32 records_a_window)
{
    __u64 passed = window - p->window, threshold = p->threshold_ns;
    if (p->window_candidates > records_a_window)
        threshold = threshold ? threshold + (p->window_candidates > 8 * records_a_window ? threshold : threshold >> 2)
                              : p->window_longest_ns >> 4;
    else if (p->window_candidates < records_a_window / 2)
        threshold -= threshold >> 2;
    __u64 highest = p->window_longest_ns - (p->window_longest_ns >> 3);
    if (threshold > highest)
        threshold = highest;
    if (passed > 8 || threshold < 1024)
        threshold = 0;
    p->threshold_ns = threshold;
    if (passed > 8)
        p->sample_shift = 0;
    request_turn_samples(p);
    p->window = window;
    p->window_longest_ns = 0;
    p->window_records = 0;
    p->window_candidates = 0;
    p->window_failed = 0;
}

/* Does this one get a record? Those that failed have a budget of their own. */
static inline __attribute__((always_inline)) int request_is_notable(struct request_process *p, __u64 duration_ns,
                                                                    int is_failed, __u64 now, __u32 records_a_window)
{
    __u64 window = now >> REQUEST_WINDOW_SHIFT;
    if (window != p->window)
        request_turn_window(p, window, records_a_window);
    int slow = duration_ns >= p->threshold_ns, slowest = 0;
    if (duration_ns > p->window_longest_ns + (p->window_longest_ns >> 3)) {
        p->window_longest_ns = duration_ns;
        slowest = 1;
    }
    if (slow)
        p->window_candidates++;
    if (slowest || (slow && p->window_records < records_a_window)) {
        p->window_records++;
        return 1;
    }
    if (!is_failed || p->window_failed >= records_a_window / 4)
        return 0;
    p->window_failed++;
    return 1;
}

/* Is this one in the sample? Returns how many requests it stands for; 0: it is not. Each is chosen with a probability
 * that depends on those before it only, and is 1 where they are few, so that sums by weight are right on average. */
static inline __attribute__((always_inline)) __u32 request_sample_weight(struct request_process *p, __u32 random)
{
    __u32 shift = p->sample_shift & 31, weight = 1U << shift;
    p->window_requests++;
    if (random & (weight - 1))
        return 0;
    if (++p->window_samples >= request_window_samples(shift) && shift < 31) {
        p->sample_shift = shift + 1;
        p->window_samples = 0; /* with this probability */
    }
    return weight;
}
