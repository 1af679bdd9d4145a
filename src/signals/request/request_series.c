/* See request_series.h. */
#include "signals/request/request_series.h"

#include "signals/request/request_division.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECENT_MAX     1024 /* recorded requests whose newer records are recognized */
#define WEIGHT_DECAY   0.8  /* by each settling: the sample of the last seconds decides */
#define LEAST_WEIGHT   1e-3 /* of a request that represents no other: decides where none in the sample does */
#define OTHER          "other"
#define OTHER_METHOD   "_OTHER" /* the name in the semantic conventions */
#define ERROR_NO_REPLY "no_reply"

struct exemplar {
    struct metric_exemplar value;
    struct trace_link_text ids;
};

/* One series. */
struct series {
    struct series *next; /* of its service and class */
    struct division_share share[REQUEST_BUCKETS];
    uint64_t counts[REQUEST_BUCKETS];
    uint64_t sum_ns;
    uint64_t expected_ns; /* the probable time of the requests counted by this settling */
    uint16_t status;      /* 0: none */
    bool is_tls;          /* HTTP over TLS: its url_scheme is https. Calls of gRPC have no such label */
    bool is_unknown;      /* requests of the class without any record: method, route, scheme and status are unknown */
    char method[16], route[200];
    struct exemplar *exemplars; /* REQUEST_BUCKETS; NULL: no request of it was traced */
};

/* The exact counts of a service and class, as far as they are in its series. */
struct class_counts {
    struct series *first;
    uint64_t counted[REQUEST_BUCKETS];
    uint64_t waiting[REQUEST_BUCKETS]; /* counted by the kernel, without a record until the last settling */
    uint64_t counted_ns;
};

struct service {
    char name[64];
    size_t route_count;
    struct class_counts classes[REQUEST_CLASSES];
};

/* The latest record of a request. */
struct recent {
    uint64_t id;
    struct series *series;
    uint64_t duration_ns;
};

struct request_series {
    struct service *services[REQUEST_SERIES_SERVICES];
    size_t service_count, series_count, other_count;
    uint64_t overflowed;
    struct recent recent[RECENT_MAX];
};

static const uint64_t bounds_ns[REQUEST_BOUND_COUNT] = {
#define X(ns) ns,
    REQUEST_BOUNDS(X)
#undef X
};

int request_series_new(struct request_series **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

static void free_class(struct class_counts *c)
{
    for (struct series *s = c->first, *next; s; s = next) {
        next = s->next;
        free(s->exemplars);
        free(s);
    }
}

void request_series_free(struct request_series *s)
{
    for (size_t i = 0; s && i < s->service_count; i++) {
        for (int class = 0; class < REQUEST_CLASSES; class ++)
            free_class(&s->services[i]->classes[class]);
        free(s->services[i]);
    }
    free(s);
}

int request_series_service(struct request_series *s, const char *name, uint32_t *ret)
{
    char cut[sizeof(s->services[0]->name)];
    snprintf(cut, sizeof(cut), "%s", name);
    for (size_t i = 0; i < s->service_count; i++)
        if (strcmp(s->services[i]->name, cut) == 0) {
            *ret = (uint32_t)i;
            return 0;
        }
    if (s->service_count >= REQUEST_SERIES_SERVICES - 1 && strcmp(cut, OTHER) != 0)
        return request_series_service(s, OTHER, ret);
    struct service *service = calloc(1, sizeof(*service));
    if (!service)
        return -ENOMEM;
    memcpy(service->name, cut, sizeof(cut));
    *ret = (uint32_t)s->service_count;
    s->services[s->service_count++] = service;
    return 0;
}

static int class_of(uint16_t status)
{
    const int class = request_status_class(status);
    return class < REQUEST_CLASSES ? class : REQUEST_CLASSES - 1;
}

/* ---- series ---- */

/* What a series has in common with a request; the texts are borrowed. */
struct series_key {
    const char *method, *route;
    uint16_t status;
    bool is_tls;
};

static struct series_key key_of(const struct request *request)
{
    return (struct series_key){.method = request->method[0] ? request->method : OTHER_METHOD,
                               .route = request->route,
                               .status = request->status,
                               .is_tls = request->is_tls && request->status < REQUEST_STATUS_GRPC};
}

static struct series *find_series(const struct class_counts *c, const struct series_key *key)
{
    for (struct series *s = c->first; s; s = s->next)
        if (s->status == key->status && s->is_tls == key->is_tls && !s->is_unknown &&
            strcmp(s->method, key->method) == 0 && strcmp(s->route, key->route) == 0)
            return s;
    return NULL;
}

static bool has_route(const struct service *service, const char *route)
{
    for (int class = 0; class < REQUEST_CLASSES; class ++)
        for (const struct series *s = service->classes[class].first; s; s = s->next)
            if (strcmp(s->route, route) == 0)
                return true;
    return false;
}

static struct series *add_series(struct class_counts *c, const struct series_key *key)
{
    struct series *series = calloc(1, sizeof(*series));
    if (!series)
        return NULL;
    snprintf(series->method, sizeof(series->method), "%s", key->method);
    snprintf(series->route, sizeof(series->route), "%s", key->route);
    series->status = key->status;
    series->is_tls = key->is_tls;
    series->next = c->first;
    c->first = series;
    return series;
}

/* The series of a class without any recorded request. */
static bool add_unknown(struct class_counts *c)
{
    struct series *unknown = add_series(c, &(struct series_key){.method = OTHER_METHOD, .route = OTHER});
    if (unknown)
        unknown->is_unknown = true;
    return unknown;
}

/* The series of the requests that exceed a bound; the one without a status if there are too many of them, too. */
static struct series *other_series(struct request_series *s, struct service *service, const struct request *request)
{
    struct class_counts *c = &service->classes[class_of(request->status)];
    struct series_key key = key_of(request);
    if (s->series_count >= REQUEST_SERIES_MAX)
        key.method = OTHER_METHOD;
    key.route = OTHER;
    struct series *found = find_series(c, &key);
    s->overflowed++;
    if (found)
        return found;
    if (s->other_count >= REQUEST_SERIES_OTHERS)
        return NULL;
    found = add_series(c, &key);
    s->other_count += found ? 1 : 0;
    return found;
}

/* NULL: no memory. */
static struct series *series_of(struct request_series *s, struct service *service, const struct request *request)
{
    struct class_counts *c = &service->classes[class_of(request->status)];
    const struct series_key key = key_of(request);
    struct series *found = find_series(c, &key);
    if (found)
        return found;
    const bool is_new_route = !has_route(service, request->route);
    if (s->series_count >= REQUEST_SERIES_MAX || (is_new_route && service->route_count >= REQUEST_SERIES_ROUTES))
        return other_series(s, service, request);
    found = add_series(c, &key);
    if (found) {
        s->series_count++;
        service->route_count += is_new_route ? 1 : 0;
    }
    return found;
}

/* ---- recorded requests ---- */

static void note_exemplar(struct series *s, int bucket, const struct request *request)
{
    const struct trace_link *link = request_exemplar(request);
    if (!link || (!s->exemplars && !(s->exemplars = calloc(REQUEST_BUCKETS, sizeof(*s->exemplars)))))
        return;
    s->exemplars[bucket].ids = trace_link_text(link);
    s->exemplars[bucket].value = (struct metric_exemplar){
        .value = (double)request->duration_ns / 1e9,
        .unix_ns = request->start_unix_ns + request->duration_ns,
    };
}

/* How many requests without a record this one represents. */
static double unrecorded(const struct request *request)
{
    return request->weight && !request->is_notable ? request->weight - 1 + LEAST_WEIGHT : LEAST_WEIGHT;
}

void request_series_record(struct request_series *s, uint32_t service, const struct request *request)
{
    struct recent *recent = &s->recent[request->id % RECENT_MAX];
    const bool is_update = request->id && recent->id == request->id;
    struct series *series = is_update ? recent->series : series_of(s, s->services[service], request);
    const int bucket = (int)request_duration_bucket(request->duration_ns);
    if (!series)
        return;
    if (is_update) {
        series->share[request_duration_bucket(recent->duration_ns)].recorded--;
        series->expected_ns +=
            request->duration_ns > recent->duration_ns ? request->duration_ns - recent->duration_ns : 0;
    } else {
        series->share[bucket].weight += unrecorded(request);
        series->expected_ns += request->duration_ns;
    }
    series->share[bucket].recorded++;
    note_exemplar(series, bucket, request);
    *recent = (struct recent){request->id, series, request->duration_ns};
}

/* ---- the exact counts ---- */

/* Somewhere in the bucket. */
static uint64_t typical_ns(int bucket)
{
    const uint64_t above = bucket ? bounds_ns[bucket - 1] : 0;
    return bucket < REQUEST_BOUND_COUNT ? (above + bounds_ns[bucket]) / 2 : above;
}

static uint64_t give_recorded(struct class_counts *c, int bucket, uint64_t count)
{
    uint64_t given = 0;
    for (struct series *s = c->first; s && given < count; s = s->next) {
        const uint64_t one = division_take_recorded(&s->share[bucket], count - given);
        s->counts[bucket] += one;
        given += one;
    }
    return given;
}

static double weight_in(const struct series *s, int bucket)
{
    return bucket >= 0 ? s->share[bucket].weight : 0;
}

static double weight_in_all(const struct series *s, int bucket)
{
    double sum = 0;
    (void)bucket;
    for (int i = 0; i < REQUEST_BUCKETS; i++)
        sum += s->share[i].weight;
    return sum;
}

static double count_in_all(const struct series *s, int bucket)
{
    double sum = 0;
    (void)bucket;
    for (int i = 0; i < REQUEST_BUCKETS; i++)
        sum += (double)s->counts[i];
    return sum;
}

static double equal_weight(const struct series *s, int bucket)
{
    (void)s;
    (void)bucket;
    return 1;
}

/* The ways to weigh the series when requests without a record are divided among them. The first that is above 0 for any
 * series is used; the last one always is. */
static double (*const divisors[])(const struct series *s, int bucket) = {weight_in, weight_in_all, count_in_all,
                                                                         equal_weight};

static void give(struct series *s, int bucket, uint64_t count)
{
    s->counts[bucket] += count;
    s->expected_ns += count * typical_ns(bucket);
}

/* The series that lacks most. */
static struct series *find_owed(const struct class_counts *c, int bucket)
{
    struct series *most = c->first;
    for (struct series *s = c->first; s; s = s->next)
        if (s->share[bucket].owed > most->share[bucket].owed)
            most = s;
    return most;
}

static void give_unrecorded(struct class_counts *c, int bucket, uint64_t count)
{
    struct division division = {.all = count, .left = count};
    size_t by = 0;
    if (!count)
        return;
    if (!c->first && !add_unknown(c))
        return;
    for (; division.weight <= 0; by++)
        for (const struct series *s = c->first; s; s = s->next)
            division.weight += divisors[by](s, bucket);
    for (struct series *s = c->first; s; s = s->next)
        give(s, bucket, division_take_part(&division, &s->share[bucket], divisors[by - 1](s, bucket)));
    while (division.left) {
        struct series *s = find_owed(c, bucket);
        give(s, bucket, division_take_one(&division, &s->share[bucket]));
    }
    c->counted[bucket] += count;
}

/* The sum of all durations goes to the series by the probable durations of their new requests. */
static void give_time(struct class_counts *c, uint64_t sum_ns)
{
    const uint64_t more_ns = sum_ns > c->counted_ns ? sum_ns - c->counted_ns : 0;
    uint64_t expected_ns = 0, left_ns = more_ns;
    struct series *last = NULL;
    for (struct series *s = c->first; s; s = s->next) {
        expected_ns += s->expected_ns;
        last = s->expected_ns ? s : last;
    }
    if (!more_ns || !last)
        return;
    for (struct series *s = c->first; s; s = s->next) {
        uint64_t own_ns = (uint64_t)((double)more_ns * ((double)s->expected_ns / (double)expected_ns));
        own_ns = s == last || own_ns > left_ns ? left_ns : own_ns;
        s->sum_ns += own_ns;
        left_ns -= own_ns;
        s->expected_ns = 0;
    }
    c->counted_ns = sum_ns;
}

static void decay_weights(struct class_counts *c)
{
    for (struct series *s = c->first; s; s = s->next)
        for (int i = 0; i < REQUEST_BUCKETS; i++)
            s->share[i].weight *= WEIGHT_DECAY;
}

static void settle_class(struct class_counts *c, const uint64_t exact[REQUEST_BUCKETS], uint64_t sum_ns)
{
    uint64_t before = 0, now = 0;
    for (int i = 0; i < REQUEST_BUCKETS; i++) {
        before += c->counted[i];
        now += exact[i];
    }
    /* A bucket that lost requests has more than its count: as many are held back in the others. */
    uint64_t more = now > before ? now - before : 0;
    for (int i = 0; i < REQUEST_BUCKETS; i++) {
        uint64_t count = exact[i] > c->counted[i] ? exact[i] - c->counted[i] : 0;
        count = count < more ? count : more;
        more -= count;
        const uint64_t recorded = give_recorded(c, i, count), left = count - recorded;
        c->counted[i] += recorded;
        const uint64_t waited = c->waiting[i] > recorded ? c->waiting[i] - recorded : 0,
                       due = waited > left ? left : waited;
        give_unrecorded(c, i, due);
        c->waiting[i] = left - due;
    }
    give_time(c, sum_ns);
    decay_weights(c);
}

void request_series_settle(struct request_series *s, uint32_t service, const struct request_totals_exact *exact)
{
    for (int class = 0; class < REQUEST_CLASSES; class ++)
        settle_class(&s->services[service]->classes[class], exact->counts[class], exact->sum_ns[class]);
}

/* ---- metrics ---- */

static void write_exemplars(const struct series *s, struct metric_set *set)
{
    for (size_t i = 0; s->exemplars && i < REQUEST_BUCKETS; i++) {
        struct metric_exemplar exemplar = s->exemplars[i].value;
        exemplar.trace_id = s->exemplars[i].ids.trace_id;
        exemplar.span_id = s->exemplars[i].ids.span_id;
        if (exemplar.trace_id[0])
            metric_add_exemplar(set, i, &exemplar);
    }
}

#define IS_ESTIMATED                                                                                                   \
    "Every request is counted. Method, route and status of requests without a record are estimated from a random "     \
    "sample; the sums by service and class of status are exact."

static void write_http(const struct service *service, int class, const struct series *s, const double *bounds,
                       struct metric_set *set)
{
    char status[REQUEST_STATUS_BYTES];
    struct metric_label labels[6] = {
        {"service_name", service->name}, {"http_request_method", s->method}, {"http_route", s->route}};
    size_t count = 3;
    request_status_text(s->status, status);
    if (!s->is_unknown)
        labels[count++] = (struct metric_label){"url_scheme", s->is_tls ? "https" : "http"};
    if (s->status)
        labels[count++] = (struct metric_label){"http_response_status_code", status};
    if (class == 0 || class == REQUEST_CLASSES - 1)
        labels[count++] = (struct metric_label){"error_type", s->is_unknown ? OTHER_METHOD
                                                              : s->status   ? status
                                                                            : ERROR_NO_REPLY};
    metric_add_histogram(set, "http_server_request_duration_seconds", "seconds",
                         "Requests served, from their first bytes to the last of the reply. " IS_ESTIMATED, bounds,
                         s->counts, REQUEST_BOUND_COUNT, (double)s->sum_ns / 1e9, labels, count);
}

static void write_call(const struct service *service, int class, const struct series *s, const double *bounds,
                       struct metric_set *set)
{
    char status[REQUEST_STATUS_BYTES];
    struct metric_label labels[5] = {{"service_name", service->name},
                                     {"rpc_system_name", "grpc"},
                                     {"rpc_method", request_rpc_method(s->route)},
                                     {"rpc_response_status_code", request_status_text(s->status, status)}};
    size_t count = 4;
    if (class == REQUEST_CLASSES - 1)
        labels[count++] = (struct metric_label){"error_type", status};
    metric_add_histogram(set, "rpc_server_call_duration_seconds", "seconds",
                         "gRPC calls served, from their first bytes to the last of the trailers. " IS_ESTIMATED, bounds,
                         s->counts, REQUEST_BOUND_COUNT, (double)s->sum_ns / 1e9, labels, count);
}

/* The protocol decides which metric has a request, and which attributes it has. */
static void write_series(const struct service *service, int class, const struct series *s, const double *bounds,
                         struct metric_set *set)
{
    if (s->status >= REQUEST_STATUS_GRPC)
        write_call(service, class, s, bounds, set);
    else
        write_http(service, class, s, bounds, set);
    write_exemplars(s, set);
}

static bool is_counted(const struct series *s)
{
    for (int i = 0; i < REQUEST_BUCKETS; i++)
        if (s->counts[i])
            return true;
    return false;
}

void request_series_write(const struct request_series *s, struct metric_set *set)
{
    double bounds[REQUEST_BOUND_COUNT];
    for (int i = 0; i < REQUEST_BOUND_COUNT; i++)
        bounds[i] = (double)bounds_ns[i] / 1e9;
    for (size_t i = 0; i < s->service_count; i++)
        for (int class = 0; class < REQUEST_CLASSES; class ++)
            for (const struct series *one = s->services[i]->classes[class].first; one; one = one->next)
                if (is_counted(one))
                    write_series(s->services[i], class, one, bounds, set);
    metric_add(set, "sonde_self_request_series", METRIC_GAUGE, "", "Series of http_server_request_duration_seconds.",
               (double)(s->series_count + s->other_count), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_request_series_overflowed", METRIC_COUNTER, "",
               "Recorded requests that count as route 'other' in http_server_request_duration_seconds, because there "
               "were too many routes.",
               (double)s->overflowed, METRIC_NO_LABELS);
}
