/* See opamp_client.h. */
#include "send/opamp_client.h"

#include "base/clock.h"
#include "base/log.h"
#include "send/export_stats.h"
#include "send/opamp_captures.h"
#include "send/opamp_reply.h"
#include "send/opamp_uid.h"
#include "send/send_warnings.h"

#include "otlp/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define SECOND_NS    1000000000ull
#define TIMEOUT_MS   10000
#define END_NS       (2 * SECOND_NS)
#define PAUSE_MAX_NS (300 * SECOND_NS) /* that a server may ask for */

struct opamp_client {
    struct export_io io;
    struct opamp_source source;
    struct export_end end;
    uint64_t interval_ns;
    char endpoint[sizeof(((struct config *)0)->opamp_endpoint)], headers[sizeof(((struct config *)0)->opamp_headers)];
    char certificate[sizeof(((struct config *)0)->otlp_certificate)];
    char attributes[sizeof(((struct config *)0)->otlp_resource_attributes)];
    char shown[OTLP_URL_SHOWN_SIZE];
    pthread_t thread;
    bool has_thread;
    atomic_uint_least64_t reports, failures;

    struct buf config; /* this and the next under end.lock: the text in force */
    uint64_t config_version;

    /* The thread. */
    struct utsname uts;
    void *connection; /* NULL: not opened yet */
    uint8_t uid[OPAMP_UID_BYTES];
    uint64_t sequence;
    bool needs_description;
    struct opamp_captures *captures; /* NULL: none are taken */
    uint64_t known_config;           /* the version that the server has; 0: none */
    struct send_warnings warnings;
};

static uint64_t clock_now(const struct opamp_client *c)
{
    return c->io.now_ns(c->io.argument);
}

/* ---- one report ---- */

static bool is_overdue(void *argument)
{
    struct opamp_client *c = argument;
    const uint64_t begun_ns = export_end_begun_ns(&c->end);
    return begun_ns && clock_now(c) - begun_ns > END_NS;
}

static int open_connection(struct opamp_client *c, char *why, size_t why_size)
{
    const struct otlp_transport_options options = {.url = c->endpoint,
                                                   .content_type = "application/x-protobuf",
                                                   .headers = c->headers,
                                                   .certificate = c->certificate,
                                                   .client_certificate = "",
                                                   .client_key = "",
                                                   .user_agent = "sonde/" SONDE_VERSION,
                                                   .timeout_ms = TIMEOUT_MS,
                                                   .is_overdue = is_overdue,
                                                   .argument = c};
    return c->io.transport->open(&options, &c->connection, why, why_size);
}

/* Appends the configuration that the server does not have; nothing if it has the present one. Returns its version. */
static uint64_t copy_new_config(struct opamp_client *c, struct buf *out)
{
    pthread_mutex_lock(&c->end.lock);
    const uint64_t version = c->config_version;
    if (version != c->known_config && c->config.size)
        buf_append(out, c->config.data, c->config.size);
    pthread_mutex_unlock(&c->end.lock);
    return version;
}

/* `ret_config`: the version of the configuration that the server has if it accepts the message. */
static int build_message(struct opamp_client *c, bool is_last, struct buf *out, uint64_t *ret_config)
{
    _cleanup_buf_ struct buf config = {0};
    struct opamp_health health = {0};
    const struct opamp_description description = {c->uts.nodename, c->uts.release, c->uts.machine, c->attributes};
    struct opamp_agent_message message = {.instance_uid = c->uid, .sequence = c->sequence++, .is_last = is_last};
    *ret_config = c->known_config;
    if (!is_last) { /* the agent's state goes away */
        *ret_config = copy_new_config(c, &config);
        c->source.health(c->source.context, &health);
        message.description = c->needs_description ? &description : NULL;
        message.health = &health;
        message.takes_captures = c->captures && c->needs_description;
        message.capture = c->captures ? opamp_captures_news(c->captures) : NULL;
        message.config = config.size ? config.data : NULL;
    }
    opamp_agent_write(&message, out);
    return buf_error(&config) ?: buf_error(out);
}

static void fail(struct opamp_client *c, const char *why)
{
    export_stats_count(&c->failures, 1);
    if (send_warnings_failure(&c->warnings, why, clock_now(c)))
        log_warning("the agent's state cannot be reported to %s: %s", c->shown, why);
}

/* Posts one report. 0: the server has it, and `ret` is its answer; otherwise `*ret_pause_ns` is how long the server
 * wants to be left alone. */
static int post_report(struct opamp_client *c, bool is_last, struct opamp_reply *ret, uint64_t *ret_pause_ns)
{
    _cleanup_buf_ struct buf message = {0};
    struct otlp_answer answer = {.why = "out of memory"};
    uint64_t config;
    int r = c->connection ? 0 : open_connection(c, answer.why, sizeof(answer.why));
    r = r < 0 ? r : build_message(c, is_last, &message, &config);
    r = r < 0 ? r : c->io.transport->post(c->connection, message.data, message.size, &answer);
    if (r == 0 && answer.verdict != OTLP_ACCEPTED)
        r = -EREMOTEIO;
    *ret_pause_ns = answer.retry_after_ms * 1000000ull;
    if (r == 0 && opamp_reply_read(answer.body, answer.body_size, c->uid, ret) < 0) {
        r = -EBADMSG;
        snprintf(answer.why, sizeof(answer.why), "the answer is not one of OpAMP, or is for another agent");
    } else if (r == 0 && ret->has_error) {
        r = -EREMOTEIO;
        snprintf(answer.why, sizeof(answer.why), "%s", ret->error[0] ? ret->error : "an error without a reason");
        *ret_pause_ns = ret->retry_ns;
    }
    if (r < 0) {
        fail(c, answer.why);
        return r;
    }
    if (send_warnings_accepted(&c->warnings))
        log_info("%s accepts reports again", c->shown);
    export_stats_count(&c->reports, 1);
    if (c->captures && !is_last)
        opamp_captures_reported(c->captures);
    c->needs_description = false;
    c->known_config = config;
    return 0;
}

static void follow(struct opamp_client *c, const struct opamp_reply *reply)
{
    if (reply->has_capture && c->captures)
        opamp_captures_start(c->captures, &reply->capture, clock_now(c));
    if (reply->has_new_uid) {
        log_warning("opamp: %s gives this agent another instance UID: another agent has its machine id and host name",
                    c->shown);
        memcpy(c->uid, reply->new_uid, sizeof(c->uid));
    }
    if (!reply->wants_full_state && !reply->has_new_uid)
        return;
    c->needs_description = true;
    c->known_config = 0;
}

uint64_t opamp_client_report(struct opamp_client *c)
{
    struct opamp_reply reply;
    uint64_t pause_ns;
    if (c->captures)
        opamp_captures_finish(c->captures, clock_now(c));
    for (int i = 0; i < 2; i++) {
        if (post_report(c, false, &reply, &pause_ns) < 0)
            break;
        follow(c, &reply);
        if (!c->needs_description && !(c->captures && opamp_captures_news(c->captures)))
            break;
    }
    pause_ns = pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
    pause_ns = pause_ns > c->interval_ns ? pause_ns : c->interval_ns;
    const uint64_t left_ns = c->captures ? opamp_captures_left_ns(c->captures, clock_now(c)) : UINT64_MAX;
    return left_ns < pause_ns ? left_ns : pause_ns;
}

/* ---- the thread ---- */

static void *report_thread(void *context)
{
    struct opamp_client *c = context;
    struct opamp_reply reply;
    uint64_t pause_ns;
    do
        pause_ns = opamp_client_report(c);
    while (export_end_pause(&c->end, clock_now(c) + pause_ns));
    if (c->known_config)
        post_report(c, true, &reply, &pause_ns);
    return NULL;
}

/* ---- lifecycle ---- */

void opamp_client_set_config(struct opamp_client *c, const struct config *config)
{
    struct buf text = {0};
    config_put_text(config, &text);
    if (buf_error(&text) < 0) {
        buf_clear(&text);
        return;
    }
    pthread_mutex_lock(&c->end.lock);
    struct buf before = c->config;
    c->config = text;
    c->config_version++;
    pthread_mutex_unlock(&c->end.lock);
    buf_clear(&before);
}

static void copy_settings(struct opamp_client *c, const struct config *config)
{
    c->interval_ns = (uint64_t)config->opamp_interval_s * SECOND_NS;
    memcpy(c->endpoint, config->opamp_endpoint, sizeof(c->endpoint));
    memcpy(c->headers, config->opamp_headers, sizeof(c->headers));
    memcpy(c->certificate, config->otlp_certificate, sizeof(c->certificate));
    memcpy(c->attributes, config->otlp_resource_attributes, sizeof(c->attributes));
    otlp_url_shown(c->endpoint, c->shown);
}

int opamp_client_new(const struct config *config, const struct opamp_source *source, const struct export_io *io,
                     struct opamp_client **ret)
{
    char why[OTLP_TRANSPORT_WHY_SIZE] = "out of memory";
    if (!config->opamp_endpoint[0]) {
        *ret = NULL;
        return 0;
    }
    _cleanup_(opamp_client_freep) struct opamp_client *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    export_end_init(&c->end);
    c->io = io ? *io : export_io_system(&c->end);
    c->source = *source;
    c->needs_description = true;
    uname(&c->uts);
    if (!opamp_uid_make(c->uts.nodename, c->uid))
        log_info("opamp: this machine has no /etc/machine-id: servers see another agent after each start");
    copy_settings(c, config);
    opamp_client_set_config(c, config);
    int r = opamp_captures_new(config, source, &c->io, &c->end, &c->captures);
    if (r < 0)
        return r;
    r = open_connection(c, why, sizeof(why));
    if (r < 0)
        return log_errno(r, "opamp.endpoint: %s: %s", c->shown, why);
    *ret = take_ptr(c);
    return 0;
}

int opamp_client_start(struct opamp_client *c)
{
    assert(!c->has_thread);
    const int r = -pthread_create(&c->thread, NULL, report_thread, c);
    if (r < 0)
        return r;
    c->has_thread = true;
    (void)pthread_setname_np(c->thread, "opamp");
    log_info("the agent's state is reported to %s every %llu s", c->shown,
             (unsigned long long)(c->interval_ns / SECOND_NS));
    return 0;
}

void opamp_client_end(struct opamp_client *c)
{
    if (c)
        export_end_begin(&c->end, clock_now(c));
}

void opamp_client_free(struct opamp_client *c)
{
    if (!c)
        return;
    opamp_client_end(c);
    if (c->has_thread)
        pthread_join(c->thread, NULL);
    if (c->connection)
        c->io.transport->close(c->connection);
    opamp_captures_free(c->captures);
    buf_clear(&c->config);
    export_end_fini(&c->end);
    free(c);
}

void opamp_client_metrics(struct opamp_client *c, struct metric_set *set)
{
    metric_add(set, "sonde_self_opamp_reports", METRIC_COUNTER, "", "Reports of the agent's state that the server has.",
               (double)export_stats_read(&c->reports), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_opamp_failures", METRIC_COUNTER, "",
               "Reports of the agent's state that the server did not take.", (double)export_stats_read(&c->failures),
               METRIC_NO_LABELS);
}
