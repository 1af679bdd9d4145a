/* The requests of one service, method, route and protocol over a period: created by aggregate, shown by `sonde
 * requests`, the API and the page. Plain data, without pointers. */
#pragma once

#include "model/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_CAUSES_MAX           16 /* of a route; further ones are added to one of the same kind, or to the last */
#define REQUEST_CAUSE_SENTENCE_BYTES 640

/* The requests of a route with one cause (request_cause_key). */
struct request_cause {
    struct request_group group;
    enum request_part_kind kind; /* the kind that took longest, compared with the usual */
    uint16_t status;             /* of those that failed; valid if is_failed */
    bool is_failed;
    uint64_t example_id;              /* the slowest of them */
    uint32_t key;                     /* request_cause_key; 0 for a route without an abnormal request */
    struct request_constant constant; /* of the request `example_id`; only where `key` is 0 */
    bool
        is_unsearched; /* no cause is known, as the paths of the requests were not computed; sorted behind all others */
};

struct request_route {
    char service[128], unit[128], method[16], route[200]; /* route "other", without a method: those without a place */
    uint16_t port;                                        /* 0: not known */
    uint8_t protocol;                                     /* enum request_protocol_kind */
    bool lacks_path;                                      /* `route`, or the end of it, is not known: "*" */
    uint64_t span_ns; /* of the period: how long requests were recorded for the sample */
    uint32_t sampled; /* the sample's size; 0: nothing is known but of the slow ones */
    bool is_estimate; /* `requests`, `failed`, `time_ns` and `usual` are estimated from it; false: every request of
                         the period is in it */
    double requests;  /* in span_ns, of all */
    double failed;    /* the failed ones; at least those that were recorded */
    uint32_t known;   /* sampled requests that the median of the route rests on, weighted; REQUEST_USUAL_MIN needed */
    struct request_usual usual;      /* of the sample, however small it is */
    struct request_usual slow;       /* of those recorded that are slow (request_is_slow) */
    enum request_part_kind top_kind; /* the kind that took longer in most slow requests; the kind that takes most time
                                        if no request is slow. Valid if top_count or usual.explained */
    uint32_t top_count;              /* slow requests that took longer there; 0: no request is slow */
    /* Of the whole period: */
    uint64_t lost_ns;      /* time beyond the median of all slow ones: the sum over the causes */
    bool lost_is_estimate; /* some slow ones were not recorded */
    uint64_t time_ns;      /* that all requests took */
    struct request_cause causes[REQUEST_CAUSES_MAX]; /* most time lost first; of a route without an abnormal request:
                                                        one for all of its requests */
    size_t cause_count;
    char cause[REQUEST_CAUSE_SENTENCE_BYTES]; /* the first of them in words; "": not known */
};

/* Whether enough requests of the route are known for the median that its time lost rests on. */
static inline bool request_route_has_usual(const struct request_route *r)
{
    return r->known >= REQUEST_USUAL_MIN;
}

/* Ranks routes by the time that they lost. Where no median is known, the time that all requests took, which is the most
 * that the route can have lost: a slow route of few requests must not stand below fast ones until its median is known.
 */
static inline uint64_t request_route_rank_ns(const struct request_route *r)
{
    return request_route_has_usual(r) ? r->lost_ns : r->time_ns;
}

/* Orders the causes of all routes: requests with a computed path come first, then the larger `ns`. */
struct request_cause_rank {
    bool is_unsearched;
    double ns;
};

/* By the time that the requests lost; where that is not known, by the time that they took. */
static inline struct request_cause_rank request_cause_rank(const struct request_route *r, const struct request_cause *c)
{
    return (struct request_cause_rank){c->is_unsearched,
                                       (double)(request_route_has_usual(r) ? c->group.lost_ns : c->group.time_ns)};
}

/* Negative: `a` comes before `b`. */
static inline int request_cause_rank_compare(const struct request_cause_rank *a, const struct request_cause_rank *b)
{
    if (a->is_unsearched != b->is_unsearched)
        return a->is_unsearched ? 1 : -1;
    return a->ns != b->ns ? (a->ns < b->ns ? 1 : -1) : 0;
}
