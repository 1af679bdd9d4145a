/* Parses and validates the parameters of an API call. Unknown, duplicate, malformed and out-of-range parameters are
 * rejected with a sentence that states the allowed values. Pure; keys and values are untrusted. */
#pragma once

#include "model/profile.h"
#include "model/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUERY_TEXT_MAX 256

enum query_key {
    QUERY_SECONDS,
    QUERY_PID,
    QUERY_CONTAINER,
    QUERY_SERVICE,
    QUERY_FORMAT,
    QUERY_MAX,
    QUERY_FROM,
    QUERY_TO,
    QUERY_BASELINE_FROM,
    QUERY_BASELINE_TO,
    QUERY_TIME,
    QUERY_BY,
    QUERY_ORDER,
    QUERY_WHICH,
    QUERY_KEY_COUNT
};
#define QUERY_BIT(key) (1U << (key))

/* Milliseconds of the node's CLOCK_MONOTONIC, which is not affected by steps of the wall clock. */
struct query_region {
    uint64_t from_ms, to_ms;
};

struct query {
    unsigned allowed;                     /* QUERY_BITs that this route accepts */
    unsigned seen;                        /* QUERY_BITs that were given */
    uint64_t seconds;                     /* 1 to 3600 */
    uint32_t pid;                         /* 0: any */
    uint32_t max;                         /* 1 to 1000 */
    struct query_region region, baseline; /* zeros: not given */
    char container[QUERY_TEXT_MAX];       /* "": any; else 12 to 64 hexadecimal digits */
    char service[QUERY_TEXT_MAX];
    char format[16];
    bool by_total, by_change; /* false: by=self, order=most */
    enum request_choice which;
    const struct sample_type *type;
};

/* Sets the defaults. */
void query_init(struct query *q, unsigned allowed);

/* Parses one parameter; `value` may be NULL ("?pid"). 0, or -EINVAL with the reason, one line of ASCII, in `ret_why`.
 */
int query_set(struct query *q, const char *key, size_t key_size, const char *value, size_t value_size, char *ret_why,
              size_t why_size);

static inline bool query_has(const struct query *q, enum query_key key)
{
    return q->seen & QUERY_BIT(key);
}

/* After the last parameter: checks that they are consistent and that those in `needed` (QUERY_BITs) were given. 0, or
 * -EINVAL with the reason. */
int query_check(const struct query *q, unsigned needed, char *ret_why, size_t why_size);
