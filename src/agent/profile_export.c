/* See profile_export.h. A sample is in one packet, or counted as dropped: `taken` is the sum of both once all
 * is delivered. Libsonde's exporters send by the same code (lib/otlp). */
#include "agent/profile_export.h"

#include "agent/profile_queue.h"
#include "base/clock.h"
#include "base/log.h"
#include "export/otlp_profiles.h"
#include "sources/targets.h"

#include "otlp/sender.h"
#include "otlp/zstd.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#define PACKET_BYTES  ((size_t)1 << 20)
#define GIVE_UP_NS    (300 * 1000000000ull) /* after that no attempt for a packet begins */
#define PAUSE_MAX_MS  10000
#define TICK_NS       1000000000ull
#define SAY_AGAIN_NS  (300 * 1000000000ull)
#define FILLING_SHARE 32 /* of budget.memory: the profile that is being filled */
#define QUEUE_SHARE   16 /* and those that wait */

extern const struct otlp_transport OTLP_TRANSPORT_SYMBOL; /* lib/otlp/curl.c */

#define DROP_REASONS(X)                                                                                      \
    X(QUEUE_FULL, "queue_full")   /* the receiver has been away for longer than there is room */             \
    X(UNREACHABLE, "unreachable") /* nobody answered, or only that he is busy, until it was given up */      \
    X(REFUSED, "refused")         /* an answer that is no acceptance */                              \
    X(TOO_LARGE, "too_large")     /* a stack and its names would be more than a packet */                    \
    X(NO_MEMORY, "no_memory")                                                                                \
    X(ENDED, "ended") /* the agent did, before it was sent */

enum drop_reason {
#define X(id, name) DROP_##id,
    DROP_REASONS(X)
#undef X
        DROP_COUNT
};

/* Profiles are of one kind of time. */
struct filling {
    struct profile *profile; /* NULL: no memory for it */
    uint64_t begun_ns;       /* CLOCK_MONOTONIC */
    uint64_t unix_offset_ns; /* for all of it, whatever is done to the clock meanwhile */
    uint64_t period_ns;
    enum profile_time time;
};

struct profile_export {
    struct config config;
    struct otlp_settings settings; /* texts are the config's */
    char shown[OTLP_URL_SHOWN_SIZE];
    struct utsname uts;
    uint64_t id_seed, interval_ns;
    uint64_t time_step_ns;
    bool has_times; /* profiles keep them */
    size_t filling_max_bytes;

    /* The pipeline's thread. */
    struct filling filling[2]; /* of samples; and of waits, where they are asked for */
    size_t filling_count;

    struct profile_queue *queue;
    pthread_t thread;
    bool has_thread;

    /* The sending thread. */
    struct otlp_sender sender;
    uint64_t packet_samples; /* of the profile at hand, whatever became of them */
    uint64_t said_ns;        /* when it was last said that they do not arrive; 0: never */
    uint64_t said_refused_ns; /* when that they are refused for another reason than was said */
    char said_why[OTLP_TRANSPORT_WHY_SIZE];
    bool said_failing;       /* that is the last word */

    atomic_uint_least64_t taken, packets, bytes, samples, failures, rejected_profiles, unlinked,
        dropped[DROP_COUNT];
};

static void count(atomic_uint_least64_t *counter, uint64_t number)
{
    atomic_fetch_add_explicit(counter, number, memory_order_relaxed);
}

static uint64_t counted(const atomic_uint_least64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* ---- sending ---- */

static uint64_t read_clock(void *argument)
{
    (void)argument;
    return clock_monotonic_ns();
}

static bool pause_sending(void *argument, unsigned ms)
{
    const struct profile_export *e = argument;
    return profile_queue_pause(e->queue, clock_monotonic_ns() + ms * 1000000ull);
}

static uint64_t closed_ns(void *argument)
{
    const struct profile_export *e = argument;
    return profile_queue_closed_ns(e->queue);
}

static enum drop_reason reason_of(const struct profile_export *e, int error, bool is_busy)
{
    if (error == -EREMOTEIO && !is_busy)
        return DROP_REFUSED;
    if (error == -ENOMEM)
        return DROP_NO_MEMORY;
    return profile_queue_closed_ns(e->queue) ? DROP_ENDED : DROP_UNREACHABLE;
}

/* A receiver that fails now and then is not told of each time. */
static void say_failure(void *argument, const char *why)
{
    struct profile_export *e = argument;
    const uint64_t now_ns = clock_monotonic_ns();
    if (e->said_ns && now_ns - e->said_ns < SAY_AGAIN_NS)
        return;
    log_warning("profiles do not arrive at %s: %s", e->shown, why);
    e->said_ns = now_ns;
    e->said_failing = true;
    snprintf(e->said_why, sizeof(e->said_why), "%s", why);
}

/* What passes, and was told, does not hide what does not: of a server that has no such service libcurl 7.88 may lose the answer, where that
 * comes before all is sent, and tell of a stream's error first. */
static void say_refusal(struct profile_export *e, const char *why)
{
    const uint64_t now_ns = clock_monotonic_ns();
    if (strcmp(why, e->said_why) == 0 || (e->said_refused_ns && now_ns - e->said_refused_ns < SAY_AGAIN_NS))
        return;
    log_warning("profiles do not arrive at %s: %s", e->shown, why);
    e->said_refused_ns = now_ns;
}

static void send_packet(void *context, const struct otlp_profiles_packet *packet)
{
    struct profile_export *e = context;
    struct otlp_delivery delivery;
    e->packet_samples += packet->samples;
    int r = otlp_sender_deliver(&e->sender, packet->data, packet->size, &delivery);
    if (r < 0) {
        const enum drop_reason reason = reason_of(e, r, delivery.is_busy);
        count(&e->dropped[reason], packet->samples);
        if (reason == DROP_REFUSED)
            say_refusal(e, delivery.why);
        return;
    }
    if (e->said_failing)
        log_info("%s accepts profiles again", e->shown);
    e->said_failing = false;
    count(&e->packets, 1);
    count(&e->bytes, delivery.sent_bytes);
    count(&e->samples, packet->samples);
    count(&e->rejected_profiles, delivery.rejected < packet->profiles ? delivery.rejected : packet->profiles);
    if (delivery.rejected || delivery.why[0])
        log_debug("%s rejected %llu profiles: %s", e->shown, (unsigned long long)delivery.rejected,
                  delivery.why);
}

static void send_profile(struct profile_export *e, const struct profile *p)
{
    const struct otlp_profiles_options options = {.packet_max_bytes = PACKET_BYTES,
                                                  .host_name = e->uts.nodename,
                                                  .id_seed = e->id_seed,
                                                  .time_step_ns = e->time_step_ns};
    uint64_t too_large = 0;
    e->packet_samples = 0;
    int r = otlp_profiles_write(p, &options, &(struct otlp_profiles_sink){e, send_packet}, &too_large);
    count(&e->dropped[DROP_TOO_LARGE], too_large);
    if (r < 0)
        count(&e->dropped[DROP_NO_MEMORY], profile_samples(p) - e->packet_samples);
}

static void *export_thread(void *context)
{
    struct profile_export *e = context;
    for (struct profile *p; (p = profile_queue_pop(e->queue)); profile_free(p))
        send_profile(e, p);
    return NULL;
}

/* ---- filling ---- */

static void begin_profile(const struct profile_export *e, struct filling *f, uint64_t now_ns)
{
    f->begun_ns = now_ns;
    if (profile_new(e->filling_max_bytes, &f->profile) < 0)
        return;
    f->profile->start_unix_ns = clock_unix_from_monotonic(now_ns);
    f->profile->period_ns = f->period_ns;
    f->profile->time = f->time;
    f->profile->drops_system_names = !e->config.otlp_system_names;
    f->unix_offset_ns = f->profile->start_unix_ns - now_ns;
}

/* Hands over what there is. */
static void cut_profile(struct profile_export *e, struct filling *f, uint64_t now_ns)
{
    struct profile *p = take_ptr(f->profile);
    if (p && p->entry_count) {
        p->duration_ns = now_ns - f->begun_ns;
        count(&e->dropped[DROP_QUEUE_FULL], profile_queue_push(e->queue, p));
    } else {
        profile_free(p);
    }
}

void profile_export_add(struct profile_export *e, const struct sample *s)
{
    struct filling *f = &e->filling[s->wait_reason ? 1 : 0];
    struct sample one = *s;
    int r = -ENOMEM;
    one.count = 1; /* waits that are alike have one value and one time */
    for (int attempt = 0; attempt < 2 && r < 0; attempt++) {
        const uint64_t now_ns = attempt || !f->profile ? clock_monotonic_ns() : 0;
        if (attempt)
            cut_profile(e, f, now_ns); /* full before its time */
        if (!f->profile)
            begin_profile(e, f, now_ns);
        r = !f->profile     ? -ENOMEM
            : e->has_times ? profile_add_moment(f->profile, &one, s->time_ns + f->unix_offset_ns)
                           : profile_add(f->profile, &one);
    }
    count(&e->taken, 1);
    if (r > 0) {
        count(&e->unlinked, 1);
        cut_profile(e, f, clock_monotonic_ns()); /* the next one has room for links and labels again */
    } else if (r < 0) {
        count(&e->dropped[r == -ENOSPC ? DROP_TOO_LARGE : DROP_NO_MEMORY], 1);
    }
}

void profile_export_tick(struct profile_export *e)
{
    const uint64_t now_ns = clock_monotonic_ns();
    for (struct filling *f = e->filling; f < e->filling + e->filling_count; f++) {
        if (now_ns - f->begun_ns + TICK_NS / 2 < e->interval_ns)
            continue;
        cut_profile(e, f, now_ns);
        begin_profile(e, f, now_ns);
    }
}

void profile_export_trim(struct profile_export *e)
{
    count(&e->dropped[DROP_QUEUE_FULL], profile_queue_trim(e->queue));
}

/* ---- life ---- */

static int start(struct profile_export *e, const struct config *config)
{
    const struct otlp_sender_options options = {.transport = &OTLP_TRANSPORT_SYMBOL,
                                                .settings = &e->settings,
                                                .signal = OTLP_SIGNAL_PROFILES,
                                                .protocol = e->settings.protocol,
                                                .url = config->otlp_profiles_endpoint,
                                                .user_agent = "sonde/" SONDE_VERSION,
                                                .encoding = strcmp(config->otlp_compression, "zstd") == 0 ? &otlp_zstd : NULL,
                                                .limits = {.attempts_max = UINT_MAX, .pause_max_ms = PAUSE_MAX_MS, .give_up_ns = GIVE_UP_NS},
                                                .errors = &e->failures,
                                                .failed = say_failure,
                                                .now_ns = read_clock,
                                                .pause = pause_sending,
                                                .closed_ns = closed_ns,
                                                .argument = e};
    char why[OTLP_TRANSPORT_WHY_SIZE] = "out of memory";
    int r = otlp_sender_init(&e->sender, &options, why, sizeof(why));
    if (r < 0)
        return log_errno(r, "otlp.profiles_endpoint: %s: %s", e->shown, why);
    r = -pthread_create(&e->thread, NULL, export_thread, e);
    if (r < 0)
        return r;
    e->has_thread = true;
    (void)pthread_setname_np(e->thread, "profile-export");
    log_info("profiles are sent to %s%s every %lld s", e->shown, config_is_grpc(config) ? " by gRPC" : "", (long long)config->otlp_interval_s);
    return 0;
}

int profile_export_new(const struct config *config, struct profile_export **ret)
{
    if (!config->otlp_profiles_endpoint[0] || (!config->profile_enabled && !config->waits_enabled)) {
        *ret = NULL;
        return 0;
    }
    _cleanup_(profile_export_freep) struct profile_export *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->config = *config;
    e->settings = (struct otlp_settings){.endpoint = e->config.otlp_profiles_endpoint,
                                         .headers = e->config.otlp_headers,
                                         .certificate = e->config.otlp_certificate,
                                         .client_certificate = e->config.otlp_client_certificate,
                                         .client_key = e->config.otlp_client_key,
                                         .timeout_ms = (uint32_t)config->otlp_timeout_ms,
                                         .protocol = config_is_grpc(config) ? OTLP_GRPC : OTLP_HTTP_PROTOBUF,
                                         .gzip = strcmp(config->otlp_compression, "gzip") == 0};
    e->filling[0].period_ns = 1000000000ull / config_targets(config, &(struct targets){0});
    e->filling[1].time = PROFILE_OFF_CPU_TIME;
    e->filling_count = config->waits_enabled ? 2 : 1;
    e->interval_ns = (uint64_t)config->otlp_interval_s * 1000000000ull;
    e->has_times = config_timestamp_step(config, &e->time_step_ns);
    e->filling_max_bytes = config->budget_memory_bytes / FILLING_SHARE;
    otlp_url_shown(e->config.otlp_profiles_endpoint, e->shown);
    uname(&e->uts);
    if (getrandom(&e->id_seed, sizeof(e->id_seed), GRND_NONBLOCK) < 0)
        e->id_seed = clock_unix_ns();
    int r = profile_queue_new(config->budget_memory_bytes / QUEUE_SHARE, &e->queue);
    if (r == 0)
        r = start(e, &e->config);
    if (r < 0)
        return r;
    for (size_t i = 0; i < e->filling_count; i++)
        begin_profile(e, &e->filling[i], clock_monotonic_ns());
    *ret = take_ptr(e);
    return 0;
}

static uint64_t count_dropped(const struct profile_export *e)
{
    uint64_t dropped = 0;
    for (int i = 0; i < DROP_COUNT; i++)
        dropped += counted(&e->dropped[i]);
    return dropped;
}

void profile_export_end(struct profile_export *e)
{
    if (!e || !e->has_thread)
        return;
    for (size_t i = 0; i < e->filling_count; i++)
        cut_profile(e, &e->filling[i], clock_monotonic_ns());
    profile_queue_close(e->queue, clock_monotonic_ns());
}

void profile_export_free(struct profile_export *e)
{
    if (!e)
        return;
    profile_export_end(e);
    if (e->has_thread) {
        pthread_join(e->thread, NULL);
        log_info(
            "profiles: %llu of %llu samples were sent to %s, in %llu packets of %llu bytes in all; %llu were dropped",
            (unsigned long long)counted(&e->samples), (unsigned long long)counted(&e->taken), e->shown,
            (unsigned long long)counted(&e->packets), (unsigned long long)counted(&e->bytes),
            (unsigned long long)count_dropped(e));
    }
    otlp_sender_fini(&e->sender);
    for (size_t i = 0; i < e->filling_count; i++)
        profile_free(e->filling[i].profile);
    profile_queue_free(e->queue);
    free(e);
}

void profile_export_metrics(struct profile_export *e, struct metric_set *set)
{
    static const char *const reasons[DROP_COUNT] = {
#define X(id, name) name,
        DROP_REASONS(X)
#undef X
    };
    metric_add(set, "sonde_self_export_packets", METRIC_COUNTER, "",
               "Packets of profiles that the receiver accepted.", (double)counted(&e->packets),
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_export_bytes", METRIC_COUNTER, "bytes",
               "What they took on the way, compressed, without headers.", (double)counted(&e->bytes),
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_export_samples", METRIC_COUNTER, "", "Samples in them.",
               (double)counted(&e->samples), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_export_failures", METRIC_COUNTER, "",
               "Attempts to deliver a packet that failed; most are tried again.",
               (double)counted(&e->failures), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_export_rejected_profiles", METRIC_COUNTER, "",
               "Profiles that a receiver said it did not keep of packets it accepted.",
               (double)counted(&e->rejected_profiles), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_export_unlinked_samples", METRIC_COUNTER, "",
               "Samples without the traced request that they were taken in, or their labels, for want of room.",
               (double)counted(&e->unlinked), METRIC_NO_LABELS);
    for (int i = 0; i < DROP_COUNT; i++)
        metric_add(set, "sonde_self_export_dropped_samples", METRIC_COUNTER, "",
                   "Samples that are in no accepted packet, by reason.", (double)counted(&e->dropped[i]),
                   METRIC_LABELS({"reason", reasons[i]}));
    metric_add(set, "sonde_self_export_queue_bytes", METRIC_GAUGE, "bytes",
               "Memory held by profiles that wait to be sent.", (double)profile_queue_bytes(e->queue),
               METRIC_NO_LABELS);
}
