/* See profile_sender.h. libsonde's exporters use the same transport (lib/otlp). */
#include "agent/profile_sender.h"

#include "agent/send_warnings.h"
#include "base/clock.h"
#include "base/log.h"
#include "export/otlp_profiles.h"

#include "otlp/zstd.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#define PACKET_BYTES ((size_t)1 << 20)

static const struct otlp_retry_limits retry_limits = {
    .attempts_max = UINT_MAX, .pause_max_ms = 10000, .give_up_ns = 300 * 1000000000ull};

struct profile_sender {
    struct profile_sender_options o;
    struct config config;
    struct otlp_settings settings; /* its strings belong to `config` */
    char shown[OTLP_URL_SHOWN_SIZE];
    struct utsname uts;
    struct otlp_profiles_options profiles_options;
    struct otlp_sender sender;
    struct send_warnings warnings;
    uint64_t packet_samples; /* samples of the current profile in packets so far, delivered or dropped */
};

static uint64_t read_clock(void *argument)
{
    const struct profile_sender *s = argument;
    return s->o.now_ns(s->o.argument);
}

static bool pause_sending(void *argument, unsigned ms)
{
    const struct profile_sender *s = argument;
    return s->o.pause(s->o.argument, ms);
}

static uint64_t closed_ns(void *argument)
{
    const struct profile_sender *s = argument;
    return s->o.closed_ns(s->o.argument);
}

static enum drop_reason reason_of(struct profile_sender *s, int error, bool is_busy)
{
    if (error == -EREMOTEIO && !is_busy)
        return DROP_REFUSED;
    if (error == -ENOMEM)
        return DROP_NO_MEMORY;
    return closed_ns(s) ? DROP_ENDED : DROP_UNREACHABLE;
}

static void warn(const struct profile_sender *s, const char *why)
{
    log_warning("profiles cannot be delivered to %s: %s", s->shown, why);
}

static void on_failure(void *argument, const char *why)
{
    struct profile_sender *s = argument;
    if (send_warnings_failure(&s->warnings, why, read_clock(s)))
        warn(s, why);
}

static void drop_packet(struct profile_sender *s, int error, const struct otlp_delivery *delivery, uint64_t samples)
{
    const enum drop_reason reason = reason_of(s, error, delivery->is_busy);
    export_stats_count(&s->o.stats->dropped[reason], samples);
    if (reason == DROP_REFUSED && send_warnings_refusal(&s->warnings, delivery->why, read_clock(s)))
        warn(s, delivery->why);
}

static void send_packet(void *context, const struct otlp_profiles_packet *packet)
{
    struct profile_sender *s = context;
    struct export_stats *stats = s->o.stats;
    struct otlp_delivery delivery;
    s->packet_samples += packet->samples;
    int r = otlp_sender_deliver(&s->sender, packet->data, packet->size, &delivery);
    if (r < 0) {
        drop_packet(s, r, &delivery, packet->samples);
        return;
    }
    if (send_warnings_accepted(&s->warnings))
        log_info("%s accepts profiles again", s->shown);
    export_stats_count(&stats->packets, 1);
    export_stats_count(&stats->bytes, delivery.sent_bytes);
    export_stats_count(&stats->samples, packet->samples);
    export_stats_count(&stats->rejected_profiles,
                       delivery.rejected < packet->profiles ? delivery.rejected : packet->profiles);
    if (delivery.rejected || delivery.why[0])
        log_debug("%s rejected %llu profiles: %s", s->shown, (unsigned long long)delivery.rejected, delivery.why);
}

void profile_sender_send(struct profile_sender *s, const struct profile *p)
{
    uint64_t too_large = 0;
    s->packet_samples = 0;
    int r = otlp_profiles_write(p, &s->profiles_options, &(struct otlp_profiles_sink){s, send_packet}, &too_large);
    export_stats_count(&s->o.stats->dropped[DROP_TOO_LARGE], too_large);
    if (r < 0)
        export_stats_count(&s->o.stats->dropped[DROP_NO_MEMORY], profile_samples(p) - s->packet_samples);
}

static void set_profiles_options(struct profile_sender *s)
{
    uname(&s->uts);
    s->profiles_options =
        (struct otlp_profiles_options){.packet_max_bytes = PACKET_BYTES, .host_name = s->uts.nodename};
    (void)config_timestamp_step(&s->config, &s->profiles_options.time_step_ns);
    if (getrandom(&s->profiles_options.id_seed, sizeof(s->profiles_options.id_seed), GRND_NONBLOCK) < 0)
        s->profiles_options.id_seed = clock_unix_ns();
}

static void set_settings(struct profile_sender *s)
{
    struct config *c = &s->config;
    s->settings = (struct otlp_settings){.endpoint = c->otlp_profiles_endpoint,
                                         .headers = c->otlp_headers,
                                         .certificate = c->otlp_certificate,
                                         .client_certificate = c->otlp_client_certificate,
                                         .client_key = c->otlp_client_key,
                                         .timeout_ms = (uint32_t)c->otlp_timeout_ms,
                                         .protocol = config_is_grpc(c) ? OTLP_GRPC : OTLP_HTTP_PROTOBUF,
                                         .gzip = strcmp(c->otlp_compression, "gzip") == 0};
    otlp_url_shown(c->otlp_profiles_endpoint, s->shown);
}

int profile_sender_new(const struct profile_sender_options *o, struct profile_sender **ret)
{
    _cleanup_(profile_sender_freep) struct profile_sender *s = calloc(1, sizeof(*s));
    char why[OTLP_TRANSPORT_WHY_SIZE] = "out of memory";
    if (!s)
        return -ENOMEM;
    s->o = *o;
    s->config = *o->config;
    set_profiles_options(s);
    set_settings(s);
    const struct otlp_sender_options options = {.transport = o->transport,
                                                .settings = &s->settings,
                                                .signal = OTLP_SIGNAL_PROFILES,
                                                .protocol = s->settings.protocol,
                                                .url = s->config.otlp_profiles_endpoint,
                                                .user_agent = "sonde/" SONDE_VERSION,
                                                .encoding =
                                                    strcmp(s->config.otlp_compression, "zstd") == 0 ? &otlp_zstd : NULL,
                                                .limits = retry_limits,
                                                .errors = &o->stats->failures,
                                                .failed = on_failure,
                                                .now_ns = read_clock,
                                                .pause = pause_sending,
                                                .closed_ns = closed_ns,
                                                .argument = s};
    int r = otlp_sender_init(&s->sender, &options, why, sizeof(why));
    if (r < 0)
        return log_errno(r, "otlp.profiles_endpoint: %s: %s", s->shown, why);
    *ret = take_ptr(s);
    return 0;
}

void profile_sender_free(struct profile_sender *s)
{
    if (!s)
        return;
    otlp_sender_fini(&s->sender);
    free(s);
}

const char *profile_sender_url(const struct profile_sender *s)
{
    return s->shown;
}

bool profile_sender_is_grpc(const struct profile_sender *s)
{
    return s->settings.protocol == OTLP_GRPC;
}
