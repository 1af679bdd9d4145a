/* Wake-ups of event loops by other threads; see path_loop.h. */
#include "diagnose/path/path_loop.h"

#include "diagnose/path/path_holder.h"
#include "diagnose/path/path_wait.h"

/* The walk goes on in the request's event loop, which gave the current thread work at `t_ns`. */
static void go_to_loop(struct path_walk *w, uint64_t t_ns)
{
    w->depth = 0;
    w->is_inferred = true;
    path_walk_go_to(w, w->loop_tid, t_ns);
}

/* Whether a record shows which task the thread of this wake-up's waker ran then. */
static bool has_task(const struct path_walk *w, const struct recorder_record *woken)
{
    const struct flight_list *tasks = flight_index_tasks_of(w->index, recorder_low(woken->value));
    const uint32_t i = flight_list_before(tasks, woken->time_ns + 1);
    return i != FLIGHT_NONE && tasks->events[i].record->time_ns == woken->time_ns;
}

static bool is_given_by_loop(const struct path_walk *w, const struct recorder_record *woken)
{
    return w->loop_tid && w->loop_tid != w->thread->key && recorder_low(woken->value) == w->loop_tid &&
           !(woken->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ));
}

bool path_loop_go_to_waker(struct path_walk *w, const struct recorder_record *woken)
{
    if (!is_given_by_loop(w, woken) || has_task(w, woken))
        return false;
    go_to_loop(w, woken->time_ns);
    return true;
}

bool path_loop_add_worker(struct path_walk *w, uint32_t tid, uint64_t from_ns, uint64_t end_ns)
{
    const uint64_t began_ns = request_work_item_start(w->index, tid, (uint32_t)w->thread->key, end_ns);
    const struct flight_list *worker = flight_index_thread(w->index, tid);
    const struct recorder_record *woken = worker && began_ns ? flight_thread_wake_up(worker, began_ns) : NULL;
    const struct holder_walk walk = {.index = w->index,
                                     .out = w->out,
                                     .waiter = (uint32_t)w->thread->key,
                                     .kind = REQUEST_PART_UNATTRIBUTED,
                                     .owner = REQUEST_OWNER_UNKNOWN,
                                     .is_inferred = true};
    path_holder_add(&walk, tid, began_ns > from_ns ? began_ns : from_ns, end_ns);
    if (began_ns > from_ns && woken && is_given_by_loop(w, woken)) {
        w->t_ns = began_ns < w->t_ns ? began_ns : w->t_ns;
        go_to_loop(w, began_ns);
        return true;
    }
    if (began_ns > from_ns) {
        struct path_segment s = {.kind = REQUEST_PART_QUEUE_BEHIND,
                                 .tid = tid,
                                 .for_tid = (uint32_t)w->thread->key,
                                 .owner = flight_index_has_jobs_by_write(w->index, w->thread->pid)
                                              ? REQUEST_OWNER_UNKNOWN
                                              : REQUEST_OWNER_OTHER,
                                 .is_inferred = true,
                                 .syscall = RECORDER_NO_SYSCALL,
                                 .reason = "its thread had other work"};
        path_walk_add(w, from_ns, s);
    }
    w->t_ns = from_ns < w->t_ns ? from_ns : w->t_ns; /* path_holder_add has accounted the time after it */
    return false;
}

bool path_loop_go_to_last_hand(struct path_walk *w, uint64_t end_ns)
{
    const bool is_unsure = w->depth > 0 || flight_index_has_jobs_by_write(w->index, w->thread->pid);
    const uint32_t tid =
        is_unsure ? 0 : request_hands_last(w->hands, 0, (uint32_t)w->thread->key, w->out->begin_ns, end_ns);
    const struct flight_list *thread = tid ? flight_index_thread(w->index, tid) : NULL;
    if (!thread)
        return false;
    const struct thread_span span = flight_thread_span(thread, end_ns);
    w->is_inferred = true;
    if (span.state == THREAD_BLOCKED && path_wait_is_for_events(span.left)) {
        struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_QUEUE_BEHIND);
        s.owner = REQUEST_OWNER_UNKNOWN;
        s.reason = "its answer was passed on by threads that had other work";
        path_walk_add(w, span.start_ns, s);
    }
    path_walk_go_to_peer(w, tid, w->t_ns < end_ns ? w->t_ns : end_ns, 0);
    return true;
}
