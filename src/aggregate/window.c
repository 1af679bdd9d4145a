/* A ring of slots, each a profile of a few seconds of CLOCK_MONOTONIC; see window.h. Slot number N holds [N * slot_ns,
 * (N + 1) * slot_ns) and has index N modulo the number of slots. The first sample of a new slot drops all expired slots
 * as a whole, so memory is returned without walking entries.
 *
 * The lock is held for one sample, or for the merge of one slot: a reader never blocks the pipeline for longer.
 * Dropped profiles are freed outside the lock. */
#include "aggregate/window.h"

#include "aggregate/observed_spans.h"
#include "aggregate/slot_detail.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

struct slot {
    uint64_t number;
    struct profile *profile; /* NULL: no samples in this slot */
    struct slot_detail detail;
};

struct window {
    pthread_mutex_t lock;
    struct window_options options;
    uint64_t newest;            /* number of the newest slot with samples */
    uint64_t trimmed;           /* slots before this number were dropped early: memory was short */
    uint64_t first_ns, last_ns; /* times of the earliest and the newest sample; 0: none yet */
    struct observed_spans observed;
    uint64_t on_time, late, dropped;
    uint64_t details_dropped;
    struct slot slots[];
};

int window_new(const struct window_options *options, struct window **ret)
{
    if (!options->slot_ns || !options->slots || options->slots > 10000)
        return -EINVAL;
    if (options->detail_max_bytes &&
        (options->slot_ns % HEATMAP_SLOT_NS || options->slot_ns / HEATMAP_SLOT_NS > SLOT_DETAIL_SLOTS_MAX))
        return -EINVAL;
    struct window *w = calloc(1, sizeof(*w) + options->slots * sizeof(w->slots[0]));
    if (!w)
        return -ENOMEM;
    w->options = *options;
    pthread_mutex_init(&w->lock, NULL); /* cannot fail with default attributes */
    *ret = w;
    return 0;
}

void window_free(struct window *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->options.slots; i++) {
        profile_free(w->slots[i].profile);
        slot_detail_clear(&w->slots[i].detail);
    }
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static uint64_t oldest_kept(const struct window *w)
{
    uint64_t oldest = w->newest >= w->options.slots ? w->newest - w->options.slots + 1 : 0;
    return oldest > w->trimmed ? oldest : w->trimmed;
}

static struct slot *slot_at(struct window *w, uint64_t number)
{
    return &w->slots[number % w->options.slots];
}

/* No slot takes more than a quarter of the memory, so that a burst leaves the slots before it. */
static size_t slot_max_bytes(const struct window *w)
{
    return w->options.max_bytes / 4 > 0 || !w->options.max_bytes ? w->options.max_bytes / 4 : 1;
}

/* The memory of the kept slots, and the oldest of them that is older than `number`. */
static size_t kept_bytes(struct window *w, uint64_t number, const struct slot **ret_oldest)
{
    size_t bytes = 0;
    *ret_oldest = NULL;
    for (uint32_t i = 0; i < w->options.slots; i++) {
        const struct slot *slot = &w->slots[i];
        if (!slot->profile || slot->number < oldest_kept(w)) /* expired: about to be dropped */
            continue;
        bytes += profile_bytes(slot->profile);
        if (slot->number < number && (!*ret_oldest || slot->number < (*ret_oldest)->number))
            *ret_oldest = slot;
    }
    return bytes;
}

/* Slot `number` has grown. Where that is more than there is, the oldest slots give way, whole: what happens now is
 * worth more than what happened first, and each time that is kept is complete. */
static void make_room(struct window *w, uint64_t number)
{
    const struct slot *oldest;
    while (w->options.max_bytes && kept_bytes(w, number, &oldest) > w->options.max_bytes && oldest)
        w->trimmed = oldest->number + 1;
}

/* An empty profile of the window's type. */
static int new_profile(const struct window *w, size_t max_bytes, struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    int r = profile_new(max_bytes, &p);
    if (r == 0)
        r = profile_set_type(p, w->options.type);
    if (r < 0)
        return r;
    p->period = w->options.period;
    *ret = take_ptr(p);
    return 0;
}

static int slot_start(struct window *w, struct slot *slot, uint64_t number)
{
    struct profile *p;
    int r = new_profile(w, slot_max_bytes(w), &p);
    if (r < 0)
        return r;
    p->joins_lines = true; /* without it, the profiles of Python programs would be several times as large */
    p->start_unix_ns = clock_unix_from_monotonic(number * w->options.slot_ns);
    p->duration_ns = w->options.slot_ns;
    *slot = (struct slot){.number = number, .profile = p, .detail = {.gone = !w->options.detail_max_bytes}};
    return 0;
}

/* The caller frees the profile, outside the lock. */
static struct profile *slot_take(struct slot *slot)
{
    slot_detail_clear(&slot->detail);
    return take_ptr(slot->profile);
}

static struct slot *oldest_with_detail(struct window *w, size_t *ret_bytes)
{
    struct slot *oldest = NULL;
    *ret_bytes = 0;
    for (uint32_t i = 0; i < w->options.slots; i++) {
        struct slot *slot = &w->slots[i];
        *ret_bytes += slot_detail_bytes(&slot->detail);
        if (slot->detail.count && (!oldest || slot->number < oldest->number))
            oldest = slot;
    }
    return oldest;
}

static void detail_give_up(struct window *w, struct slot *slot)
{
    slot_detail_give_up(&slot->detail);
    w->details_dropped++;
}

/* Drops the oldest detail until `more` bytes fit. Returns whether they do. */
static bool reserve_detail(struct window *w, size_t more)
{
    size_t bytes;
    for (struct slot *oldest; (oldest = oldest_with_detail(w, &bytes)) && bytes + more > w->options.detail_max_bytes;)
        detail_give_up(w, oldest);
    return bytes + more <= w->options.detail_max_bytes;
}

/* Late samples count in the first 20 ms of their slot. */
static void add_detail(struct window *w, struct slot *slot, uint32_t entry, const struct sample *s)
{
    const uint64_t start_ns = slot->number * w->options.slot_ns, growth = slot_detail_growth(&slot->detail);
    const uint64_t number = s->time_ns > start_ns ? (s->time_ns - start_ns) / HEATMAP_SLOT_NS : 0;
    if (growth && !reserve_detail(w, growth) && !slot->detail.gone)
        detail_give_up(w, slot);
    const bool was_gone = slot->detail.gone;
    slot_detail_add(&slot->detail, (uint32_t)number, entry, s->count ? s->count : 1, s->value);
    w->details_dropped += slot->detail.gone && !was_gone;
}

void window_limit_detail(struct window *w, size_t max_bytes)
{
    pthread_mutex_lock(&w->lock);
    w->options.detail_max_bytes = max_bytes;
    (void)reserve_detail(w, 0);
    pthread_mutex_unlock(&w->lock);
}

static int add_locked(struct window *w, const struct sample *s, uint64_t number, struct profile **ret_old)
{
    bool is_late = number < oldest_kept(w);
    if (is_late)
        number = oldest_kept(w);
    struct slot *slot = slot_at(w, number);
    if (slot->profile && slot->number != number)
        *ret_old = slot_take(slot);
    int r = slot->profile ? 0 : slot_start(w, slot, number);
    uint32_t entry = 0;
    const size_t before = slot->profile ? profile_bytes(slot->profile) : 0;
    if (r == 0)
        r = profile_add_entry(slot->profile, s, &entry);
    if (r >= 0)
        add_detail(w, slot, entry, s);
    if (slot->profile && profile_bytes(slot->profile) > before)
        make_room(w, number);
    if (r < 0)
        w->dropped++;
    else if (is_late)
        w->late++;
    else
        w->on_time++;
    return r;
}

/* One profile at a time, so that none is freed under the lock. Returns their number. */
static uint32_t drop_expired(struct window *w)
{
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < w->options.slots; i++) {
        _cleanup_(profile_freep) struct profile *old = NULL;
        pthread_mutex_lock(&w->lock);
        if (w->slots[i].profile && w->slots[i].number < oldest_kept(w))
            old = slot_take(&w->slots[i]);
        pthread_mutex_unlock(&w->lock);
        dropped += old != NULL;
    }
    return dropped;
}

uint32_t window_limit(struct window *w, size_t max_bytes)
{
    pthread_mutex_lock(&w->lock);
    w->options.max_bytes = max_bytes;
    make_room(w, w->newest);
    pthread_mutex_unlock(&w->lock);
    return drop_expired(w);
}

void window_trim(struct window *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t first = oldest_kept(w), from = w->first_ns / w->options.slot_ns;
    first = first > from ? first : from;
    w->trimmed = w->newest - (w->newest > first ? (w->newest - first) / 2 : 0);
    pthread_mutex_unlock(&w->lock);
    (void)drop_expired(w);
}

int window_add(struct window *w, const struct sample *s)
{
    _cleanup_(profile_freep) struct profile *old = NULL;
    uint64_t number = s->time_ns / w->options.slot_ns;
    pthread_mutex_lock(&w->lock);
    const uint64_t kept_before = oldest_kept(w);
    if (number > w->newest)
        w->newest = number;
    const uint64_t oldest_ns = oldest_kept(w) * w->options.slot_ns,
                   at_ns = s->time_ns > oldest_ns ? s->time_ns : oldest_ns;
    if (!w->first_ns || at_ns < w->first_ns) /* samples arrive slightly out of order */
        w->first_ns = at_ns;
    if (s->time_ns > w->last_ns)
        w->last_ns = s->time_ns;
    int r = add_locked(w, s, number, &old);
    const bool has_expired = oldest_kept(w) > kept_before;
    pthread_mutex_unlock(&w->lock);
    if (has_expired)
        (void)drop_expired(w);
    return r;
}

/* ---- monitored time ---- */

void window_observe(struct window *w, bool is_observed, uint64_t now_ns)
{
    pthread_mutex_lock(&w->lock);
    observed_spans_set(&w->observed, is_observed, now_ns);
    pthread_mutex_unlock(&w->lock);
}

uint64_t window_observed_ns(struct window *w, uint64_t now_ns)
{
    pthread_mutex_lock(&w->lock);
    const uint64_t ns = observed_spans_sum(&w->observed, now_ns);
    pthread_mutex_unlock(&w->lock);
    return ns;
}

/* The beginning of monitoring; 0: not yet. */
static uint64_t began_ns(const struct window *w)
{
    return w->observed.since_ns ? w->observed.since_ns : w->first_ns;
}

static void set_observed(const struct window *w, uint64_t from_ns, uint64_t to_ns, struct profile *p)
{
    const uint64_t began = began_ns(w), start = from_ns > began ? from_ns : began,
                   asked_ns = to_ns > from_ns ? to_ns - from_ns : 0;
    p->start_unix_ns = clock_unix_from_monotonic(start);
    p->duration_ns = w->observed.since_ns ? observed_spans_within(&w->observed, start, to_ns)
                     : to_ns > start      ? to_ns - start
                                          : 0;
    p->not_observed_ns = asked_ns - p->duration_ns;
}

void window_set_observed(struct window *w, uint64_t from_ns, uint64_t to_ns, struct profile *p)
{
    pthread_mutex_lock(&w->lock);
    set_observed(w, from_ns, to_ns, p);
    pthread_mutex_unlock(&w->lock);
}

/* Limits the span to the time that was monitored: not before the beginning, nor before the oldest slot, nor in the
 * future. Shares of CPU time are computed from this. */
static void set_span(struct window *w, uint64_t from_ns, uint64_t to_ns, struct profile *p)
{
    uint64_t slot_ns = w->options.slot_ns;
    uint64_t start = from_ns / slot_ns * slot_ns, oldest = oldest_kept(w) * slot_ns;
    start = start > oldest ? start : oldest;
    start = start > began_ns(w) ? start : began_ns(w);
    uint64_t end = to_ns;
    if (to_ns < w->last_ns) { /* extend to whole slots */
        end = (to_ns + slot_ns - 1) / slot_ns * slot_ns;
        end = end < w->last_ns ? end : w->last_ns;
    } else if (to_ns == UINT64_MAX) {
        end = w->last_ns;
    }
    set_observed(w, start, end, p);
}

int window_snapshot(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                    struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    int r = new_profile(w, 0, &p); /* bounded by the size of all slots */
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < w->options.slots; i++) {
        pthread_mutex_lock(&w->lock);
        const struct slot *slot = &w->slots[i];
        uint64_t start = slot->number * w->options.slot_ns;
        if (slot->profile && slot->number >= oldest_kept(w) && start < to_ns && start + w->options.slot_ns > from_ns)
            r = profile_merge(p, slot->profile, filter);
        pthread_mutex_unlock(&w->lock);
        if (r == -ENOMEM)
            return r;
    }
    pthread_mutex_lock(&w->lock);
    set_span(w, from_ns, to_ns, p);
    pthread_mutex_unlock(&w->lock);
    *ret = take_ptr(p); /* contains the count of dropped samples */
    return 0;
}

/* ---- resolution of 20 ms ---- */

/* Computes which 20 ms slots of `slot` are in [from_ns, to_ns). False: none. */
static bool find_part(const struct window *w, const struct slot *slot, uint64_t from_ns, uint64_t to_ns,
                      uint32_t *ret_first, uint32_t *ret_end)
{
    const uint64_t start = slot->number * w->options.slot_ns, end = start + w->options.slot_ns;
    if (!slot->profile || slot->number < oldest_kept(w) || start >= to_ns || end <= from_ns)
        return false;
    *ret_first = from_ns > start ? (uint32_t)((from_ns - start) / HEATMAP_SLOT_NS) : 0;
    *ret_end = (uint32_t)(((to_ns < end ? to_ns : end) - start + HEATMAP_SLOT_NS - 1) / HEATMAP_SLOT_NS);
    return true;
}

static bool is_not_kept(const struct window *w, uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t oldest_ns = oldest_kept(w) * w->options.slot_ns,
                   second_ns = HEATMAP_SLOT_NS * HEATMAP_SLOTS_PER_SECOND;
    return began_ns(w) && (to_ns <= began_ns(w) / second_ns * second_ns /* heatmaps have whole seconds */ ||
                           (began_ns(w) < oldest_ns && from_ns < oldest_ns));
}

static int merge_region(struct window *w, const struct slot *slot, uint64_t from_ns, uint64_t to_ns,
                        const struct profile_filter *filter, struct profile *p)
{
    uint32_t first, end;
    if (!find_part(w, slot, from_ns, to_ns, &first, &end))
        return 0;
    if (first == 0 && end * HEATMAP_SLOT_NS >= w->options.slot_ns)
        return profile_merge(p, slot->profile, filter);
    if (slot->detail.gone)
        return -ENODATA;
    _cleanup_free_ struct profile_amount *amounts = calloc((size_t)slot->profile->entry_count + 1, sizeof(*amounts));
    if (!amounts)
        return -ENOMEM;
    slot_detail_sum(&slot->detail, first, end, amounts);
    return profile_merge_part(p, slot->profile, filter, amounts);
}

int window_region(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                  struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    int r = new_profile(w, 0, &p); /* bounded by the size of all slots */
    to_ns = to_ns < INT64_MAX ? to_ns : INT64_MAX;
    for (uint32_t i = 0; i < w->options.slots && r != -ENODATA && r != -ENOMEM; i++) {
        pthread_mutex_lock(&w->lock);
        r = merge_region(w, &w->slots[i], from_ns, to_ns, filter, p);
        pthread_mutex_unlock(&w->lock);
    }
    if (r == -ENODATA || r == -ENOMEM)
        return r;
    from_ns -= from_ns % HEATMAP_SLOT_NS;
    to_ns += (HEATMAP_SLOT_NS - to_ns % HEATMAP_SLOT_NS) % HEATMAP_SLOT_NS;
    pthread_mutex_lock(&w->lock);
    const bool is_gone = is_not_kept(w, from_ns, to_ns);
    set_observed(w, from_ns, to_ns, p);
    pthread_mutex_unlock(&w->lock);
    if (is_gone)
        return -ENODATA;
    *ret = take_ptr(p); /* contains the count of dropped samples */
    return 0;
}

/* The filter is evaluated once per resource, not per sample. */
static int add_to_heatmap(struct window *w, const struct slot *slot, const struct profile_filter *filter,
                          struct heatmap *h)
{
    const uint64_t second_ns = HEATMAP_SLOT_NS * HEATMAP_SLOTS_PER_SECOND,
                   to_ns = h->start_ns + h->second_count * second_ns;
    const struct profile *p = slot->profile;
    uint32_t first, end;
    if (!find_part(w, slot, h->start_ns, to_ns, &first, &end))
        return 0;
    const uint64_t base = slot->number * w->options.slot_ns;
    if (slot->detail.gone) {
        for (uint32_t i = first; i < end; i++)
            h->seconds[(base + i * HEATMAP_SLOT_NS - h->start_ns) / second_ns].kept = false;
        return 0;
    }
    _cleanup_free_ bool *wanted = calloc((size_t)p->resource_count + 1, sizeof(*wanted));
    if (!wanted)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->resource_count; i++)
        wanted[i] = profile_filter_matches(p, &p->resources[i], filter);
    for (uint32_t i = 0; i < slot->detail.count; i++) {
        const struct slot_detail_sample *s = &slot->detail.samples[i];
        if (s->slot < first || s->slot >= end || !wanted[p->entries[s->entry].resource])
            continue;
        const uint64_t number = (base + s->slot * HEATMAP_SLOT_NS - h->start_ns) / HEATMAP_SLOT_NS;
        struct profile_amount *cell =
            &h->seconds[number / HEATMAP_SLOTS_PER_SECOND].cells[number % HEATMAP_SLOTS_PER_SECOND];
        cell->count++;
        cell->value += s->value;
    }
    return 0;
}

/* Allocates a heatmap of the requested time, limited to the time that is kept. */
static int heatmap_new(struct window *w, uint64_t from_ns, uint64_t to_ns, struct heatmap **ret)
{
    const uint64_t second_ns = HEATMAP_SLOT_NS * HEATMAP_SLOTS_PER_SECOND;
    pthread_mutex_lock(&w->lock);
    const uint64_t oldest_ns = oldest_kept(w) * w->options.slot_ns, end_ns = (w->newest + 1) * w->options.slot_ns;
    from_ns = from_ns > w->first_ns ? from_ns : w->first_ns;
    from_ns = from_ns > oldest_ns ? from_ns : oldest_ns;
    to_ns = to_ns < end_ns ? to_ns : end_ns;
    pthread_mutex_unlock(&w->lock);
    const uint64_t start = from_ns / second_ns, end = (to_ns + second_ns - 1) / second_ns;
    const uint64_t count = end > start ? end - start : 0;
    struct heatmap *h = calloc(1, sizeof(*h) + count * sizeof(h->seconds[0]));
    if (!h)
        return -ENOMEM;
    h->start_ns = start * second_ns;
    h->second_count = (uint32_t)count;
    for (uint64_t i = 0; i < count; i++)
        h->seconds[i].kept = true;
    *ret = h;
    return 0;
}

int window_heatmap(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct heatmap **ret)
{
    _cleanup_(heatmap_freep) struct heatmap *h = NULL;
    int r = heatmap_new(w, from_ns, to_ns, &h);
    for (uint32_t i = 0; i < w->options.slots && r == 0; i++) {
        pthread_mutex_lock(&w->lock);
        r = add_to_heatmap(w, &w->slots[i], filter, h);
        pthread_mutex_unlock(&w->lock);
    }
    if (r < 0)
        return r;
    h->start_unix_ns = clock_unix_from_monotonic(h->start_ns);
    h->period = w->options.period;
    *ret = take_ptr(h);
    return 0;
}

/* ---- functions over time ---- */

/* The monitored part of the slot: not before the first sample, nor after `to_ns`, nor in the future. */
static void set_hotspots_window(const struct window *w, uint64_t number, uint64_t to_ns, struct hotspots_window *ret)
{
    const uint64_t start_ns = number * w->options.slot_ns, end_ns = start_ns + w->options.slot_ns;
    const uint64_t from = start_ns > w->first_ns ? start_ns : w->first_ns,
                   known = to_ns > w->last_ns ? to_ns : w->last_ns;
    const uint64_t to = end_ns < known ? end_ns : known;
    *ret = (struct hotspots_window){.start_ns = start_ns, .end_ns = end_ns, .duration_ns = to > from ? to - from : 0};
}

static int hotspots_begin(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct hotspots_options *options,
                          struct hotspots **ret)
{
    const uint64_t slot_ns = w->options.slot_ns;
    pthread_mutex_lock(&w->lock);
    const uint64_t seen = w->first_ns / slot_ns, kept = oldest_kept(w);
    uint64_t first = from_ns / slot_ns, end = to_ns / slot_ns + (to_ns % slot_ns != 0);
    first = first > seen ? first : seen;
    first = first > kept ? first : kept;
    end = end < w->newest + 1 ? end : w->newest + 1;
    const uint32_t count = w->first_ns && end > first ? (uint32_t)(end - first) : 0; /* at most the number of slots */
    int r = hotspots_new(options, count, ret);
    for (uint32_t i = 0; i < count && r == 0; i++)
        set_hotspots_window(w, first + i, to_ns, &(*ret)->windows[i]);
    pthread_mutex_unlock(&w->lock);
    return r;
}

int window_hotspots(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                    const struct hotspots_options *options, struct hotspots **ret)
{
    _cleanup_(hotspots_freep) struct hotspots *h = NULL;
    int r = hotspots_begin(w, from_ns, to_ns, options, &h);
    for (uint32_t i = 0; r == 0 && i < h->window_count; i++) {
        const uint64_t number = h->windows[i].start_ns / w->options.slot_ns;
        pthread_mutex_lock(&w->lock);
        const struct slot *slot = slot_at(w, number);
        if (slot->profile && slot->number == number && number >= oldest_kept(w))
            r = hotspots_add(h, i, slot->profile, filter);
        pthread_mutex_unlock(&w->lock);
    }
    if (r == 0)
        r = hotspots_finish(h);
    if (r < 0)
        return r;
    h->start_unix_ns = h->window_count ? clock_unix_from_monotonic(h->windows[0].start_ns) : 0;
    h->period = w->options.period;
    *ret = take_ptr(h);
    return 0;
}

/* ---- statistics ---- */

const struct sample_type *window_type(const struct window *w)
{
    return w->options.type;
}

size_t window_bytes(struct window *w)
{
    size_t bytes = 0;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->options.slots; i++)
        bytes +=
            (w->slots[i].profile ? profile_bytes(w->slots[i].profile) : 0) + slot_detail_bytes(&w->slots[i].detail);
    pthread_mutex_unlock(&w->lock);
    return bytes;
}

void window_add_stats(struct window *w, struct window_stats *to)
{
    to->bytes += window_bytes(w);
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->options.slots; i++) {
        const struct profile *p = w->slots[i].profile;
        if (!p)
            continue;
        to->slots++;
        to->stacks += p->stack_count;
    }
    to->on_time += w->on_time;
    to->late += w->late;
    to->dropped += w->dropped;
    to->details_dropped += w->details_dropped;
    pthread_mutex_unlock(&w->lock);
}
