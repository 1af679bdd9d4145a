/* See request_routes.h. A route has three rings of short entries; percentiles are computed when they are asked for. */
#include "aggregate/request_routes.h"

#include "aggregate/request_causes.h"
#include "aggregate/requests.h"
#include "aggregate/route_sample.h"
#include "model/request_cause.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_NS           (REQUESTS_KEPT_SECONDS * 1000000000ull)
#define ADDS_UNTIL_UPDATE 16
#define UPDATE_NS         10000000000ull

struct route {
    char service[sizeof(((struct request_route *)0)->service)], method[sizeof(((struct request_route *)0)->method)],
        route[sizeof(((struct request_route *)0)->route)], unit[sizeof(((struct request_route *)0)->unit)];
    uint16_t port;
    uint8_t protocol;
    uint64_t newest_ns;
    bool is_other, lacks_path;
    struct request_ring sample, slow, failed; /* the others that are slow; that failed */
    struct route_sample sampling;
    uint64_t sampled; /* requests ever added to the sample */
    struct request_usual usual;
    uint64_t usual_sampled, usual_ns; /* when that was computed: `sampled` and the table's `newest_ns`; 0: never */
};

struct request_routes {
    struct route routes[REQUEST_ROUTES_MAX];
    size_t count;
    uint64_t newest_ns;
    uint64_t overflowed;
};

int request_routes_new(struct request_routes **ret)
{
    struct request_routes *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    *ret = r;
    return 0;
}

static void clear_route(struct route *route)
{
    free(route->sample.entries);
    free(route->slow.entries);
    free(route->failed.entries);
    *route = (struct route){0};
}

void request_routes_free(struct request_routes *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        clear_route(&r->routes[i]);
    free(r);
}

/* ---- finding a route ---- */

static struct route name_of(const struct request *request)
{
    struct route name = {.port = request->port, .protocol = request->protocol};
    snprintf(name.service, sizeof(name.service), "%s", request->service);
    snprintf(name.unit, sizeof(name.unit), "%s", request->unit ? request->unit : "");
    snprintf(name.method, sizeof(name.method), "%s", request->method);
    snprintf(name.route, sizeof(name.route), "%s", request->route);
    return name;
}

/* The route of those that find no place. */
static struct route name_of_others(const char *service)
{
    struct route name = {.is_other = true, .route = "other"};
    snprintf(name.service, sizeof(name.service), "%s", service);
    return name;
}

static struct route *find_route(struct request_routes *r, const struct route *name)
{
    for (size_t i = 0; i < r->count; i++) {
        struct route *route = &r->routes[i];
        if (strcmp(route->route, name->route) == 0 && strcmp(route->service, name->service) == 0 &&
            strcmp(route->method, name->method) == 0 && route->port == name->port &&
            route->protocol == name->protocol && route->is_other == name->is_other)
            return route;
    }
    return NULL;
}

/* A place that is free, or whose requests are too old; NULL: none. The last one is kept for `other`. */
static struct route *find_place(struct request_routes *r, const struct route *name)
{
    const size_t room = REQUEST_ROUTES_MAX - (name->is_other && strcmp(name->service, "other") == 0 ? 0 : 1);
    size_t of_service = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->routes[i].newest_ns + KEPT_NS < r->newest_ns) {
            clear_route(&r->routes[i]);
            r->routes[i--] = r->routes[--r->count];
        }
    for (size_t i = 0; i < r->count; i++)
        of_service += strcmp(r->routes[i].service, name->service) == 0;
    if (r->count >= room || (of_service >= REQUEST_ROUTES_SERVICE && !name->is_other))
        return NULL;
    struct route *route = &r->routes[r->count++];
    *route = *name;
    return route;
}

static struct route *find_or_add_route(struct request_routes *r, const struct request *request)
{
    struct route name = name_of(request);
    struct route *route = find_route(r, &name);
    if (route)
        return route;
    if ((route = find_place(r, &name)))
        return route;
    r->overflowed++;
    name = name_of_others(request->service);
    if ((route = find_route(r, &name)) || (route = find_place(r, &name)))
        return route;
    name = name_of_others("other");
    return find_route(r, &name) ?: find_place(r, &name);
}

/* ---- adding ---- */

static void update_usual(const struct request_routes *r, struct route *route, uint64_t sampled);

static struct request_entry make_entry(const struct request *r)
{
    struct request_entry e = {.id = r->id,
                              .end_ns = r->start_ns + r->duration_ns,
                              .duration_ns = r->duration_ns,
                              .weight = r->weight,
                              .status = r->status,
                              .is_notable = r->is_notable || !r->weight,
                              .is_over_budget = r->is_over_budget};
    e.is_explained = r->segment_count || request_kind_ns(r, REQUEST_PART_UNATTRIBUTED) <= r->duration_ns / 10;
    e.first_us = request_entry_us(r->stream.first_ns);
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        e.kind_us[kind] = request_entry_us(request_kind_ns(r, (enum request_part_kind)kind));
    return e;
}

/* The weight of a request of the sample in the ring of its route; 0: it does not enter. `before`: the request's entry
 * there, whose weight an update keeps; NULL: none. */
static uint32_t weight_in_route(struct route *route, const struct request_entry *e, const struct request_entry *before)
{
    if (before)
        return before->weight;
    if (request_ring_find(&route->slow, e->id) || request_ring_find(&route->failed, e->id))
        return 0;
    return route_sample_weight(&route->sampling, e->id, e->end_ns, e->weight,
                               route->sample.count == REQUEST_ROUTES_SAMPLE);
}

/* Sets what explains the request, compared with the present baseline of its route. */
static void set_cause(struct request_entry *e, const struct request *request, const struct request_usual *usual)
{
    uint64_t kind_ns[REQUEST_PART_COUNT];
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        kind_ns[kind] = request_kind_ns(request, (enum request_part_kind)kind);
    const enum request_part_kind kind = request_top_kind(kind_ns, e->duration_ns, usual);
    e->kind = (uint8_t)kind;
    e->cause = request_cause_key(request, kind, request_is_slow(e->duration_ns, usual));
}

uint32_t request_routes_add(struct request_routes *r, const struct request *request)
{
    struct request_entry e = make_entry(request);
    if (e.end_ns > r->newest_ns)
        r->newest_ns = e.end_ns;
    struct route *route = find_or_add_route(r, request);
    if (!route)
        return 0;
    if (e.end_ns > route->newest_ns)
        route->newest_ns = e.end_ns;
    route->lacks_path |= request->lacks_path;
    struct request_entry *before = e.weight ? request_ring_find(&route->sample, e.id) : NULL;
    if (e.weight)
        e.weight = weight_in_route(route, &e, before);
    if (!e.weight || !route->usual.requests || request_is_slow(e.duration_ns, &route->usual))
        update_usual(r, route, ADDS_UNTIL_UPDATE);
    set_cause(&e, request, &route->usual);
    if (e.weight) {
        request_ring_put(&route->sample, before, &e, REQUEST_ROUTES_SAMPLE);
        route->sampled++;
    } else if (!e.is_notable) {
        return e.cause; /* those that have entered stand for it */
    } else if (request_entry_is_failed(&e)) {
        request_ring_add(&route->failed, &e, REQUEST_ROUTES_FAILED);
    } else if (!route->usual.requests || request_is_slow(e.duration_ns, &route->usual)) {
        request_ring_add(&route->slow, &e,
                         REQUEST_ROUTES_SLOW); /* others are slow for their process, not for their route */
    }
    return e.cause;
}

/* ---- percentiles ---- */

struct value {
    uint64_t value;
    double weight;
};

static int compare_values(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* The smallest value that at least `share` of the whole weight does not exceed. Sorted; not empty. */
static uint64_t percentile(const struct value *sorted, size_t count, double weight, double share)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += sorted[i].weight;
        if (sum >= weight * share)
            return sorted[i].value;
    }
    return sorted[count - 1].value;
}

/* How many requests of equal weight would say as much (Kish). */
static double effective_size(const struct value *values, size_t count)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i].weight;
        squares += values[i].weight * values[i].weight;
    }
    return squares > 0 ? sum * sum / squares : 0;
}

static void put_percentiles(struct value *values, size_t count, uint64_t *ret_p50, uint64_t *ret_p99)
{
    double weight = 0;
    qsort(values, count, sizeof(values[0]), compare_values);
    for (size_t i = 0; i < count; i++)
        weight += values[i].weight;
    *ret_p50 = percentile(values, count, weight, 0.5);
    *ret_p99 = effective_size(values, count) >= REQUEST_USUAL_MIN_P99 ? percentile(values, count, weight, 0.99) : 0;
}

#define ENTRIES_MAX (REQUEST_ROUTES_SAMPLE + REQUEST_ROUTES_SLOW + REQUEST_ROUTES_FAILED)

/* Entries that a statistic is of. */
struct selection {
    const struct request_entry *entries[ENTRIES_MAX];
    size_t count;
};

static double weight_of(const struct request_entry *e)
{
    return e->weight ? e->weight : 1;
}

/* The times of a kind in the entries that are explained; returns how many. */
static size_t select_kind(const struct selection *s, int kind, struct value *values, bool *ret_has_any)
{
    size_t count = 0;
    *ret_has_any = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct request_entry *e = s->entries[i];
        if (!e->is_explained)
            continue;
        values[count++] = (struct value){e->kind_us[kind] * 1000ull, weight_of(e)};
        *ret_has_any |= e->kind_us[kind] != 0;
    }
    return count;
}

static uint64_t median_first_ns(const struct selection *s, struct value *values)
{
    uint64_t p50_ns = 0, p99_ns;
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->entries[i]->first_us)
            values[count++] = (struct value){s->entries[i]->first_us * 1000ull, weight_of(s->entries[i])};
    if (count && effective_size(values, count) >= REQUEST_MEDIAN_MIN)
        put_percentiles(values, count, &p50_ns, &p99_ns);
    return p50_ns;
}

/* `min`: of fewer, nothing is said. */
static struct request_usual summarize(const struct selection *s, double min)
{
    struct value values[ENTRIES_MAX];
    struct request_usual usual = {0};
    for (size_t i = 0; i < s->count; i++)
        values[i] = (struct value){s->entries[i]->duration_ns, weight_of(s->entries[i])};
    usual.known = s->count ? (uint32_t)effective_size(values, s->count) : 0;
    if (s->count == 0 || effective_size(values, s->count) < min)
        return usual;
    usual.requests = (uint32_t)s->count;
    put_percentiles(values, s->count, &usual.p50_ns, &usual.p99_ns);
    usual.first_p50_ns = median_first_ns(s, values);
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++) {
        bool has_any;
        const size_t explained = select_kind(s, kind, values, &has_any);
        if (explained == 0 || explained * 2 < s->count || effective_size(values, explained) < min)
            return usual;
        usual.explained = (uint32_t)explained;
        if (has_any)
            put_percentiles(values, explained, &usual.part_p50_ns[kind], &usual.part_p99_ns[kind]);
    }
    return usual;
}

static void select_entries(struct selection *s, const struct request_ring *ring, uint64_t since_ns)
{
    for (size_t i = 0; i < ring->count; i++)
        if (ring->entries[i].end_ns >= since_ns)
            s->entries[s->count++] = &ring->entries[i];
}

static uint64_t oldest_kept_ns(const struct request_routes *r)
{
    return r->newest_ns > KEPT_NS ? r->newest_ns - KEPT_NS : 0;
}

/* Baselines come from all kept requests, independent of the queried period. */
static struct request_usual usual_of(const struct request_routes *r, const struct route *route)
{
    struct selection s = {.count = 0};
    if (!route->is_other)
        select_entries(&s, &route->sample, oldest_kept_ns(r));
    return summarize(&s, REQUEST_USUAL_MIN);
}

/* Computes the baseline again if `sampled` more requests came into the sample, or old ones may have expired. */
static void update_usual(const struct request_routes *r, struct route *route, uint64_t sampled)
{
    if (route->usual_ns && route->sampled - route->usual_sampled < sampled &&
        r->newest_ns - route->usual_ns < UPDATE_NS)
        return;
    route->usual = usual_of(r, route);
    route->usual_sampled = route->sampled;
    route->usual_ns = r->newest_ns;
}

struct request_usual request_routes_usual(struct request_routes *r, const struct request *request)
{
    const struct route name = name_of(request);
    struct route *route = find_route(r, &name);
    if (!route)
        return (struct request_usual){0};
    update_usual(r, route, 1);
    return route->usual;
}

/* ---- listing ---- */

/* Failed requests that were recorded count where the sample shows fewer; the sample estimates the others. */
static void count_requests(const struct selection *sample, const struct request_ring *failed, uint64_t from_ns,
                           struct request_route *ret)
{
    double recorded = 0;
    for (size_t i = 0; i < sample->count; i++) {
        const struct request_entry *e = sample->entries[i];
        const bool is_failed = request_entry_is_failed(e);
        ret->requests += is_failed ? 0 : e->weight;
        ret->failed += is_failed ? e->weight : 0;
        ret->is_estimate |= e->weight > 1;
        recorded += is_failed;
    }
    for (size_t i = 0; i < failed->count; i++)
        recorded += failed->entries[i].end_ns >= from_ns;
    ret->failed = recorded > ret->failed ? recorded : ret->failed;
    ret->requests += ret->failed;
    ret->sampled = (uint32_t)sample->count;
}

static void keep_slow(struct selection *s, const struct request_usual *usual)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (request_is_slow(s->entries[i]->duration_ns, usual))
            s->entries[kept++] = s->entries[i];
    s->count = kept;
}

static void set_top_kind(const struct selection *slow, const struct request_usual *usual, struct request_route *ret)
{
    uint32_t counts[REQUEST_PART_COUNT] = {0};
    uint64_t kind_ns[REQUEST_PART_COUNT];
    if (usual->explained)
        for (size_t i = 0; i < slow->count; i++) {
            const struct request_entry *e = slow->entries[i];
            for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
                kind_ns[kind] = e->kind_us[kind] * 1000ull;
            counts[request_top_kind(kind_ns, e->duration_ns, usual)]++;
        }
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        if (counts[kind] > ret->top_count) {
            ret->top_count = counts[kind];
            ret->top_kind = (enum request_part_kind)kind;
        }
    for (int kind = 0; kind < REQUEST_PART_COUNT && !ret->top_count; kind++)
        if (ret->usual.part_p50_ns[kind] > ret->usual.part_p50_ns[ret->top_kind])
            ret->top_kind = (enum request_part_kind)kind;
}

/* All slow ones have the same weight: which of them have a record is no random choice. */
static struct request_usual summarize_slow(struct selection *slow, struct request_entry *copies)
{
    for (size_t i = 0; i < slow->count; i++) {
        copies[i] = *slow->entries[i];
        copies[i].weight = 1;
        slow->entries[i] = &copies[i];
    }
    return summarize(slow, 1);
}

/* How much of [from, now) was monitored: the requests of other times are not in the sample. */
static uint64_t observed_ns(const struct observed_spans *observed, uint64_t from_ns, uint64_t now_ns)
{
    if (from_ns >= now_ns)
        return 0;
    return observed ? observed_spans_within(observed, from_ns, now_ns) : now_ns - from_ns;
}

/* From when on, in the period, a ring has all that was added to it. */
static uint64_t whole_from_ns(const struct request_ring *ring, uint64_t since_ns)
{
    return ring->overwritten_ns >= since_ns ? ring->overwritten_ns + 1 : since_ns;
}

/* The period compared with the part of it that the ring is whole for. */
static double scale_of(const struct request_ring *ring, const struct request_routes_period *period)
{
    const uint64_t from_ns = whole_from_ns(ring, period->since_ns),
                   whole_ns = observed_ns(period->observed, from_ns, period->now_ns),
                   all_ns = observed_ns(period->observed, period->since_ns, period->now_ns);
    return whole_ns && all_ns > whole_ns ? (double)all_ns / (double)whole_ns : 1;
}

/* Selects the requests of the period that failed or are slow. Where no median is known, none is known to be slow: all
 * of them. */
static size_t select_caused(const struct request_ring *ring, const struct request_routes_period *period,
                            const struct request_usual *usual, struct caused_request *list)
{
    const uint64_t from_ns = whole_from_ns(ring, period->since_ns);
    const double scale = scale_of(ring, period);
    size_t count = 0;
    for (size_t i = 0; i < ring->count; i++) {
        const struct request_entry *e = &ring->entries[i];
        const bool is_slow = request_is_slow(e->duration_ns, usual);
        if (e->end_ns >= from_ns && (request_entry_is_failed(e) || is_slow || !usual->requests))
            list[count++] = (struct caused_request){.entry = e, .scale = scale, .is_slow = is_slow};
    }
    return count;
}

/* One cause for a route without an abnormal request: what its requests usually take most time in. Its example is the
 * slowest of those that took most time in that, as the slowest requests are kept longest. */
static void set_usual_cause(const struct selection *sample, double scale, struct request_route *ret)
{
    const struct request_entry *best = NULL;
    for (size_t i = 0; i < sample->count; i++) {
        const struct request_entry *e = sample->entries[i];
        const bool is_top = e->kind == ret->top_kind, best_is_top = best && best->kind == ret->top_kind;
        if (!best || (is_top && !best_is_top) || (is_top == best_is_top && e->duration_ns > best->duration_ns))
            best = e;
    }
    if (!best)
        return;
    ret->causes[0] = (struct request_cause){
        .group = {.requests = ret->requests * scale, .time_ns = ret->time_ns, .is_estimate = ret->is_estimate},
        .kind = (enum request_part_kind)best->kind,
        .example_id = best->id};
    ret->cause_count = 1;
}

static void set_causes(const struct route *route, const struct request_routes_period *period,
                       const struct selection *sample, const struct request_usual *usual, struct request_route *ret)
{
    struct caused_request caused[ENTRIES_MAX];
    const double scale = scale_of(&route->sample, period);
    double time_ns = 0, recorded_ns = 0;
    size_t count = select_caused(&route->sample, period, usual, caused);
    count += select_caused(&route->slow, period, usual, caused + count);
    count += select_caused(&route->failed, period, usual, caused + count);
    request_causes_fill(caused, count, usual->requests ? usual->p50_ns : 0, ret);
    for (size_t i = 0; i < count; i++)
        recorded_ns += caused[i].stands * (double)caused[i].entry->duration_ns;
    for (size_t i = 0; i < sample->count; i++)
        time_ns += scale * sample->entries[i]->weight * (double)sample->entries[i]->duration_ns;
    ret->time_ns = (uint64_t)(time_ns > recorded_ns ? time_ns : recorded_ns);
    if (!count)
        set_usual_cause(sample, scale, ret);
}

static bool describe_route(const struct request_routes *r, const struct request_routes_period *period,
                           const struct route *route, struct request_entry *copies, struct request_route *ret)
{
    const uint64_t since_ns = period->since_ns, from_ns = whole_from_ns(&route->sample, since_ns);
    struct selection sample = {.count = 0}, slow = {.count = 0};
    *ret = (struct request_route){.port = route->port,
                                  .protocol = route->protocol,
                                  .lacks_path = route->lacks_path,
                                  .span_ns = observed_ns(period->observed, from_ns, period->now_ns)};
    memcpy(ret->service, route->service, sizeof(ret->service));
    memcpy(ret->unit, route->unit, sizeof(ret->unit));
    memcpy(ret->method, route->method, sizeof(ret->method));
    memcpy(ret->route, route->route, sizeof(ret->route));
    select_entries(&sample, &route->sample, from_ns);
    select_entries(&slow, &route->sample, since_ns);
    select_entries(&slow, &route->slow, since_ns);
    select_entries(&slow, &route->failed, since_ns);
    if (slow.count == 0)
        return false;
    count_requests(&sample, &route->failed, from_ns, ret);
    ret->is_estimate |= scale_of(&route->sample, period) > 1;
    ret->usual = summarize(&sample, 1);
    const struct request_usual usual = usual_of(r, route);
    ret->known = usual.known;
    keep_slow(&slow, &usual);
    set_top_kind(&slow, &usual, ret);
    ret->slow = summarize_slow(&slow, copies);
    set_causes(route, period, &sample, &usual, ret);
    return true;
}

static int most_lost_first(const void *a, const void *b)
{
    const struct request_route *x = a, *y = b;
    const uint64_t x_ns = request_route_rank_ns(x), y_ns = request_route_rank_ns(y);
    if (x_ns != y_ns)
        return x_ns < y_ns ? 1 : -1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? 1 : -1;
    return strcmp(x->service, y->service) ?: strcmp(x->route, y->route) ?: strcmp(x->method, y->method) ?: x->port - y->port ?: x->protocol - y->protocol;
}

int request_routes_list(const struct request_routes *r, const struct request_routes_period *period,
                        struct request_route **ret, size_t *ret_count)
{
    _cleanup_free_ struct request_entry *copies = calloc(ENTRIES_MAX, sizeof(*copies));
    struct request_route *list = calloc(r->count + 1, sizeof(*list));
    size_t count = 0;
    if (!list || !copies) {
        free(list);
        return -ENOMEM;
    }
    for (size_t i = 0; i < r->count; i++)
        count += describe_route(r, period, &r->routes[i], copies, &list[count]);
    qsort(list, count, sizeof(list[0]), most_lost_first);
    *ret = list;
    *ret_count = count;
    return 0;
}

void request_routes_totals(const struct request_routes *r, uint64_t since_ns, struct request_totals *ret)
{
    *ret = (struct request_totals){0};
    for (size_t i = 0; i < r->count; i++) {
        request_totals_add(&r->routes[i].sample, since_ns, ret);
        request_totals_add(&r->routes[i].slow, since_ns, ret);
        request_totals_add(&r->routes[i].failed, since_ns, ret);
    }
}

size_t request_routes_count(const struct request_routes *r)
{
    return r->count;
}

size_t request_routes_bytes(const struct request_routes *r)
{
    size_t bytes = sizeof(*r);
    for (size_t i = 0; i < r->count; i++)
        bytes += (r->routes[i].sample.room + r->routes[i].slow.room + r->routes[i].failed.room) *
                 sizeof(struct request_entry);
    return bytes;
}

uint64_t request_routes_overflowed(const struct request_routes *r)
{
    return r->overflowed;
}
