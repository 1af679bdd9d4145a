/* See opamp_captures.h. */
#include "send/opamp_captures.h"

#include "base/log.h"
#include "send/profile_sender.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000ull

struct opamp_captures {
    struct opamp_source source;
    struct profile_sender *sender;
    struct export_stats stats;
    bool is_running;
    struct opamp_capture running; /* or the last one */
    uint64_t begun_ns, ends_ns;
    struct opamp_capture_state news; /* of the running or the last one */
    bool has_news;
};

int opamp_captures_new(const struct config *config, const struct opamp_source *source, const struct export_io *io,
                       struct export_end *end, struct opamp_captures **ret)
{
    if (!config->otlp_captures_endpoint[0]) {
        *ret = NULL;
        return 0;
    }
    _cleanup_(opamp_captures_freep) struct opamp_captures *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->source = *source;
    const int r = profile_sender_new(config, io, end, &c->stats, true, &c->sender);
    if (r < 0)
        return r;
    *ret = take_ptr(c);
    return 0;
}

void opamp_captures_free(struct opamp_captures *c)
{
    if (!c)
        return;
    profile_sender_free(c->sender);
    free(c);
}

/* NULL: it can begin, unless the agent has a reason against it. */
static const char *find_fault(const struct opamp_capture *capture)
{
    if (!capture->is_known)
        return "this version of the agent does not know all that the server asks for";
    if (!capture->seconds)
        return "the number of seconds is out of range";
    if (!capture->pid && !capture->container[0] && !capture->service[0])
        return "a process, a container or a service is needed";
    return NULL;
}

void opamp_captures_start(struct opamp_captures *c, const struct opamp_capture *capture, uint64_t now_ns)
{
    const char *fault = find_fault(capture);
    if (c->is_running || strcmp(capture->id, c->news.id) == 0)
        return;
    c->news = (struct opamp_capture_state){.state = CAPTURE_REFUSED};
    c->has_news = true;
    memcpy(c->news.id, capture->id, sizeof(c->news.id));
    if (fault)
        snprintf(c->news.why, sizeof(c->news.why), "%s", fault);
    if (fault || c->source.check_capture(c->source.context, capture, c->news.why, sizeof(c->news.why)) < 0)
        return;
    log_info("opamp: the server asks for %s profile of %u s (capture %s)", capture->is_off_cpu ? "an off-CPU" : "a CPU",
             capture->seconds, capture->id);
    c->news.state = CAPTURE_RUNNING;
    c->is_running = true;
    c->running = *capture;
    c->begun_ns = now_ns;
    c->ends_ns = now_ns + capture->seconds * SECOND_NS;
}

__attribute__((format(printf, 2, 3))) static void fail(struct opamp_captures *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    c->news.state = CAPTURE_FAILED;
    vsnprintf(c->news.why, sizeof(c->news.why), format, arguments);
    va_end(arguments);
}

/* A capture is done when the receiver has all samples of all its time. */
static void send_profile(struct opamp_captures *c, const struct profile *p)
{
    const uint64_t before = export_stats_read(&c->stats.samples), all = profile_samples(p),
                   rejected = export_stats_read(&c->stats.rejected_profiles);
    profile_sender_send_capture(c->sender, p, c->running.id);
    c->news.samples = export_stats_read(&c->stats.samples) - before;
    if (p->dropped)
        fail(c, "%" PRIu64 " samples could not be kept", p->dropped);
    else if (export_stats_read(&c->stats.rejected_profiles) != rejected)
        fail(c, "the receiver rejected samples");
    else if (c->news.samples != all)
        fail(c, "%" PRIu64 " of %" PRIu64 " samples could not be delivered", all - c->news.samples, all);
    else if (p->not_observed_ns)
        fail(c, "%" PRIu64 " ms of the %u s were not monitored", p->not_observed_ns / 1000000, c->running.seconds);
}

void opamp_captures_finish(struct opamp_captures *c, uint64_t now_ns)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    if (!c->is_running || opamp_captures_left_ns(c, now_ns))
        return;
    c->is_running = false;
    c->has_news = true;
    c->news.state = CAPTURE_DONE;
    const int r = c->source.capture(c->source.context, &c->running, c->begun_ns, c->ends_ns, &p);
    if (r == 0)
        send_profile(c, p);
    else
        fail(c, "the samples cannot be read: %s", strerror(-r));
}

uint64_t opamp_captures_left_ns(const struct opamp_captures *c, uint64_t now_ns)
{
    const uint64_t ready_ns = c->ends_ns + OPAMP_CAPTURE_SETTLE_NS;
    return !c->is_running ? UINT64_MAX : ready_ns > now_ns ? ready_ns - now_ns : 0;
}

const struct opamp_capture_state *opamp_captures_news(const struct opamp_captures *c)
{
    return c->has_news ? &c->news : NULL;
}

void opamp_captures_reported(struct opamp_captures *c)
{
    c->has_news = false;
}
