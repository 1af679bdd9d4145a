/* How much of an interval was observed, why not the rest, and what could not be read meanwhile. It goes with every
 * answer that may be empty, and says why it is. Plain data, without pointers. */
#pragma once

#include "base/buf.h"
#include "model/opaque_port.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coverage_reason {
    COVERAGE_BEFORE_START, /* the agent was not running yet */
    COVERAGE_BUDGET,       /* to stay within budget.one_cpu */
    COVERAGE_EXPIRED,      /* longer ago than is kept */
    COVERAGE_NOT_ATTACHED, /* the kernel refused all methods */
    COVERAGE_DISABLED,     /* by a setting */
    COVERAGE_METHOD,       /* the attach method does not see a part of it */
    COVERAGE_REASONS
};

/* What an answer is about. */
enum coverage_subject {
    COVERAGE_REQUESTS,
    COVERAGE_ABNORMAL,
    COVERAGE_ROUTES,
    COVERAGE_CALLS,
    COVERAGE_EVENTS,
    COVERAGE_IO
};

#define COVERAGE_GAPS_MAX  12
#define COVERAGE_PORTS_MAX 10

struct coverage_gap {
    enum coverage_reason reason;
    uint64_t duration_ns; /* of the interval */
    char text[768];       /* sentences for people: why, and what to change */
};

struct coverage {
    uint64_t asked_ns;     /* length of the interval */
    uint64_t observed_ns;  /* of that */
    uint64_t filtered_out; /* how many there were that a filter of the question excludes */
    struct coverage_gap gaps[COVERAGE_GAPS_MAX];
    size_t gap_count;
    struct opaque_port ports[COVERAGE_PORTS_MAX]; /* those with the most bytes, most first */
    size_t port_count;
    size_t ports_omitted; /* further ones */
    bool is_answered;     /* the answer is not empty: JSON then has no sentence about nothing */
    char overload[384];   /* one sentence, where requests waited for a CPU much of their time; "": they did not */
};

/* Names for JSON: "before_start", "budget", ... COVERAGE_REASONS: not known. */
const char *coverage_reason_name(enum coverage_reason reason);
enum coverage_reason coverage_reason_find(const char *name);

/* Adds a gap; nothing if `duration_ns` is 0, or there are COVERAGE_GAPS_MAX. */
void coverage_add_gap(struct coverage *c, enum coverage_reason reason, uint64_t duration_ns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Appends what an empty answer means, one sentence: "No HTTP request was seen in the last 60.0 s." */
void coverage_put_nothing(const struct coverage *c, enum coverage_subject subject, struct buf *out);
