/* Two profiles side by side: what each function and each stack has of the whole of either. Functions are told apart by
 * what people read (frame_text of model/frame.h), stacks by these and by the process's name in front of them, so that
 * builds whose addresses moved can be compared. Plain data but for its making; not thread-safe. */
#pragma once

#include "model/profile.h"

#include <stdbool.h>

enum { DIFF_BEFORE, DIFF_AFTER, DIFF_SIDES };

struct diff_amount {
    uint64_t weight;  /* in the profiles' unit */
    uint64_t samples; /* 0 where the profile does not tell */
    double squares;   /* the sum of the squares of the samples' weights, where those of one entry are taken as equal: it
                         has no more than their sum */
};

struct diff_function {
    uint32_t name;
    struct diff_amount self[DIFF_SIDES];  /* as the innermost frame */
    struct diff_amount total[DIFF_SIDES]; /* anywhere in a stack, once for each */
};

struct diff_stack {
    uint32_t first,
        count; /* in `stack_names`: the process's name ("" where it is not told), then frames, outermost first */
    struct diff_amount amount[DIFF_SIDES];
};

struct profile_diff {
    struct strings *names;
    struct diff_amount whole[DIFF_SIDES];
    uint64_t duration_ns[DIFF_SIDES];     /* 0: not known */
    uint64_t not_observed_ns[DIFF_SIDES]; /* of the time that was asked for: in it nobody looked */
    char type[64];                        /* of the values: "cpu", "page-faults" */
    bool is_exact[DIFF_SIDES]; /* every event was told, none sampled: nothing is left to chance. Whoever knows sets it;
                                  false at first */
    struct diff_function *functions;
    size_t function_count;
    uint32_t *stack_names;
    struct diff_stack *stacks;
    size_t stack_count;
};

int profile_diff_new(const struct profile *before, const struct profile *after, struct profile_diff **ret);
void profile_diff_free(struct profile_diff *d);
DEFINE_FREEP(profile_diff)

/* Why the two cannot be compared, in words; NULL: they can. Shares of nothing are none, and of wall-clock time in which
 * waits were not always looked at shares of something else. */
const char *profile_diff_why_not(const struct profile_diff *d);

/* A part of the whole before and after. */
struct diff_change {
    double before, after; /* shares, 0 to 1 */
    double noise; /* what chance among the samples, by their number and weight, may make of the difference: three
                   * standard deviations of the difference of two shares, at most 1; 0 where the samples are not known
                   * or nothing was sampled */
};
/* `amount`: of both sides. */
struct diff_change profile_diff_change(const struct profile_diff *d, const struct diff_amount *amount);
/* What `amount` adds to the variance of such a difference: that of a part of the share p is (1 - p)^2 of the part's
 * spread and p^2 of what all the rest has. Spreads add up. 0 as with noise. */
double profile_diff_spread(const struct profile_diff *d, const struct diff_amount *amount);

static inline double diff_change_of(const struct diff_change *c)
{
    return c->after - c->before;
}

/* Whether it is more than chance among the samples may make of it. */
bool diff_is_significant(const struct diff_change *c);
