/* See profile_sender.h. */
#include "send/profile_sender.h"

#include "base/clock.h"
#include "export/otlp_profiles.h"
#include "send/packet_sender.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/utsname.h>

#define PACKET_BYTES       ((size_t)1 << 20)
#define GIVE_UP_NS         (300 * 1000000000ull)
#define CAPTURE_GIVE_UP_NS (30 * 1000000000ull) /* reports by OpAMP wait for it */

struct profile_sender {
    struct export_stats *stats;
    struct packet_sender *sender;
    struct utsname uts;
    struct otlp_profiles_options options;
    uint64_t packet_samples; /* samples of the current profile in packets so far, delivered or dropped */
};

static void send_packet(void *context, const struct otlp_profiles_packet *packet)
{
    struct profile_sender *s = context;
    uint64_t rejected;
    enum drop_reason reason;
    s->packet_samples += packet->samples;
    if (packet_sender_send(s->sender, packet->data, packet->size, &rejected, &reason) < 0) {
        export_stats_count(&s->stats->dropped[reason], packet->samples);
        return;
    }
    export_stats_count(&s->stats->samples, packet->samples);
    export_stats_count(&s->stats->rejected_profiles, rejected < packet->profiles ? rejected : packet->profiles);
}

void profile_sender_send(struct profile_sender *s, const struct profile *p)
{
    uint64_t too_large = 0;
    s->packet_samples = 0;
    int r = otlp_profiles_write(p, &s->options, &(struct otlp_profiles_sink){s, send_packet}, &too_large);
    export_stats_count(&s->stats->dropped[DROP_TOO_LARGE], too_large);
    if (r < 0)
        export_stats_count(&s->stats->dropped[DROP_NO_MEMORY], profile_samples(p) - s->packet_samples);
}

void profile_sender_send_capture(struct profile_sender *s, const struct profile *p, const char *capture_id)
{
    s->options.capture_id = capture_id;
    profile_sender_send(s, p);
    s->options.capture_id = NULL;
}

static void set_options(struct profile_sender *s, const struct config *config)
{
    uname(&s->uts);
    s->options = (struct otlp_profiles_options){.packet_max_bytes = PACKET_BYTES, .host_name = s->uts.nodename};
    (void)config_timestamp_step(config, &s->options.time_step_ns);
    if (getrandom(&s->options.id_seed, sizeof(s->options.id_seed), GRND_NONBLOCK) < 0)
        s->options.id_seed = clock_unix_ns();
}

int profile_sender_new(const struct config *config, const struct export_io *io, struct export_end *end,
                       struct export_stats *stats, bool is_for_captures, struct profile_sender **ret)
{
    _cleanup_(profile_sender_freep) struct profile_sender *s = calloc(1, sizeof(*s));
    const struct packet_sender_options options = {.config = config,
                                                  .signal = OTLP_SIGNAL_PROFILES,
                                                  .is_for_captures = is_for_captures,
                                                  .give_up_ns = is_for_captures ? CAPTURE_GIVE_UP_NS : GIVE_UP_NS,
                                                  .io = io,
                                                  .end = end,
                                                  .stats = &stats->sent};
    if (!s)
        return -ENOMEM;
    s->stats = stats;
    set_options(s, config);
    int r = packet_sender_new(&options, &s->sender);
    if (r < 0)
        return r;
    *ret = take_ptr(s);
    return 0;
}

void profile_sender_free(struct profile_sender *s)
{
    if (!s)
        return;
    packet_sender_free(s->sender);
    free(s);
}

const char *profile_sender_url(const struct profile_sender *s)
{
    return packet_sender_url(s->sender);
}

bool profile_sender_is_grpc(const struct profile_sender *s)
{
    return packet_sender_is_grpc(s->sender);
}
