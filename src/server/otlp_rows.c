/* The walk through a request; see otlp_rows.h. */
#include "server/otlp_rows.h"

#include "server/otlp_attributes.h"
#include "server/otlp_fields.h"
#include "server/row_binary.h"

#include <errno.h>
#include <string.h>

/* The same numbers in trace.proto, logs.proto, metrics.proto and profiles.proto. */
enum { REQUEST_RESOURCES = TRACES_RESOURCE_SPANS };
enum { RESOURCE_ITEMS_RESOURCE = RESOURCE_SPANS_RESOURCE, RESOURCE_ITEMS_SCOPES = RESOURCE_SPANS_SCOPE_SPANS };
enum { SCOPE_ITEMS_SCOPE = SCOPE_SPANS_SCOPE, SCOPE_ITEMS_ITEMS = SCOPE_SPANS_SPANS };
enum { ITEMS_SCHEMA_URL = 3 };

static const struct otlp_signal *const signals[] = {&otlp_traces, &otlp_logs, &otlp_metrics, &otlp_profiles};

const struct otlp_signal *otlp_signal_of_path(const char *path)
{
    for (size_t i = 0; i < array_size(signals); i++)
        if (strcmp(path, signals[i]->path) == 0)
            return signals[i];
    return NULL;
}

const struct otlp_signal *otlp_signal_of_method(const char *method)
{
    for (size_t i = 0; i < array_size(signals); i++)
        if (strcmp(method, signals[i]->method) == 0)
            return signals[i];
    return NULL;
}

void otlp_rows_clear(struct otlp_rows *rows)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        buf_clear(&rows->tables[i]);
    buf_clear(&rows->stored);
}

int otlp_rows_check(const struct otlp_rows *rows)
{
    uint64_t bytes = 0, count = 0;
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (buf_error(&rows->tables[i]) < 0)
            return buf_error(&rows->tables[i]);
        bytes += rows->tables[i].size;
        count += rows->counts[i];
    }
    return bytes > OTLP_ROWS_MAX_BYTES || count > OTLP_ROWS_MAX || rows->elements > OTLP_ELEMENTS_MAX ? -EFBIG : 0;
}

void otlp_reject(struct otlp_rows *rows, const char *why)
{
    if (!rows->rejected++)
        snprintf(rows->why, sizeof(rows->why), "%s", why);
}

bool otlp_accepts_time(struct otlp_rows *rows, uint64_t time_ns)
{
    if (time_ns >= rows->from_ns && time_ns < rows->to_ns)
        return true;
    otlp_reject(rows, time_ns < rows->from_ns ? "its time is longer ago than this server keeps data (--keep)"
                                              : "its time is in the future");
    return false;
}

bool otlp_id_is_valid(struct cursor id, size_t size)
{
    bool is_zero = true;
    for (size_t i = 0; i < id.size; i++)
        is_zero &= id.data[i] == 0;
    return id.size == size && !is_zero;
}

static int read_resource(struct cursor c, struct otlp_resource *ret)
{
    row_put_text(&ret->service, otlp_find_text(c, RESOURCE_ATTRIBUTES, "service.name"));
    row_put_text(&ret->host, otlp_find_text(c, RESOURCE_ATTRIBUTES, "host.name"));
    return otlp_put_attributes(&ret->attributes, c, RESOURCE_ATTRIBUTES, &ret->elements)
               ?: buf_error(&ret->service)
               ?: buf_error(&ret->host);
}

static int read_scope(struct cursor c, struct otlp_scope *ret)
{
    const int r = otlp_put_attributes(&ret->attributes, c, SCOPE_ATTRIBUTES, &ret->elements);
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == SCOPE_NAME)
            ret->name = otlp_inside(&c, &f);
        else if (f.number == SCOPE_VERSION)
            ret->version = otlp_inside(&c, &f);
        else if (f.number == SCOPE_DROPPED_ATTRIBUTES)
            ret->dropped_attributes = otlp_number(&c, &f, PROTOBUF_VARINT);
    }
    return c.failed ? -EBADMSG : r;
}

/* Finds the message that describes all items of `c`, and the URL of its schema. */
static int find_common(struct cursor c, uint32_t number, struct cursor *ret, struct cursor *ret_schema_url)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == number)
            *ret = otlp_inside(&c, &f);
        else if (f.number == ITEMS_SCHEMA_URL)
            *ret_schema_url = otlp_inside(&c, &f);
    }
    return c.failed ? -EBADMSG : 0;
}

static int walk_items(struct cursor c, const struct otlp_resource *resource, const struct otlp_scope *scope,
                      struct otlp_rows *rows, otlp_decode_item *decode)
{
    struct protobuf_field f;
    for (int r; protobuf_next_field(&c, &f);) {
        if (f.number != SCOPE_ITEMS_ITEMS)
            continue;
        r = decode(otlp_inside(&c, &f), resource, scope, rows) ?: otlp_rows_check(rows);
        if (r < 0)
            return r;
    }
    return c.failed ? -EBADMSG : 0;
}

static int walk_scope(struct cursor c, const struct otlp_resource *resource, struct otlp_rows *rows,
                      otlp_decode_item *decode)
{
    struct otlp_scope scope = {.attributes.max_bytes = OTLP_ROWS_MAX_BYTES};
    struct cursor about = {0};
    int r = find_common(c, SCOPE_ITEMS_SCOPE, &about, &scope.schema_url);
    r = r < 0 ? r : read_scope(about, &scope) ?: buf_error(&scope.attributes);
    r = r < 0 ? r : walk_items(c, resource, &scope, rows, decode);
    buf_clear(&scope.attributes);
    return r;
}

static int walk_scopes(struct cursor c, const struct otlp_resource *resource, struct otlp_rows *rows,
                       otlp_decode_item *decode)
{
    struct protobuf_field f;
    int r = 0;
    while (r == 0 && protobuf_next_field(&c, &f))
        if (f.number == RESOURCE_ITEMS_SCOPES)
            r = walk_scope(otlp_inside(&c, &f), resource, rows, decode);
    return r == 0 && c.failed ? -EBADMSG : r;
}

static int walk_resource(struct cursor c, struct otlp_rows *rows, otlp_decode_item *decode)
{
    struct otlp_resource resource = {.attributes.max_bytes = OTLP_ROWS_MAX_BYTES};
    struct cursor about = {0};
    int r = find_common(c, RESOURCE_ITEMS_RESOURCE, &about, &resource.schema_url);
    r = r < 0 ? r : read_resource(about, &resource) ?: buf_error(&resource.attributes);
    r = r < 0 ? r : walk_scopes(c, &resource, rows, decode);
    buf_clear(&resource.attributes);
    buf_clear(&resource.service);
    buf_clear(&resource.host);
    return r;
}

int otlp_walk(struct cursor request, struct otlp_rows *rows, otlp_decode_item *decode)
{
    struct protobuf_field f;
    int r = 0;
    for (size_t i = 0; i < TABLE_COUNT; i++)
        rows->tables[i].max_bytes = OTLP_ROWS_MAX_BYTES;
    while (r == 0 && protobuf_next_field(&request, &f))
        if (f.number == REQUEST_RESOURCES)
            r = walk_resource(otlp_inside(&request, &f), rows, decode);
    return r == 0 && request.failed ? -EBADMSG : r;
}
