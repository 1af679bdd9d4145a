/* See request_routes.h. A route has two rings of short entries; percentiles are computed when they are asked for. */
#include "aggregate/request_routes.h"

#include "aggregate/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_NS           (REQUESTS_KEPT_SECONDS * 1000000000ull)
#define FIRST_ROOM        16

#define ADDS_UNTIL_UPDATE 16
#define UPDATE_NS         10000000000ull

struct entry {
    uint64_t id, end_ns, duration_ns;
    uint32_t weight;
    uint16_t status;
    bool is_explained; /* its components are known */
    uint32_t kind_us[REQUEST_PART_COUNT];
};

struct ring {
    struct entry *entries;
    size_t count, room, next; /* `next` is overwritten next, once it is full */
    uint64_t overwritten_ns;  /* the end of the latest entry that was */
};

struct route {
    char service[sizeof(((struct request_route *)0)->service)], method[sizeof(((struct request_route *)0)->method)],
        route[sizeof(((struct request_route *)0)->route)];
    uint64_t newest_ns;
    bool is_other;
    struct ring sample, slow;
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

static void name_route(struct route *ret, const char *service, const char *method, const char *route)
{
    snprintf(ret->service, sizeof(ret->service), "%s", service);
    snprintf(ret->method, sizeof(ret->method), "%s", method);
    snprintf(ret->route, sizeof(ret->route), "%s", route);
}

static struct route *find_route(struct request_routes *r, const struct route *name)
{
    for (size_t i = 0; i < r->count; i++) {
        struct route *route = &r->routes[i];
        if (strcmp(route->route, name->route) == 0 && strcmp(route->service, name->service) == 0 &&
            strcmp(route->method, name->method) == 0 && route->is_other == name->is_other)
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
    struct route name = {.is_other = false};
    name_route(&name, request->service, request->method, request->route);
    struct route *route = find_route(r, &name);
    if (route)
        return route;
    if ((route = find_place(r, &name)))
        return route;
    r->overflowed++;
    name.is_other = true;
    name_route(&name, request->service, "", "other");
    if ((route = find_route(r, &name)) || (route = find_place(r, &name)))
        return route;
    name_route(&name, "other", "", "other");
    return find_route(r, &name) ?: find_place(r, &name);
}

/* ---- adding ---- */

static void update_usual(const struct request_routes *r, struct route *route, uint64_t sampled);

static struct entry make_entry(const struct request *r)
{
    struct entry e = {.id = r->id,
                      .end_ns = r->start_ns + r->duration_ns,
                      .duration_ns = r->duration_ns,
                      .weight = r->weight,
                      .status = r->status};
    e.is_explained = r->segment_count || request_kind_ns(r, REQUEST_PART_UNATTRIBUTED) <= r->duration_ns / 10;
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++) {
        uint64_t us = (request_kind_ns(r, (enum request_part_kind)kind) + 500) / 1000;
        e.kind_us[kind] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    }
    return e;
}

static bool replace_entry(struct ring *ring, const struct entry *e)
{
    for (size_t i = 0; e->id && i < ring->count; i++)
        if (ring->entries[i].id == e->id) {
            ring->entries[i] = *e;
            return true;
        }
    return false;
}

static void add_entry(struct ring *ring, const struct entry *e, size_t max)
{
    if (replace_entry(ring, e))
        return;
    if (ring->count == ring->room && ring->room < max) {
        const size_t room = !ring->room ? FIRST_ROOM : ring->room * 2 < max ? ring->room * 2 : max;
        struct entry *grown = realloc(ring->entries, room * sizeof(*grown));
        if (grown) {
            ring->entries = grown;
            ring->room = room;
        }
    }
    if (ring->count < ring->room) {
        ring->entries[ring->count++] = *e;
    } else if (ring->count) {
        if (ring->entries[ring->next].end_ns > ring->overwritten_ns)
            ring->overwritten_ns = ring->entries[ring->next].end_ns;
        ring->entries[ring->next] = *e;
        ring->next = (ring->next + 1) % ring->count;
    }
}

void request_routes_add(struct request_routes *r, const struct request *request)
{
    const struct entry e = make_entry(request);
    if (e.end_ns > r->newest_ns)
        r->newest_ns = e.end_ns;
    struct route *route = find_or_add_route(r, request);
    if (!route)
        return;
    if (e.end_ns > route->newest_ns)
        route->newest_ns = e.end_ns;
    if (e.weight) {
        add_entry(&route->sample, &e, REQUEST_ROUTES_SAMPLE);
        route->sampled++;
        return;
    }
    /* Slow for its process, perhaps not for its route. */
    update_usual(r, route, ADDS_UNTIL_UPDATE);
    if (!route->usual.requests || request_is_slow(e.duration_ns, &route->usual))
        add_entry(&route->slow, &e, REQUEST_ROUTES_SLOW);
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

/* Entries that a statistic is of. */
struct selection {
    const struct entry *entries[REQUEST_ROUTES_SAMPLE + REQUEST_ROUTES_SLOW];
    size_t count;
};

static double weight_of(const struct entry *e)
{
    return e->weight ? e->weight : 1;
}

/* The times of a kind in the entries that are explained; returns how many. */
static size_t select_kind(const struct selection *s, int kind, struct value *values, bool *ret_has_any)
{
    size_t count = 0;
    *ret_has_any = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct entry *e = s->entries[i];
        if (!e->is_explained)
            continue;
        values[count++] = (struct value){e->kind_us[kind] * 1000ull, weight_of(e)};
        *ret_has_any |= e->kind_us[kind] != 0;
    }
    return count;
}

/* `min`: of fewer, nothing is said. */
static struct request_usual summarize(const struct selection *s, double min)
{
    struct value values[REQUEST_ROUTES_SAMPLE + REQUEST_ROUTES_SLOW];
    struct request_usual usual = {0};
    for (size_t i = 0; i < s->count; i++)
        values[i] = (struct value){s->entries[i]->duration_ns, weight_of(s->entries[i])};
    if (s->count == 0 || effective_size(values, s->count) < min)
        return usual;
    usual.requests = (uint32_t)s->count;
    put_percentiles(values, s->count, &usual.p50_ns, &usual.p99_ns);
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

static void select_entries(struct selection *s, const struct ring *ring, uint64_t since_ns)
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
    struct route name = {.is_other = false};
    name_route(&name, request->service, request->method, request->route);
    struct route *route = find_route(r, &name);
    if (!route)
        return (struct request_usual){0};
    update_usual(r, route, 1);
    return route->usual;
}

/* ---- listing ---- */

static void count_requests(const struct selection *s, struct request_route *ret)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct entry *e = s->entries[i];
        ret->requests += e->weight;
        ret->failed += request_is_failed(e->status) ? e->weight : 0;
        ret->is_estimate |= e->weight > 1;
    }
    ret->sampled = (uint32_t)s->count;
}

/* Where nothing is usual, those that were recorded because they are slow for their process. */
static void keep_slow(struct selection *s, const struct request_usual *usual)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (usual->requests ? request_is_slow(s->entries[i]->duration_ns, usual) : s->entries[i]->weight == 0)
            s->entries[kept++] = s->entries[i];
    s->count = kept;
}

static void set_top_kind(const struct selection *slow, const struct request_usual *usual, struct request_route *ret)
{
    uint32_t counts[REQUEST_PART_COUNT] = {0};
    uint64_t kind_ns[REQUEST_PART_COUNT];
    if (usual->explained || !usual->requests)
        for (size_t i = 0; i < slow->count; i++) {
            const struct entry *e = slow->entries[i];
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
static struct request_usual summarize_slow(struct selection *slow, struct entry *copies)
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

static bool describe_route(const struct request_routes *r, const struct request_routes_period *period,
                           const struct route *route, struct entry *copies, struct request_route *ret)
{
    const uint64_t since_ns = period->since_ns;
    const uint64_t from_ns = route->sample.overwritten_ns >= since_ns ? route->sample.overwritten_ns + 1 : since_ns;
    struct selection sample = {.count = 0}, slow = {.count = 0};
    *ret = (struct request_route){.span_ns = observed_ns(period->observed, from_ns, period->now_ns)};
    memcpy(ret->service, route->service, sizeof(ret->service));
    memcpy(ret->method, route->method, sizeof(ret->method));
    memcpy(ret->route, route->route, sizeof(ret->route));
    select_entries(&sample, &route->sample, from_ns);
    select_entries(&slow, &route->sample, since_ns);
    select_entries(&slow, &route->slow, since_ns);
    if (slow.count == 0)
        return false;
    count_requests(&sample, ret);
    ret->usual = summarize(&sample, 1);
    const struct request_usual usual = usual_of(r, route);
    keep_slow(&slow, &usual);
    set_top_kind(&slow, &usual, ret);
    ret->slow = summarize_slow(&slow, copies);
    return true;
}

static int most_frequent_first(const void *a, const void *b)
{
    const struct request_route *x = a, *y = b;
    if (x->requests != y->requests)
        return x->requests < y->requests ? 1 : -1;
    return strcmp(x->service, y->service) ?: strcmp(x->route, y->route) ?: strcmp(x->method, y->method);
}

int request_routes_list(const struct request_routes *r, const struct request_routes_period *period,
                        struct request_route **ret, size_t *ret_count)
{
    _cleanup_free_ struct entry *copies = calloc(REQUEST_ROUTES_SAMPLE + REQUEST_ROUTES_SLOW, sizeof(*copies));
    struct request_route *list = calloc(r->count + 1, sizeof(*list));
    size_t count = 0;
    if (!list || !copies) {
        free(list);
        return -ENOMEM;
    }
    for (size_t i = 0; i < r->count; i++)
        count += describe_route(r, period, &r->routes[i], copies, &list[count]);
    qsort(list, count, sizeof(list[0]), most_frequent_first);
    *ret = list;
    *ret_count = count;
    return 0;
}

size_t request_routes_count(const struct request_routes *r)
{
    return r->count;
}

size_t request_routes_bytes(const struct request_routes *r)
{
    size_t bytes = sizeof(*r);
    for (size_t i = 0; i < r->count; i++)
        bytes += (r->routes[i].sample.room + r->routes[i].slow.room) * sizeof(struct entry);
    return bytes;
}

uint64_t request_routes_overflowed(const struct request_routes *r)
{
    return r->overflowed;
}
