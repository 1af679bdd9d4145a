/* Collects evidence from the window; see path_evidence_find.h. */
#include "diagnose/path/path_evidence_find.h"

#include "diagnose/path/path_disk.h"
#include "diagnose/path/path_interrupts.h"
#include "diagnose/path/path_reclaim.h"

#include <errno.h>
#include <stdlib.h>

#define RUNNERS_MAX   4096 /* of a path */
#define RUNNERS_FIRST 16

/* ---- files ---- */

static int find_files(const struct flight_window *window, const struct path_segments *path, struct path_evidence *e)
{
    const uint64_t end_ns = path->count ? path->items[path->count - 1].end_ns : path->begin_ns;
    const size_t first = flight_window_since(window, path->begin_ns), end = flight_window_since(window, end_ns);
    size_t count = 0;
    for (size_t i = first; i < end; i++)
        count += window->records[i].kind == RECORDER_FILE;
    e->files = calloc(count + 1, sizeof(*e->files));
    if (!e->files)
        return -ENOMEM;
    for (size_t i = first; i < end; i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->kind != RECORDER_FILE)
            continue;
        const bool is_added = r->flags & RECORDER_ADDED_PAGES;
        e->files[e->file_count++] = (struct path_file_wait){
            .time_ns = r->time_ns,
            .file = r->object,
            .first_page = recorder_first_page(r->value),
            .pages = recorder_page_count(r->value),
            .tid = r->tid,
            .is_of_call = !is_added,
            .is_transfer = is_added || r->flags & RECORDER_DIRECT,
            .is_inferred = is_added && r->syscall == RECORDER_NO_SYSCALL,
        };
    }
    return 0;
}

/* ---- run queue ---- */

/* Few paths have runners, and the evidence of many requests is held at a time: room is made as it is needed. Without
 * memory a runner is left out. */
static bool make_room(struct path_evidence *e)
{
    const size_t count = e->runner_count;
    if (count & (count - 1) || (count && count < RUNNERS_FIRST)) /* no power of two: there is room */
        return true;
    struct path_runner *grown = reallocarray(e->runners, count ? 2 * count : RUNNERS_FIRST, sizeof(*grown));
    e->runners = grown ?: e->runners;
    return grown;
}

static void add_runner(struct path_evidence *e, size_t first, const struct path_runner *added)
{
    for (size_t i = first; i < e->runner_count; i++)
        if (e->runners[i].pid == added->pid) {
            e->runners[i].ns += added->ns;
            return;
        }
    if (e->runner_count < RUNNERS_MAX && make_room(e))
        e->runners[e->runner_count++] = *added;
}

/* Returns the switch that gave the thread a CPU at `t_ns`; NULL if it is not recorded. */
static const struct recorder_record *switch_to(const struct flight_list *thread, uint64_t t_ns)
{
    const uint32_t at = flight_list_before(thread, t_ns + 1);
    const struct flight_event *e = at == FLIGHT_NONE ? NULL : &thread->events[at];
    return e && e->role == FLIGHT_IN && e->record->time_ns == t_ns ? e->record : NULL;
}

/* A thread that waited for a CPU, and for no quota. Each thread that ran was switched to from the one that ran before
 * it on that CPU. Ends where the CPU was idle. */
static void find_runners(const struct flight_index *index, const struct path_segment *s,
                         const struct path_interrupt_list *interrupts, struct path_evidence *e)
{
    const size_t first = e->runner_count;
    const struct recorder_record *got = switch_to(flight_index_thread(index, s->tid), s->end_ns);
    if (got && !got->tid)
        path_interrupts_add(interrupts, s, 0, s->start_ns, got->time_ns, e);
    while (got && got->tid && got->tid != s->tid && flight_index_spend(index)) {
        const struct flight_list *thread = flight_index_thread(index, got->tid);
        const struct thread_span span =
            thread ? flight_thread_span(thread, got->time_ns) : (struct thread_span){.state = THREAD_UNKNOWN};
        if (span.state != THREAD_RUNNING || got->time_ns <= s->start_ns)
            break;
        const uint64_t from_ns = span.start_ns > s->start_ns ? span.start_ns : s->start_ns;
        const uint32_t pid = recorder_high(got->value) ?: got->tid;
        add_runner(e, first, &(struct path_runner){s->start_ns, got->time_ns - from_ns, pid});
        path_interrupts_add(interrupts, s, got->tid, from_ns, got->time_ns, e);
        got = span.began && span.start_ns > s->start_ns ? switch_to(thread, span.start_ns) : NULL;
    }
}

int path_evidence_find(const struct flight_index *index, const struct path_segments *path, struct path_evidence *ret)
{
    struct path_interrupt_list interrupts;
    struct path_evidence e = {0};
    if (find_files(flight_index_window(index), path, &e) < 0 ||
        path_disk_find(index, path, &e.disks, &e.disk_count) < 0) {
        path_evidence_clear(&e);
        return -ENOMEM;
    }
    path_interrupts_list(index, path, &interrupts);
    for (size_t i = 0; i < path->count; i++) {
        const struct path_segment *s = &path->items[i];
        if (s->kind == REQUEST_PART_RUN_QUEUE && s->tid && !s->reason[0])
            find_runners(index, s, &interrupts, &e);
        else if (s->tid && !s->is_interrupt) /* its thread ran: other work, or the owner of a lock */
            path_interrupts_add(&interrupts, s, s->tid, s->start_ns, s->end_ns, &e);
    }
    path_reclaim_find(index, path, &e);
    *ret = e;
    return 0;
}
