/* The handler of the JSON API; see api_http.h. */
#include "server/api_http.h"

#include "base/clock.h"
#include "base/rfc3339.h"
#include "base/starts_with.h"
#include "server/api_document.h"
#include "server/api_empty.h"
#include "server/api_parameters.h"
#include "server/sql.h"

#include <errno.h>
#include <string.h>

#define ROWS_FORMAT "JSONEachRow" /* an object a line */

struct call {
    const struct api *api;
    const struct listener_request *request;
    struct api_values values;
    uint64_t now_ns;
    char why[API_WHY_BYTES]; /* "": the parameters are accepted */
    uint64_t rows;
    bool is_truncated;
    struct buf failure; /* what the engine said of a query that failed */
};

/* ---- parameters ---- */

static enum MHD_Result read_parameter(void *call, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                      const char *value, size_t value_size)
{
    struct call *c = call;
    (void)kind;
    return api_values_set(&c->values, name, name_size, value, value_size, c->why) == 0 ? MHD_YES : MHD_NO;
}

static int read_parameters(struct call *c, const struct api_endpoint *endpoint, const char *id)
{
    api_values_init(&c->values, endpoint);
    if (id) {
        const char *name = endpoint->parameters[0].name;
        if (api_values_set(&c->values, name, strlen(name), id, strlen(id), c->why) < 0)
            return -EINVAL;
    }
    MHD_get_connection_values_n(c->request->connection, MHD_GET_ARGUMENT_KIND, read_parameter, c);
    return c->why[0] ? -EINVAL : api_values_complete(&c->values, c->now_ns, c->why);
}

/* ---- lists ---- */

/* The columns of the answer, of a query that has at least these. */
static void put_select(const struct api_values *v, const struct api_result *result, struct buf *sql)
{
    buf_puts(sql, "SELECT ");
    for (const struct api_column *c = result->columns; c->name; c++) {
        const char *separator = c == result->columns ? "" : ", ";
        if (c->type == API_MOMENT)
            buf_printf(sql, "%sconcat(replaceOne(toString(toTimeZone(%s, 'UTC')), ' ', 'T'), 'Z') AS %s", separator,
                       c->name, c->name);
        else
            buf_printf(sql, "%s%s", separator, c->name);
    }
    buf_puts(sql, " FROM (");
    api_values_put_sql(v, result->sql, sql);
    buf_putc(sql, ')');
}

/* Makes the lines from `begin` on, one object each, elements of a list, and drops those after `max`. */
static void join_rows(struct call *c, struct buf *body, size_t begin, uint64_t max)
{
    uint64_t rows = 0;
    size_t end = begin;
    for (char *at = body->data + begin, *line; rows < max && (line = memchr(at, '\n', body->size - end));
         at = line + 1) {
        *line = ',';
        end = (size_t)(line + 1 - body->data);
        rows++;
    }
    c->is_truncated |= end < body->size;
    c->rows += rows;
    body->size = rows ? end - 1 : begin; /* without the last comma */
}

static int put_rows(struct call *c, const struct api_result *result, struct buf *body)
{
    const struct api_value *limit = api_values_find(&c->values, "limit");
    _cleanup_buf_ struct buf sql = {0};
    put_select(&c->values, result, &sql);
    buf_printf(body, "\"%s\":[", result->name);
    const size_t begin = body->size;
    int r = buf_error(&sql) ?: buf_error(body);
    r = r < 0 ? r : engine_query(c->api->engine, sql.data, sql.size, ROWS_FORMAT, body);
    if (r < 0) {
        buf_append(&c->failure, body->data + begin, body->size - begin);
        return r;
    }
    join_rows(c, body, begin, limit ? limit->number : UINT64_MAX);
    return buf_puts(body, "],");
}

/* ---- an empty answer ---- */

static int explain_side(struct call *c, bool is_baseline, struct buf *why)
{
    _cleanup_buf_ struct buf sql = {0}, out = {0};
    struct api_subjects subjects;
    api_subjects_put_sql(&c->values, is_baseline, &sql);
    int r = buf_error(&sql) ?: engine_query(c->api->engine, sql.data, sql.size, "TSV", &out);
    if (r < 0) {
        buf_append(&c->failure, out.data, out.size);
        return r;
    }
    r = api_subjects_read(out.data ? out.data : "", &subjects);
    if (r < 0)
        return r;
    api_subjects_explain(&c->values, is_baseline, &subjects, c->now_ns, c->api->keep_days, why);
    return buf_error(why);
}

static int explain_empty(struct call *c, struct buf *why)
{
    if (!c->values.endpoint->subjects_sql)
        return buf_puts(why, c->values.endpoint->subject);
    int r = explain_side(c, false, why);
    if (r == 0 && api_values_find(&c->values, "baseline_from")) {
        buf_puts(why, "; ");
        r = explain_side(c, true, why);
    }
    return r;
}

/* ---- replies ---- */

static enum MHD_Result reply_json(const struct listener_request *request, struct buf *body)
{
    const struct http_reply reply = {.status = MHD_HTTP_OK, .content_type = "application/json"};
    return http_reply_buf(request->connection, &reply, body);
}

/* Whether the engine refuses to go on with a query, and not the query itself. */
static bool is_limit(int error, const char *said)
{
    /* TIMEOUT_EXCEEDED, MEMORY_LIMIT_EXCEEDED, TOO_MANY_ROWS_OR_BYTES */
    static const char *const limits[] = {"Code: 159.", "Code: 241.", "Code: 396."};
    for (size_t i = 0; error == -EPROTO && i < array_size(limits); i++)
        if (starts_with(said, limits[i]))
            return true;
    return error == -E2BIG;
}

static enum MHD_Result reply_failure(struct call *c, int error)
{
    buf_putc(&c->failure, '\0');
    const char *said = buf_error(&c->failure) == 0 ? c->failure.data : "";
    if (is_limit(error, said))
        return http_reply_text(c->request->connection, MHD_HTTP_BAD_REQUEST,
                               "the answer is too large, or takes too much time or memory: choose a shorter time, one "
                               "service, or a lower limit");
    if (error == -EPROTO)
        return http_reply_text(c->request->connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "the query failed: %s", said);
    return sql_reply_failure(c->request, error, &c->failure);
}

static enum MHD_Result reply_unknown(const struct listener_request *request)
{
    _cleanup_buf_ struct buf known = {0};
    for (size_t i = 0; i < api_endpoints_count(); i++)
        buf_printf(&known, ", " API_PATH "%s", api_endpoint(i)->path);
    return http_reply_text(request->connection, MHD_HTTP_NOT_FOUND, "the API has " API_DOCUMENT_PATH "%s",
                           buf_error(&known) == 0 ? known.data : "");
}

static void put_moment(const struct call *c, const char *name, struct buf *body)
{
    char text[RFC3339_BYTES];
    const struct api_value *value = api_values_find(&c->values, name);
    if (value)
        buf_printf(body, "\"%s\":\"%s\",", name, rfc3339_format_ns(value->number, text));
}

static int put_answer(struct call *c, struct buf *body, struct buf *why)
{
    const struct api_endpoint *endpoint = c->values.endpoint;
    int r = 0;
    buf_printf(body, "{\"version\":%d,", API_VERSION);
    put_moment(c, "from", body);
    put_moment(c, "to", body);
    put_moment(c, "baseline_from", body);
    put_moment(c, "baseline_to", body);
    for (size_t i = 0; r == 0 && i < API_RESULTS_MAX && endpoint->results[i].name; i++)
        r = put_rows(c, &endpoint->results[i], body);
    if (r < 0)
        return r;
    if (!c->rows) {
        r = explain_empty(c, why);
        if (r < 0)
            return r;
        buf_puts(body, "\"empty\":");
        buf_put_json_string(body, why->data);
        buf_putc(body, ',');
    }
    return buf_printf(body, "\"truncated\":%s}\n", c->is_truncated ? "true" : "false");
}

static enum MHD_Result answer_endpoint(struct call *c)
{
    _cleanup_buf_ struct buf body = {0}, why = {0};
    const int r = put_answer(c, &body, &why);
    enum MHD_Result result;
    if (r < 0)
        result = reply_failure(c, r);
    else if (!c->rows && strchr(c->values.endpoint->path, '{'))
        result = http_reply_text(c->request->connection, MHD_HTTP_NOT_FOUND, "%s", why.data);
    else
        result = reply_json(c->request, &body);
    buf_clear(&c->failure);
    return result;
}

static enum MHD_Result answer_document(const struct listener_request *request)
{
    _cleanup_buf_ struct buf body = {0};
    return api_document_put(&body) < 0 ? MHD_NO : reply_json(request, &body);
}

bool api_has(const char *path)
{
    return starts_with(path, API_PATH);
}

enum MHD_Result api_answer(const struct api *api, const struct listener_request *request)
{
    const char *id;
    const struct api_endpoint *endpoint = api_endpoint_find(request->path, &id);
    const bool is_document = strcmp(request->path, API_DOCUMENT_PATH) == 0;
    if (!endpoint && !is_document)
        return reply_unknown(request);
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
        return http_reply_not_allowed(request->connection, "GET, HEAD");
    if (is_document)
        return answer_document(request);
    struct call call = {.api = api, .request = request, .now_ns = clock_unix_ns()};
    if (read_parameters(&call, endpoint, id) < 0)
        return http_reply_text(request->connection, MHD_HTTP_BAD_REQUEST, "%s", call.why);
    return answer_endpoint(&call);
}
