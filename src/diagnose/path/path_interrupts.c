/* See path_interrupts.h. */
#include "diagnose/path/path_interrupts.h"

#include "diagnose/flight/flight_index.h"

#include <errno.h>
#include <stdlib.h>

#define INTERRUPTS_MAX 256    /* of a path's evidence */
#define IDLE_END_NS    100000 /* between the end of an interrupt on an idle CPU and the switch to a thread */

static uint64_t start_of(const struct recorder_record *r)
{
    return r->value < r->time_ns ? r->time_ns - r->value : 0;
}

void path_interrupts_list(const struct flight_index *index, const struct path_segments *path,
                          struct path_interrupt_list *ret)
{
    const struct flight_window *window = flight_index_window(index);
    const uint64_t end_ns = path->count ? path->items[path->count - 1].end_ns : path->begin_ns;
    ret->count = 0;
    for (size_t i = flight_window_since(window, path->begin_ns);
         i < window->count && window->records[i].time_ns <= end_ns && ret->count < array_size(ret->items); i++)
        if (window->records[i].kind == RECORDER_INTERRUPT && window->records[i].value)
            ret->items[ret->count++] = &window->records[i];
}

/* ---- time on a CPU ---- */

static int take_record(struct path_segments *path, const struct recorder_record *r)
{
    for (size_t i = path_segments_since(path, start_of(r)); i < path->count && path->items[i].start_ns < r->time_ns;
         i++) {
        if (path->items[i].kind != REQUEST_PART_CPU || path->items[i].tid != r->tid)
            continue;
        if (path_segments_cut_out(path, &i, start_of(r), r->time_ns) < 0)
            return -ENOMEM;
        struct path_segment *s = &path->items[i];
        s->kind = REQUEST_PART_OTHER;
        s->reason = "";
        s->interrupt = r->object;
        s->is_interrupt = true;
    }
    return 0;
}

int path_interrupts_take(const struct flight_index *index, struct path_segments *path)
{
    struct path_interrupt_list list;
    path_interrupts_list(index, path, &list);
    for (size_t k = 0; k < list.count; k++)
        if (take_record(path, list.items[k]) < 0)
            return -ENOMEM;
    return 0;
}

/* ---- evidence ---- */

static void add(const struct recorder_record *r, const struct path_segment *s, uint64_t from_ns, uint64_t to_ns,
                struct path_evidence *e)
{
    const uint64_t start_ns = start_of(r) > from_ns ? start_of(r) : from_ns,
                   end_ns = r->time_ns < to_ns ? r->time_ns : to_ns;
    if (end_ns <= start_ns || e->interrupt_count == INTERRUPTS_MAX)
        return;
    struct path_interrupt *grown = reallocarray(e->interrupts, e->interrupt_count + 1, sizeof(*grown));
    if (!grown)
        return;
    e->interrupts = grown;
    e->interrupts[e->interrupt_count++] = (struct path_interrupt){s->start_ns, end_ns - start_ns, r->object};
}

/* A record of an interrupt on an idle CPU names no thread. It delayed this thread if it ended just before the CPU
 * switched to the thread. */
void path_interrupts_add(const struct path_interrupt_list *list, const struct path_segment *s, uint32_t tid,
                         uint64_t from_ns, uint64_t to_ns, struct path_evidence *e)
{
    for (size_t k = 0; k < list->count; k++) {
        const struct recorder_record *r = list->items[k];
        if (r->tid == tid && (tid || (r->time_ns <= to_ns && to_ns - r->time_ns < IDLE_END_NS)))
            add(r, s, from_ns, to_ns, e);
    }
}
