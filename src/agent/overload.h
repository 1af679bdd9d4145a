/* Whether requests wait for a CPU because the node has too few for its load, in words. Pure. */
#pragma once

#include "aggregate/cpu_users.h"
#include "aggregate/request_totals.h"

#include <stdbool.h>

#define OVERLOAD_USERS_MAX 4

/* How the node's CPUs were used over `span_ns`. */
struct cpu_use {
    unsigned cpus;
    uint64_t span_ns; /* 0: not known */
    uint64_t all_ns;
    struct cpu_user users[OVERLOAD_USERS_MAX]; /* most CPU time first */
    size_t user_count;
};

/* Requests waited for a CPU in a fifth of their time at least, and a millisecond each on average: writes one sentence
 * with these figures and the commands that used the CPUs. False: they did not, and `out` is "". */
bool overload_describe(const struct request_totals *requests, const struct cpu_use *use, char *out, size_t size);
