/* Windows by type of sample; see windows.h. Windows are only ever added, by the thread that adds samples: other threads
 * see a new one once the count includes it. */
#include "aggregate/windows.h"

#include "aggregate/wall_time.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct windows {
    struct windows_options options;
    atomic_size_t count;
    struct window *list[WINDOWS_TYPES_MAX];
};

int windows_new(const struct windows_options *options, struct windows **ret)
{
    if (!options->types_max || options->types_max > WINDOWS_TYPES_MAX)
        return -EINVAL;
    struct windows *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->options = *options;
    *ret = w;
    return 0;
}

static size_t count_of(const struct windows *w)
{
    return atomic_load_explicit(&w->count, memory_order_acquire);
}

void windows_free(struct windows *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < count_of(w); i++)
        window_free(w->list[i]);
    free(w);
}

/* Samples of one moment have a position of 20 ms; samples of intervals have only an end time. */
static bool has_positions(const struct sample_type *type)
{
    return !type->is_interval;
}

/* Shares the memory for 20 ms positions among the windows that have them and `more` new ones. Returns the share. */
static size_t share_detail(struct windows *w, size_t more)
{
    size_t sharing = more;
    for (size_t i = 0; i < count_of(w); i++)
        sharing += has_positions(window_type(w->list[i]));
    const size_t share = w->options.detail_max_bytes / (sharing ? sharing : 1);
    for (size_t i = 0; i < count_of(w); i++)
        if (has_positions(window_type(w->list[i])))
            window_limit_detail(w->list[i], share);
    return share;
}

int windows_expect(struct windows *w, const struct sample_type *type, uint64_t period)
{
    assert(!windows_find(w, type));
    const size_t count = count_of(w);
    if (count == w->options.types_max)
        return -ENOSPC;
    const struct window_options options = {
        .slot_ns = w->options.slot_ns,
        .slots = w->options.slots,
        .type = type,
        .period = period,
        .max_bytes = w->options.max_bytes / w->options.types_max,
        .detail_max_bytes = has_positions(type) && w->options.detail_max_bytes ? share_detail(w, 1) : 0,
    };
    int r = window_new(&options, &w->list[count]);
    if (r == 0)
        atomic_store_explicit(&w->count, count + 1, memory_order_release);
    return r;
}

struct window *windows_find(const struct windows *w, const struct sample_type *type)
{
    for (size_t i = 0; i < count_of(w); i++)
        if (sample_type_equal(window_type(w->list[i]), type))
            return w->list[i];
    return NULL;
}

void windows_observe(struct windows *w, const struct sample_type *type, bool is_observed, uint64_t now_ns)
{
    struct window *window = windows_find(w, type);
    if (window)
        window_observe(window, is_observed, now_ns);
}

int windows_add(struct windows *w, const struct sample *s)
{
    struct window *window = windows_find(w, s->type);
    int r = window ? 0 : windows_expect(w, s->type, 0);
    if (r < 0)
        return r;
    return window_add(window ? window : windows_find(w, s->type), s);
}

/* ---- queries ---- */

/* Extends [*from_ns, *to_ns) to whole slots. */
static void extend_to_slots(const struct windows *w, uint64_t *from_ns, uint64_t *to_ns)
{
    const uint64_t slot_ns = w->options.slot_ns;
    *from_ns -= *from_ns % slot_ns;
    *to_ns += (slot_ns - *to_ns % slot_ns) % slot_ns;
}

/* What wall-clock time is summed up from. */
static struct wall_time find_wall_time(const struct windows *w)
{
    return (struct wall_time){.cpu = windows_find(w, &sample_type_cpu),
                              .off_cpu = windows_find(w, &sample_type_off_cpu)};
}

int windows_snapshot(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                     struct profile **ret)
{
    if (filter->type == &sample_type_wall)
        return wall_time_snapshot(find_wall_time(w), from_ns, to_ns, filter, ret);
    struct window *window = windows_find(w, filter->type);
    return window ? window_snapshot(window, from_ns, to_ns, filter, ret) : -EOPNOTSUPP;
}

int windows_region(struct windows *w, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
                   const struct profile_filter *filter, struct profile **ret)
{
    if (from_ns > now_ns)
        return -ERANGE;
    if (has_positions(filter->type))
        to_ns = to_ns < now_ns ? to_ns : now_ns;
    else
        extend_to_slots(w, &from_ns, &to_ns);
    if (filter->type == &sample_type_wall)
        return wall_time_region(find_wall_time(w), from_ns, to_ns, now_ns, filter, ret);
    struct window *window = windows_find(w, filter->type);
    int r = window ? window_region(window, from_ns, to_ns, filter, ret) : -EOPNOTSUPP;
    if (r == 0 && to_ns > now_ns) /* the last slot is still being filled */
        window_set_observed(window, from_ns, now_ns, *ret);
    return r;
}

/* ---- memory and statistics ---- */

size_t windows_limit(struct windows *w, size_t max_bytes, size_t detail_max_bytes)
{
    size_t dropped = 0;
    w->options.max_bytes = max_bytes;
    w->options.detail_max_bytes = detail_max_bytes;
    (void)share_detail(w, 0);
    for (size_t i = 0; i < count_of(w); i++)
        dropped += window_limit(w->list[i], max_bytes / w->options.types_max);
    return dropped;
}

void windows_trim(struct windows *w)
{
    for (size_t i = 0; i < count_of(w); i++)
        window_trim(w->list[i]);
}

size_t windows_bytes(struct windows *w)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count_of(w); i++)
        bytes += window_bytes(w->list[i]);
    return bytes;
}

void windows_metrics(struct windows *w, struct metric_set *set)
{
    struct window_stats f = {0};
    for (size_t i = 0; i < count_of(w); i++)
        window_add_stats(w->list[i], &f);
    metric_add(set, "sonde_self_window_bytes", METRIC_GAUGE, "bytes",
               "Memory held by the profiles of the last minutes.", f.bytes, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_window_slots", METRIC_GAUGE, "", "Slots of the last minutes that hold samples.",
               f.slots, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_window_stacks", METRIC_GAUGE, "", "Distinct stacks, summed over slots.", f.stacks,
               METRIC_NO_LABELS);
    const char *name = "sonde_self_window_samples";
    const char *help =
        "Samples put into the last minutes: on time, late (counted in the oldest slot), dropped because a slot was full.";
    metric_add(set, name, METRIC_COUNTER, "", help, f.on_time, METRIC_LABELS({"result", "on_time"}));
    metric_add(set, name, METRIC_COUNTER, "", help, f.late, METRIC_LABELS({"result", "late"}));
    metric_add(set, name, METRIC_COUNTER, "", help, f.dropped, METRIC_LABELS({"result", "dropped"}));
    metric_add(set, "sonde_self_window_details_dropped", METRIC_COUNTER, "",
               "Slots of the last minutes without the 20 ms positions of their samples.", f.details_dropped,
               METRIC_NO_LABELS);
}
