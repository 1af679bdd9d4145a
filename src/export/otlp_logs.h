/* Encodes events of the node as OTLP packets of log records (ExportLogsServiceRequest). Each packet is complete in
 * itself. docs/events.md describes the records. */
#pragma once

#include "model/node_event.h"

#include <stddef.h>
#include <stdint.h>

struct otlp_logs_options {
    size_t packet_max_bytes; /* before compression */
    const char *host_name;
    const char *attributes; /* of this node's resource: a valid attribute_list */
};

struct otlp_logs_packet {
    const void *data; /* valid until the next packet */
    size_t size;
    uint64_t records;
};

struct otlp_logs_sink {
    void *context;
    void (*packet)(void *context, const struct otlp_logs_packet *packet); /* borrows */
};

/* Passes packets to the sink, none for an empty list. `*ret_too_large`: events that are in no packet, as they exceed
 * packet_max_bytes. -ENOMEM: packets passed before are valid, the rest is missing. */
int otlp_logs_write(struct kept_node_event *const *events, size_t count, const struct otlp_logs_options *o,
                    const struct otlp_logs_sink *sink, uint64_t *ret_too_large);
