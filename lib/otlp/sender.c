/* See sender.h. Attempts, pauses and deadlines are the same for every signal. */
#include "sender.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const char *const rpcs[] = {
    [OTLP_SIGNAL_TRACES] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    [OTLP_SIGNAL_METRICS] = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    [OTLP_SIGNAL_PROFILES] = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    [OTLP_SIGNAL_LOGS] = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"};

/* Traces and metrics are compressed within the traced program, at its expense, so quickly; profiles and logs
 * in the agent, one packet every few seconds. */
static const unsigned gzip_levels[] = {
    [OTLP_SIGNAL_TRACES] = 1, [OTLP_SIGNAL_METRICS] = 1, [OTLP_SIGNAL_PROFILES] = 6, [OTLP_SIGNAL_LOGS] = 6};

/* The clock is read after `closed_ns`, so that it never precedes it. */
static bool is_overdue(void *argument)
{
    const struct otlp_sender *s = argument;
    const uint64_t closed_ns = s->o.closed_ns(s->o.argument);
    return closed_ns && otlp_retry_left_ms(closed_ns, s->o.now_ns(s->o.argument)) == 0;
}

static int open_connection(struct otlp_sender *s, char *why, size_t why_size)
{
    const struct otlp_settings *c = s->o.settings;
    const bool is_json = s->o.protocol == OTLP_HTTP_JSON;
    const struct otlp_transport_options options = {.url = s->o.url,
                                                   .content_type =
                                                       is_json ? "application/json" : "application/x-protobuf",
                                                   .rpc = s->o.protocol == OTLP_GRPC ? rpcs[s->o.signal] : NULL,
                                                   .headers = c->headers,
                                                   .certificate = c->certificate,
                                                   .client_certificate = c->client_certificate,
                                                   .client_key = c->client_key,
                                                   .user_agent = s->o.user_agent,
                                                   .gzip_level = c->gzip ? gzip_levels[s->o.signal] : 0,
                                                   .encoding = s->o.encoding,
                                                   .timeout_ms = c->timeout_ms,
                                                   .is_overdue = is_overdue,
                                                   .argument = s};
    return s->o.transport->open(&options, &s->connection, why, why_size);
}

/* One attempt. *ret_again: whether a retry may succeed. */
static int post(struct otlp_sender *s, const void *data, size_t size, struct otlp_answer *answer, bool *ret_again)
{
    *ret_again = true;
    int r = s->connection ? 0 : open_connection(s, answer->why, sizeof(answer->why));
    if (r == 0)
        r = s->o.transport->post(s->connection, data, size, answer);
    if (r < 0 || answer->verdict == OTLP_ACCEPTED)
        return r;
    *ret_again = answer->verdict == OTLP_BUSY;
    return -EREMOTEIO;
}

/* Differs between processes and between calls. Not for secrets. */
static uint64_t mix_random(const struct otlp_sender *s, uint64_t now_ns)
{
    uint64_t x = now_ns ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)s;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* False: give up. */
static bool pause_until_next(struct otlp_sender *s, struct otlp_retry *retry, const struct otlp_answer *answer)
{
    const uint64_t closed_ns = s->o.closed_ns(s->o.argument), now_ns = s->o.now_ns(s->o.argument);
    unsigned ms;
    return otlp_retry_next(retry, now_ns, closed_ns, answer->retry_after_ms, mix_random(s, now_ns), &ms) &&
           s->o.pause(s->o.argument, ms) && !is_overdue(s);
}

static uint64_t read_rejected(const struct otlp_sender *s, const struct otlp_answer *answer, char *why)
{
    *why = '\0';
    if (s->o.protocol != OTLP_HTTP_JSON)
        return otlp_partial_success(answer->body, answer->body_size, why);
    return s->o.read_json ? s->o.read_json(answer->body, answer->body_size, why) : 0;
}

int otlp_sender_deliver(struct otlp_sender *s, const void *data, size_t size, struct otlp_delivery *ret)
{
    struct otlp_answer answer = {.why = "the program ends"};
    struct otlp_retry retry;
    int r = -ECANCELED;
    otlp_retry_begin(&retry, &s->o.limits, s->o.now_ns(s->o.argument));
    for (bool again = !is_overdue(s); again;) {
        answer = (struct otlp_answer){0};
        r = post(s, data, size, &answer, &again);
        if (r == 0)
            break;
        atomic_fetch_add_explicit(s->o.errors, 1, memory_order_relaxed);
        if (s->o.failed)
            s->o.failed(s->o.argument, answer.why);
        again = again && pause_until_next(s, &retry, &answer);
    }
    *ret = (struct otlp_delivery){.sent_bytes = answer.sent_bytes,
                                  .is_final = r < 0 && answer.verdict == OTLP_REFUSED,
                                  .is_busy = r < 0 && answer.verdict == OTLP_BUSY};
    if (r == 0)
        ret->rejected = read_rejected(s, &answer, ret->why);
    else
        snprintf(ret->why, sizeof(ret->why), "%s", answer.why);
    return r;
}

int otlp_sender_init(struct otlp_sender *s, const struct otlp_sender_options *o, char *why, size_t why_size)
{
    *s = (struct otlp_sender){.o = *o};
    return open_connection(s, why, why_size);
}

void otlp_sender_fini(struct otlp_sender *s)
{
    if (s->connection)
        s->o.transport->close(s->connection);
    s->connection = NULL;
}

void otlp_sender_reset_in_child(struct otlp_sender *s)
{
    s->connection = NULL;
}
