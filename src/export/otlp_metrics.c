/* OTLP metrics; see otlp_metrics.h. Points are encoded one by one into the packet of the moment. A point that does not
 * fit any more ends the packet; its metric then continues in the next one. */
#include "export/otlp_metrics.h"

#include "base/protobuf.h"
#include "base/saturated.h"
#include "export/otlp_attributes.h"
#include "export/otlp_conventions.h"
#include "lib/otlp/fields.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define HEADER_BYTES 6 /* at most, of a message within a packet: its field number and size */

struct writer {
    const struct otlp_metrics_options *o;
    struct series_starts *starts;
    const struct otlp_metrics_sink *sink;
    uint64_t time_unix_ns;
    uint64_t too_large;

    struct buf resource;    /* field of ResourceMetrics: Sonde itself, or the service that the points describe */
    struct buf scope;       /* field of ScopeMetrics, the same in all packets */
    const char *service;    /* whose points are written; NULL: points about this node */
    struct buf metrics;     /* ScopeMetrics.metrics that are complete */
    struct buf description; /* fields of the current Metric without its points */
    struct buf points;      /* the points of the current Metric in this packet */
    uint64_t packet_points;

    struct buf point, attributes, part, resource_metrics, packet;
    struct otlp_scratch scratch;
};

static void writer_clear(struct writer *w)
{
    buf_clear(&w->resource);
    buf_clear(&w->scope);
    buf_clear(&w->metrics);
    buf_clear(&w->description);
    buf_clear(&w->points);
    buf_clear(&w->point);
    buf_clear(&w->attributes);
    buf_clear(&w->part);
    buf_clear(&w->resource_metrics);
    buf_clear(&w->packet);
    otlp_scratch_clear(&w->scratch);
}

static int writer_error(const struct writer *w)
{
    const struct buf *const bufs[] = {&w->resource, &w->scope, &w->metrics,    &w->description,      &w->points,
                                      &w->point,    &w->part,  &w->attributes, &w->resource_metrics, &w->packet};
    for (size_t i = 0; i < array_size(bufs); i++)
        if (buf_error(bufs[i]) < 0)
            return buf_error(bufs[i]);
    return otlp_scratch_error(&w->scratch);
}

/* ---- points ---- */

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Units in UCUM. The name already ends in the unit, so that receivers for Prometheus append none. */
static const struct unit {
    const char *name, *ucum;
    bool is_real; /* its values are doubles even where they are whole: a series keeps its type */
} units[] = {
    {"seconds", "s", true}, {"ratio", "1", true},      {"bytes", "By", false}, {"watts", "W", true},
    {"joules", "J", true},  {"celsius", "Cel", false}, {"hertz", "Hz", false}, {"", "", false},
};

/* That of no unit for one that has no line. */
static const struct unit *find_unit(const char *name)
{
    size_t i = 0;
    while (units[i].name[0] && strcmp(units[i].name, name) != 0)
        i++;
    return &units[i];
}

static bool is_integer(const struct metric_family *family, double value)
{
    return !find_unit(family->unit)->is_real && value == floor(value) && fabs(value) < 0x1p63;
}

static void put_number_point(struct writer *w, const struct metric_family *family, const struct metric_point *point,
                             uint64_t start_unix_ns)
{
    const double value = family->type == METRIC_INFO ? 1 : point->value;
    if (family->type != METRIC_GAUGE)
        protobuf_put_fixed64(&w->point, NUMBER_POINT_START, start_unix_ns);
    protobuf_put_fixed64(&w->point, NUMBER_POINT_TIME, w->time_unix_ns);
    if (is_integer(family, value))
        protobuf_put_fixed64(&w->point, NUMBER_POINT_AS_INT, (uint64_t)(int64_t)value);
    else
        protobuf_put_fixed64(&w->point, NUMBER_POINT_AS_DOUBLE, bits_of(value));
    buf_append(&w->point, w->attributes.data, w->attributes.size);
}

static uint64_t count_of(const struct metric_point *point)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= point->bound_count; i++)
        count = saturated_sum(count, point->counts[i]);
    return count;
}

/* The buckets add up to the count, also where it is saturated. */
static void put_buckets(struct writer *w, const struct metric_point *point)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= point->bound_count; i++) {
        const uint64_t sum = saturated_sum(count, point->counts[i]);
        protobuf_fixed64(&w->part, sum - count);
        count = sum;
    }
    protobuf_put_message(&w->point, HISTOGRAM_POINT_BUCKETS, &w->part);
    for (size_t i = 0; i < point->bound_count; i++)
        protobuf_fixed64(&w->part, bits_of(point->bounds[i]));
    protobuf_put_message(&w->point, HISTOGRAM_POINT_BOUNDS, &w->part);
}

static void put_exemplars(struct writer *w, const struct metric_point *point)
{
    for (size_t i = 0; point->exemplars && i <= point->bound_count; i++) {
        const struct metric_exemplar *e = &point->exemplars[i];
        if (!e->trace_id)
            continue;
        protobuf_put_fixed64(&w->part, EXEMPLAR_TIME, e->unix_ns);
        protobuf_put_fixed64(&w->part, EXEMPLAR_AS_DOUBLE, bits_of(e->value));
        otlp_put_id(&w->part, EXEMPLAR_SPAN_ID, e->span_id);
        otlp_put_id(&w->part, EXEMPLAR_TRACE_ID, e->trace_id);
        protobuf_put_message(&w->point, HISTOGRAM_POINT_EXEMPLARS, &w->part);
    }
}

static void put_histogram_point(struct writer *w, const struct metric_point *point, uint64_t start_unix_ns)
{
    protobuf_put_fixed64(&w->point, HISTOGRAM_POINT_START, start_unix_ns);
    protobuf_put_fixed64(&w->point, HISTOGRAM_POINT_TIME, w->time_unix_ns);
    protobuf_put_fixed64(&w->point, HISTOGRAM_POINT_COUNT, count_of(point));
    protobuf_put_fixed64(&w->point, HISTOGRAM_POINT_SUM, bits_of(point->value));
    put_buckets(w, point);
    put_exemplars(w, point);
    buf_append(&w->point, w->attributes.data, w->attributes.size);
}

/* The service that a point of the conventions describes; NULL: it describes the node. */
static const char *service_of(const struct metric_point *point)
{
    for (size_t i = 0; i < point->label_count; i++)
        if (strcmp(point->labels[i].name, OTLP_SERVICE_LABEL) == 0)
            return point->labels[i].value;
    return NULL;
}

static void put_convention_attribute(struct writer *w, uint32_t field, const struct metric_label *label)
{
    bool is_number;
    const char *name = otlp_convention_attribute(label->name, &is_number);
    if (strcmp(name, OTLP_SERVICE_LABEL) != 0) /* in the resource */
        otlp_put_attribute(&w->attributes, field, name, is_number ? NULL : label->value,
                           is_number ? strtoull(label->value, NULL, 10) : 0, &w->scratch);
}

static void put_attributes(struct writer *w, const struct metric_family *family, const struct metric_point *point)
{
    const uint32_t field =
        family->type == METRIC_HISTOGRAM ? HISTOGRAM_POINT_ATTRIBUTES : (uint32_t)NUMBER_POINT_ATTRIBUTES;
    w->attributes.size = 0;
    for (size_t i = 0; i < point->label_count; i++)
        if (otlp_convention_metric(family->name))
            put_convention_attribute(w, field, &point->labels[i]);
        else
            otlp_put_attribute(&w->attributes, field, point->labels[i].name, point->labels[i].value, 0, &w->scratch);
}

/* Unix time. Gauges have no start, and are not remembered. */
static uint64_t find_start(struct writer *w, const struct metric_family *family, const struct metric_point *point)
{
    if (family->type == METRIC_GAUGE)
        return 0;
    const uint64_t of_service = w->service ? XXH3_64bits(w->service, strlen(w->service)) : 0;
    const uint64_t of_name = XXH3_64bits_withSeed(family->name, strlen(family->name), of_service);
    const uint64_t series = XXH3_64bits_withSeed(w->attributes.data, w->attributes.size, of_name);
    const double value = family->type == METRIC_HISTOGRAM ? (double)count_of(point)
                         : family->type == METRIC_INFO    ? 1
                                                          : point->value;
    return series_starts_find(w->starts, series, value) + w->o->unix_offset_ns;
}

static void encode_point(struct writer *w, const struct metric_family *family, const struct metric_point *point)
{
    w->point.size = 0;
    put_attributes(w, family, point);
    const uint64_t start_unix_ns = find_start(w, family, point);
    if (family->type == METRIC_HISTOGRAM)
        put_histogram_point(w, point, start_unix_ns);
    else
        put_number_point(w, family, point, start_unix_ns);
}

/* ---- metrics ---- */

static void begin_metric(struct writer *w, const struct metric_family *family)
{
    const char *unit = find_unit(family->unit)->ucum, *convention = otlp_convention_metric(family->name);
    w->description.size = 0;
    buf_puts(&w->part, convention ? convention : family->name);
    buf_puts(&w->part, family->type == METRIC_INFO ? "_info" : "");
    protobuf_put_message(&w->description, METRIC_NAME, &w->part);
    buf_put_utf8(&w->part, family->help);
    protobuf_put_message(&w->description, METRIC_DESCRIPTION, &w->part);
    protobuf_put_bytes(&w->description, METRIC_UNIT, unit, strlen(unit));
}

/* Moves the points of the current metric to the packet. */
static void end_metric(struct writer *w, const struct metric_family *family)
{
    static const uint32_t data[] = {[METRIC_GAUGE] = METRIC_DATA_GAUGE,
                                    [METRIC_COUNTER] = METRIC_DATA_SUM,
                                    [METRIC_INFO] = METRIC_DATA_SUM,
                                    [METRIC_HISTOGRAM] = METRIC_DATA_HISTOGRAM};
    if (!w->points.size)
        return;
    if (family->type != METRIC_GAUGE)
        protobuf_put_number(&w->points, METRIC_DATA_TEMPORALITY, TEMPORALITY_CUMULATIVE);
    if (family->type == METRIC_COUNTER)
        protobuf_put_number(&w->points, METRIC_DATA_IS_MONOTONIC, true);
    buf_append(&w->part, w->description.data, w->description.size);
    protobuf_put_message(&w->part, data[family->type], &w->points);
    protobuf_put_message(&w->metrics, SCOPE_METRICS_METRICS, &w->part);
}

/* ---- packets ---- */

/* Moves the metrics of the current resource to the packet. */
static void end_resource(struct writer *w)
{
    if (!w->metrics.size)
        return;
    buf_append(&w->part, w->scope.data, w->scope.size);
    buf_append(&w->part, w->metrics.data, w->metrics.size);
    w->metrics.size = 0;
    buf_append(&w->resource_metrics, w->resource.data, w->resource.size);
    protobuf_put_message(&w->resource_metrics, RESOURCE_METRICS_SCOPE_METRICS, &w->part);
    protobuf_put_message(&w->packet, METRICS_RESOURCE_METRICS, &w->resource_metrics);
}

static void end_packet(struct writer *w)
{
    end_resource(w);
    const struct otlp_metrics_packet packet = {w->packet.data, w->packet.size, w->packet_points};
    if (w->packet_points && writer_error(w) == 0)
        w->sink->packet(w->sink->context, &packet);
    w->packet.size = 0;
    w->packet_points = 0;
}

/* Upper bound of the packet's size with the point that was just encoded. */
static size_t size_with_point(const struct writer *w)
{
    const size_t temporality_and_monotonic = 4;
    const size_t metric = HEADER_BYTES + w->description.size + HEADER_BYTES + w->points.size + HEADER_BYTES +
                          w->point.size + temporality_and_monotonic;
    return w->packet.size + HEADER_BYTES + w->resource.size + HEADER_BYTES + w->scope.size + w->metrics.size + metric;
}

static void add_point(struct writer *w, const struct metric_family *family, const struct metric_point *point)
{
    encode_point(w, family, point);
    if (size_with_point(w) > w->o->packet_max_bytes || w->packet_points == w->o->packet_max_points) {
        end_metric(w, family);
        end_packet(w);
    }
    if (size_with_point(w) > w->o->packet_max_bytes) {
        w->too_large++;
        return;
    }
    protobuf_put_message(&w->points, METRIC_DATA_POINTS, &w->point);
    w->packet_points++;
}

/* Points of another resource follow. `service` NULL: Sonde itself. */
static void begin_resource(struct writer *w, const char *service)
{
    end_resource(w);
    w->service = service;
    w->resource.size = 0;
    otlp_put_resource(&w->part, service, w->o->host_name, w->o->attributes, &w->scratch);
    protobuf_put_message(&w->resource, RESOURCE_METRICS_RESOURCE, &w->part);
}

static void write_family(struct writer *w, const struct metric_family *family)
{
    begin_metric(w, family);
    for (size_t i = 0; i < family->point_count; i++)
        add_point(w, family, &family->points[i]);
    end_metric(w, family);
}

/* The points of a service follow each other. */
static void write_family_by_service(struct writer *w, const struct metric_family *family)
{
    begin_metric(w, family);
    for (size_t i = 0; i < family->point_count; i++) {
        const char *service = service_of(&family->points[i]);
        if (!service != !w->service || (service && strcmp(service, w->service) != 0)) {
            end_metric(w, family);
            begin_resource(w, service);
        }
        add_point(w, family, &family->points[i]);
    }
    end_metric(w, family);
    begin_resource(w, NULL);
}

int otlp_metrics_write(const struct metric_set *set, struct series_starts *starts, const struct otlp_metrics_options *o,
                       const struct otlp_metrics_sink *sink, uint64_t *ret_too_large)
{
    _cleanup_(writer_clear) struct writer w = {
        .o = o, .starts = starts, .sink = sink, .time_unix_ns = o->time_ns + o->unix_offset_ns};
    int r = metric_set_error(set);
    if (r < 0)
        return r;
    otlp_put_scope(&w.scope, SCOPE_METRICS_SCOPE, &w.scratch);
    begin_resource(&w, NULL);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        if (otlp_convention_metric(family.name))
            write_family_by_service(&w, &family);
        else
            write_family(&w, &family);
    }
    end_packet(&w);
    r = writer_error(&w);
    if (r == 0)
        *ret_too_large = w.too_large;
    return r;
}
