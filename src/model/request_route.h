/* The requests of one service, method and route over a period: created by aggregate, shown by `sonde requests`, the API
 * and the page. Plain data, without pointers. */
#pragma once

#include "model/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request_route {
    char service[128], method[16], route[200]; /* route "other", without a method: those that found no place */
    uint64_t span_ns;                          /* of the period: how long requests were recorded for the sample */
    uint32_t sampled;                          /* the sample's size; 0: nothing is known but of the slow ones */
    bool is_estimate;                          /* `requests` and `failed` are estimated from it; false: counted */
    double requests, failed;                   /* in the period, of all */
    struct request_usual usual;                /* of the sample, however small it is */
    struct request_usual slow;                 /* of those recorded that are slow (request_is_slow) */
    enum request_part_kind top_kind; /* the kind that took longer in most of the slow ones; if none is slow, the kind
                                        that takes most. Valid if top_count or usual.explained */
    uint32_t top_count;              /* how many of the slow ones; 0: none is slow */
};
