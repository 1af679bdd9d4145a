/* What a thread did while a request was ready; see path_ready.h. */
#include "diagnose/path/path_ready.h"

#include "diagnose/path/path_holder.h"
#include "diagnose/path/path_turn.h"
#include "diagnose/path/path_wait.h"

#include <sys/syscall.h>

#define NAMED_MAX    256  /* segments of ready time whose owners are named */
#define SEPARATE_MAX 1024 /* segments of ready time; the rest is one */

/* So many segments of ready time would say nothing more. */
static void add_rest_of_ready_time(struct path_walk *w, uint64_t from_ns, enum request_part_kind busy)
{
    struct path_segment s = path_walk_segment(w->thread, busy);
    s.owner = REQUEST_OWNER_UNKNOWN;
    s.is_inferred = true;
    s.reason = "its thread ran and waited in too many steps to show each";
    path_walk_add(w, from_ns, s);
}

/* When the thread was last woken before w->t with nothing else to do: it had waited for events, or was in the middle of
 * no request. 0: not known. */
static uint64_t last_free_ns(const struct path_walk *w)
{
    for (uint32_t i = flight_list_before(w->thread, w->t_ns); i != FLIGHT_NONE && flight_index_spend(w->index); i--) {
        const struct flight_event *e = &w->thread->events[i];
        if (e->role != FLIGHT_WOKEN || e->state != THREAD_RUNNABLE || e->woken != i)
            continue;
        const struct recorder_record *left = flight_thread_span(w->thread, e->record->time_ns + 1).left;
        if (!left || path_wait_is_for_events(left) || !request_work_is_busy(w->index, w->thread, left->time_ns))
            return e->record->time_ns;
    }
    return 0;
}

/* Whether the request had been worked on before `t_ns`. Until then the thread cannot have read anything for it. */
static bool has_begun(const struct path_walk *w, uint64_t t_ns)
{
    struct work_slice slice;
    return request_work_previous(w->index, path_walk_subject(w), w->out->begin_ns, t_ns, &slice);
}

/* Returns the time since when the thread was on the way to the data that it read at w->t_ns, and that had arrived at
 * `from_ns`: since the thread was woken for it, or since `from_ns` if the thread then worked for this request.
 * UINT64_MAX: it had other work. */
static uint64_t way_start(const struct path_walk *w, uint64_t from_ns)
{
    enum work_mark mark = WORK_NO_MARK;
    const uint64_t free_ns = last_free_ns(w);
    if (free_ns + PATH_WAKE_UP_NS > from_ns)
        return free_ns;
    request_work_last_mark(w->index, w->thread, path_walk_subject(w), free_ns, from_ns, &mark);
    return (mark == WORK_READ || mark == WORK_CONSUMED) && has_begun(w, from_ns) ? from_ns : UINT64_MAX;
}

/* Returns the thread that the wait was for, by a lock; 0: it was for something else. */
static uint32_t awaited_thread(const struct thread_span *wait, const struct recorder_record *woken)
{
    struct path_segment waited = {.syscall = wait->left ? wait->left->syscall : RECORDER_NO_SYSCALL};
    const bool is_lock = wait->left ? path_wait_is_for_lock(wait->left) : woken && woken->syscall == SYS_futex;
    return is_lock && path_wait_source(wait->left, woken, &waited) == WAIT_ENDED_BY_THREAD ? recorder_low(woken->value)
                                                                                           : 0;
}

/* The thread waited in [start, w->t) for a lock whose holder is recorded, which delays all requests of the process.
 * False: it waited for something else. */
static bool add_held_lock(struct path_walk *w, uint64_t start_ns, const struct recorder_record *left, uint32_t released)
{
    const struct holder_walk holder = {.index = w->index,
                                       .out = w->out,
                                       .waiter = (uint32_t)w->thread->key,
                                       .left = left,
                                       .kind = REQUEST_PART_LOCK,
                                       .owner = REQUEST_OWNER_UNKNOWN,
                                       .is_inferred = w->is_inferred};
    if (!path_holder_add_held(&holder, left, released, start_ns, w->t_ns))
        return false;
    w->t_ns = start_ns;
    return true;
}

/* The thread waited in [start, w->t), and not for this request: in the middle of another's work or, if it reads the
 * request itself, maybe between two. */
static void add_ready_wait(struct path_walk *w, uint64_t start_ns, const struct thread_span *wait,
                           struct path_segment s)
{
    const struct recorder_record *left = wait->left, *woken = flight_thread_wake_up(w->thread, w->t_ns);
    const bool is_free =
        s.kind == REQUEST_PART_UNREAD && !(left && request_work_is_busy(w->index, w->thread, left->time_ns));
    const uint32_t awaited = awaited_thread(wait, woken);
    if (add_held_lock(w, start_ns, left, awaited))
        return;
    s.owner = is_free ? REQUEST_OWNER_UNKNOWN : REQUEST_OWNER_OTHER;
    if (awaited) {
        const struct holder_walk other = {.index = w->index,
                                          .out = w->out,
                                          .waiter = (uint32_t)w->thread->key,
                                          .kind = s.kind,
                                          .owner = s.owner,
                                          .is_inferred = w->is_inferred};
        path_holder_add(&other, awaited, start_ns, w->t_ns);
        w->t_ns = start_ns;
        return;
    }
    struct path_segment waited = {.syscall = left ? left->syscall : RECORDER_NO_SYSCALL};
    path_wait_source(left, woken, &waited);
    if (waited.kind == REQUEST_PART_DISK)
        s.reason = "its thread waited for a disk";
    else if (waited.kind == REQUEST_PART_SLEEP)
        s.reason = "its thread slept";
    else if (!path_wait_is_for_events(left))
        s.reason = "its thread waited for something that was not this request";
    s.syscall = waited.syscall;
    s.object = left ? left->object : 0;
    path_walk_add(w, start_ns, s);
}

void path_ready_add(struct path_walk *w, uint64_t from_ns, enum request_part_kind busy, bool reads, const char *reason)
{
    const uint64_t subject = path_walk_subject(w);
    const size_t before = w->out->count;
    const uint64_t way_ns = reads ? way_start(w, from_ns) : UINT64_MAX;
    const uint64_t foreign_ns =
        way_ns == UINT64_MAX ? 0 : request_work_first_foreign(w->index, w->thread, subject, way_ns, w->t_ns + 1);
    const bool is_untouched =
        reads && request_work_first_foreign(w->index, w->thread, subject, from_ns, w->t_ns + 1) == UINT64_MAX;
    while (w->t_ns > from_ns && w->t_ns > w->floor_ns && !w->out->is_full) {
        if (w->out->count - before >= SEPARATE_MAX || flight_index_is_spent(w->index)) {
            add_rest_of_ready_time(w, from_ns, busy);
            break;
        }
        const struct thread_span span = flight_thread_span(w->thread, w->t_ns);
        uint64_t start_ns = span.start_ns > from_ns ? span.start_ns : from_ns;
        struct path_segment s = path_walk_segment(w->thread, busy);
        s.reason = reason;
        if (span.state == THREAD_RUNNABLE) {
            s = path_run_queue_segment(w->thread, &span);
            if (!(span.woken && path_wait_is_for_events(span.left)) &&
                (foreign_ns <= w->t_ns || path_turn_find(w, 0, span.start_ns).owner == REQUEST_OWNER_OTHER))
                s.owner = REQUEST_OWNER_OTHER; /* it was in the middle of that work */
        } else if (span.state == THREAD_RUNNING) {
            enum work_mark mark;
            const struct flight_event *e =
                request_work_last_mark(w->index, w->thread, subject, start_ns, w->t_ns, &mark);
            if (e && e->record->time_ns > start_ns)
                start_ns = e->record->time_ns;
            s.owner = REQUEST_OWNER_OTHER;
            s.is_other_work = true;
            s.is_inferred = is_untouched; /* the other request may be waiting, too */
            if (e && mark == WORK_FOREIGN && w->out->count - before < NAMED_MAX)
                s.owner_id = e->record->object;
            if (start_ns >= way_ns && foreign_ns > w->t_ns &&
                path_turn_find(w, start_ns, w->t_ns).owner == REQUEST_OWNER_THIS)
                s = path_walk_segment(w->thread, REQUEST_PART_CPU); /* on its way to this request */
        } else if (span.state == THREAD_BLOCKED && span.start_ns <= from_ns && w->t_ns - start_ns < PATH_WAKE_UP_NS) {
            s = path_walk_segment(w->thread, REQUEST_PART_RUN_QUEUE); /* its wake-up follows */
        } else if (span.state == THREAD_BLOCKED) {
            add_ready_wait(w, start_ns > w->floor_ns ? start_ns : w->floor_ns, &span, s);
            continue;
        } else {
            s = path_walk_segment(w->thread, REQUEST_PART_UNATTRIBUTED);
            s.owner = REQUEST_OWNER_UNKNOWN;
            s.reason = "a switch between threads was not recorded";
        }
        path_walk_add(w, start_ns, s);
    }
}
