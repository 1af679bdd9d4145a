/* The slowest requests, in slots of ten seconds by end time (CLOCK_MONOTONIC). A slot is dropped as a whole when it
 * expires. When the memory is full, the largest slot loses a request: the fastest one of its most frequent route, so
 * that a slow service does not displace all others. See requests.h.
 *
 * Only slow and failed requests and a sample of the others arrive here: all requests are counted in the kernel
 * (http_server_request_duration_seconds). */
#include "aggregate/requests.h"

#include "aggregate/request_routes.h"
#include "model/request_cause.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_NS      (10 * 1000000000ull)
#define SLOTS        (REQUESTS_KEPT_SECONDS * 1000000000ull / SLOT_NS + 1) /* plus the current one */
#define COUNTERS_MAX 256
#define ROUTES_MAX   64 /* distinguished in a slot */

struct kept {
    struct request *request;
    uint64_t route; /* hash of its service, method and route */
};

struct slot {
    uint64_t number; /* end time / SLOT_NS */
    struct kept *requests;
    size_t count, capacity, bytes;
};

struct counter {
    char service[64];
    char method[16];
    uint16_t class; /* status / 100 */
    uint64_t count;
};

struct requests {
    pthread_mutex_t lock;
    size_t max_bytes, bytes; /* of all slots */
    struct slot slots[SLOTS];
    uint64_t newest;
    uint64_t taken, replaced, dropped;
    struct counter counters[COUNTERS_MAX];
    size_t counter_count;
    struct request_routes *routes;
    struct observed_spans observed;
};

int requests_new(size_t max_bytes, struct requests **ret)
{
    struct requests *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->max_bytes = max_bytes;
    if (request_routes_new(&r->routes) < 0) {
        free(r);
        return -ENOMEM;
    }
    pthread_mutex_init(&r->lock, NULL);
    *ret = r;
    return 0;
}

static void clear_slot(struct requests *r, struct slot *slot)
{
    for (size_t i = 0; i < slot->count; i++)
        request_free(slot->requests[i].request);
    free(slot->requests);
    r->bytes -= slot->bytes;
    *slot = (struct slot){0};
}

void requests_free(struct requests *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        clear_slot(r, &r->slots[i]);
    request_routes_free(r->routes);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static uint64_t end_of(const struct request *request)
{
    return request->start_ns + request->duration_ns;
}

static void remove_at(struct requests *r, struct slot *slot, size_t i)
{
    slot->bytes -= slot->requests[i].request->bytes;
    r->bytes -= slot->requests[i].request->bytes;
    request_free(slot->requests[i].request);
    slot->requests[i] = slot->requests[--slot->count];
}

/* Removes an earlier record of the same request. */
static bool remove_id(struct requests *r, uint64_t id)
{
    for (size_t s = 0; id && s < SLOTS; s++)
        for (size_t i = 0; i < r->slots[s].count; i++)
            if (r->slots[s].requests[i].request->id == id) {
                remove_at(r, &r->slots[s], i);
                return true;
            }
    return false;
}

/* The slot of that number, after dropping expired slots; NULL if that time is no longer kept. */
static struct slot *slot_of(struct requests *r, uint64_t number)
{
    if (number + SLOTS <= r->newest)
        return NULL;
    if (number > r->newest) {
        r->newest = number;
        for (size_t i = 0; i < SLOTS; i++)
            if (r->slots[i].number + SLOTS <= number)
                clear_slot(r, &r->slots[i]);
    }
    struct slot *slot = &r->slots[number % SLOTS];
    slot->number = number;
    return slot;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
    return (hash ^ 0xff) * 0x100000001b3ull;
}

static uint64_t route_of(const struct request *request)
{
    return hash_text(hash_text(hash_text(0xcbf29ce484222325ull ^ request->port, request->service), request->method),
                     request->route);
}

/* The requests of one route in a slot. */
struct route_share {
    uint64_t route;
    size_t count, fastest;
};

/* The last share is that of all routes beyond ROUTES_MAX - 1. */
static struct route_share *find_share(struct route_share shares[ROUTES_MAX], size_t *count, uint64_t route)
{
    for (size_t i = 0; i < *count; i++)
        if (shares[i].route == route)
            return &shares[i];
    if (*count == ROUTES_MAX)
        return &shares[ROUTES_MAX - 1];
    shares[*count] = (struct route_share){.route = route};
    return &shares[(*count)++];
}

/* The request that the slot loses next: the fastest one of the slot's most frequent route. */
static size_t find_victim(const struct slot *slot)
{
    struct route_share shares[ROUTES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < slot->count; i++) {
        struct route_share *share = find_share(shares, &count, slot->requests[i].route);
        if (!share->count ||
            slot->requests[i].request->duration_ns < slot->requests[share->fastest].request->duration_ns)
            share->fastest = i;
        share->count++;
    }
    const struct route_share *most = &shares[0];
    for (size_t i = 1; i < count; i++)
        if (shares[i].count > most->count ||
            (shares[i].count == most->count && slot->requests[shares[i].fastest].request->duration_ns <
                                                   slot->requests[most->fastest].request->duration_ns))
            most = &shares[i];
    return most->fastest;
}

static struct slot *find_largest_slot(struct requests *r)
{
    struct slot *largest = &r->slots[0];
    for (size_t i = 1; i < SLOTS; i++)
        if (r->slots[i].bytes > largest->bytes)
            largest = &r->slots[i];
    return largest;
}

/* Drops requests until the rest fits. False: `request` was one of them. */
static bool fit_memory(struct requests *r, const struct request *request)
{
    bool is_kept = true;
    while (r->bytes > r->max_bytes) {
        struct slot *slot = find_largest_slot(r);
        const size_t victim = find_victim(slot);
        is_kept &= slot->requests[victim].request != request;
        remove_at(r, slot, victim);
        r->dropped++;
    }
    return is_kept;
}

/* Frees the request if it is not kept. */
static int insert_request(struct requests *r, struct request *request)
{
    struct slot *slot = slot_of(r, end_of(request) / SLOT_NS);
    if (!slot) {
        r->dropped++;
        request_free(request);
        return -ENOSPC;
    }
    if (slot->count == slot->capacity) {
        size_t capacity = slot->capacity ? slot->capacity * 2 : 16;
        struct kept *grown = reallocarray(slot->requests, capacity, sizeof(grown[0]));
        if (!grown) {
            request_free(request);
            return -ENOMEM;
        }
        slot->requests = grown;
        slot->capacity = capacity;
    }
    slot->requests[slot->count++] = (struct kept){request, route_of(request)};
    slot->bytes += request->bytes;
    r->bytes += request->bytes;
    return fit_memory(r, request) ? 0 : -ENOSPC;
}

static struct counter *find_counter(struct requests *r, const char *service, const char *method, uint16_t class)
{
    for (size_t i = 0; i < r->counter_count; i++) {
        struct counter *c = &r->counters[i];
        if (c->class == class && strcmp(c->service, service) == 0 && strcmp(c->method, method) == 0)
            return c;
    }
    return NULL;
}

/* When the table is full, further services are counted as service "other". */
static void count_request(struct requests *r, const struct request *request)
{
    char service[sizeof(r->counters[0].service)], method[sizeof(r->counters[0].method)];
    uint16_t class = request->status / 100;
    snprintf(service, sizeof(service), "%s", request->service);
    snprintf(method, sizeof(method), "%s", request->method);
    struct counter *c = find_counter(r, service, method, class);
    if (!c && r->counter_count >= COUNTERS_MAX - 1) {
        snprintf(service, sizeof(service), "other");
        method[0] = 0;
        class = 0;
        c = find_counter(r, service, method, class);
    }
    if (!c && r->counter_count < COUNTERS_MAX) {
        c = &r->counters[r->counter_count++];
        memcpy(c->service, service, sizeof(service));
        memcpy(c->method, method, sizeof(method));
        c->class = class;
    }
    if (c)
        c->count++;
}

int requests_add(struct requests *r, struct request *request)
{
    pthread_mutex_lock(&r->lock);
    if (remove_id(r, request->id)) {
        r->replaced++;
    } else {
        r->taken++;
        count_request(r, request);
    }
    request_routes_add(r->routes, request);
    int result = insert_request(r, request);
    pthread_mutex_unlock(&r->lock);
    return result;
}

static int slower_first(const void *a, const void *b)
{
    const struct request *left = *(struct request *const *)a, *right = *(struct request *const *)b;
    if (left->duration_ns != right->duration_ns)
        return left->duration_ns < right->duration_ns ? 1 : -1;
    return left->start_ns < right->start_ns ? -1 : left->start_ns > right->start_ns;
}

static int copy_all(struct request *const *from, size_t count, struct request ***ret)
{
    struct request **copies = calloc(count ? count : 1, sizeof(copies[0]));
    if (!copies)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (request_copy(from[i], &copies[i]) < 0) {
            while (i-- > 0)
                request_free(copies[i]);
            free(copies);
            return -ENOMEM;
        }
    *ret = copies;
    return 0;
}

/* Adds to `list` the wanted requests that ended in the period; sets their baselines. */
static size_t select_requests(struct requests *r, uint64_t since_ns, bool abnormal, struct request **list)
{
    size_t found = 0;
    for (size_t s = 0; s < SLOTS; s++)
        for (size_t i = 0; i < r->slots[s].count; i++) {
            struct request *request = r->slots[s].requests[i].request;
            if (end_of(request) < since_ns)
                continue;
            request->usual = request_routes_usual(r->routes, request);
            if (!abnormal || request_is_abnormal(request))
                list[found++] = request;
        }
    return found;
}

static int slowest_locked(struct requests *r, uint64_t since_ns, size_t max, bool abnormal, struct request ***ret,
                          size_t *ret_count)
{
    size_t all = 0;
    for (size_t s = 0; s < SLOTS; s++)
        all += r->slots[s].count;
    _cleanup_free_ struct request **list = calloc(all ? all : 1, sizeof(list[0]));
    if (!list)
        return -ENOMEM;
    const size_t found = select_requests(r, since_ns, abnormal, list);
    qsort(list, found, sizeof(list[0]), slower_first);
    size_t n = found < max ? found : max;
    int result = copy_all(list, n, ret);
    if (result == 0)
        *ret_count = n;
    return result;
}

int requests_slowest(struct requests *r, uint64_t since_ns, size_t max, bool abnormal, struct request ***ret,
                     size_t *ret_count)
{
    pthread_mutex_lock(&r->lock);
    int result = slowest_locked(r, since_ns, max, abnormal, ret, ret_count);
    pthread_mutex_unlock(&r->lock);
    return result;
}

/* How well a kept request of the route serves as an example of the cause: 0 is not at all. */
static int fitness(struct requests *r, struct request *request, const struct request_cause *cause)
{
    if (request->id && request->id == cause->example_id)
        return 4;
    uint64_t kind_ns[REQUEST_PART_COUNT];
    request->usual = request_routes_usual(r->routes, request);
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        kind_ns[kind] = request_kind_ns(request, (enum request_part_kind)kind);
    const enum request_part_kind kind = request_top_kind(kind_ns, request->duration_ns, &request->usual);
    const bool is_slow = request_is_slow(request->duration_ns, &request->usual);
    if (request_is_failed(request->status) != cause->is_failed)
        return 0;
    if (request_cause_key(request, kind, is_slow) == cause->key)
        return 3;
    return kind == cause->kind ? 2 : cause->key ? 0 : 1;
}

/* The example of the cause, or another kept request of the period with that cause, or else with that kind; the slowest
 * of several. NULL: none is kept. */
static struct request *find_example(struct requests *r, uint64_t since_ns, const struct request_route *route,
                                    const struct request_cause *cause)
{
    const struct request name = {
        .service = route->service, .method = route->method, .route = route->route, .port = route->port};
    const uint64_t hash = route_of(&name);
    struct request *best = NULL;
    int best_fitness = 0;
    for (size_t s = 0; s < SLOTS; s++)
        for (size_t i = 0; i < r->slots[s].count; i++) {
            const struct kept *kept = &r->slots[s].requests[i];
            if (kept->route != hash || end_of(kept->request) < since_ns)
                continue;
            const int fits = fitness(r, kept->request, cause);
            if (fits > best_fitness ||
                (fits && fits == best_fitness && kept->request->duration_ns > best->duration_ns)) {
                best = kept->request;
                best_fitness = fits;
            }
        }
    if (best)
        best->usual = request_routes_usual(r->routes, best);
    return best;
}

int requests_example(struct requests *r, uint64_t since_ns, const struct request_route *route, size_t cause,
                     struct request **ret)
{
    pthread_mutex_lock(&r->lock);
    const struct request *example = find_example(r, since_ns, route, &route->causes[cause]);
    int result = example ? request_copy(example, ret) : -ENOENT;
    pthread_mutex_unlock(&r->lock);
    return result;
}

void requests_observe(struct requests *r, bool is_observed, uint64_t now_ns)
{
    pthread_mutex_lock(&r->lock);
    observed_spans_set(&r->observed, is_observed, now_ns);
    pthread_mutex_unlock(&r->lock);
}

uint64_t requests_observed(struct requests *r, uint64_t since_ns, uint64_t now_ns, uint64_t *ret_first_ns,
                           bool *ret_is_observed)
{
    pthread_mutex_lock(&r->lock);
    const uint64_t ns = observed_spans_within(&r->observed, since_ns, now_ns);
    *ret_first_ns = r->observed.since_ns;
    *ret_is_observed = observed_spans_now(&r->observed);
    pthread_mutex_unlock(&r->lock);
    return ns;
}

int requests_routes(struct requests *r, uint64_t since_ns, uint64_t now_ns, struct request_route **ret,
                    size_t *ret_count)
{
    pthread_mutex_lock(&r->lock);
    const struct request_routes_period period = {since_ns, now_ns, r->observed.since_ns ? &r->observed : NULL};
    int result = request_routes_list(r->routes, &period, ret, ret_count);
    pthread_mutex_unlock(&r->lock);
    return result;
}

/* One cause of a route. */
struct group {
    const struct request_route *route;
    const struct request_cause *cause;
};

static int most_lost_first(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    const double x_ns = request_cause_rank_ns(x->route, x->cause), y_ns = request_cause_rank_ns(y->route, y->cause);
    return x_ns != y_ns ? (x_ns < y_ns ? 1 : -1) : x->cause < y->cause ? -1 : x->cause > y->cause;
}

/* The copied example of one or more groups, and their time as in request_cause_rank_ns. */
struct example {
    struct request *request;
    double rank_ns;
};

/* Groups that joined may have passed others. */
static int highest_first(const void *a, const void *b)
{
    const struct example *x = a, *y = b;
    if (x->rank_ns == y->rank_ns)
        return x->request->id < y->request->id ? -1 : 1;
    return x->rank_ns < y->rank_ns ? 1 : -1;
}

/* The listed example that is this request; NULL: none. */
static struct example *find_listed(struct example *list, size_t count, const struct request *request)
{
    for (size_t i = 0; i < count; i++)
        if (request->id && list[i].request->id == request->id)
            return &list[i];
    return NULL;
}

static void join_group(struct example *to, const struct group *from)
{
    to->request->group.requests += from->cause->group.requests;
    to->request->group.lost_ns += from->cause->group.lost_ns;
    to->request->group.time_ns += from->cause->group.time_ns;
    to->request->group.is_estimate |= from->cause->group.is_estimate;
    to->rank_ns +=
        request_cause_rank_ns(from->route, from->cause) + (from->cause->is_unsearched ? REQUEST_RANK_UNSEARCHED : 0);
}

/* Appends copies of the examples of sorted groups, at most `max`. A group whose own examples are not kept joins the
 * group that it shares its example with. */
static int copy_examples(struct requests *r, uint64_t since_ns, const struct group *groups, size_t count, size_t max,
                         bool abnormal, struct example *list, size_t *ret_count)
{
    for (size_t i = 0; i < count && *ret_count < max; i++) {
        struct request *request = find_example(r, since_ns, groups[i].route, groups[i].cause);
        if (!request || (abnormal && !request_is_abnormal(request)))
            continue;
        struct example *listed = find_listed(list, *ret_count, request);
        if (listed) {
            join_group(listed, &groups[i]);
            continue;
        }
        if (request_copy(request, &list[*ret_count].request) < 0)
            return -ENOMEM;
        list[*ret_count].request->group = groups[i].cause->group;
        list[(*ret_count)++].rank_ns = request_cause_rank_ns(groups[i].route, groups[i].cause);
    }
    return 0;
}

static int groups_locked(struct requests *r, uint64_t since_ns, const struct request_route *routes, size_t route_count,
                         size_t max, bool abnormal, struct request ***ret, size_t *ret_count)
{
    const size_t room = route_count * REQUEST_CAUSES_MAX + 1;
    _cleanup_free_ struct group *groups = calloc(room, sizeof(*groups));
    _cleanup_free_ struct example *examples = calloc(room, sizeof(*examples));
    _cleanup_free_ struct request **list = calloc(room, sizeof(struct request *));
    size_t group_count = 0, count = 0;
    if (!groups || !examples || !list)
        return -ENOMEM;
    for (size_t i = 0; i < route_count; i++)
        for (size_t k = 0; k < routes[i].cause_count; k++)
            groups[group_count++] = (struct group){&routes[i], &routes[i].causes[k]};
    qsort(groups, group_count, sizeof(*groups), most_lost_first);
    if (copy_examples(r, since_ns, groups, group_count, max, abnormal, examples, &count) < 0) {
        while (count-- > 0)
            request_free(examples[count].request);
        return -ENOMEM;
    }
    qsort(examples, count, sizeof(*examples), highest_first);
    for (size_t i = 0; i < count; i++)
        list[i] = examples[i].request;
    *ret = take_ptr(list);
    *ret_count = count;
    return 0;
}

int requests_groups(struct requests *r, uint64_t since_ns, uint64_t now_ns, size_t max, bool abnormal,
                    struct request ***ret, size_t *ret_count)
{
    _cleanup_free_ struct request_route *routes = NULL;
    size_t count = 0;
    pthread_mutex_lock(&r->lock);
    const struct request_routes_period period = {since_ns, now_ns, r->observed.since_ns ? &r->observed : NULL};
    int result = request_routes_list(r->routes, &period, &routes, &count);
    if (result == 0)
        result = groups_locked(r, since_ns, routes, count, max, abnormal, ret, ret_count);
    pthread_mutex_unlock(&r->lock);
    return result;
}

int requests_choose(struct requests *r, uint64_t since_ns, uint64_t now_ns, enum request_choice which, size_t max,
                    struct request ***ret, size_t *ret_count)
{
    const bool abnormal = which == REQUEST_CHOICE_ABNORMAL || which == REQUEST_CHOICE_ABNORMAL_GROUPS;
    if (which == REQUEST_CHOICE_GROUPS || which == REQUEST_CHOICE_ABNORMAL_GROUPS)
        return requests_groups(r, since_ns, now_ns, max, abnormal, ret, ret_count);
    return requests_slowest(r, since_ns, max, abnormal, ret, ret_count);
}

static void counter_metrics(const struct requests *r, struct metric_set *set)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    for (size_t i = 0; i < r->counter_count; i++) {
        const struct counter *c = &r->counters[i];
        metric_add(set, "sonde_requests_detailed", METRIC_COUNTER, "",
                   "Requests recorded in detail: slow and failed ones, and a sample (all are in "
                   "http_server_request_duration_seconds).",
                   (double)c->count,
                   METRIC_LABELS({"service_name", c->service}, {"http_request_method", c->method},
                                 {"http_response_status_class", classes[c->class < 6 ? c->class : 5]}));
    }
}

void requests_totals(struct requests *r, uint64_t since_ns, struct request_totals *ret)
{
    pthread_mutex_lock(&r->lock);
    request_routes_totals(r->routes, since_ns, ret);
    pthread_mutex_unlock(&r->lock);
}

void requests_metrics(struct requests *r, struct metric_set *set)
{
    pthread_mutex_lock(&r->lock);
    size_t bytes = sizeof(*r) + request_routes_bytes(r->routes) + r->bytes, kept = 0;
    for (size_t s = 0; s < SLOTS; s++) {
        bytes += r->slots[s].capacity * sizeof(struct kept);
        kept += r->slots[s].count;
    }
    counter_metrics(r, set);
    metric_add(set, "sonde_self_requests_kept", METRIC_GAUGE, "", "Requests kept with all their details.", (double)kept,
               METRIC_NO_LABELS);
    metric_add(
        set, "sonde_self_requests_dropped", METRIC_COUNTER, "",
        "Requests recorded in detail but not kept, because slower ones or requests of other routes filled the memory, or "
        "because they arrived too late.",
        (double)r->dropped, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_request_routes", METRIC_GAUGE, "", "Routes with kept requests.",
               (double)request_routes_count(r->routes), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_request_routes_overflowed", METRIC_COUNTER, "",
               "Requests recorded in detail that count as route 'other', because there were too many routes.",
               (double)request_routes_overflowed(r->routes), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_requests_bytes", METRIC_GAUGE, "bytes", "Memory held by requests.", (double)bytes,
               METRIC_NO_LABELS);
    pthread_mutex_unlock(&r->lock);
}
