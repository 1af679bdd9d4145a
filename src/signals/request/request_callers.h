/* The callers' spans of the latest requests, by the requests' IDs. Their records come ahead of the requests' own, and a
 * newer one replaces the oldest of its set. Initially zeros; pure. */
#pragma once

#include "model/request_span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_CALLERS_SETS 256 /* a power of two; more requests with a caller than a turn has records */
#define REQUEST_CALLERS_WAYS 8

struct request_callers {
    struct {
        uint64_t ids[REQUEST_CALLERS_WAYS]; /* 0: free */
        struct traceparent callers[REQUEST_CALLERS_WAYS];
        uint32_t next;
    } sets[REQUEST_CALLERS_SETS];
};

/* `id` is not 0. */
static inline size_t request_callers_set(uint64_t id)
{
    return (size_t)(id * 0x9e3779b97f4a7c15ull >> 56) % REQUEST_CALLERS_SETS;
}

static inline void request_callers_add(struct request_callers *c, uint64_t id, const struct traceparent *caller)
{
    const size_t set = request_callers_set(id), way = c->sets[set].next++ % REQUEST_CALLERS_WAYS;
    c->sets[set].ids[way] = id;
    c->sets[set].callers[way] = *caller;
}

/* NULL: the request named no valid caller. Valid until the next request_callers_add. */
static inline const struct traceparent *request_callers_find(const struct request_callers *c, uint64_t id)
{
    const size_t set = request_callers_set(id);
    for (size_t way = 0; way < REQUEST_CALLERS_WAYS; way++)
        if (c->sets[set].ids[way] == id)
            return &c->sets[set].callers[way];
    return NULL;
}
