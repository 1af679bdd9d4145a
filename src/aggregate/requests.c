/* The requests of the last minutes, behind one lock; see requests.h.
 *
 * Only slow and failed requests and a sample of the others arrive here: all requests are counted in the kernel
 * (http_server_request_duration_seconds). */
#include "aggregate/requests.h"

#include "aggregate/constant_cause.h"
#include "aggregate/kept_requests.h"
#include "aggregate/request_routes.h"
#include "model/request_cause.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS_MAX 256

struct counter {
    char service[64];
    char method[16];
    uint16_t class; /* request_status_class */
    uint64_t count;
};

struct requests {
    pthread_mutex_t lock;
    struct kept_requests *kept;
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
    if (kept_requests_new(max_bytes, &r->kept) < 0 || request_routes_new(&r->routes) < 0) {
        kept_requests_free(r->kept);
        free(r);
        return -ENOMEM;
    }
    pthread_mutex_init(&r->lock, NULL);
    *ret = r;
    return 0;
}

void requests_free(struct requests *r)
{
    if (!r)
        return;
    kept_requests_free(r->kept);
    request_routes_free(r->routes);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void requests_limit(struct requests *r, size_t max_bytes)
{
    pthread_mutex_lock(&r->lock);
    kept_requests_limit(r->kept, max_bytes);
    pthread_mutex_unlock(&r->lock);
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
    uint16_t class = request_status_class(request->status);
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
    if (!request->id || !kept_requests_remove(r->kept, request->id))
        count_request(r, request);
    const uint32_t cause = request_routes_add(r->routes, request);
    int result = kept_requests_add(r->kept, request, cause);
    pthread_mutex_unlock(&r->lock);
    return result;
}

void requests_set_usual(struct requests *r, struct request *request)
{
    pthread_mutex_lock(&r->lock);
    request->usual = request_routes_usual(r->routes, request);
    pthread_mutex_unlock(&r->lock);
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
    struct kept_position at = {0};
    for (const struct kept_request *kept; (kept = kept_requests_next(r->kept, since_ns, &at));) {
        kept->request->usual = request_routes_usual(r->routes, kept->request);
        if (!abnormal || request_is_abnormal(kept->request))
            list[found++] = kept->request;
    }
    return found;
}

static int slowest_locked(struct requests *r, uint64_t since_ns, size_t max, bool abnormal, struct request ***ret,
                          size_t *ret_count)
{
    const size_t all = kept_requests_count(r->kept);
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

static uint64_t route_of(const struct request_route *route)
{
    return kept_requests_route(&(struct request){
        .service = route->service, .method = route->method, .route = route->route, .port = route->port});
}

/* Names the cause of a route without an abnormal request: what its kept requests have in common, if that is found. */
static void set_constant_cause(const struct requests *r, uint64_t since_ns, struct request_route *route)
{
    struct request *list[CONSTANT_CAUSE_MAX];
    struct request_cause *cause = &route->causes[0];
    struct kept_position at = {0};
    size_t count = 0;
    if (route->cause_count != 1 || cause->key)
        return;
    const uint64_t hash = route_of(route);
    for (const struct kept_request *kept;
         count < CONSTANT_CAUSE_MAX && (kept = kept_requests_next(r->kept, since_ns, &at));)
        if (kept->route == hash && kept->request->id && kept->request->segment_count)
            list[count++] = kept->request;
    const struct request *typical = constant_cause_find(list, count, &cause->constant);
    if (!typical)
        return;
    cause->example_id = typical->id;
    cause->kind = cause->constant.part ? typical->parts[cause->constant.part - 1].kind : REQUEST_PART_DOWNSTREAM;
}

static int list_routes(struct requests *r, uint64_t since_ns, uint64_t now_ns, struct request_route **ret,
                       size_t *ret_count)
{
    const struct request_routes_period period = {since_ns, now_ns, r->observed.since_ns ? &r->observed : NULL};
    const int result = request_routes_list(r->routes, &period, ret, ret_count);
    for (size_t i = 0; result == 0 && i < *ret_count; i++)
        set_constant_cause(r, since_ns, &(*ret)[i]);
    return result;
}

/* How well a kept request of the route serves as an example of the cause. */
enum fitness { FITS_NOT, FITS_ROUTE, FITS_KIND, FITS_CAUSE, FITS_EXACTLY };

static enum fitness fitness(struct requests *r, const struct kept_request *kept, const struct request_cause *cause)
{
    struct request *request = kept->request;
    if (request->id && request->id == cause->example_id)
        return FITS_EXACTLY;
    uint64_t kind_ns[REQUEST_PART_COUNT];
    request->usual = request_routes_usual(r->routes, request);
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        kind_ns[kind] = request_kind_ns(request, (enum request_part_kind)kind);
    if (request_is_failed(request->status) != cause->is_failed)
        return FITS_NOT;
    if (kept->cause == cause->key)
        return FITS_CAUSE;
    if (request_top_kind(kind_ns, request->duration_ns, &request->usual) == cause->kind)
        return FITS_KIND;
    return cause->key && !request_is_abnormal(request) ? FITS_NOT : FITS_ROUTE;
}

/* The example of the cause, or the kept request of the period that fits it best, but at least so well; the slowest of
 * several. NULL: none is kept. */
static struct request *find_example(struct requests *r, uint64_t since_ns, const struct request_route *route,
                                    const struct request_cause *cause, enum fitness least)
{
    const uint64_t hash = route_of(route);
    struct request *best = NULL;
    enum fitness best_fitness = least;
    struct kept_position at = {0};
    for (const struct kept_request *kept; (kept = kept_requests_next(r->kept, since_ns, &at));) {
        if (kept->route != hash)
            continue;
        const enum fitness fits = fitness(r, kept, cause);
        if (fits > best_fitness ||
            (fits == best_fitness && (!best || kept->request->duration_ns > best->duration_ns))) {
            best = kept->request;
            best_fitness = fits;
        }
    }
    if (best) {
        best->usual = request_routes_usual(r->routes, best);
        best->constant = best_fitness == FITS_EXACTLY ? cause->constant : (struct request_constant){0};
    }
    return best;
}

int requests_example(struct requests *r, uint64_t since_ns, const struct request_route *route, size_t cause,
                     struct request **ret)
{
    pthread_mutex_lock(&r->lock);
    const struct request_cause *of = &route->causes[cause];
    const struct request *example = find_example(r, since_ns, route, of, of->key ? FITS_KIND : FITS_ROUTE);
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
    int result = list_routes(r, since_ns, now_ns, ret, ret_count);
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
    const struct request_cause_rank x_rank = request_cause_rank(x->route, x->cause),
                                    y_rank = request_cause_rank(y->route, y->cause);
    return request_cause_rank_compare(&x_rank, &y_rank) ?: x->cause < y->cause ? -1 : x->cause > y->cause;
}

/* The copied example of one or more groups, with the sum of their ranks. */
struct example {
    struct request *request;
    struct request_cause_rank rank;
};

/* Groups that joined may have passed others. */
static int highest_first(const void *a, const void *b)
{
    const struct example *x = a, *y = b;
    return request_cause_rank_compare(&x->rank, &y->rank) ?: x->request->id < y->request->id ? -1 : 1;
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
    to->rank.ns += request_cause_rank(from->route, from->cause).ns;
}

/* Appends copies of the examples of sorted groups, at most `max`. A group whose own examples are not kept joins the
 * group that it shares its example with: at last, any of its route, so that the groups of a route add up to it. */
static int copy_examples(struct requests *r, uint64_t since_ns, const struct group *groups, size_t count, size_t max,
                         bool abnormal, struct example *list, size_t *ret_count)
{
    for (size_t i = 0; i < count && *ret_count < max; i++) {
        struct request *request = find_example(r, since_ns, groups[i].route, groups[i].cause, FITS_ROUTE);
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
        list[(*ret_count)++].rank = request_cause_rank(groups[i].route, groups[i].cause);
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
    int result = list_routes(r, since_ns, now_ns, &routes, &count);
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
    const size_t bytes = sizeof(*r) + request_routes_bytes(r->routes) + kept_requests_bytes(r->kept);
    counter_metrics(r, set);
    metric_add(set, "sonde_self_requests_kept", METRIC_GAUGE, "", "Requests kept with all their details.",
               (double)kept_requests_count(r->kept), METRIC_NO_LABELS);
    metric_add(
        set, "sonde_self_requests_dropped", METRIC_COUNTER, "",
        "Requests recorded in detail but not kept, because slower ones or requests of other routes filled the memory, or "
        "because they arrived too late.",
        (double)kept_requests_dropped(r->kept), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_request_routes", METRIC_GAUGE, "", "Routes with kept requests.",
               (double)request_routes_count(r->routes), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_request_routes_overflowed", METRIC_COUNTER, "",
               "Requests recorded in detail that count as route 'other', because there were too many routes.",
               (double)request_routes_overflowed(r->routes), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_requests_bytes", METRIC_GAUGE, "bytes", "Memory held by requests.", (double)bytes,
               METRIC_NO_LABELS);
    pthread_mutex_unlock(&r->lock);
}
