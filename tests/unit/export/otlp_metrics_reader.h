/* Reads the packets of otlp_metrics.c into a list of points. Include after cmocka.h. */
#pragma once

#include "lib/otlp/fields.h"
#include "protobuf_fields.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_POINTS_MAX 8192
#define READ_BUCKETS    8

struct read_point {
    char name[64], unit[8], attributes[256]; /* "a=x,b=y," */
    uint64_t data;                           /* METRIC_DATA_SUM, ... */
    bool is_monotonic, is_integer;
    uint64_t temporality, start_ns, time_ns;
    double value; /* of a histogram the sum */
    uint64_t count, buckets[READ_BUCKETS];
    double bounds[READ_BUCKETS];
    size_t bucket_count, bound_count;
    char service[64];                  /* service.name of the resource */
    char exemplars[READ_BUCKETS * 64]; /* "span ID@value," */
};

struct read_points {
    size_t count, packets, largest_bytes;
    uint64_t largest_points;
    char resource[256];
    struct read_point point[READ_POINTS_MAX];
};

static inline double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline void append_text(char *out, size_t size, struct cursor c, const char *end)
{
    const size_t used = strlen(out);
    assert_true(used + c.size + 2 <= size);
    snprintf(out + used, size - used, "%.*s%s", (int)c.size, (const char *)c.data, end);
}

static inline void read_key_value(struct cursor c, char *out, size_t size)
{
    for (struct protobuf_field f, value; next_field(&c, &f);) {
        if (f.number == KEY_VALUE_KEY)
            append_text(out, size, f.inside, "=");
        for (; f.number == KEY_VALUE_VALUE && next_field(&f.inside, &value);) {
            if (value.number == ANY_VALUE_STRING)
                append_text(out, size, value.inside, ",");
            else
                snprintf(out + strlen(out), size - strlen(out), "%llu,", (unsigned long long)value.value);
        }
    }
}

static inline void read_number_point(struct cursor c, struct read_point *p)
{
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == NUMBER_POINT_START)
            p->start_ns = f.value;
        else if (f.number == NUMBER_POINT_TIME)
            p->time_ns = f.value;
        else if (f.number == NUMBER_POINT_AS_INT)
            p->value = (double)(int64_t)f.value;
        else if (f.number == NUMBER_POINT_AS_DOUBLE)
            p->value = double_of(f.value);
        else if (f.number == NUMBER_POINT_ATTRIBUTES)
            read_key_value(f.inside, p->attributes, sizeof(p->attributes));
        else
            fail();
        p->is_integer |= f.number == NUMBER_POINT_AS_INT;
    }
}

static inline void read_exemplar(struct cursor c, char *out, size_t size)
{
    double value = 0;
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == EXEMPLAR_AS_DOUBLE)
            value = double_of(f.value);
        while (f.number == EXEMPLAR_SPAN_ID && cursor_left(&f.inside))
            snprintf(out + strlen(out), size - strlen(out), "%02x", cursor_u8(&f.inside));
    }
    snprintf(out + strlen(out), size - strlen(out), "@%g,", value);
}

static inline void read_histogram_point(struct cursor c, struct read_point *p)
{
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == HISTOGRAM_POINT_START)
            p->start_ns = f.value;
        else if (f.number == HISTOGRAM_POINT_TIME)
            p->time_ns = f.value;
        else if (f.number == HISTOGRAM_POINT_COUNT)
            p->count = f.value;
        else if (f.number == HISTOGRAM_POINT_SUM)
            p->value = double_of(f.value);
        else if (f.number == HISTOGRAM_POINT_ATTRIBUTES)
            read_key_value(f.inside, p->attributes, sizeof(p->attributes));
        else if (f.number == HISTOGRAM_POINT_EXEMPLARS)
            read_exemplar(f.inside, p->exemplars, sizeof(p->exemplars));
        else
            assert_true(f.number == HISTOGRAM_POINT_BUCKETS || f.number == HISTOGRAM_POINT_BOUNDS);
        while (f.number == HISTOGRAM_POINT_BUCKETS && cursor_left(&f.inside))
            p->buckets[p->bucket_count++] = cursor_u64(&f.inside);
        while (f.number == HISTOGRAM_POINT_BOUNDS && cursor_left(&f.inside))
            p->bounds[p->bound_count++] = double_of(cursor_u64(&f.inside));
    }
}

/* All points of one metric in a packet get the fields that follow them. */
static inline void read_data(struct cursor c, const struct read_point *metric, struct read_points *points)
{
    const size_t first = points->count;
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == METRIC_DATA_POINTS) {
            assert_true(points->count < READ_POINTS_MAX);
            struct read_point *p = &points->point[points->count++];
            *p = *metric;
            if (metric->data == METRIC_DATA_HISTOGRAM)
                read_histogram_point(f.inside, p);
            else
                read_number_point(f.inside, p);
        }
        for (size_t i = first; i < points->count; i++) {
            points->point[i].temporality = f.number == METRIC_DATA_TEMPORALITY ? f.value : points->point[i].temporality;
            points->point[i].is_monotonic |= f.number == METRIC_DATA_IS_MONOTONIC && f.value;
        }
    }
    assert_true(points->count > first); /* no metric without points */
}

static inline void read_metric(struct cursor c, struct read_points *points)
{
    struct read_point metric = {0};
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == METRIC_NAME)
            append_text(metric.name, sizeof(metric.name), f.inside, "");
        else if (f.number == METRIC_UNIT)
            append_text(metric.unit, sizeof(metric.unit), f.inside, "");
        else if (f.number != METRIC_DESCRIPTION) {
            metric.data = f.number;
            read_data(f.inside, &metric, points);
        }
    }
}

static inline void read_metrics_packet(const void *data, size_t size, struct read_points *points)
{
    struct cursor packet = cursor_make(data, size);
    const size_t before = points->count;
    points->packets++;
    points->largest_bytes = size > points->largest_bytes ? size : points->largest_bytes;
    for (struct protobuf_field resource_metrics, f, inner; next_field(&packet, &resource_metrics);) {
        const size_t first = points->count;
        points->resource[0] = '\0';
        while (next_field(&resource_metrics.inside, &f))
            while (next_field(&f.inside, &inner)) {
                if (f.number == RESOURCE_METRICS_RESOURCE)
                    read_key_value(inner.inside, points->resource, sizeof(points->resource));
                else if (inner.number == SCOPE_METRICS_METRICS)
                    read_metric(inner.inside, points);
            }
        const char *service = strstr(points->resource, "service.name=");
        for (size_t i = first; service && i < points->count; i++)
            snprintf(points->point[i].service, sizeof(points->point[i].service), "%.*s",
                     (int)strcspn(service + 13, ","), service + 13);
    }
    if (points->count - before > points->largest_points)
        points->largest_points = points->count - before;
}
