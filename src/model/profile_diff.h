/* Compares two profiles: the share of each function and each stack in either. Functions are distinguished by their
 * text (frame_text of model/frame.h), stacks by these texts and the process's name in front, so that builds with
 * different addresses can be compared. Plain data once created; not thread-safe. */
#pragma once

#include "model/profile.h"

#include <stdbool.h>

enum { DIFF_BEFORE, DIFF_AFTER, DIFF_SIDES };

struct diff_amount {
    uint64_t weight;  /* in the profiles' unit */
    uint64_t samples; /* 0 where the profile does not record it */
    double squares;   /* sum of the squares of the samples' weights; the samples of one entry count as equal, because an
                         entry stores only their sum */
};

struct diff_function {
    uint32_t name;
    struct diff_amount self[DIFF_SIDES];  /* as the innermost frame */
    struct diff_amount total[DIFF_SIDES]; /* anywhere in a stack, counted once per stack */
};

struct diff_stack {
    uint32_t first, count; /* in `stack_names`: the process's name ("": unknown), then frames, outermost first */
    struct diff_amount amount[DIFF_SIDES];
};

struct profile_diff {
    struct strings *names;
    struct diff_amount whole[DIFF_SIDES];
    uint64_t duration_ns[DIFF_SIDES];     /* 0: unknown */
    uint64_t not_observed_ns[DIFF_SIDES]; /* requested time that was not monitored */
    char type[64];                        /* of the values: "cpu", "page-faults" */
    bool is_exact[DIFF_SIDES]; /* all events were recorded, without sampling: there is no random error. Set by the
                                  caller; initially false */
    struct diff_function *functions;
    size_t function_count;
    uint32_t *stack_names;
    struct diff_stack *stacks;
    size_t stack_count;
};

/* Compares; both profiles may be freed afterwards. Also of profiles that cannot be compared: see profile_diff_why_not.
 * The caller frees `*ret`. -ENOMEM. */
int profile_diff_new(const struct profile *before, const struct profile *after, struct profile_diff **ret);
void profile_diff_free(struct profile_diff *d);
DEFINE_FREEP(profile_diff)

/* The reason why the two cannot be compared, as a message; NULL: they can. Shares of an empty profile are undefined,
 * and wall-clock time without continuous off-CPU monitoring is a share of something else. */
const char *profile_diff_why_not(const struct profile_diff *d);

/* A share before and after. */
struct diff_change {
    double before, after; /* shares, 0 to 1 */
    double noise; /* the difference that random sampling alone may cause, by the number and weight of the samples: three
                     standard deviations of the difference of two shares, at most 1; 0 where the number of samples is
                     unknown or nothing was sampled */
};
/* `amount`: of both sides. */
struct diff_change profile_diff_change(const struct profile_diff *d, const struct diff_amount *amount);
/* What `amount` contributes to the variance of such a difference. For a part with share p the variance is (1 - p)^2
 * times the part's spread plus p^2 times the spread of the rest. Spreads add up. 0 as with noise. */
double profile_diff_spread(const struct profile_diff *d, const struct diff_amount *amount);

static inline double diff_change_of(const struct diff_change *c)
{
    return c->after - c->before;
}

/* True when the change exceeds what random sampling may cause. */
bool diff_is_significant(const struct diff_change *c);
