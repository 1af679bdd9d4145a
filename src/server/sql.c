/* SQL over HTTP; see sql.h. */
#include "server/sql.h"

#include "base/log.h"
#include "server/native_hello.h"
#include "server/sql_text.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_FORMAT "TabSeparated"
#define WHY_BYTES      256

/* ---- parameters ---- */

/* The parameters of clients that change nothing here: max_execution_time is what clickhouse-go makes of its own
 * deadline, after which it closes the connection. Others would change the result, and are refused as the engine refuses
 * settings of a reader. */
static bool is_ignored(const char *name)
{
    static const char *const names[] = {"user",
                                        "password",
                                        "query_id",
                                        "max_execution_time",
                                        "compress",
                                        "wait_end_of_query",
                                        "session_timeout",
                                        "send_progress_in_http_headers",
                                        "quota_key",
                                        "enable_http_compression"};
    for (size_t i = 0; i < array_size(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

struct parameters {
    const char *query, *format, *database;
    uint64_t revision;   /* of the Native format that the client reads; 0: the engine's */
    char why[WHY_BYTES]; /* "": they are accepted */
};

static enum MHD_Result read_parameter(void *parameters, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct parameters *p = parameters;
    (void)kind;
    if (strcmp(name, "query") == 0)
        p->query = value;
    else if (strcmp(name, "default_format") == 0)
        p->format = value;
    else if (strcmp(name, "database") == 0)
        p->database = value;
    else if (strcmp(name, "client_protocol_version") == 0)
        p->revision = strtoull(value ? value : "", NULL, 10);
    else if (!is_ignored(name) && !p->why[0])
        snprintf(p->why, sizeof(p->why), "the parameter '%.64s' is not accepted: readers cannot change settings", name);
    return MHD_YES;
}

static void read_parameters(const struct listener_request *request, struct parameters *ret)
{
    *ret = (struct parameters){0};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, read_parameter, ret);
    if (!ret->format || !*ret->format)
        ret->format = http_header(request->connection, "X-ClickHouse-Format");
    if (!ret->format || !*ret->format)
        ret->format = DEFAULT_FORMAT;
    if (!ret->database)
        ret->database = http_header(request->connection, "X-ClickHouse-Database");
    if (ret->why[0])
        return;
    if (!sql_name_is_plain(ret->format))
        snprintf(ret->why, sizeof(ret->why), "default_format is not the name of a format");
    else if (ret->database && strcmp(ret->database, TABLES_DATABASE) != 0 && strcmp(ret->database, "default") != 0)
        snprintf(ret->why, sizeof(ret->why), "the database is " TABLES_DATABASE);
}

/* ---- replies ---- */

static const char *content_type_of(const char *format)
{
    static const struct {
        const char *beginning, *type;
    } types[] = {
        {"JSONEachRow", "application/x-ndjson; charset=UTF-8"},
        {"JSON", "application/json; charset=UTF-8"},
        {"CSV", "text/csv; charset=UTF-8"},
        {"TabSeparated", "text/tab-separated-values; charset=UTF-8"},
        {"TSV", "text/tab-separated-values; charset=UTF-8"},
        {"Pretty", "text/plain; charset=UTF-8"},
        {"Vertical", "text/plain; charset=UTF-8"},
    };
    for (size_t i = 0; i < array_size(types); i++)
        if (strncasecmp(format, types[i].beginning, strlen(types[i].beginning)) == 0)
            return types[i].type;
    return "application/octet-stream";
}

static enum MHD_Result reply_result(const struct listener_request *request, const char *format, struct buf *result)
{
    const struct http_reply reply = {.status = MHD_HTTP_OK, .content_type = content_type_of(format)};
    return http_reply_buf(request->connection, &reply, result);
}

enum MHD_Result sql_reply_failure(const struct listener_request *request, int error, struct buf *out)
{
    const struct http_reply refused = {.status = MHD_HTTP_BAD_REQUEST, .content_type = "text/plain; charset=UTF-8"};
    switch (error) {
    case -EPROTO:
        buf_putc(out, '\n');
        return http_reply_buf(request->connection, &refused, out);
    case -E2BIG:
        return http_reply_text(request->connection, MHD_HTTP_BAD_REQUEST,
                               "the query or its result is too large: use LIMIT or group rows");
    case -EBUSY:
        return http_reply_text(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many queries at once");
    case -ETIMEDOUT:
        return http_reply_text(request->connection, MHD_HTTP_GATEWAY_TIMEOUT, "the query took too long");
    default:
        return http_reply_text(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                               "the engine is not running: it is being started again");
    }
}

static int build_query(const struct listener_request *request, const struct parameters *parameters, struct buf *sql)
{
    sql->max_bytes = SQL_BODY_MAX_BYTES;
    buf_puts(sql, parameters->query ? parameters->query : "");
    if (parameters->query && request->body->size)
        buf_putc(sql, '\n');
    if (request->body->size)
        buf_append(sql, request->body->data, request->body->size);
    return buf_error(sql) < 0 ? -E2BIG : 0;
}

static int query_engine(struct engine *engine, const struct parameters *parameters, const struct buf *sql,
                        struct buf *out)
{
    _cleanup_buf_ struct buf version = {0};
    static const char ask_version[] = "SELECT version() FORMAT TSVRaw";
    if (!parameters->revision || !native_hello_is(sql->data, sql->size))
        return engine_query(engine, sql->data, sql->size, parameters->format, out);
    const int r = engine_query(engine, ask_version, strlen(ask_version), DEFAULT_FORMAT, &version);
    buf_putc(&version, '\0');
    if (r < 0 || buf_error(&version) < 0)
        return r < 0 ? r : buf_error(&version);
    version.data[strcspn(version.data, "\n")] = '\0';
    native_hello_put(out, parameters->revision, version.data);
    return buf_error(out);
}

enum MHD_Result sql_answer(void *engine, const struct listener_request *request)
{
    _cleanup_buf_ struct buf sql = {0}, out = {0};
    struct parameters parameters;
    struct sql_text text;
    const char *why;
    if (strcmp(request->path, "/ping") == 0)
        return http_reply_static(request->connection,
                                 &(struct http_reply){.status = MHD_HTTP_OK, .content_type = "text/plain"}, "Ok.\n", 4);
    if (strcmp(request->path, "/") != 0)
        return http_reply_text(request->connection, MHD_HTTP_NOT_FOUND,
                               "this address has /?query=, /api/v1/openapi.json, /captures, /metrics and /ping");
    read_parameters(request, &parameters);
    if (parameters.why[0])
        return http_reply_text(request->connection, MHD_HTTP_BAD_REQUEST, "%s", parameters.why);
    int r = build_query(request, &parameters, &sql);
    if (r == 0 && sql_text_check(sql.data ? sql.data : "", sql.size, &text, &why) < 0)
        return http_reply_text(request->connection, MHD_HTTP_BAD_REQUEST, "%s", why);
    r = r < 0 ? r : query_engine(engine, &parameters, &sql, &out);
    return r < 0 ? sql_reply_failure(request, r, &out)
                 : reply_result(request, text.format[0] ? text.format : parameters.format, &out);
}
