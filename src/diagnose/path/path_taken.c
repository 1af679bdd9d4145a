/* See path_taken.h. */
#include "diagnose/path/path_taken.h"

#include "diagnose/flight/flight_index.h"

#include <errno.h>

#define AFTER_NS 1000000 /* how long after the reply its thread may leave the CPU */

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t overlap_ns(const struct path_segment *s, uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t start_ns = s->start_ns > from_ns ? s->start_ns : from_ns, end_ns = lower(s->end_ns, to_ns);
    return end_ns > start_ns ? end_ns - start_ns : 0;
}

/* Makes the last `ns` of segment `i` time of this kind. */
static int take(struct path_segments *path, size_t i, uint64_t ns, enum request_part_kind kind, const char *reason)
{
    const uint64_t from_ns = path->items[i].end_ns - ns;
    if (!ns)
        return 0;
    if (from_ns > path->items[i].start_ns) {
        if (path_segments_split(path, i, from_ns) < 0)
            return -ENOMEM;
        i++;
    }
    path->items[i].kind = kind;
    path->items[i].reason = reason;
    return 0;
}

/* `taken` covers the time from `from_ns` to its own time, while its thread was the current one. */
static int apply_record(struct path_segments *path, const struct recorder_record *taken, uint64_t from_ns)
{
    size_t longest = 0;
    uint64_t sum_ns = 0, longest_ns = 0;
    for (size_t i = path_segments_since(path, from_ns); i < path->count && path->items[i].start_ns < taken->time_ns;
         i++) {
        const struct path_segment *s = &path->items[i];
        const uint64_t ns =
            s->kind == REQUEST_PART_CPU && s->tid == taken->tid ? overlap_ns(s, from_ns, taken->time_ns) : 0;
        sum_ns += ns;
        if (ns > longest_ns) {
            longest = i;
            longest_ns = ns;
        }
    }
    const uint64_t elsewhere_ns = taken->time_ns - from_ns - sum_ns, all_ns = recorder_low(taken->value);
    if (!longest_ns || all_ns <= elsewhere_ns)
        return 0;
    const uint64_t ns = lower(all_ns - elsewhere_ns, longest_ns), stolen_ns = lower(recorder_high(taken->value), ns);
    return take(path, longest, stolen_ns, REQUEST_PART_STEAL, "")
               ?: take(path, longest, ns - stolen_ns, REQUEST_PART_OTHER, "interrupts ran on its CPU");
}

int path_taken_find(const struct flight_index *index, struct path_segments *path)
{
    const struct flight_window *window = flight_index_window(index);
    const uint64_t end_ns = path->count ? path->items[path->count - 1].end_ns : 0;
    for (size_t i = flight_window_since(window, path->begin_ns); i < window->count; i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->time_ns > end_ns + AFTER_NS || !flight_index_spend(index))
            break;
        const struct flight_list *thread = r->kind == RECORDER_TAKEN ? flight_index_thread(index, r->tid) : NULL;
        const struct thread_span span =
            thread ? flight_thread_span(thread, r->time_ns) : (struct thread_span){.state = THREAD_UNKNOWN};
        if (span.state == THREAD_RUNNING && span.start_ns && apply_record(path, r, span.start_ns) < 0)
            return -ENOMEM;
    }
    return 0;
}
