/* See metrics_exporter.h. */
#include "metrics_exporter.h"

#include "background.h"
#include "config.h"
#include "ids.h"
#include "metrics_encoding.h"
#include "otlp_sink.h"
#include "partial_success_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_SIZE 4608

static void report(struct trace_metrics_exporter *e, int error, const char *what, const char *detail)
{
    char message[MESSAGE_SIZE], text[64], where[OTLP_URL_SHOWN_SIZE];
    if (!e->on_error)
        return;
    otlp_url_shown(e->url ? e->url : trace_otlp_url(e->config), where);
    if (snprintf(message, sizeof(message), "OpenTelemetry receiver %s: %s: %s", where, what,
                 *detail ? detail : strerror_r(error, text, sizeof(text))) < 0)
        return;
    e->on_error(e->argument, error, message);
}

/* --- packets --------------------------------------------------------------------------------- */

/* Encodes a packet of series from `first` on: at most as many points as a packet of spans has spans, at least one
 * series, and fewer if the packet would be too large. Returns the number of series in it. */
static size_t make_packet(struct trace_metrics_exporter *e, const struct trace_metrics_snapshot *all, size_t first)
{
    const struct trace_metrics_description d = {e->config, e->provider, e->instance};
    struct trace_metrics_snapshot part = *all;
    size_t max = e->config->bsp_max_export_batch_size / TRACE_METRICS;
    part.series += first;
    part.count = all->count - first;
    if (part.count > max)
        part.count = max > 0 ? max : 1;
    for (;; part.count = (part.count + 1) / 2) {
        trace_text_clear(&e->packet);
        if (e->protocol == OTLP_HTTP_JSON)
            trace_metrics_put_json(&e->packet, &part, &d);
        else
            trace_metrics_put_protobuf(&e->packet, &part, &d);
        if (e->packet.failed || part.count <= 1 || e->packet.size <= OTLP_PACKET_BYTES)
            return part.count;
    }
}

/* Result of all packets of one export: the last failure, and the number of rejected points. */
struct send_result {
    int r;
    uint64_t rejected;
    char why[OTLP_TRANSPORT_WHY_SIZE];
};

/* Sends a packet. False: do not try the next one. */
static bool send_packet(struct trace_metrics_exporter *e, struct send_result *s)
{
    struct otlp_delivery delivery = {.why = ""};
    int r = e->packet.failed ? -ENOMEM : otlp_sender_deliver(&e->sender, e->packet.data, e->packet.size, &delivery);
    atomic_fetch_add_explicit(r < 0 ? &e->lost : &e->sent, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->rejected, delivery.rejected, memory_order_relaxed);
    s->rejected += delivery.rejected;
    if (r < 0)
        s->r = r;
    if (r < 0 || delivery.rejected > 0)
        memcpy(s->why, delivery.why, sizeof(s->why));
    return r == 0 || delivery.is_final;
}

static void report_result(struct trace_metrics_exporter *e, const struct send_result *s)
{
    char what[64] = "metrics are not sent";
    if (s->r < 0 && s->r != e->last_error)
        report(e, -s->r, what, s->why);
    if (s->rejected > 0 && !e->rejecting) {
        snprintf(what, sizeof(what), "%llu points of metrics were rejected", (unsigned long long)s->rejected);
        report(e, EREMOTEIO, what, s->why);
    }
    e->last_error = s->r;
    e->rejecting = s->rejected > 0;
}

/* Exports all series. The packets that are skipped after a failure count as one. */
static void send_all(struct trace_metrics_exporter *e)
{
    struct trace_metrics_snapshot all = {0};
    struct send_result s = {.r = trace_metrics_read(e->metrics, &all)};
    bool goes_on = s.r == 0;
    if (s.r < 0)
        atomic_fetch_add_explicit(&e->lost, 1, memory_order_relaxed);
    for (size_t at = 0; goes_on && at < all.count;) {
        at += make_packet(e, &all, at);
        goes_on = send_packet(e, &s);
        if (!goes_on && at < all.count)
            atomic_fetch_add_explicit(&e->lost, 1, memory_order_relaxed);
    }
    free(all.series);
    report_result(e, &s);
}

/* --- the thread ------------------------------------------------------------------------------ */

/* Under the lock. Waits for the interval, a flush, or the end. */
static void wait_for_turn(struct trace_metrics_exporter *e)
{
    struct timespec until = trace_deadline(e->config->metric_interval_ms);
    while (!e->stop && e->flushes_requested == e->flushes_completed &&
           pthread_cond_timedwait(&e->wake, &e->lock, &until) != ETIMEDOUT)
        ;
}

static void *run(void *argument)
{
    struct trace_metrics_exporter *e = argument;
    bool goes_on = true;
    pthread_mutex_lock(&e->lock);
    while (goes_on) {
        wait_for_turn(e);
        goes_on = !e->stop; /* the last round sends, too */
        uint64_t flushes_requested = e->flushes_requested;
        pthread_mutex_unlock(&e->lock);
        send_all(e);
        pthread_mutex_lock(&e->lock);
        e->flushes_completed = flushes_requested;
        pthread_cond_broadcast(&e->done);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static bool pause_exporter(void *argument, unsigned ms)
{
    struct trace_metrics_exporter *e = argument;
    struct timespec until = trace_deadline(ms);
    pthread_mutex_lock(&e->lock);
    bool stopped = e->stop; /* a stop ends only the pause during which it arrives: the next attempt follows at once */
    while (e->stop == stopped && pthread_cond_timedwait(&e->wake, &e->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&e->lock);
    return true;
}

static uint64_t closed_ns(void *argument)
{
    struct trace_metrics_exporter *e = argument;
    return atomic_load(&e->closed_ns);
}

/* Under the lock. */
static int start_thread(struct trace_metrics_exporter *e)
{
    if (!e->url || e->config->no_metrics)
        return 0;
    int r = trace_background_start(&e->thread, run, e);
    e->running = r == 0;
    return r;
}

/* If no thread can be created, the next generation tries again; the error is reported once. */
void trace_metrics_exporter_start(struct trace_metrics_exporter *e)
{
    pthread_mutex_lock(&e->lock);
    bool wanted = !e->stop && !trace_metrics_exporter_is_started(e);
    int r = wanted ? start_thread(e) : 0;
    bool failed_anew = r < 0 && r != e->last_error;
    if (r < 0)
        e->last_error = r;
    else
        atomic_store_explicit(&e->started, true, memory_order_relaxed);
    pthread_mutex_unlock(&e->lock);
    if (failed_anew)
        report(e, -r, "metrics are not sent, no thread", "");
    if (wanted && !e->url && !e->config->no_metrics)
        report(e, EINVAL, "metrics are not sent",
               "the URL does not end in /v1/traces, and OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is not set");
}

/* --- lifecycle ------------------------------------------------------------------------------- */

/* Determines the URL of metrics, configured or derived from that of traces, and its protocol. NULL: none, or out of
 * memory. */
static char *url_of(const struct sonde_trace_config *config, enum otlp_protocol *ret_protocol)
{
    static const char traces[] = "/v1/traces", metrics[] = "/v1/metrics";
    const char *own = config->exporters[OTLP_SIGNAL_METRICS].endpoint, *url = trace_otlp_url(config);
    size_t size = strlen(url), suffix = strlen(traces);
    const enum otlp_protocol configured = config->exporters[OTLP_SIGNAL_METRICS].protocol;
    const bool is_beside_grpc = !*own && trace_otlp_protocol(config) == OTLP_GRPC;
    *ret_protocol = is_beside_grpc ? OTLP_GRPC : !*own && configured == OTLP_GRPC ? OTLP_HTTP_JSON : configured;
    if (*own || is_beside_grpc) /* a gRPC URL serves all signals */
        return strdup(*own ? own : url);
    if (size < suffix || strcmp(url + size - suffix, traces) != 0)
        return NULL;
    char *derived = malloc(size - suffix + sizeof(metrics));
    if (derived) {
        memcpy(derived, url, size - suffix);
        memcpy(derived + size - suffix, metrics, sizeof(metrics));
    }
    return derived;
}

/* Generates a UUID (version 4) for this process. */
static void name_instance(struct trace_metrics_exporter *e)
{
    uint8_t id[16];
    trace_ids_trace(e->ids, id);
    id[6] = (uint8_t)((id[6] & 0x0f) | 0x40);
    id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
    for (size_t i = 0, at = 0; i < sizeof(id); i++)
        at += (size_t)snprintf(e->instance + at, sizeof(e->instance) - at,
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
}

/* Disables the export. An invalid URL in an inherited environment, possibly meant for other programs, must not stop
 * the server. */
static int disable_export(struct trace_metrics_exporter *e, const char *reason)
{
    char detail[OTLP_TRANSPORT_WHY_SIZE + 64];
    snprintf(detail, sizeof(detail), "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: %s", reason);
    report(e, EINVAL, "metrics are not sent", detail);
    free(e->url);
    e->url = NULL;
    atomic_store(&e->started, true);
    return 0;
}

int trace_metrics_exporter_init(struct trace_metrics_exporter *e, const struct sonde_trace_config *config,
                                const struct sonde_trace_options *user, struct trace_metrics *metrics,
                                const struct otlp_transport *transport, struct trace_ids *ids, const char *provider,
                                char *why, size_t why_size)
{
    char reason[OTLP_TRANSPORT_WHY_SIZE] = "";
    *e = (struct trace_metrics_exporter){.config = config,
                                         .metrics = metrics,
                                         .provider = provider,
                                         .on_error = user->on_error,
                                         .argument = user->argument,
                                         .ids = ids};
    atomic_init(&e->started, transport == NULL);
    e->url = transport ? url_of(config, &e->protocol) : NULL;
    const struct otlp_sender_options options = {
        .transport = transport,
        .settings = &config->exporters[OTLP_SIGNAL_METRICS],
        .signal = OTLP_SIGNAL_METRICS,
        .protocol = e->protocol,
        .url = e->url,
        .user_agent = TRACE_OTLP_USER_AGENT,
        .limits = {.attempts_max = TRACE_OTLP_ATTEMPTS_MAX, .pause_max_ms = TRACE_OTLP_PAUSE_MAX_MS},
        .read_json = trace_partial_success_json,
        .errors = &e->errors,
        .now_ns = trace_clock_ns,
        .pause = pause_exporter,
        .closed_ns = closed_ns,
        .argument = e};
    int r = 0;
    if (e->url && !config->no_metrics)
        r = otlp_sender_init(&e->sender, &options, reason, sizeof(reason));
    if (r == -EINVAL && *config->exporters[OTLP_SIGNAL_METRICS].endpoint)
        r = disable_export(e, reason);
    if (r == 0)
        r = trace_conditions_init(&e->wake, &e->done);
    if (r < 0) {
        if (why_size)
            snprintf(why, why_size, "Bad option: \"--trace-config opentelemetry,url\".\n%s", reason);
        otlp_sender_fini(&e->sender);
        free(e->url);
        return r;
    }
    pthread_mutex_init(&e->lock, NULL);
    name_instance(e);
    return 0;
}

int trace_metrics_exporter_flush(struct trace_metrics_exporter *e, unsigned timeout_ms)
{
    struct timespec until = trace_deadline(timeout_ms);
    int r = 0;
    pthread_mutex_lock(&e->lock);
    e->flushes_requested += e->running;
    uint64_t target = e->flushes_requested;
    pthread_cond_signal(&e->wake);
    while (e->running && e->flushes_completed < target && r == 0)
        r = pthread_cond_timedwait(&e->done, &e->lock, &until);
    r = e->running && e->flushes_completed < target ? -ETIMEDOUT : 0;
    pthread_mutex_unlock(&e->lock);
    return r;
}

void trace_metrics_exporter_stop(struct trace_metrics_exporter *e)
{
    atomic_store(&e->closed_ns, sonde_trace_now_ns());
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

void trace_metrics_exporter_join(struct trace_metrics_exporter *e)
{
    pthread_mutex_lock(&e->lock);
    bool running = e->running;
    pthread_mutex_unlock(&e->lock);
    if (running)
        pthread_join(e->thread, NULL);
    pthread_mutex_lock(&e->lock);
    e->running = false;
    pthread_mutex_unlock(&e->lock);
}

void trace_metrics_exporter_fini(struct trace_metrics_exporter *e)
{
    otlp_sender_fini(&e->sender);
    trace_text_free(&e->packet);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->wake);
    pthread_cond_destroy(&e->done);
    free(e->url);
}

/* The packet may have been in use at the fork: it is abandoned. */
void trace_metrics_exporter_reset_in_child(struct trace_metrics_exporter *e)
{
    atomic_uint_least64_t *counts[] = {&e->sent, &e->lost, &e->errors, &e->rejected};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        atomic_store_explicit(counts[i], 0, memory_order_relaxed);
    otlp_sender_reset_in_child(&e->sender);
    e->packet = (struct trace_text){0};
    e->running = e->rejecting = false;
    e->flushes_requested = e->flushes_completed = 0;
    e->last_error = 0;
    atomic_store(&e->started, e->url == NULL);
    trace_conditions_init(&e->wake, &e->done); /* the old condition variables have waiters that do not exist here */
    name_instance(e);
}
