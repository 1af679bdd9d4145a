/* See request_causes.h. */
#include "aggregate/request_causes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What a slow request took longer than usual. */
static double lost_by(const struct caused_request *a, uint64_t usual_ns)
{
    return usual_ns && a->is_slow && a->entry->duration_ns > usual_ns ? (double)(a->entry->duration_ns - usual_ns) : 0;
}

struct cause_sum {
    uint32_t key;
    double lost_ns, time_ns, rank_ns; /* the rank is the time lost; where no median is known, the time taken */
    uint64_t longest_ns;
    struct request_cause cause;
};

/* Failed requests are never counted under a cause of slow ones, nor the reverse: the last place is for a first cause of
 * either sort. */
static struct cause_sum *find_cause(struct cause_sum sums[REQUEST_CAUSES_MAX], size_t *count,
                                    const struct request_entry *e)
{
    const bool is_failed = request_entry_is_failed(e);
    struct cause_sum *other = NULL;
    for (size_t i = 0; i < *count; i++) {
        if (sums[i].key == e->cause)
            return &sums[i];
        if (sums[i].cause.is_failed == is_failed && (!other || sums[i].cause.kind == e->kind))
            other = &sums[i];
    }
    if (other && *count >= REQUEST_CAUSES_MAX - 1)
        return other;
    assert(*count < REQUEST_CAUSES_MAX);
    sums[*count] =
        (struct cause_sum){.key = e->cause,
                           .cause = {.kind = e->kind,
                                     .status = e->status,
                                     .is_failed = is_failed,
                                     .example_id = e->id,
                                     .key = e->cause,
                                     .is_unsearched = e->is_over_budget && (e->kind == REQUEST_PART_UNATTRIBUTED ||
                                                                            e->kind == REQUEST_PART_UNREAD)}};
    return &sums[(*count)++];
}

static void add_to_cause(struct cause_sum *sum, const struct caused_request *a, uint64_t usual_ns)
{
    sum->cause.group.requests += a->stands;
    sum->cause.group.is_estimate |= a->stands != 1;
    sum->lost_ns += a->stands * lost_by(a, usual_ns);
    sum->time_ns += a->stands * (double)a->entry->duration_ns;
    sum->rank_ns = usual_ns ? sum->lost_ns : sum->time_ns;
    if (a->entry->duration_ns > sum->longest_ns && a->entry->cause == sum->key) {
        sum->longest_ns = a->entry->duration_ns;
        sum->cause.example_id = a->entry->id;
    }
}

static int compare_causes(const void *a, const void *b)
{
    const struct cause_sum *x = a, *y = b;
    if (x->cause.is_unsearched != y->cause.is_unsearched)
        return x->cause.is_unsearched ? 1 : -1;
    if (x->rank_ns != y->rank_ns)
        return x->rank_ns < y->rank_ns ? 1 : -1;
    if (x->cause.group.requests != y->cause.group.requests)
        return x->cause.group.requests < y->cause.group.requests ? 1 : -1;
    return x->key < y->key ? -1 : x->key > y->key;
}

#define SMALL_SHARE 10 /* a cause with less than a tenth of the route's lost time, or time, is small */

/* Adds small causes to the largest one of their kind, if there is one. Sorted, largest first. Where no time is lost, a
 * cause is small by its number of requests. */
static size_t merge_small_causes(struct cause_sum *sums, size_t count)
{
    double all_ns = 0, all_requests = 0;
    for (size_t i = 0; i < count; i++) {
        all_ns += sums[i].rank_ns;
        all_requests += sums[i].cause.group.requests;
    }
    for (size_t i = count; i-- > 1;) {
        size_t to = 0;
        while (to < i &&
               (sums[to].cause.kind != sums[i].cause.kind || sums[to].cause.is_failed || sums[i].cause.is_failed))
            to++;
        const bool is_small = all_ns > 0 ? sums[i].rank_ns * SMALL_SHARE < all_ns
                                         : sums[i].cause.group.requests * SMALL_SHARE < all_requests;
        if (to == i || !is_small)
            continue;
        sums[to].lost_ns += sums[i].lost_ns;
        sums[to].time_ns += sums[i].time_ns;
        sums[to].rank_ns += sums[i].rank_ns;
        sums[to].cause.group.requests += sums[i].cause.group.requests;
        sums[to].cause.group.is_estimate |= sums[i].cause.group.is_estimate;
        memmove(&sums[i], &sums[i + 1], (--count - i) * sizeof(sums[0]));
    }
    qsort(sums, count, sizeof(sums[0]), compare_causes);
    return count;
}

void request_causes_fill(struct caused_request *caused, size_t count, uint64_t usual_ns, struct request_route *route)
{
    struct cause_sum sums[REQUEST_CAUSES_MAX];
    size_t sum_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct caused_request *a = &caused[i];
        a->stands = a->scale * (a->entry->is_notable ? 1 : a->entry->weight);
        add_to_cause(find_cause(sums, &sum_count, a->entry), a, usual_ns);
    }
    qsort(sums, sum_count, sizeof(sums[0]), compare_causes);
    sum_count = merge_small_causes(sums, sum_count);
    route->lost_ns = 0;
    for (size_t i = 0; i < sum_count; i++) {
        route->causes[i] = sums[i].cause;
        route->causes[i].group.lost_ns = (uint64_t)(sums[i].lost_ns + 0.5);
        route->causes[i].group.time_ns = (uint64_t)(sums[i].time_ns + 0.5);
        route->lost_ns += route->causes[i].group.lost_ns;
        route->lost_is_estimate |= sums[i].lost_ns > 0 && sums[i].cause.group.is_estimate;
    }
    route->cause_count = sum_count;
}
