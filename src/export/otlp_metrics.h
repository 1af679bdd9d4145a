/* Encodes a set of metrics as OTLP packets (ExportMetricsServiceRequest). Each packet is complete in itself.
 *
 * Counters are monotonic cumulative sums, histograms have explicit bounds, and infos are non-monotonic sums of 1, as
 * OpenTelemetry's rules for Prometheus require. By the same rules a receiver for Prometheus turns names and units
 * into the names of /metrics: sonde_io_read_bytes in By becomes sonde_io_read_bytes_total. */
#pragma once

#include "export/series_starts.h"
#include "model/metric.h"

#include <stddef.h>
#include <stdint.h>

struct otlp_metrics_options {
    size_t packet_max_bytes;  /* before compression */
    size_t packet_max_points; /* at least 1 */
    const char *host_name;    /* host.name and service.instance.id of the resource */
    const char *attributes;   /* further ones of this node: a valid attribute_list */
    uint64_t time_ns;         /* of all points, CLOCK_MONOTONIC, as of `starts` */
    uint64_t unix_offset_ns;  /* Unix time of a time of that clock, minus this time */
};

struct otlp_metrics_packet {
    const void *data; /* valid until the next packet */
    size_t size;
    uint64_t points;
};

struct otlp_metrics_sink {
    void *context;
    void (*packet)(void *context, const struct otlp_metrics_packet *packet); /* borrows */
};

/* Passes packets to the sink, none for an empty set. `starts` has begun the collection, and is asked for each series.
 * `*ret_too_large`: points that are in no packet, as their labels exceed packet_max_bytes. 0; -ENOMEM, or the error of
 * the set: packets passed before are valid, the rest is missing. */
int otlp_metrics_write(const struct metric_set *set, struct series_starts *starts, const struct otlp_metrics_options *o,
                       const struct otlp_metrics_sink *sink, uint64_t *ret_too_large);
