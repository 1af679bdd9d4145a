/* A ring of slots, each a profile of a few seconds of CLOCK_MONOTONIC; see windows.h. Slot number N holds [N
 * * slot_ns, (N + 1) * slot_ns) and stands at N modulo the number of slots, so the first sample of a new slot
 * drops whole all that are too old by then: memory goes back without a walk over entries.
 *
 * The lock is held for one sample, or for the merge of one slot: a reader never stops the pipeline for longer
 * than that. What was dropped is freed outside of it. */
#include "aggregate/windows.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

struct slot {
    uint64_t number;
    struct profile *profile; /* NULL: nothing was seen in this slot */
};

struct windows {
    pthread_mutex_t lock;
    struct windows_options options;
    uint64_t newest;            /* number of the newest slot that was written to */
    uint64_t trimmed;           /* slots before this one were given back early */
    uint64_t first_ns, last_ns; /* times of the first and of the newest sample; 0: none yet */
    uint64_t on_time, late, dropped;
    struct slot slots[];
};

int windows_new(const struct windows_options *options, struct windows **ret)
{
    if (!options->slot_ns || !options->slots || options->slots > 10000)
        return -EINVAL;
    struct windows *w = calloc(1, sizeof(*w) + options->slots * sizeof(w->slots[0]));
    if (!w)
        return -ENOMEM;
    w->options = *options;
    pthread_mutex_init(&w->lock, NULL); /* cannot fail with default attributes */
    *ret = w;
    return 0;
}

void windows_free(struct windows *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->options.slots; i++)
        profile_free(w->slots[i].profile);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static uint64_t oldest_kept(const struct windows *w)
{
    uint64_t oldest = w->newest >= w->options.slots ? w->newest - w->options.slots + 1 : 0;
    return oldest > w->trimmed ? oldest : w->trimmed;
}

static struct slot *slot_at(struct windows *w, uint64_t number)
{
    return &w->slots[number % w->options.slots];
}

static int slot_start(const struct windows *w, struct slot *slot, uint64_t number)
{
    struct profile *p;
    size_t share = w->options.max_bytes / w->options.slots;
    int r = profile_new(share || !w->options.max_bytes ? share : 1, &p);
    if (r < 0)
        return r;
    p->joins_lines = true; /* the last minutes of a node of Python programs would be several times as large */
    p->start_unix_ns = clock_unix_from_monotonic(number * w->options.slot_ns);
    p->duration_ns = w->options.slot_ns;
    p->period_ns = w->options.period_ns;
    *slot = (struct slot){.number = number, .profile = p};
    return 0;
}

static int add_locked(struct windows *w, const struct sample *s, uint64_t number, struct profile **ret_old)
{
    bool is_late = number < oldest_kept(w);
    if (is_late)
        number = oldest_kept(w);
    struct slot *slot = slot_at(w, number);
    if (slot->profile && slot->number != number)
        *ret_old = take_ptr(slot->profile);
    int r = slot->profile ? 0 : slot_start(w, slot, number);
    if (r == 0)
        r = profile_add(slot->profile, s);
    if (r < 0)
        w->dropped++;
    else if (is_late)
        w->late++;
    else
        w->on_time++;
    return r;
}

/* One profile at a time, so that none is freed under the lock. */
static void drop_expired(struct windows *w)
{
    for (uint32_t i = 0; i < w->options.slots; i++) {
        _cleanup_(profile_freep) struct profile *old = NULL;
        pthread_mutex_lock(&w->lock);
        if (w->slots[i].profile && w->slots[i].number < oldest_kept(w))
            old = take_ptr(w->slots[i].profile);
        pthread_mutex_unlock(&w->lock);
    }
}

void windows_trim(struct windows *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t first = oldest_kept(w), from = w->first_ns / w->options.slot_ns;
    first = first > from ? first : from;
    w->trimmed = w->newest - (w->newest > first ? (w->newest - first) / 2 : 0);
    pthread_mutex_unlock(&w->lock);
    drop_expired(w);
}

int windows_add(struct windows *w, const struct sample *s)
{
    _cleanup_(profile_freep) struct profile *old = NULL;
    uint64_t number = s->time_ns / w->options.slot_ns;
    pthread_mutex_lock(&w->lock);
    bool is_next = number > w->newest;
    if (is_next)
        w->newest = number;
    if (!w->first_ns)
        w->first_ns = s->time_ns;
    if (s->time_ns > w->last_ns)
        w->last_ns = s->time_ns;
    int r = add_locked(w, s, number, &old);
    pthread_mutex_unlock(&w->lock);
    if (is_next)
        drop_expired(w);
    return r;
}

/* What was really looked at of the slots of [from_ns, to_ns): not before the first sample, nor before the
 * oldest slot, nor in the future. Shares of CPU time are computed from this. */
static void set_span(struct windows *w, uint64_t from_ns, uint64_t to_ns, struct profile *p)
{
    uint64_t slot_ns = w->options.slot_ns;
    uint64_t start = from_ns / slot_ns * slot_ns, oldest = oldest_kept(w) * slot_ns;
    start = start > oldest ? start : oldest;
    start = start > w->first_ns ? start : w->first_ns;
    uint64_t end = to_ns;
    if (to_ns < w->last_ns) { /* whole slots */
        end = (to_ns + slot_ns - 1) / slot_ns * slot_ns;
        end = end < w->last_ns ? end : w->last_ns;
    } else if (to_ns == UINT64_MAX) {
        end = w->last_ns;
    }
    p->start_unix_ns = clock_unix_from_monotonic(start);
    p->duration_ns = end > start ? end - start : 0;
}

int windows_snapshot(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                     struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    int r = profile_new(0, &p); /* bounded by what all slots hold */
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < w->options.slots; i++) {
        pthread_mutex_lock(&w->lock);
        const struct slot *slot = &w->slots[i];
        uint64_t start = slot->number * w->options.slot_ns;
        if (slot->profile && slot->number >= oldest_kept(w) && start < to_ns &&
            start + w->options.slot_ns > from_ns)
            r = profile_merge(p, slot->profile, filter);
        pthread_mutex_unlock(&w->lock);
        if (r == -ENOMEM)
            return r;
    }
    pthread_mutex_lock(&w->lock);
    set_span(w, from_ns, to_ns, p);
    pthread_mutex_unlock(&w->lock);
    p->period_ns = w->options.period_ns;
    *ret = take_ptr(p); /* what did not fit is counted in it */
    return 0;
}

size_t windows_bytes(struct windows *w)
{
    size_t bytes = 0;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->options.slots; i++)
        bytes += w->slots[i].profile ? profile_bytes(w->slots[i].profile) : 0;
    pthread_mutex_unlock(&w->lock);
    return bytes;
}

void windows_metrics(struct windows *w, struct metric_set *set)
{
    uint64_t slots = 0, stacks = 0;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->options.slots; i++) {
        const struct profile *p = w->slots[i].profile;
        if (!p)
            continue;
        slots++;
        stacks += p->stack_count;
    }
    uint64_t on_time = w->on_time, late = w->late, dropped = w->dropped;
    pthread_mutex_unlock(&w->lock);

    metric_add(set, "sonde_self_window_bytes", METRIC_GAUGE, "bytes",
               "Memory held by the profiles of the last minutes.", windows_bytes(w), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_window_slots", METRIC_GAUGE, "",
               "Slots of the last minutes that hold samples.", slots, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_window_stacks", METRIC_GAUGE, "", "Distinct stacks, added up over slots.",
               stacks, METRIC_NO_LABELS);
    const char *name = "sonde_self_window_samples";
    const char *help =
        "Samples put into the last minutes: on time, late (counted in the oldest slot), dropped because a slot was full.";
    metric_add(set, name, METRIC_COUNTER, "", help, on_time, METRIC_LABELS({"result", "on_time"}));
    metric_add(set, name, METRIC_COUNTER, "", help, late, METRIC_LABELS({"result", "late"}));
    metric_add(set, name, METRIC_COUNTER, "", help, dropped, METRIC_LABELS({"result", "dropped"}));
}
