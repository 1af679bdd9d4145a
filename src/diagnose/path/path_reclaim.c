/* See path_reclaim.h. */
#include "diagnose/path/path_reclaim.h"

#include "base/buf.h"
#include "base/units.h"
#include "diagnose/flight/flight_index.h"
#include "diagnose/path/path_names.h"

#include "probes/reclaim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define EVIDENCE_MAX 256 /* of a path */

static uint64_t start_of(const struct recorder_record *r)
{
    return r->value < r->time_ns ? r->time_ns - r->value : 0;
}

/* Returns the first record of reclaim at index `i` of the window or later, until `end_ns`, and sets `ret_next` to the
 * index after it; NULL if no such record exists. */
static const struct recorder_record *next_record(const struct flight_window *window, size_t i, uint64_t end_ns,
                                                 size_t *ret_next)
{
    for (; i < window->count && window->records[i].time_ns <= end_ns; i++) {
        const struct recorder_record *r = &window->records[i];
        *ret_next = i + 1;
        if (r->kind == RECORDER_RECLAIM && r->value && r->flags < RECLAIM_KINDS)
            return r;
    }
    return NULL;
}

static uint64_t end_of(const struct path_segments *path)
{
    return path->count ? path->items[path->count - 1].end_ns : path->begin_ns;
}

/* ---- the thread's own time ---- */

/* Reclaim replaces neither waits for a lock or for another thread nor waits for a CPU. */
static bool is_taken(const struct path_segment *s, uint32_t tid)
{
    return s->tid == tid && !s->is_interrupt &&
           (s->kind == REQUEST_PART_CPU || s->kind == REQUEST_PART_DISK || s->kind == REQUEST_PART_SLEEP ||
            s->kind == REQUEST_PART_OTHER);
}

static int take_record(struct path_segments *path, const struct recorder_record *r)
{
    for (size_t i = path_segments_since(path, start_of(r)); i < path->count && path->items[i].start_ns < r->time_ns;
         i++) {
        if (!is_taken(&path->items[i], r->tid))
            continue;
        if (path_segments_cut_out(path, &i, start_of(r), r->time_ns) < 0)
            return -ENOMEM;
        struct path_segment *s = &path->items[i];
        s->kind = REQUEST_PART_OTHER;
        s->reason = "";
        s->syscall = RECORDER_NO_SYSCALL;
        s->is_inferred = false;
        s->is_reclaim = true;
        s->reclaim_kind = r->flags;
        s->reclaim_cgroup = r->object;
    }
    return 0;
}

int path_reclaim_take(const struct flight_index *index, struct path_segments *path)
{
    const struct flight_window *window = flight_index_window(index);
    const struct recorder_record *r;
    size_t i = flight_window_since(window, path->begin_ns);
    while ((r = next_record(window, i, end_of(path), &i)))
        if (take_record(path, r) < 0)
            return -ENOMEM;
    return 0;
}

/* ---- evidence ---- */

static void add_evidence(const struct recorder_record *r, const struct path_segment *s, struct path_evidence *e)
{
    const uint64_t start_ns = start_of(r) > s->start_ns ? start_of(r) : s->start_ns,
                   end_ns = r->time_ns < s->end_ns ? r->time_ns : s->end_ns;
    if (end_ns <= start_ns || e->reclaim_count == EVIDENCE_MAX)
        return;
    struct path_reclaim *grown = reallocarray(e->reclaims, e->reclaim_count + 1, sizeof(*grown));
    if (!grown)
        return;
    e->reclaims = grown;
    e->reclaims[e->reclaim_count++] =
        (struct path_reclaim){s->start_ns, end_ns - start_ns, {.kind = r->flags, .cgroup = r->object}};
}

void path_reclaim_find(const struct flight_index *index, const struct path_segments *path, struct path_evidence *e)
{
    const struct flight_window *window = flight_index_window(index);
    const struct recorder_record *r;
    size_t i = flight_window_since(window, path->begin_ns);
    while ((r = next_record(window, i, end_of(path), &i)))
        for (size_t k = path_segments_since(path, start_of(r)); k < path->count && path->items[k].start_ns < r->time_ns;
             k++)
            if (path->items[k].tid == r->tid && !path->items[k].is_reclaim && !path->items[k].is_interrupt)
                add_evidence(r, &path->items[k], e);
}

/* ---- words ---- */

const char *path_reclaim_text(const struct path_reclaim_cause *cause, const struct path_names *names,
                              char out[PATH_RECLAIM_BYTES])
{
    char cgroup[PATH_CGROUP_BYTES] = "";
    if (cause->kind == RECLAIM_LIMIT && names->cgroup)
        names->cgroup(names->context, cause->cgroup, cgroup);
    if (cause->kind == RECLAIM_LIMIT)
        snprintf(out, PATH_RECLAIM_BYTES, "in direct reclaim of %s%s", cgroup[0] ? "cgroup " : "its cgroup", cgroup);
    else
        snprintf(out, PATH_RECLAIM_BYTES, "in %s of the node's memory",
                 cause->kind == RECLAIM_COMPACTION ? "compaction" : "direct reclaim");
    return out;
}

static bool starts_segment(const struct path_segments *path, size_t first, size_t end, uint64_t start_ns)
{
    for (size_t i = first; i < end; i++)
        if (path->items[i].start_ns == start_ns)
            return true;
    return false;
}

void path_reclaim_put(const struct path_segments *path, size_t first, size_t end, const struct path_names *names,
                      struct buf *out)
{
    const struct path_evidence *e = &path->evidence;
    struct path_reclaim sum = {0};
    char text[PATH_RECLAIM_BYTES], time[32];
    for (size_t i = 0; i < e->reclaim_count; i++)
        if (starts_segment(path, first, end, e->reclaims[i].segment_ns)) {
            sum.ns += e->reclaims[i].ns;
            sum.cause = e->reclaims[i].cause; /* of the last one: a thread rarely has two */
        }
    if (sum.ns)
        buf_printf(out, "%s%s of it %s", out->size ? "\n" : "", units_format_duration(sum.ns, time, sizeof(time)),
                   path_reclaim_text(&sum.cause, names, text));
}
