/* Gathers spans into packets of bsp_max_export_batch_size and sends them (sender.h); an undelivered packet is lost
 * and counted. Meanwhile requests are queued, or dropped when the queue is full: no request waits for the receiver. */
#include "otlp_sink.h"

#include "background.h"
#include "config.h"
#include "encoding.h"
#include "partial_success_json.h"
#include "writer.h"

#include "../otlp/sender.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct otlp_sink {
    struct trace_sink sink;
    const struct sonde_trace_config *config;
    const struct trace_encoding *encoding;
    struct trace_writer *writer;
    struct otlp_sender sender;
    struct trace_spans spans;
    struct trace_packet packet;
    uint32_t traces; /* requests that end in the packet */
    char shown[OTLP_URL_SHOWN_SIZE];
};

const char *trace_otlp_url(const struct sonde_trace_config *config)
{
    return *config->url ? config->url : TRACE_OTLP_URL;
}

enum otlp_protocol trace_otlp_protocol(const struct sonde_trace_config *config)
{
    const enum otlp_protocol configured = config->exporters[OTLP_SIGNAL_TRACES].protocol;
    return configured == OTLP_GRPC && otlp_url_has_path(trace_otlp_url(config)) ? OTLP_HTTP_JSON : configured;
}

static bool pause_writer(void *argument, unsigned ms)
{
    trace_writer_pause(argument, ms);
    return true;
}

static uint64_t closed_ns(void *argument)
{
    struct trace_writer *w = argument;
    return atomic_load(&w->closed_ns);
}

/* --- sending --------------------------------------------------------------------------------- */

/* Sends the packet and begins a new one. `part`: result of earlier packets of the same request. */
static int send_packet(struct otlp_sink *o, int part)
{
    struct otlp_delivery delivery = {.why = "out of memory"};
    o->encoding->end(&o->packet);
    int r = o->packet.text.failed
                ? -ENOMEM
                : otlp_sender_deliver(&o->sender, o->packet.text.data, o->packet.text.size, &delivery);
    trace_writer_wrote(o->writer, part < 0 ? part : r, o->traces, o->shown, "spans are lost",
                       r < 0 ? delivery.why : "a part of the request was refused");
    if (r == 0)
        trace_writer_rejected(o->writer, delivery.rejected, o->shown, delivery.why);
    trace_text_clear(&o->packet.text);
    o->packet.spans = o->traces = 0;
    return r;
}

/* --- the sink -------------------------------------------------------------------------------- */

static void take(struct trace_sink *sink, struct trace_writer *w, const struct trace_tree *tree)
{
    (void)w;
    struct otlp_sink *o = (struct otlp_sink *)sink;
    uint32_t max = o->config->bsp_max_export_batch_size;
    bool split = false;
    int part = 0;
    trace_spans_make(&o->spans, tree);
    if (o->packet.spans > 0 && o->packet.spans + o->spans.count > max)
        send_packet(o, 0);
    for (uint32_t i = 0; i < o->spans.count; i++) {
        if (o->packet.spans == max || o->packet.text.size >= OTLP_PACKET_BYTES) {
            int r = send_packet(o, 0);
            part = i > 0 && r < 0 ? r : part;
            split |= i > 0;
        }
        if (o->packet.spans == 0)
            o->encoding->begin(&o->packet, o->config);
        o->encoding->span(&o->packet, tree, &o->spans, &o->spans.spans[i]);
    }
    o->packet.text.failed |= o->spans.failed;
    o->traces++;
    if (split || o->spans.failed) /* a split request must not share its packet, and so its result, with others */
        send_packet(o, part);
}

static void finish(struct trace_sink *sink, struct trace_writer *w)
{
    struct otlp_sink *o = (struct otlp_sink *)sink;
    (void)w;
    if (o->traces > 0)
        send_packet(o, 0);
}

static void reset_in_child(struct trace_sink *sink)
{
    struct otlp_sink *o = (struct otlp_sink *)sink;
    otlp_sender_reset_in_child(&o->sender);
    o->spans = (struct trace_spans){0};
    o->packet = (struct trace_packet){0};
    o->traces = 0;
}

static void free_sink(struct trace_sink *sink)
{
    struct otlp_sink *o = (struct otlp_sink *)sink;
    otlp_sender_fini(&o->sender);
    trace_spans_free(&o->spans);
    trace_text_free(&o->packet.text);
    free(o);
}

int trace_otlp_sink_new(const struct sonde_trace_config *config, const struct otlp_transport *transport,
                        struct trace_writer *w, struct trace_sink **ret_sink, char *why, size_t why_size)
{
    static const struct trace_sink_kind kind = {trace_spans_count, take, finish, reset_in_child, free_sink};
    char reason[OTLP_TRANSPORT_WHY_SIZE] = "";
    struct otlp_sink *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    o->sink.kind = &kind;
    o->config = config;
    const enum otlp_protocol protocol = trace_otlp_protocol(config);
    o->encoding = protocol == OTLP_HTTP_JSON ? &trace_encoding_json : &trace_encoding_protobuf;
    o->writer = w;
    otlp_url_shown(trace_otlp_url(config), o->shown);
    const struct otlp_sender_options options = {
        .transport = transport,
        .settings = &config->exporters[OTLP_SIGNAL_TRACES],
        .signal = OTLP_SIGNAL_TRACES,
        .protocol = protocol,
        .url = trace_otlp_url(config),
        .user_agent = TRACE_OTLP_USER_AGENT,
        .limits = {.attempts_max = TRACE_OTLP_ATTEMPTS_MAX, .pause_max_ms = TRACE_OTLP_PAUSE_MAX_MS},
        .read_json = trace_partial_success_json,
        .errors = &w->write_errors,
        .now_ns = trace_clock_ns,
        .pause = pause_writer,
        .closed_ns = closed_ns,
        .argument = w};
    int r = otlp_sender_init(&o->sender, &options, reason, sizeof(reason));
    if (r < 0) {
        if (why_size)
            snprintf(why, why_size, "Bad option: \"--trace-config opentelemetry,url\".\n%s: %.200s", reason, o->shown);
        free(o);
        return r;
    }
    *ret_sink = &o->sink;
    return 0;
}
