/* Log records as rows of otel_logs; see otlp_rows.h. */
#include "server/otlp_attributes.h"
#include "server/otlp_fields.h"
#include "server/otlp_json.h"
#include "server/otlp_rows.h"
#include "server/row_binary.h"

#include <errno.h>

struct record {
    struct cursor severity_text, body, trace_id, span_id, event_name;
    uint64_t time_ns, observed_ns, severity, flags;
};

static int read_record(struct cursor c, struct record *ret)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f))
        switch (f.number) {
        case LOG_TIME:
            ret->time_ns = otlp_number(&c, &f, PROTOBUF_FIXED64);
            break;
        case LOG_OBSERVED_TIME:
            ret->observed_ns = otlp_number(&c, &f, PROTOBUF_FIXED64);
            break;
        case LOG_SEVERITY_NUMBER:
            ret->severity = otlp_number(&c, &f, PROTOBUF_VARINT);
            break;
        case LOG_SEVERITY_TEXT:
            ret->severity_text = otlp_inside(&c, &f);
            break;
        case LOG_BODY:
            ret->body = otlp_inside(&c, &f);
            break;
        case LOG_FLAGS:
            ret->flags = otlp_number(&c, &f, PROTOBUF_FIXED32);
            break;
        case LOG_TRACE_ID:
            ret->trace_id = otlp_inside(&c, &f);
            break;
        case LOG_SPAN_ID:
            ret->span_id = otlp_inside(&c, &f);
            break;
        case LOG_EVENT_NAME:
            ret->event_name = otlp_inside(&c, &f);
            break;
        }
    return c.failed ? -EBADMSG : 0;
}

static void put_id(struct buf *row, struct cursor id, size_t size)
{
    row_put_hex(row, otlp_id_is_valid(id, size) ? id : (struct cursor){0});
}

static int decode_record(struct cursor item, const struct otlp_resource *resource, const struct otlp_scope *scope,
                         struct otlp_rows *rows)
{
    struct record record = {0};
    struct buf *row = &rows->tables[TABLE_LOGS];
    int r = read_record(item, &record);
    const uint64_t time_ns = record.time_ns ? record.time_ns : record.observed_ns;
    if (r < 0 || !otlp_accepts_time(rows, time_ns))
        return r;
    rows->counts[TABLE_LOGS]++;
    row_put_u64(row, time_ns);
    put_id(row, record.trace_id, 16);
    put_id(row, record.span_id, 8);
    row_put_u8(row, (uint8_t)record.flags);
    row_put_text(row, record.severity_text);
    row_put_u8(row, (uint8_t)record.severity);
    buf_append(row, resource->service.data, resource->service.size);
    r = otlp_put_value(row, record.body);
    row_put_text(row, resource->schema_url);
    buf_append(row, resource->attributes.data, resource->attributes.size);
    row_put_text(row, scope->schema_url);
    row_put_text(row, scope->name);
    row_put_text(row, scope->version);
    buf_append(row, scope->attributes.data, scope->attributes.size);
    r = r < 0 ? r : otlp_put_attributes(row, item, LOG_ATTRIBUTES, &rows->elements);
    rows->elements += resource->elements + scope->elements;
    row_put_text(row, record.event_name);
    return r;
}

static int decode_logs(struct cursor request, struct otlp_rows *rows)
{
    return otlp_walk(request, rows, decode_record);
}

const struct otlp_signal otlp_logs = {
    .path = "/v1/logs",
    .method = "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    .rejected = "rejectedLogRecords",
    .json = otlp_json_logs,
    .decode = decode_logs,
};
