/* Encodes requests as OTLP packets of spans (ExportTraceServiceRequest). Each packet is complete in itself. A span has
 * the attributes of OpenTelemetry's semantic conventions for HTTP servers; its components, cause and weight as
 * attributes sonde.*; and the segments of its critical path as events. docs/traces.md describes them. */
#pragma once

#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

struct otlp_spans_options {
    size_t packet_max_bytes; /* before compression */
    const char *host_name;
    const char *attributes; /* of this node, for all resources: a valid attribute_list; service.* is left out */
};

struct otlp_spans_packet {
    const void *data; /* valid until the next packet */
    size_t size;
    uint64_t spans;
};

struct otlp_spans_sink {
    void *context;
    void (*packet)(void *context, const struct otlp_spans_packet *packet); /* borrows */
};

/* Passes packets to the sink, none for an empty list. Requests of one service that follow each other share a resource.
 * Requests without a span (request.span) are left out. `*ret_too_large`: spans that are in no packet, as they exceed
 * packet_max_bytes. -ENOMEM: packets passed before are valid, the rest is missing. */
int otlp_spans_write(struct request *const *requests, size_t count, const struct otlp_spans_options *o,
                     const struct otlp_spans_sink *sink, uint64_t *ret_too_large);
