/* See packet_sender.h. libsonde's exporters use the same transport (lib/otlp). */
#include "send/packet_sender.h"

#include "base/log.h"
#include "model/request_span.h"
#include "send/send_warnings.h"

#include "otlp/zstd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MAX_MS 10000
#define TRACE_HEADER "traceparent=" SPAN_EXPORTS_TRACEPARENT ","

struct packet_sender {
    struct packet_sender_options o;
    struct config config;
    struct otlp_settings settings; /* its strings belong to `config` */
    const char *key;               /* of the endpoint's setting */
    const char *what, *items;      /* in messages */
    char shown[OTLP_URL_SHOWN_SIZE];
    char headers[sizeof(((struct config *)0)->otlp_headers) + sizeof(TRACE_HEADER)];
    struct otlp_sender sender;
    struct send_warnings warnings;
};

static uint64_t read_clock(void *argument)
{
    const struct packet_sender *s = argument;
    return s->o.io->now_ns(s->o.io->argument);
}

static bool pause_sending(void *argument, unsigned ms)
{
    const struct packet_sender *s = argument;
    return s->o.io->pause(s->o.io->argument, ms);
}

static uint64_t closed_ns(void *argument)
{
    const struct packet_sender *s = argument;
    return export_end_begun_ns(s->o.end);
}

static enum drop_reason reason_of(struct packet_sender *s, int error, bool is_busy)
{
    if (error == -EREMOTEIO && !is_busy)
        return DROP_REFUSED;
    if (error == -ENOMEM)
        return DROP_NO_MEMORY;
    return closed_ns(s) ? DROP_ENDED : DROP_UNREACHABLE;
}

static void warn(const struct packet_sender *s, const char *why)
{
    log_warning("%s cannot be delivered to %s: %s", s->what, s->shown, why);
}

static void on_failure(void *argument, const char *why)
{
    struct packet_sender *s = argument;
    if (send_warnings_failure(&s->warnings, why, read_clock(s)))
        warn(s, why);
}

static void log_rejection(struct packet_sender *s, const struct otlp_delivery *delivery)
{
    if ((delivery->rejected || delivery->why[0]) && send_warnings_rejection(&s->warnings, read_clock(s)))
        log_warning("%s rejected %llu %s of a packet: %s", s->shown, (unsigned long long)delivery->rejected, s->items,
                    delivery->why[0] ? delivery->why : "without a reason");
}

int packet_sender_send(struct packet_sender *s, const void *data, size_t size, uint64_t *ret_rejected,
                       enum drop_reason *ret_reason)
{
    struct otlp_delivery delivery;
    int r = otlp_sender_deliver(&s->sender, data, size, &delivery);
    if (r < 0) {
        *ret_reason = reason_of(s, r, delivery.is_busy);
        if (*ret_reason == DROP_REFUSED && send_warnings_refusal(&s->warnings, delivery.why, read_clock(s)))
            warn(s, delivery.why);
        return r;
    }
    if (send_warnings_accepted(&s->warnings))
        log_info("%s accepts %s again", s->shown, s->what);
    export_stats_count(&s->o.stats->packets, 1);
    export_stats_count(&s->o.stats->bytes, delivery.sent_bytes);
    log_rejection(s, &delivery);
    *ret_rejected = delivery.rejected;
    return 0;
}

/* Of a signal: the key of its endpoint, and its words in messages. */
static const struct {
    const char *key, *what, *items;
} signals[] = {
    [OTLP_SIGNAL_TRACES] = {"otlp.traces_endpoint", "spans", "spans"},
    [OTLP_SIGNAL_METRICS] = {"otlp.metrics_endpoint", "metrics", "points"},
    [OTLP_SIGNAL_PROFILES] = {"otlp.profiles_endpoint", "profiles", "profiles"},
    [OTLP_SIGNAL_LOGS] = {"otlp.logs_endpoint", "events", "events"},
};

static void set_settings(struct packet_sender *s)
{
    struct config *c = &s->config;
    if (s->o.is_for_captures)
        memcpy(config_endpoint(c, s->o.signal), c->otlp_captures_endpoint, sizeof(c->otlp_captures_endpoint));
    s->settings = (struct otlp_settings){.endpoint = config_endpoint(c, s->o.signal),
                                         .headers = s->headers,
                                         .certificate = c->otlp_certificate,
                                         .client_certificate = c->otlp_client_certificate,
                                         .client_key = c->otlp_client_key,
                                         .timeout_ms = (uint32_t)c->otlp_timeout_ms,
                                         .protocol = config_is_grpc(c) ? OTLP_GRPC : OTLP_HTTP_PROTOBUF,
                                         .gzip = strcmp(c->otlp_compression, "gzip") == 0};
    s->key = s->o.is_for_captures ? "otlp.captures_endpoint" : signals[s->o.signal].key;
    s->what = signals[s->o.signal].what;
    s->items = signals[s->o.signal].items;
    snprintf(s->headers, sizeof(s->headers), TRACE_HEADER "%s", c->otlp_headers);
    otlp_url_shown(s->settings.endpoint, s->shown);
}

int packet_sender_new(const struct packet_sender_options *o, struct packet_sender **ret)
{
    _cleanup_(packet_sender_freep) struct packet_sender *s = calloc(1, sizeof(*s));
    char why[OTLP_TRANSPORT_WHY_SIZE] = "out of memory";
    if (!s)
        return -ENOMEM;
    s->o = *o;
    s->config = *o->config;
    set_settings(s);
    const struct otlp_sender_options options = {
        .transport = o->io->transport,
        .settings = &s->settings,
        .signal = o->signal,
        .protocol = s->settings.protocol,
        .url = s->settings.endpoint,
        .user_agent = "sonde/" SONDE_VERSION,
        .encoding = strcmp(s->config.otlp_compression, "zstd") == 0 ? &otlp_zstd : NULL,
        .limits = {.attempts_max = UINT_MAX, .pause_max_ms = PAUSE_MAX_MS, .give_up_ns = o->give_up_ns},
        .errors = &o->stats->failures,
        .failed = on_failure,
        .now_ns = read_clock,
        .pause = pause_sending,
        .closed_ns = closed_ns,
        .argument = s};
    int r = otlp_sender_init(&s->sender, &options, why, sizeof(why));
    if (r < 0)
        return log_errno(r, "%s: %s: %s", s->key, s->shown, why);
    *ret = take_ptr(s);
    return 0;
}

void packet_sender_free(struct packet_sender *s)
{
    if (!s)
        return;
    otlp_sender_fini(&s->sender);
    free(s);
}

const char *packet_sender_url(const struct packet_sender *s)
{
    return s->shown;
}

bool packet_sender_is_grpc(const struct packet_sender *s)
{
    return s->settings.protocol == OTLP_GRPC;
}
