/* The routes: UI, API, /metrics, /healthz. Each is one function that checks its parameters, gets data from `struct
 * page_data` and passes it to an exporter. Profiles are merged and written anew for each request, which is expensive:
 * at most EXPORTS_AT_ONCE run, EXPORTS_WAITING wait up to EXPORT_WAIT_S, all others get status 503 with Retry-After. */
#include "serve/routes.h"

#include "base/clock.h"
#include "base/turn_time.h"
#include "export/coverage_json.h"
#include "export/diff_html.h"
#include "export/diff_text.h"
#include "export/export.h"
#include "export/heatmap_json.h"
#include "export/hotspots_json.h"
#include "export/openmetrics.h"
#include "export/request_routes_json.h"
#include "export/requests_json.h"
#include "export/service_calls_json.h"
#include "serve/http.h"
#include "serve/metrics_answer.h"
#include "serve/query.h"
#include "web_assets.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

#define EXPORTS_AT_ONCE  2
#define EXPORT_WAIT_S    10
#define EXPORTS_WAITING  8 /* threads: a thread that waits does not notice that its connection was closed */
#define COMPARE_ROWS     100
#define TOO_MANY_ANSWERS "too many answers are being sent"
#define MS               UINT64_C(1000000)

struct routes {
    const struct page_data *data;
    bool without_ui;
    struct readers *readers;
    sem_t exports;
    _Atomic int waiting; /* for `exports` */
    struct metrics_answer *metrics;
    struct buf page_gzip;
    char page_etag[24], page_gzip_etag[24];
};

struct call {
    struct routes *routes;
    struct MHD_Connection *connection;
    struct query query;
};

struct route {
    const char *path;
    unsigned parameters, needed;
    bool is_large;
    enum MHD_Result (*answer)(struct call *call);
};

int routes_new(const struct page_data *data, struct readers *readers, bool without_ui, struct routes **ret)
{
    _cleanup_(routes_freep) struct routes *r = calloc(1, sizeof(*r));
    if (!r || sem_init(&r->exports, 0, EXPORTS_AT_ONCE) < 0)
        return -ENOMEM;
    r->data = data;
    r->readers = readers;
    r->without_ui = without_ui;
    int error = metrics_answer_new(data, readers, &r->metrics);
    if (error < 0)
        return error;
    error = buf_gzip(&r->page_gzip, web_page_html, web_page_html_size());
    if (error < 0)
        return error;
    unsigned long long hash = XXH3_64bits(web_page_html, web_page_html_size());
    snprintf(r->page_etag, sizeof(r->page_etag), "\"%016llx\"", hash);
    snprintf(r->page_gzip_etag, sizeof(r->page_gzip_etag), "\"%016llx-g\"", hash);
    *ret = take_ptr(r);
    return 0;
}

void routes_free(struct routes *r)
{
    if (!r)
        return;
    sem_destroy(&r->exports);
    metrics_answer_free(r->metrics);
    buf_clear(&r->page_gzip);
    free(r);
}

static enum MHD_Result reply_failed(struct call *call, const char *what, int error)
{
    unsigned status =
        error == -ENOMEM || error == -EAGAIN ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_INTERNAL_SERVER_ERROR;
    return http_reply_text(call->connection, status, "%s: %s", what, strerror(-error));
}

/* Replies to a request for a time region that page_data could not serve. */
static enum MHD_Result reply_region_error(struct call *call, const char *what, int error)
{
    if (error == -ENODATA)
        return http_reply_text(
            call->connection, MHD_HTTP_GONE,
            "%s: samples of that time are no longer kept, are kept at a coarser resolution only, or the agent was not running; /api/v1/heatmap shows the kept time",
            what);
    if (error == -EOPNOTSUPP)
        return http_reply_text(
            call->connection, MHD_HTTP_BAD_REQUEST,
            "%s: this agent does not record off-CPU time; enable it with `sonde up --off-cpu` or off_cpu.enabled",
            what);
    if (error == -ERANGE)
        return http_reply_text(
            call->connection, MHD_HTTP_BAD_REQUEST,
            "%s: that time is in the future; times are milliseconds of the node's monotonic clock, now %llu", what,
            (unsigned long long)(clock_monotonic_ns() / MS));
    return reply_failed(call, what, error);
}

static bool wait_for_slot(struct routes *r)
{
    const struct timespec until = clock_timespec_of(clock_monotonic_ns() + EXPORT_WAIT_S * 1000000000ull);
    while (sem_clockwait(&r->exports, CLOCK_MONOTONIC, &until) < 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* Takes a slot for expensive work; false when none is free in time, or too many threads wait for one. */
static bool export_slot_take(struct routes *r)
{
    if (sem_trywait(&r->exports) == 0)
        return true;
    const bool is_taken = atomic_fetch_add(&r->waiting, 1) < EXPORTS_WAITING && wait_for_slot(r);
    atomic_fetch_sub(&r->waiting, 1);
    return is_taken;
}

static void export_slot_release(struct routes *r)
{
    sem_post(&r->exports);
}

static enum MHD_Result reply_json(struct call *call, struct buf *body)
{
    const struct http_reply reply = {
        .status = MHD_HTTP_OK, .content_type = "application/json", .readers = call->routes->readers};
    return http_reply_buf(call->connection, &reply, body);
}

static enum MHD_Result reply_busy(struct call *call, const char *why)
{
    return http_reply_text(call->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "%s; retry in a few seconds", why);
}

static enum MHD_Result answer_page(struct call *call)
{
    struct routes *r = call->routes;
    if (r->without_ui)
        return http_reply_text(
            call->connection, MHD_HTTP_NOT_FOUND,
            "This agent serves no page (`sonde up` does). It serves /metrics, /healthz, /api/v1/profile, /api/v1/heatmap, /api/v1/hotspots, /api/v1/compare, /api/v1/requests, /api/v1/routes, /api/v1/calls, /api/v1/events and /api/v1/status.");
    bool gzip = http_header_names(http_header(call->connection, "Accept-Encoding"), "gzip");
    const char *known = http_header(call->connection, "If-None-Match");
    struct http_reply reply = {
        .status = MHD_HTTP_OK,
        .content_type = "text/html; charset=utf-8",
        .content_encoding = gzip ? "gzip" : NULL,
        .policy = web_page_policy,
        .etag = gzip ? r->page_gzip_etag : r->page_etag,
    };
    if (known && strstr(known, reply.etag)) {
        reply.status = MHD_HTTP_NOT_MODIFIED;
        return http_reply_static(call->connection, &reply, "", 0);
    }
    if (gzip)
        return http_reply_static(call->connection, &reply, r->page_gzip.data, r->page_gzip.size);
    return http_reply_static(call->connection, &reply, web_page_html, web_page_html_size());
}

static enum MHD_Result answer_health(struct call *call)
{
    const uint64_t idle_ns = call->routes->data->idle_ns(call->routes->data->context);
    if (idle_ns > TURN_HUNG_NS)
        return http_reply_text(call->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                               "hung: the agent's main thread has done nothing for %llu s",
                               (unsigned long long)(idle_ns / 1000000000));
    return http_reply_text(call->connection, MHD_HTTP_OK, "ok");
}

static enum MHD_Result answer_status(struct call *call)
{
    _cleanup_buf_ struct buf body = {0};
    _cleanup_free_ char *json = NULL;
    int r = call->routes->data->status(call->routes->data->context, &json);
    if (r == 0)
        r = buf_puts(&body, json);
    if (r < 0)
        return reply_failed(call, "no status", r);
    return reply_json(call, &body);
}

static enum MHD_Result answer_metrics(struct call *call)
{
    const bool openmetrics = openmetrics_accepted(http_header(call->connection, "Accept"));
    enum MHD_Result result;
    const int r = metrics_answer_send(call->routes->metrics, call->connection, openmetrics, &result);
    if (r == -EBUSY)
        return reply_busy(call, TOO_MANY_ANSWERS);
    return r < 0 ? reply_failed(call, "no metrics", r) : result;
}

static void requests_clear(struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        request_free(requests[i]);
    free(requests);
}

/* {"coverage": {...}, "`name`": and then the list. */
static void put_coverage(const struct call *call, enum coverage_subject subject, const char *name, struct buf *body)
{
    const struct page_data *data = call->routes->data;
    struct coverage coverage;
    data->coverage(data->context, subject, call->query.seconds, &coverage);
    coverage_json_begin(&coverage, subject, name, body);
}

static enum MHD_Result answer_requests(struct call *call)
{
    const struct page_data *data = call->routes->data;
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    struct request **requests = NULL;
    size_t count = 0;
    int r = data->requests(data->context, call->query.seconds, call->query.max, call->query.which, &requests, &count);
    if (r < 0)
        return reply_failed(call, "no requests", r);
    const enum request_choice which = call->query.which;
    const bool abnormal = which == REQUEST_CHOICE_ABNORMAL || which == REQUEST_CHOICE_ABNORMAL_GROUPS;
    put_coverage(call, abnormal ? COVERAGE_ABNORMAL : COVERAGE_REQUESTS, "requests", &body);
    requests_json_write(requests, count, &body);
    requests_json_put_groups(requests, count, &body);
    requests_clear(requests, count);
    r = buf_puts(&body, "}\n");
    if (r < 0)
        return reply_failed(call, "no requests", r);
    return reply_json(call, &body);
}

static enum MHD_Result answer_routes(struct call *call)
{
    const struct page_data *data = call->routes->data;
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    _cleanup_free_ struct request_route *list = NULL;
    size_t count = 0;
    int r = data->routes(data->context, call->query.seconds, &list, &count);
    if (r == 0) {
        put_coverage(call, COVERAGE_ROUTES, "routes", &body);
        request_routes_json_write(list, count, &body);
        r = buf_puts(&body, "}\n");
    }
    if (r < 0)
        return reply_failed(call, "no routes", r);
    return reply_json(call, &body);
}

static enum MHD_Result answer_calls(struct call *call)
{
    const struct page_data *data = call->routes->data;
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    _cleanup_free_ struct service_call *list = NULL;
    size_t count = 0;
    int r = data->calls(data->context, call->query.seconds, &list, &count);
    if (r == 0) {
        put_coverage(call, COVERAGE_CALLS, "calls", &body);
        service_calls_json_write(list, count, &body);
        r = buf_puts(&body, "}\n");
    }
    if (r < 0)
        return reply_failed(call, "no calls", r);
    return reply_json(call, &body);
}

static enum MHD_Result answer_events(struct call *call)
{
    const struct page_data *data = call->routes->data;
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    put_coverage(call, COVERAGE_EVENTS, "events", &body);
    buf_putc(&body, '[');
    int r = data->events(data->context, call->query.seconds, call->query.max, &body);
    buf_puts(&body, "]}\n");
    if (r == 0)
        r = buf_error(&body);
    if (r < 0)
        return reply_failed(call, "no events", r);
    return reply_json(call, &body);
}

static enum MHD_Result reply_unknown_format(struct call *call)
{
    char known[128];
    size_t used = 0;
    known[0] = '\0';
    for (const struct exporter *const *e = exporters; *e && used < sizeof(known); e++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", (*e)->name);
    return http_reply_text(call->connection, MHD_HTTP_BAD_REQUEST, "format: %s is not known; there are: %s",
                           call->query.format, known);
}

static struct profile_filter filter_of(const struct query *q)
{
    return (struct profile_filter){
        .pid = q->pid,
        .container_id = q->container[0] ? q->container : NULL,
        .service_name = q->service[0] ? q->service : NULL,
        .type = q->type,
    };
}

static int get_region_profile(struct call *call, const struct query_region *region, struct profile **ret)
{
    const struct page_data *data = call->routes->data;
    const struct profile_filter filter = filter_of(&call->query);
    return data->region(data->context, region->from_ms * MS, region->to_ms * MS, &filter, ret);
}

static int write_profile(struct call *call, const struct exporter *exporter, struct buf *body)
{
    const struct page_data *data = call->routes->data;
    const struct query *q = &call->query;
    _cleanup_(profile_freep) struct profile *profile = NULL;
    const struct profile_filter filter = filter_of(q);
    int r = query_has(q, QUERY_FROM) ? get_region_profile(call, &q->region, &profile)
                                     : data->profile(data->context, q->seconds, &filter, &profile);
    if (r < 0)
        return r;
    return exporter->write(profile, body);
}

/* "sonde-profile-pid4711.pb.gz" */
static void format_file_name(const struct query *q, const char *what, const char *suffix, char *out, size_t size)
{
    if (q->pid)
        snprintf(out, size, "sonde-%s-pid%u%s", what, q->pid, suffix);
    else if (q->container[0])
        snprintf(out, size, "sonde-%s-%.12s%s", what, q->container, suffix);
    else
        snprintf(out, size, "sonde-%s%s", what, suffix);
}

static enum MHD_Result answer_profile(struct call *call)
{
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    const struct query *q = &call->query;
    const struct exporter *exporter = exporter_by_name(q->format);
    char name[128];
    if (!exporter)
        return reply_unknown_format(call);
    if (!export_slot_take(call->routes))
        return reply_busy(call, "too many profiles are being written");
    int r = write_profile(call, exporter, &body);
    export_slot_release(call->routes);
    if (r < 0)
        return reply_region_error(call, "no profile", r);
    format_file_name(q, "profile", exporter->suffix, name, sizeof(name));
    const struct http_reply reply = {
        .status = MHD_HTTP_OK,
        .content_type = exporter->content_type,
        .file_name = name,
        .readers = call->routes->readers,
        .attachment = strcmp(exporter->name, "json") != 0,
    };
    return http_reply_buf(call->connection, &reply, &body);
}

/* The requested region, or the last `seconds`. */
static void query_time_range(const struct query *q, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
    const uint64_t now_ns = clock_monotonic_ns(), span_ns = q->seconds * 1000 * MS;
    *ret_from_ns = query_has(q, QUERY_FROM) ? q->region.from_ms * MS : now_ns > span_ns ? now_ns - span_ns : 0;
    *ret_to_ns = query_has(q, QUERY_FROM) ? q->region.to_ms * MS : now_ns;
}

static enum MHD_Result answer_heatmap(struct call *call)
{
    const struct page_data *data = call->routes->data;
    const struct profile_filter filter = filter_of(&call->query);
    uint64_t from_ns, to_ns;
    query_time_range(&call->query, &from_ns, &to_ns);
    _cleanup_(heatmap_freep) struct heatmap *heatmap = NULL;
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    int r = data->heatmap(data->context, from_ns, to_ns, &filter, &heatmap);
    if (r == 0)
        r = heatmap_json_write(heatmap, &body);
    if (r < 0)
        return reply_region_error(call, "no heatmap", r);
    return reply_json(call, &body);
}

static int write_hotspots(struct call *call, struct buf *body)
{
    const struct page_data *data = call->routes->data;
    const struct query *q = &call->query;
    const struct profile_filter filter = filter_of(q);
    const struct hotspots_options options = {.total = q->by_total, .by_change = q->by_change, .max = q->max};
    _cleanup_(hotspots_freep) struct hotspots *hotspots = NULL;
    uint64_t from_ns, to_ns;
    query_time_range(q, &from_ns, &to_ns);
    int r = data->hotspots(data->context, from_ns, to_ns, &filter, &options, &hotspots);
    return r < 0 ? r : hotspots_json_write(hotspots, body);
}

static enum MHD_Result answer_hotspots(struct call *call)
{
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    if (!export_slot_take(call->routes))
        return reply_busy(call, "too many profiles are being written");
    int r = write_hotspots(call, &body);
    export_slot_release(call->routes);
    if (r < 0)
        return reply_region_error(call, "no hotspots", r);
    return reply_json(call, &body);
}

/* ---- comparison of two regions ---- */

static int write_diff_text(struct buf *out, const struct profile_diff *d)
{
    return diff_text_write(out, d, &(struct diff_text_options){.is_time = true, .rows = COMPARE_ROWS});
}

static const struct compare_format {
    const char *name, *suffix, *content_type;
    int (*write)(struct buf *out, const struct profile_diff *d);
} compare_formats[] = {
    {"json", ".json", "application/json", diff_json_write},
    {"html", ".html", "text/html; charset=utf-8", diff_html_write},
    {"text", ".txt", "text/plain; charset=utf-8", write_diff_text},
    {"folded", ".folded", "text/plain; charset=utf-8", diff_folded_write},
};

/* -EDOM: the profiles cannot be compared; `*ret_why_not` is the reason. */
static int write_comparison(struct call *call, const struct compare_format *format, struct buf *body,
                            const char **ret_why_not)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    int r = get_region_profile(call, &call->query.baseline, &before);
    if (r == 0)
        r = get_region_profile(call, &call->query.region, &after);
    if (r == 0)
        r = profile_diff_new(before, after, &d);
    if (r == 0 && profile_diff_why_not(d)) {
        *ret_why_not = profile_diff_why_not(d);
        return -EDOM;
    }
    return r < 0 ? r : format->write(body, d);
}

static enum MHD_Result answer_compare(struct call *call)
{
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    const struct compare_format *format = compare_formats, *end = compare_formats + array_size(compare_formats);
    const char *why_not = NULL;
    char name[128];
    while (format < end && strcmp(format->name, call->query.format) != 0)
        format++;
    if (format == end)
        return http_reply_text(call->connection, MHD_HTTP_BAD_REQUEST,
                               "format: %s is not known; there are: json, html, text, folded", call->query.format);
    if (!export_slot_take(call->routes))
        return reply_busy(call, "too many profiles are being written");
    int r = write_comparison(call, format, &body, &why_not);
    export_slot_release(call->routes);
    if (r == -EDOM)
        return http_reply_text(call->connection, MHD_HTTP_CONFLICT, "no comparison: %s", why_not);
    if (r < 0)
        return reply_region_error(call, "no comparison", r);
    format_file_name(&call->query, "comparison", format->suffix, name, sizeof(name));
    const struct http_reply reply = {
        .status = MHD_HTTP_OK,
        .content_type = format->content_type,
        .file_name = name,
        .readers = call->routes->readers,
        .attachment = format != compare_formats,
    };
    return http_reply_buf(call->connection, &reply, &body);
}

#define OF_REGION   (QUERY_BIT(QUERY_FROM) | QUERY_BIT(QUERY_TO))
#define OF_BASELINE (QUERY_BIT(QUERY_BASELINE_FROM) | QUERY_BIT(QUERY_BASELINE_TO))
#define OF_FILTER   (QUERY_BIT(QUERY_PID) | QUERY_BIT(QUERY_CONTAINER) | QUERY_BIT(QUERY_SERVICE))

static const struct route routes[] = {
    {"/", 0, 0, false, answer_page},
    {"/api/v1/profile",
     QUERY_BIT(QUERY_SECONDS) | OF_REGION | OF_FILTER | QUERY_BIT(QUERY_TIME) | QUERY_BIT(QUERY_FORMAT), 0, true,
     answer_profile},
    {"/api/v1/heatmap", QUERY_BIT(QUERY_SECONDS) | OF_REGION | OF_FILTER, 0, true, answer_heatmap},
    {"/api/v1/hotspots",
     QUERY_BIT(QUERY_SECONDS) | OF_REGION | OF_FILTER | QUERY_BIT(QUERY_MAX) | QUERY_BIT(QUERY_BY) |
         QUERY_BIT(QUERY_ORDER),
     0, true, answer_hotspots},
    {"/api/v1/compare", OF_BASELINE | OF_REGION | OF_FILTER | QUERY_BIT(QUERY_TIME) | QUERY_BIT(QUERY_FORMAT),
     OF_BASELINE | OF_REGION, true, answer_compare},
    {"/api/v1/requests", QUERY_BIT(QUERY_SECONDS) | QUERY_BIT(QUERY_MAX) | QUERY_BIT(QUERY_WHICH), 0, true,
     answer_requests},
    {"/api/v1/routes", QUERY_BIT(QUERY_SECONDS), 0, true, answer_routes},
    {"/api/v1/calls", QUERY_BIT(QUERY_SECONDS), 0, true, answer_calls},
    {"/api/v1/events", QUERY_BIT(QUERY_SECONDS) | QUERY_BIT(QUERY_MAX), 0, true, answer_events},
    {"/api/v1/status", 0, 0, false, answer_status},
    {"/metrics", 0, 0, false, answer_metrics},
    {"/healthz", 0, 0, false, answer_health},
};

struct parameter_check {
    struct query *query;
    int error;
    char why[256];
};

static enum MHD_Result check_parameter(void *context, enum MHD_ValueKind kind, const char *key, size_t key_size,
                                       const char *value, size_t value_size)
{
    struct parameter_check *check = context;
    (void)kind;
    check->error = query_set(check->query, key, key_size, value, value_size, check->why, sizeof(check->why));
    return check->error < 0 ? MHD_NO : MHD_YES;
}

static enum MHD_Result reply_not_found(struct MHD_Connection *connection)
{
    char paths[1024];
    size_t used = 0;
    for (size_t i = 0; i < array_size(routes) && used < sizeof(paths); i++)
        used += (size_t)snprintf(paths + used, sizeof(paths) - used, "%s%s", i ? ", " : "", routes[i].path);
    return http_reply_text(connection, MHD_HTTP_NOT_FOUND, "not found; there are %s", paths);
}

enum MHD_Result routes_answer(struct routes *r, struct MHD_Connection *connection, const char *path)
{
    struct call call = {.routes = r, .connection = connection};
    struct parameter_check check = {.query = &call.query};
    for (size_t i = 0; i < array_size(routes); i++) {
        if (strcmp(routes[i].path, path) != 0)
            continue;
        query_init(&call.query, routes[i].parameters);
        MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, check_parameter, &check);
        if (check.error == 0)
            check.error = query_check(&call.query, routes[i].needed, check.why, sizeof(check.why));
        if (check.error < 0)
            return http_reply_text(connection, MHD_HTTP_BAD_REQUEST, "%s", check.why);
        if (routes[i].is_large && !readers_may_answer(r->readers, http_reader(connection)))
            return reply_busy(&call, TOO_MANY_ANSWERS);
        return routes[i].answer(&call);
    }
    return reply_not_found(connection);
}
