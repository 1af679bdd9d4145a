/* Points of metrics as rows of otel_metrics_*; see otlp_rows.h. What the kinds of points have in different fields is in
 * tables. */
#include "server/otlp_attributes.h"
#include "server/otlp_fields.h"
#include "server/otlp_json.h"
#include "server/otlp_rows.h"
#include "server/row_binary.h"

#include <errno.h>
#include <string.h>

enum value_kind {
    VALUE_NUMBER,        /* as_double or as_int of a number point or an exemplar: a Float64 */
    VALUE_FIXED64,       /* a UInt64 or a Float64 */
    VALUE_FIXED64S,      /* an array of those */
    VALUE_SINT32,        /* an Int32 */
    VALUE_BUCKET_OFFSET, /* of the message Buckets: an Int32 */
    VALUE_BUCKET_COUNTS, /* of the message Buckets: an array of UInt64 */
    VALUE_QUANTILES,     /* the field 1 or 2 of repeated messages: an array of Float64 */
};

struct value {
    enum value_kind kind;
    uint32_t number; /* of the field; 0: the end of a list */
    uint32_t inner;
};

static const struct value number_values[] = {{VALUE_NUMBER, NUMBER_POINT_AS_DOUBLE, NUMBER_POINT_AS_INT}, {0}};
static const struct value histogram_values[] = {{VALUE_FIXED64, HISTOGRAM_POINT_COUNT},
                                                {VALUE_FIXED64, HISTOGRAM_POINT_SUM},
                                                {VALUE_FIXED64, HISTOGRAM_POINT_MIN},
                                                {VALUE_FIXED64, HISTOGRAM_POINT_MAX},
                                                {VALUE_FIXED64S, HISTOGRAM_POINT_BUCKETS},
                                                {VALUE_FIXED64S, HISTOGRAM_POINT_BOUNDS},
                                                {0}};
static const struct value exponential_values[] = {{VALUE_FIXED64, EXPONENTIAL_POINT_COUNT},
                                                  {VALUE_FIXED64, EXPONENTIAL_POINT_SUM},
                                                  {VALUE_FIXED64, EXPONENTIAL_POINT_MIN},
                                                  {VALUE_FIXED64, EXPONENTIAL_POINT_MAX},
                                                  {VALUE_SINT32, EXPONENTIAL_POINT_SCALE},
                                                  {VALUE_FIXED64, EXPONENTIAL_POINT_ZERO_COUNT},
                                                  {VALUE_BUCKET_OFFSET, EXPONENTIAL_POINT_POSITIVE},
                                                  {VALUE_BUCKET_COUNTS, EXPONENTIAL_POINT_POSITIVE},
                                                  {VALUE_BUCKET_OFFSET, EXPONENTIAL_POINT_NEGATIVE},
                                                  {VALUE_BUCKET_COUNTS, EXPONENTIAL_POINT_NEGATIVE},
                                                  {0}};
static const struct value summary_values[] = {{VALUE_FIXED64, SUMMARY_POINT_COUNT},
                                              {VALUE_FIXED64, SUMMARY_POINT_SUM},
                                              {VALUE_QUANTILES, SUMMARY_POINT_QUANTILES, SUMMARY_QUANTILE},
                                              {VALUE_QUANTILES, SUMMARY_POINT_QUANTILES, SUMMARY_VALUE},
                                              {0}};

static const struct point_kind {
    uint32_t data; /* its field in Metric */
    enum table table;
    uint32_t attributes, flags, exemplars; /* fields of a point; 0: none */
    const struct value *values;
    bool has_temporality, has_monotonic;
} kinds[] = {
    {METRIC_DATA_GAUGE, TABLE_GAUGES, NUMBER_POINT_ATTRIBUTES, NUMBER_POINT_FLAGS, NUMBER_POINT_EXEMPLARS,
     number_values, false, false},
    {METRIC_DATA_SUM, TABLE_SUMS, NUMBER_POINT_ATTRIBUTES, NUMBER_POINT_FLAGS, NUMBER_POINT_EXEMPLARS, number_values,
     true, true},
    {METRIC_DATA_HISTOGRAM, TABLE_HISTOGRAMS, HISTOGRAM_POINT_ATTRIBUTES, HISTOGRAM_POINT_FLAGS,
     HISTOGRAM_POINT_EXEMPLARS, histogram_values, true, false},
    {METRIC_DATA_EXPONENTIAL, TABLE_EXPONENTIALS, EXPONENTIAL_POINT_ATTRIBUTES, EXPONENTIAL_POINT_FLAGS,
     EXPONENTIAL_POINT_EXEMPLARS, exponential_values, true, false},
    {METRIC_DATA_SUMMARY, TABLE_SUMMARIES, SUMMARY_POINT_ATTRIBUTES, SUMMARY_POINT_FLAGS, 0, summary_values, false,
     false},
};

/* ---- values ---- */

/* Finds the last field `number` of a message: its value, or its contents; zeros if the message lacks it. */
static int find_field(struct cursor message, uint32_t number, enum protobuf_wire wire, struct protobuf_field *ret)
{
    struct protobuf_field f;
    *ret = (struct protobuf_field){0};
    while (protobuf_next_field(&message, &f))
        if (f.number == number && f.wire == wire)
            *ret = f;
        else if (f.number == number)
            return -EBADMSG;
    return message.failed ? -EBADMSG : 0;
}

static int put_number(struct buf *row, struct cursor message, uint32_t as_double, uint32_t as_int)
{
    struct protobuf_field f;
    uint64_t bits = 0;
    while (protobuf_next_field(&message, &f))
        if (f.number == as_double) {
            bits = otlp_number(&message, &f, PROTOBUF_FIXED64);
        } else if (f.number == as_int) {
            const double value = (double)(int64_t)otlp_number(&message, &f, PROTOBUF_FIXED64);
            memcpy(&bits, &value, sizeof(bits));
        }
    row_put_u64(row, bits);
    return message.failed ? -EBADMSG : 0;
}

/* Numbers of a repeated field, packed or not, as an array of 64 bits each. */
static int put_numbers(struct buf *row, struct cursor message, uint32_t number, enum protobuf_wire wire)
{
    _cleanup_buf_ struct buf values = {.max_bytes = row->max_bytes};
    struct otlp_numbers numbers = otlp_numbers_of(message, number, wire);
    for (uint64_t value; otlp_next_number(&numbers, &value);)
        row_put_u64(&values, value);
    row_put_count(row, values.size / sizeof(uint64_t));
    buf_append(row, values.data, values.size);
    return numbers.message.failed ? -EBADMSG : buf_error(&values);
}

static int put_sint32(struct buf *row, struct cursor message, uint32_t number)
{
    struct protobuf_field f;
    const int r = find_field(message, number, PROTOBUF_VARINT, &f);
    row_put_u32(row, (uint32_t)(f.value >> 1) ^ -(uint32_t)(f.value & 1)); /* zigzag */
    return r;
}

static int put_quantiles(struct buf *row, struct cursor point, uint32_t number, uint32_t inner)
{
    struct protobuf_field f, g;
    int r = 0;
    row_put_count(row, otlp_count(point, number));
    while (r == 0 && protobuf_next_field(&point, &f)) {
        if (f.number != number)
            continue;
        r = find_field(otlp_inside(&point, &f), inner, PROTOBUF_FIXED64, &g);
        row_put_u64(row, g.value);
    }
    return r == 0 && point.failed ? -EBADMSG : r;
}

static int put_value(struct buf *row, struct cursor point, const struct value *value)
{
    struct protobuf_field f;
    int r;
    switch (value->kind) {
    case VALUE_NUMBER:
        return put_number(row, point, value->number, value->inner);
    case VALUE_FIXED64:
        r = find_field(point, value->number, PROTOBUF_FIXED64, &f);
        row_put_u64(row, f.value);
        return r;
    case VALUE_FIXED64S:
        return put_numbers(row, point, value->number, PROTOBUF_FIXED64);
    case VALUE_SINT32:
        return put_sint32(row, point, value->number);
    case VALUE_BUCKET_OFFSET:
        return find_field(point, value->number, PROTOBUF_BYTES, &f) ?: put_sint32(row, f.inside, BUCKETS_OFFSET);
    case VALUE_BUCKET_COUNTS:
        return find_field(point, value->number, PROTOBUF_BYTES, &f)
                   ?: put_numbers(row, f.inside, BUCKETS_COUNTS, PROTOBUF_VARINT);
    case VALUE_QUANTILES:
        return put_quantiles(row, point, value->number, value->inner);
    }
    return -EINVAL;
}

/* ---- exemplars: one array for each of their columns ---- */

typedef int put_exemplar_column(struct buf *row, struct cursor exemplar);

static int put_exemplar_time(struct buf *row, struct cursor exemplar)
{
    struct protobuf_field f;
    const int r = find_field(exemplar, EXEMPLAR_TIME, PROTOBUF_FIXED64, &f);
    row_put_u64(row, f.value <= INT64_MAX ? f.value : 0);
    return r;
}

static int put_exemplar_value(struct buf *row, struct cursor exemplar)
{
    return put_number(row, exemplar, EXEMPLAR_AS_DOUBLE, EXEMPLAR_AS_INT);
}

static int put_exemplar_span(struct buf *row, struct cursor exemplar)
{
    struct protobuf_field f;
    const int r = find_field(exemplar, EXEMPLAR_SPAN_ID, PROTOBUF_BYTES, &f);
    row_put_hex(row, f.inside);
    return r;
}

static int put_exemplar_trace(struct buf *row, struct cursor exemplar)
{
    struct protobuf_field f;
    const int r = find_field(exemplar, EXEMPLAR_TRACE_ID, PROTOBUF_BYTES, &f);
    row_put_hex(row, f.inside);
    return r;
}

static int put_exemplars(struct buf *row, struct cursor point, uint32_t number, uint64_t *elements)
{
    static put_exemplar_column *const columns[] = {put_exemplar_time, put_exemplar_value, put_exemplar_span,
                                                   put_exemplar_trace};
    const uint64_t count = otlp_count(point, number);
    struct protobuf_field f;
    int r = otlp_put_maps(row, point, number, EXEMPLAR_ATTRIBUTES, elements);
    for (size_t i = 0; i < array_size(columns); i++) {
        struct cursor c = point;
        row_put_count(row, count);
        while (count && r == 0 && protobuf_next_field(&c, &f))
            if (f.number == number)
                r = columns[i](row, otlp_inside(&c, &f));
        r = r == 0 && c.failed ? -EBADMSG : r;
    }
    return r;
}

/* ---- rows ---- */

/* Of a metric, for all of its rows. */
struct metric {
    struct cursor item;
    const struct otlp_resource *resource;
    const struct otlp_scope *scope;
    struct buf beginning; /* of a row: resource, scope, names. Empty until there is a row */
    uint64_t temporality, is_monotonic;
};

static int put_beginning(struct metric *metric)
{
    struct buf *row = &metric->beginning;
    const struct otlp_resource *resource = metric->resource;
    const struct otlp_scope *scope = metric->scope;
    struct protobuf_field name, description, unit;
    const int r = find_field(metric->item, METRIC_NAME, PROTOBUF_BYTES, &name)
                      ?: find_field(metric->item, METRIC_DESCRIPTION, PROTOBUF_BYTES, &description)
                      ?: find_field(metric->item, METRIC_UNIT, PROTOBUF_BYTES, &unit);
    if (r < 0)
        return r;
    buf_append(row, resource->attributes.data, resource->attributes.size);
    row_put_text(row, resource->schema_url);
    row_put_text(row, scope->name);
    row_put_text(row, scope->version);
    buf_append(row, scope->attributes.data, scope->attributes.size);
    row_put_u32(row, (uint32_t)scope->dropped_attributes);
    row_put_text(row, scope->schema_url);
    buf_append(row, resource->service.data, resource->service.size);
    row_put_text(row, name.inside);
    row_put_text(row, description.inside);
    row_put_text(row, unit.inside);
    return buf_error(row);
}

static int put_row(struct buf *row, struct cursor point, const struct metric *metric, const struct point_kind *kind,
                   uint64_t start_ns, uint64_t time_ns, uint64_t *elements)
{
    struct protobuf_field flags;
    buf_append(row, metric->beginning.data, metric->beginning.size);
    int r = otlp_put_attributes(row, point, kind->attributes, elements);
    *elements += metric->resource->elements + metric->scope->elements;
    row_put_u64(row, start_ns <= INT64_MAX ? start_ns : 0);
    row_put_u64(row, time_ns);
    r = r < 0 ? r : find_field(point, kind->flags, PROTOBUF_VARINT, &flags);
    row_put_u32(row, r < 0 ? 0 : (uint32_t)flags.value);
    for (const struct value *value = kind->values; r == 0 && value->number; value++)
        r = put_value(row, point, value);
    if (r == 0 && kind->exemplars)
        r = put_exemplars(row, point, kind->exemplars, elements);
    if (kind->has_temporality)
        row_put_u32(row, (uint32_t)metric->temporality);
    if (kind->has_monotonic)
        row_put_u8(row, metric->is_monotonic != 0);
    return r;
}

static int decode_point(struct cursor point, struct metric *metric, const struct point_kind *kind,
                        struct otlp_rows *rows)
{
    struct protobuf_field start, time;
    int r = find_field(point, POINT_START, PROTOBUF_FIXED64, &start)
                ?: find_field(point, POINT_TIME, PROTOBUF_FIXED64, &time);
    if (r < 0 || !otlp_accepts_time(rows, time.value))
        return r;
    r = metric->beginning.size ? 0 : put_beginning(metric);
    if (r < 0)
        return r;
    rows->counts[kind->table]++;
    return put_row(&rows->tables[kind->table], point, metric, kind, start.value, time.value, &rows->elements)
               ?: otlp_rows_check(rows);
}

static int decode_points(struct cursor data, struct metric *metric, const struct point_kind *kind,
                         struct otlp_rows *rows)
{
    struct protobuf_field f;
    int r = kind->has_temporality ? find_field(data, METRIC_DATA_TEMPORALITY, PROTOBUF_VARINT, &f) : 0;
    metric->temporality = kind->has_temporality && r == 0 ? f.value : 0;
    r = r == 0 && kind->has_monotonic ? find_field(data, METRIC_DATA_IS_MONOTONIC, PROTOBUF_VARINT, &f) : r;
    metric->is_monotonic = kind->has_monotonic && r == 0 ? f.value : 0;
    while (r == 0 && protobuf_next_field(&data, &f))
        if (f.number == METRIC_DATA_POINTS)
            r = decode_point(otlp_inside(&data, &f), metric, kind, rows);
    return r == 0 && data.failed ? -EBADMSG : r;
}

static int decode_metric(struct cursor item, const struct otlp_resource *resource, const struct otlp_scope *scope,
                         struct otlp_rows *rows)
{
    struct metric metric = {
        .item = item, .resource = resource, .scope = scope, .beginning.max_bytes = OTLP_ROWS_MAX_BYTES};
    struct protobuf_field f;
    int r = 0;
    while (r == 0 && protobuf_next_field(&item, &f))
        for (size_t i = 0; r == 0 && i < array_size(kinds); i++)
            if (f.number == kinds[i].data)
                r = decode_points(otlp_inside(&item, &f), &metric, &kinds[i], rows);
    buf_clear(&metric.beginning);
    return r == 0 && item.failed ? -EBADMSG : r;
}

static int decode_metrics(struct cursor request, struct otlp_rows *rows)
{
    return otlp_walk(request, rows, decode_metric);
}

const struct otlp_signal otlp_metrics = {
    .path = "/v1/metrics",
    .method = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    .rejected = "rejectedDataPoints",
    .json = otlp_json_metrics,
    .decode = decode_metrics,
};
