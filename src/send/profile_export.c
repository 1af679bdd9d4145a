/* See profile_export.h. Every sample is in one packet or counted as dropped (export_stats.h). */
#include "send/profile_export.h"

#include "base/clock.h"
#include "base/log.h"
#include "config/sampled_types.h"
#include "send/export_stats.h"
#include "send/profile_queue.h"
#include "send/profile_sender.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define TICK_NS   1000000000ull
#define TYPES_MIN 2

/* A profile being filled, of one type of samples. */
struct filling {
    const struct sample_type *type;
    uint64_t period;
    struct profile *profile; /* NULL: out of memory */
    uint64_t begun_ns;       /* CLOCK_MONOTONIC */
};

struct profile_export {
    struct export_io io;
    uint64_t interval_ns;
    bool has_times; /* profiles have timestamps */
    bool drops_system_names;
    size_t filling_max_bytes;

    /* The pipeline's thread. */
    struct filling filling[SAMPLED_TYPES_MAX];
    size_t types_max; /* profiles at a time, which share the memory */
    size_t filling_count;

    struct profile_queue *queue;
    pthread_t thread;
    bool has_thread;

    struct profile_sender *sender; /* used by the sender thread only */
    struct export_stats stats;
};

static uint64_t clock_now(const struct profile_export *e)
{
    return e->io.now_ns(e->io.argument);
}

static void count_dropped(struct profile_export *e, enum drop_reason reason, uint64_t samples)
{
    export_stats_count(&e->stats.dropped[reason], samples);
}

/* ---- the sender thread ---- */

/* Blocks until a profile is queued and sends it. False: the queue is closed and empty. */
static bool send_next(struct profile_export *e)
{
    _cleanup_(profile_freep) struct profile *p = profile_queue_pop(e->queue);
    if (p)
        profile_sender_send(e->sender, p);
    return p;
}

static void *export_thread(void *context)
{
    while (send_next(context))
        ;
    return NULL;
}

void profile_export_send_queued(struct profile_export *e)
{
    while (profile_queue_bytes(e->queue))
        send_next(e);
}

/* ---- filling ---- */

static void begin_profile(const struct profile_export *e, struct filling *f, uint64_t now_ns)
{
    f->begun_ns = now_ns;
    _cleanup_(profile_freep) struct profile *p = NULL;
    if (profile_new(e->filling_max_bytes, &p) < 0 || profile_set_type(p, f->type) < 0)
        return;
    p->start_unix_ns = clock_unix_from_monotonic(now_ns);
    p->period = f->period;
    p->drops_system_names = e->drops_system_names;
    f->profile = take_ptr(p);
}

/* Begins the first profile of a type of samples; NULL: there are too many types. */
static struct filling *add_type(struct profile_export *e, const struct sample_type *type, uint64_t period)
{
    if (e->filling_count == e->types_max)
        return NULL;
    struct filling *f = &e->filling[e->filling_count++];
    *f = (struct filling){.type = type, .period = period};
    begin_profile(e, f, clock_now(e));
    return f;
}

static struct filling *find_or_add_type(struct profile_export *e, const struct sample_type *type)
{
    for (size_t i = 0; i < e->filling_count; i++)
        if (sample_type_equal(e->filling[i].type, type))
            return &e->filling[i];
    return add_type(e, type, 0);
}

/* Queues the profile if it has samples, and frees it otherwise. */
static void cut_profile(struct profile_export *e, struct filling *f, uint64_t now_ns)
{
    struct profile *p = take_ptr(f->profile);
    if (p && p->entry_count) {
        p->duration_ns = now_ns - f->begun_ns;
        count_dropped(e, DROP_QUEUE_FULL, profile_queue_push(e->queue, p));
    } else {
        profile_free(p);
    }
}

/* By the offset between the clocks when the profile began, even if the system clock was set since. */
static uint64_t unix_time_of(const struct filling *f, uint64_t time_ns)
{
    return f->profile->start_unix_ns + (time_ns - f->begun_ns);
}

void profile_export_add(struct profile_export *e, const struct sample *s)
{
    struct filling *f = find_or_add_type(e, s->type);
    struct sample one = *s;
    int r = -ENOMEM;
    one.count = 1; /* aggregated waits share one value and one timestamp */
    for (int attempt = 0; f && attempt < 2 && r < 0; attempt++) {
        const uint64_t now_ns = attempt || !f->profile ? clock_now(e) : 0;
        if (attempt)
            cut_profile(e, f, now_ns); /* full before the end of the interval */
        if (!f->profile)
            begin_profile(e, f, now_ns);
        r = !f->profile    ? -ENOMEM
            : e->has_times ? profile_add_moment(f->profile, &one, unix_time_of(f, s->time_ns))
                           : profile_add(f->profile, &one);
    }
    export_stats_count(&e->stats.taken, 1);
    if (r > 0) {
        export_stats_count(&e->stats.unlinked, 1);
        cut_profile(e, f, clock_now(e)); /* a new profile has space for links and labels again */
    } else if (r < 0) {
        count_dropped(e, r == -ENOSPC ? DROP_TOO_LARGE : DROP_NO_MEMORY, 1);
    }
}

/* True at the tick that is closest to the end of the interval. */
static bool is_cut_due(const struct filling *f, uint64_t interval_ns, uint64_t now_ns)
{
    return now_ns - f->begun_ns + TICK_NS / 2 >= interval_ns;
}

void profile_export_tick(struct profile_export *e)
{
    const uint64_t now_ns = clock_now(e);
    for (struct filling *f = e->filling; f < e->filling + e->filling_count; f++) {
        if (!is_cut_due(f, e->interval_ns, now_ns))
            continue;
        cut_profile(e, f, now_ns);
        begin_profile(e, f, now_ns);
    }
}

void profile_export_trim(struct profile_export *e)
{
    count_dropped(e, DROP_QUEUE_FULL, profile_queue_trim(e->queue));
}

/* ---- lifecycle ---- */

static int open_sender(struct profile_export *e, const struct config *config, const struct memory_plan *memory,
                       const struct export_io *io)
{
    int r = profile_queue_new(memory->bytes[MEMORY_EXPORT_QUEUE], &e->queue);
    if (r < 0)
        return r;
    e->io = io ? *io : export_io_system(profile_queue_end(e->queue));
    return profile_sender_new(config, &e->io, profile_queue_end(e->queue), &e->stats, false, &e->sender);
}

int profile_export_new(const struct config *config, const struct memory_plan *memory, const struct export_io *io,
                       struct profile_export **ret)
{
    uint64_t time_step_ns;
    if (!config->otlp_profiles_endpoint[0] || !config_samples(config)) {
        *ret = NULL;
        return 0;
    }
    _cleanup_(profile_export_freep) struct profile_export *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->interval_ns = (uint64_t)config->otlp_interval_s * 1000000000ull;
    e->has_times = config_timestamp_step(config, &time_step_ns);
    e->drops_system_names = !config->otlp_system_names;
    struct sampled_type types[SAMPLED_TYPES_MAX];
    const size_t count = sampled_types(config, types);
    e->types_max = count > TYPES_MIN ? count : TYPES_MIN;
    e->filling_max_bytes = memory->bytes[MEMORY_EXPORT_PROFILES] / e->types_max;
    int r = open_sender(e, config, memory, io);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) /* the first profile of any other type begins with its first sample */
        add_type(e, types[i].type, types[i].period);
    *ret = take_ptr(e);
    return 0;
}

int profile_export_start(struct profile_export *e)
{
    assert(!e->has_thread);
    int r = -pthread_create(&e->thread, NULL, export_thread, e);
    if (r < 0)
        return r;
    e->has_thread = true;
    (void)pthread_setname_np(e->thread, "profile-export");
    log_info("profiles are sent to %s%s every %llu s", profile_sender_url(e->sender),
             profile_sender_is_grpc(e->sender) ? " by gRPC" : "", (unsigned long long)(e->interval_ns / 1000000000));
    return 0;
}

void profile_export_end(struct profile_export *e)
{
    if (!e || !e->queue)
        return;
    const uint64_t now_ns = clock_now(e);
    for (size_t i = 0; i < e->filling_count; i++)
        cut_profile(e, &e->filling[i], now_ns);
    export_end_begin(profile_queue_end(e->queue), now_ns);
}

static void join_thread(struct profile_export *e)
{
    const struct export_stats *s = &e->stats;
    pthread_join(e->thread, NULL);
    log_info("profiles: %llu of %llu samples were sent to %s, in %llu packets of %llu bytes in all; %llu were dropped",
             (unsigned long long)export_stats_read(&s->samples), (unsigned long long)export_stats_read(&s->taken),
             profile_sender_url(e->sender), (unsigned long long)export_stats_read(&s->sent.packets),
             (unsigned long long)export_stats_read(&s->sent.bytes),
             (unsigned long long)export_stats_dropped(s->dropped));
}

void profile_export_free(struct profile_export *e)
{
    if (!e)
        return;
    profile_export_end(e);
    if (e->has_thread)
        join_thread(e);
    profile_sender_free(e->sender);
    for (size_t i = 0; i < e->filling_count; i++)
        profile_free(e->filling[i].profile);
    profile_queue_free(e->queue);
    free(e);
}

void profile_export_metrics(struct profile_export *e, struct metric_set *set)
{
    export_stats_metrics(&e->stats, set);
    metric_add(set, "sonde_self_export_queue_bytes", METRIC_GAUGE, "bytes",
               "Memory held by profiles that wait to be sent.", (double)profile_queue_bytes(e->queue),
               METRIC_NO_LABELS);
}
