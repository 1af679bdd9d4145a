/* See otlp_logs.h. Log records are encoded one by one into the packet of the moment. A record that does not fit any
 * more ends the packet. */
#include "export/otlp_logs.h"

#include "base/protobuf.h"
#include "export/otlp_attributes.h"
#include "lib/otlp/fields.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 6 /* at most, of a message within a packet: its field number and size */

struct writer {
    const struct otlp_logs_options *o;
    const struct otlp_logs_sink *sink;
    struct buf resource, scope; /* fields of ResourceLogs and of ScopeLogs, the same in all packets */
    struct buf records;         /* ScopeLogs.log_records of the packet of the moment */
    struct buf record, shown, part, resource_logs, packet;
    uint64_t packet_records, too_large;
    struct otlp_scratch scratch;
};

static void writer_clear(struct writer *w)
{
    buf_clear(&w->resource);
    buf_clear(&w->scope);
    buf_clear(&w->records);
    buf_clear(&w->record);
    buf_clear(&w->shown);
    buf_clear(&w->part);
    buf_clear(&w->resource_logs);
    buf_clear(&w->packet);
    otlp_scratch_clear(&w->scratch);
}

static int writer_error(const struct writer *w)
{
    const struct buf *const bufs[] = {&w->resource, &w->scope, &w->records,       &w->record,
                                      &w->shown,    &w->part,  &w->resource_logs, &w->packet};
    for (size_t i = 0; i < array_size(bufs); i++)
        if (buf_error(bufs[i]) < 0)
            return buf_error(bufs[i]);
    return otlp_scratch_error(&w->scratch);
}

/* ---- records ---- */

/* As names are shown on /metrics: without control characters. Valid until the next call. */
static const char *shown(struct writer *w, const char *text)
{
    w->shown.size = 0;
    buf_put_shown(&w->shown, text);
    buf_putc(&w->shown, '\0');
    return buf_error(&w->shown) < 0 ? "" : w->shown.data;
}

/* Attributes of events are texts. These are integers, here as by the conventions; docs/events.md says so. */
static bool is_integer(const char *name)
{
    static const char *const integers[] = {"process.pid",
                                           "thread.id",
                                           "holder.pid",
                                           "holder.thread.id",
                                           "previous.pid",
                                           "previous.thread.id",
                                           "trigger.pid",
                                           "server.port",
                                           "cpu",
                                           "irq",
                                           "count",
                                           "tasks",
                                           "io.offset",
                                           "limit",
                                           "memory.anonymous",
                                           "memory.file",
                                           "memory.shared",
                                           "growth.percent",
                                           "xid"};
    for (size_t i = 0; i < array_size(integers); i++)
        if (strcmp(integers[i], name) == 0)
            return true;
    return false;
}

static void put_attributes(struct writer *w, const struct node_event *e)
{
    if (e->duration_ns)
        otlp_put_attribute(&w->record, LOG_ATTRIBUTES, "sonde.duration_ns", NULL, e->duration_ns, &w->scratch);
    for (size_t i = 0; i < e->attribute_count; i++) {
        const struct node_event_attribute *a = &e->attributes[i];
        const bool is_number = is_integer(a->name);
        if (a->value[0])
            otlp_put_attribute(&w->record, LOG_ATTRIBUTES, a->name, is_number ? NULL : shown(w, a->value),
                               is_number ? strtoull(a->value, NULL, 10) : 0, &w->scratch);
    }
}

static void encode_record(struct writer *w, const struct kept_node_event *k)
{
    const bool is_error = node_event_is_error(k->event.name);
    const char *severity = is_error ? "ERROR" : "WARN";
    w->record.size = 0;
    protobuf_put_fixed64(&w->record, LOG_TIME, k->unix_ns);
    protobuf_put_number(&w->record, LOG_SEVERITY_NUMBER, is_error ? SEVERITY_ERROR : SEVERITY_WARN);
    protobuf_put_bytes(&w->record, LOG_SEVERITY_TEXT, severity, strlen(severity));
    otlp_put_text_value(&w->part, shown(w, k->event.text), &w->scratch.text);
    protobuf_put_message(&w->record, LOG_BODY, &w->part);
    put_attributes(w, &k->event);
    protobuf_put_fixed64(&w->record, LOG_OBSERVED_TIME, k->observed_unix_ns);
    protobuf_put_bytes(&w->record, LOG_EVENT_NAME, k->event.name, strlen(k->event.name));
}

/* ---- packets ---- */

static void end_packet(struct writer *w)
{
    if (!w->packet_records)
        return;
    buf_append(&w->part, w->scope.data, w->scope.size);
    buf_append(&w->part, w->records.data, w->records.size);
    buf_append(&w->resource_logs, w->resource.data, w->resource.size);
    protobuf_put_message(&w->resource_logs, RESOURCE_SPANS_SCOPE_SPANS, &w->part);
    protobuf_put_message(&w->packet, TRACES_RESOURCE_SPANS, &w->resource_logs);
    const struct otlp_logs_packet packet = {w->packet.data, w->packet.size, w->packet_records};
    if (writer_error(w) == 0)
        w->sink->packet(w->sink->context, &packet);
    w->packet.size = 0;
    w->records.size = 0;
    w->packet_records = 0;
}

/* Upper bound of the packet's size with the record that was just encoded. */
static size_t size_with_record(const struct writer *w)
{
    return 3 * HEADER_BYTES + w->resource.size + w->scope.size + w->records.size + w->record.size;
}

static void add_event(struct writer *w, const struct kept_node_event *k)
{
    encode_record(w, k);
    if (size_with_record(w) > w->o->packet_max_bytes)
        end_packet(w);
    if (size_with_record(w) > w->o->packet_max_bytes) {
        w->too_large++;
        return;
    }
    protobuf_put_message(&w->records, SCOPE_SPANS_SPANS, &w->record);
    w->packet_records++;
}

int otlp_logs_write(struct kept_node_event *const *events, size_t count, const struct otlp_logs_options *o,
                    const struct otlp_logs_sink *sink, uint64_t *ret_too_large)
{
    _cleanup_(writer_clear) struct writer w = {.o = o, .sink = sink};
    otlp_put_resource(&w.part, NULL, o->host_name, o->attributes, &w.scratch);
    protobuf_put_message(&w.resource, RESOURCE_SPANS_RESOURCE, &w.part);
    otlp_put_scope(&w.scope, SCOPE_SPANS_SCOPE, &w.scratch);
    for (size_t i = 0; i < count; i++)
        add_event(&w, events[i]);
    end_packet(&w);
    const int r = writer_error(&w);
    if (r == 0)
        *ret_too_large = w.too_large;
    return r;
}
