/* Walks backwards from the reply: while the thread ran, that is CPU time, as long as the work was this request's; while
 * it was runnable, run queue; while it slept, the walk goes on in the thread that ended the sleep. Where a thread
 * turned to this request late, the walk jumps to the moment when the request was ready, and the time between is other
 * requests' work. Every step lowers the time or goes to another thread, so the walk ends and its segments are exact. */
#include "diagnose/path/critical_path.h"

#include "diagnose/path/path_evidence_find.h"
#include "diagnose/path/path_holder.h"
#include "diagnose/path/path_interrupts.h"
#include "diagnose/path/path_job.h"
#include "diagnose/path/path_loop.h"
#include "diagnose/path/path_marks.h"
#include "diagnose/path/path_reclaim.h"
#include "diagnose/path/path_socket.h"
#include "diagnose/path/path_taken.h"
#include "diagnose/path/path_task.h"
#include "diagnose/path/path_turn.h"
#include "diagnose/path/path_wait.h"
#include "diagnose/path/task_request.h"
#include "diagnose/path/task_wait.h"

#include <errno.h>
#include <sys/syscall.h>

#define STEPS_MAX      32768
#define START_SLACK_NS 200000 /* between the records of one system call by two programs */

/* ---- programs that schedule themselves ---- */

static bool schedules_itself(const struct path_walk *w)
{
    return w->schedules_itself && w->thread->pid == w->task_pid;
}

/* ---- states ---- */

/* The thread ran in this turn. `is_burst`: it had read other requests after this one. */
static struct path_segment turn_segment(const struct path_walk *w, enum request_owner owner, bool is_burst)
{
    struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_CPU);
    s.owner = owner;
    s.is_inferred = is_burst || owner != REQUEST_OWNER_THIS;
    if (owner == REQUEST_OWNER_OTHER) {
        s.kind = REQUEST_PART_LOOP_BUSY;
        s.reason = "the event loop served others";
    } else if (owner == REQUEST_OWNER_SEVERAL) {
        s.kind = REQUEST_PART_UNATTRIBUTED;
        s.reason = "the event loop worked for this request or for one that it had read before";
    } else if (is_burst) {
        s.reason = "work before the next reply";
    }
    return s;
}

static void step_running(struct path_walk *w, const struct thread_span *span)
{
    enum work_mark mark = WORK_NO_MARK;
    const uint64_t answer_ns = w->t_ns;
    const uint64_t floor_ns = span->start_ns > w->floor_ns ? span->start_ns : w->floor_ns;
    const struct flight_event *e =
        request_work_last_mark(w->index, w->thread, path_walk_subject(w), floor_ns, w->t_ns, &mark);
    const bool is_own_read =
        mark == WORK_FOREIGN && e->role == FLIGHT_RECEIVES && path_walk_is_subject(w, e->record->object);
    if (schedules_itself(w) && path_task_leave(w, e ? e->record->time_ns : floor_ns))
        return;
    if (path_job_leave(w, e, floor_ns))
        return;
    const struct path_turn turn = path_turn_find(w, e ? e->record->time_ns : span->start_ns, w->t_ns);
    path_walk_add(w, turn.from_ns,
                  turn_segment(w, turn.owner, mark == WORK_FOREIGN && e->role == FLIGHT_RECEIVES && !is_own_read));
    if (e && turn.from_ns > e->record->time_ns)
        return;
    if (mark != WORK_NO_MARK && path_job_is_ready(w, w->t_ns)) {
        path_mark_finished(w);
        return;
    }
    if (mark == WORK_CONSUMED && path_mark_is_for_other(w, e->record->object, e->record->time_ns))
        mark = WORK_FOREIGN;
    if (is_own_read) { /* and passed it on to the thread that the walk comes from */
        path_walk_return_to(w, e->record->object);
        mark = WORK_READ;
    }
    switch (mark) {
    case WORK_READ:
        path_mark_read(w);
        break;
    case WORK_CONSUMED:
        path_mark_consumed(w, e->record->object, answer_ns);
        break;
    case WORK_FOREIGN:
    case WORK_END:
        if (schedules_itself(w) && (path_task_follow(w, 0, 0) || path_task_go_to_last_run(w)))
            break;
        path_mark_foreign(w, mark == WORK_END, answer_ns);
        break;
    case WORK_NO_MARK:
        break;
    }
}

/* Whether the request itself waited for an event before the thread went to sleep. `ret`: the last work for the request,
 * or the last run of its task; the request waited since then. False: this thread did that work, and served no other
 * request after it. */
static bool waited_since_slice(struct path_walk *w, const struct thread_span *wait, struct work_slice *ret)
{
    if (!path_wait_is_for_events(wait->left) ||
        !request_work_previous(w->index, path_walk_subject(w), w->out->begin_ns, wait->left->time_ns + 1, ret))
        return false;
    const struct recorder_record *run =
        w->depth == 0 ? task_run_find(w->index, w->task_pid, w->task, ret->end_ns, wait->left->time_ns + 1) : NULL;
    if (run && !w->schedules_itself)
        *ret = (struct work_slice){run->tid, run->time_ns, run->time_ns};
    if (ret->end_ns >= wait->left->time_ns)
        return false;
    return ret->tid != w->thread->key || request_work_first_foreign(w->index, w->thread, path_walk_subject(w),
                                                                    ret->end_ns, wait->left->time_ns) != UINT64_MAX;
}

/* The request had been handed on, and came back from a thread that did not have to wake the loop, as the loop was
 * running. Returns the thread that had the request when the loop was woken; 0: none. */
static uint32_t find_returning_thread(const struct path_walk *w, const struct work_slice *slice, uint64_t woken_ns)
{
    const uint32_t loop = (uint32_t)w->thread->key;
    const uint64_t reply_ns = w->out->count ? w->out->items[0].end_ns : w->t_ns;
    if (w->depth > 0 || flight_index_has_jobs_by_write(w->index, w->thread->pid))
        return 0;
    const uint32_t last = request_hands_last(w->hands, w->thread->pid, loop, slice->start_ns, reply_ns);
    const uint32_t had = last ? request_hands_had(w->hands, last, woken_ns, reply_ns) : 0;
    return had != loop ? had : 0;
}

/* The thread's last operation on the request's socket was a part of the reply, and its next operation is another one:
 * it waited until the client had read enough. */
static bool is_between_sends(const struct path_walk *w, uint64_t t_ns)
{
    const uint64_t subject = path_walk_subject(w);
    const struct flight_list *socket = flight_index_socket(w->index, subject);
    const uint32_t last = socket ? flight_operation_before(socket, t_ns) : FLIGHT_NONE,
                   before = flight_list_before(w->thread, t_ns);
    if (last == FLIGHT_NONE || socket->events[last].role != FLIGHT_SENDS)
        return false;
    for (size_t i = before == FLIGHT_NONE ? 0 : before; i < w->thread->count && flight_index_spend(w->index); i++) {
        const struct flight_event *e = &w->thread->events[i];
        if (e->record->time_ns >= t_ns && (e->role == FLIGHT_SENDS || e->role == FLIGHT_RECEIVES))
            return e->role == FLIGHT_SENDS && e->record->object == subject;
    }
    return false;
}

static void set_client_wait(const struct path_walk *w, struct path_segment *s)
{
    s->kind = REQUEST_PART_NETWORK;
    s->socket = path_walk_subject(w);
    s->is_inferred = true;
    s->reason = "the receiver's buffer was full";
}

/* Explains the wake-up of an event loop that then read nothing for this request: the request waited for its client, for
 * a service that it had called, or for a timer. If another event loop ran the request's task, this one only reads and
 * sends for it: it knows no service and no timer of the request. */
static void set_event_of_loop(struct path_walk *w, const struct work_slice *slice, uint64_t end_ns,
                              struct path_segment *s)
{
    const bool is_elsewhere = w->loop_tid && w->loop_tid != w->thread->key;
    const uint64_t service = is_elsewhere ? 0 : request_work_unanswered(w->index, slice, path_walk_subject(w), end_ns);
    if (is_between_sends(w, end_ns)) {
        set_client_wait(w, s);
    } else if (service) {
        s->kind = REQUEST_PART_DOWNSTREAM;
        s->socket = service;
        s->reason = "until the service that it had called replied";
    } else if (!is_elsewhere && slice->tid == w->thread->key &&
               !request_work_hands_on(w->index, slice, path_walk_subject(w))) {
        s->kind = REQUEST_PART_SLEEP;
        s->reason = "until a timer expired, as nothing arrived for it";
    } else {
        return;
    }
    s->owner = REQUEST_OWNER_THIS;
    s->is_inferred = true;
}

static uint64_t not_before_floor(const struct path_walk *w, uint64_t t_ns)
{
    return t_ns > w->floor_ns ? t_ns : w->floor_ns;
}

/* Moves the walk back to `from_ns`: path_holder_add has accounted the time after it. */
static void go_back_to(struct path_walk *w, uint64_t from_ns)
{
    w->t_ns = from_ns < w->t_ns ? from_ns : w->t_ns;
}

/* A thread waited in a program that has its own scheduler. The thread waited for the next task that the program puts on
 * it; this wait says nothing about the request. */
static void add_self_scheduled(struct path_walk *w, const struct work_slice *slice, uint64_t start_ns, uint32_t waker)
{
    struct work_slice elsewhere; /* the task ran there after this wait began */
    if (path_task_follow(w, start_ns, waker) || path_task_go_to_last_run(w))
        return;
    if (!slice && task_run_find(w->index, w->task_pid, w->task, start_ns, w->t_ns) &&
        path_walk_previous(w, w->t_ns, &elsewhere) && elsewhere.end_ns > start_ns)
        slice = &elsewhere;
    path_walk_add_unattributed(w, slice ? slice->end_ns : start_ns, "the program schedules its work on threads itself");
    if (slice)
        path_walk_go_to(w, slice->tid, slice->end_ns);
}

/* If a thread of another process wakes the waiter, both processes share the futex's memory: the futex carries messages
 * and is not a lock. */
static bool is_message(const struct path_walk *w, const struct recorder_record *left, uint32_t waker)
{
    const struct flight_list *thread = flight_index_thread(w->index, waker);
    return left->syscall == SYS_futex && thread && !flight_threads_share_process(thread, w->thread);
}

/* Whether the thread got work for this request when it was woken: it began to exist then, or had waited since before
 * the request. */
static bool was_given_work(const struct path_walk *w, const struct thread_span *wait, bool is_lock)
{
    if (!wait->left)
        return path_wait_is_creation(wait->woken) || wait->woken->syscall == SYS_futex;
    return is_lock && wait->left->time_ns < w->out->begin_ns;
}

/* Whether the wake-up released a lock. A thread that did not work for the request before it waited got the request by
 * the wake-up, if from a thread that had been given it. */
static bool is_release(const struct path_walk *w, const struct thread_span *wait, uint32_t waker, uint64_t end_ns)
{
    const uint32_t waiter = (uint32_t)w->thread->key;
    if (wait->left && flight_thread_is_held_lock(w->index, waiter, wait->left->object))
        return true;
    return request_hands_is_release(w->hands, waiter, wait->woken) &&
           (path_walk_is_own(w, waiter, wait->left->time_ns + 1) || !request_hands_find(w->hands, waker, end_ns));
}

/* Returns the waker's send on a socket that woke the current thread, or the last send before it closed the connection,
 * which woke the thread. NULL: no such send. */
static const struct recorder_record *sent_by_waker(const struct path_walk *w, const struct recorder_record *woken)
{
    const struct flight_list *waker = flight_index_thread(w->index, recorder_low(woken->value));
    if (!waker || flight_threads_share_process(waker, w->thread))
        return NULL;
    if (woken->syscall == SYS_close || woken->syscall == SYS_shutdown) {
        const uint32_t before = flight_operation_before(waker, woken->time_ns);
        const struct flight_event *e = before == FLIGHT_NONE ? NULL : &waker->events[before];
        return e && e->role == FLIGHT_SENDS ? e->record : NULL;
    }
    return path_wait_is_send(woken->syscall) ? request_work_send_at(w->index, (uint32_t)waker->key, woken->time_ns, 0)
                                             : NULL;
}

/* Without records of arrivals and of wake-ups by interrupts, the peer's system call wakes a thread that waits for a
 * socket. Returns true if the walk goes on in a thread that sent data to this one, or if the thread waited for the
 * client. */
static bool wait_for_peer(struct path_walk *w, const struct thread_span *wait, uint64_t from_ns, uint64_t end_ns)
{
    if (flight_index_has_arrivals(w->index) || !wait->left ||
        !(path_wait_is_for_events(wait->left) || path_wait_is_receive(wait->left->syscall)))
        return false;
    if (path_wait_is_for_events(wait->left) && is_between_sends(w, end_ns)) {
        struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_NETWORK);
        set_client_wait(w, &s);
        path_walk_add(w, from_ns, s);
        return true;
    }
    const struct recorder_record *sent = sent_by_waker(w, wait->woken);
    if (sent)
        path_walk_go_to_peer(w, sent->tid, end_ns, sent->object);
    return sent != NULL;
}

/* Returns the request of the task that last gave thread `tid` work, by waking it; 0: not known. */
static uint64_t given_by(const struct path_walk *w, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *thread = flight_index_thread(w->index, tid);
    for (uint32_t i = flight_list_before(thread, t_ns); i != FLIGHT_NONE && flight_index_spend(w->index); i--) {
        const struct recorder_record *r = thread->events[i].record;
        if (thread->events[i].role == FLIGHT_WOKEN && thread->events[i].state == THREAD_RUNNABLE &&
            r->syscall == SYS_futex && !flight_thread_is_locking(w->index, tid, r->object))
            return task_request_of_run(w->index, recorder_low(r->value), r->time_ns);
    }
    return 0;
}

/* Goes on in thread `waker`, if it ran a task of the request when it woke the current one. */
static bool go_to_task(struct path_walk *w, uint32_t waker, const struct recorder_record *woken)
{
    const uint64_t socket = task_request_of_run(w->index, waker, woken->time_ns);
    for (unsigned depth = w->depth + 1; socket && depth-- > 0;)
        if (w->subjects[depth] == socket) {
            w->depth = depth;
            path_walk_go_to(w, waker, woken->time_ns);
            return true;
        }
    return false;
}

/* Another thread ended the wait. Returns true if the walk goes on in that thread, because it worked for this request.
 * Otherwise adds the activity of that thread since `from_ns` and returns false. */
static bool wait_for_thread(struct path_walk *w, const struct thread_span *wait, uint64_t from_ns, uint64_t end_ns,
                            bool is_inferred)
{
    const uint32_t waker = recorder_low(wait->woken->value);
    const bool is_lock = path_wait_is_for_lock(wait->left) && !is_message(w, wait->left, waker);
    const bool is_released = is_lock && is_release(w, wait, waker, end_ns);
    if (wait_for_peer(w, wait, from_ns, end_ns))
        return true;
    if (!is_released && (go_to_task(w, waker, wait->woken) || path_walk_go_to_own(w, waker, end_ns) ||
                         path_loop_go_to_waker(w, wait->woken)))
        return true;
    if (!is_released && was_given_work(w, wait, is_lock)) {
        w->depth = 0;
        w->is_inferred = true;
        path_walk_go_to(w, waker, end_ns);
        return true;
    }
    if (!wait->left) {
        path_walk_add_unattributed(w, from_ns, "it slept, since before the first recorded event");
        return true;
    }
    const bool is_signal = path_wait_is_signal(wait->woken);
    if (path_wait_is_for_events(wait->left) && !is_signal) {
        if (path_loop_go_to_last_hand(w, end_ns))
            return true;
        if (!path_walk_is_for_other(w, given_by(w, waker, end_ns)) && !path_mark_is_reader_of_other(w, waker, end_ns))
            return path_loop_add_worker(w, waker, from_ns, end_ns);
        path_walk_add_unattributed(w, from_ns, "a thread that works for another request woke the event loop");
        return false;
    }
    if (is_lock)
        from_ns = not_before_floor(w, path_holder_wait_start(w->thread, from_ns, wait->left->object));
    const struct holder_walk holder = {.index = w->index,
                                       .out = w->out,
                                       .waiter = (uint32_t)w->thread->key,
                                       .left = is_lock ? wait->left : NULL,
                                       .kind = is_lock || is_signal ? REQUEST_PART_LOCK : REQUEST_PART_UNATTRIBUTED,
                                       .owner = REQUEST_OWNER_UNKNOWN,
                                       .is_inferred = w->is_inferred || is_inferred || is_signal};
    path_holder_add(&holder, waker, from_ns, end_ns);
    go_back_to(w, from_ns);
    return false;
}

/* The wait is explained by its object, described in `s` so far, and not by another thread. Returns true if the walk
 * goes on elsewhere, in [from_ns, end_ns). */
static bool add_known_wait(struct path_walk *w, const struct thread_span *wait, const struct work_slice *slice,
                           uint64_t from_ns, uint64_t end_ns, struct path_segment s)
{
    if (s.kind == REQUEST_PART_SLEEP && s.syscall == SYS_futex &&
        flight_thread_is_locking(w->index, (uint32_t)w->thread->key, s.object)) {
        const struct holder_walk holder = {.index = w->index,
                                           .out = w->out,
                                           .waiter = (uint32_t)w->thread->key,
                                           .kind = REQUEST_PART_LOCK,
                                           .owner = REQUEST_OWNER_UNKNOWN,
                                           .is_inferred = w->is_inferred};
        if (path_holder_add_held(&holder, wait->left, 0, from_ns, end_ns)) {
            go_back_to(w, from_ns);
            return false;
        }
        s.kind = REQUEST_PART_LOCK; /* it asked for the lock again, and got it */
        s.owner = REQUEST_OWNER_UNKNOWN;
        s.reason = "the holder is not known";
    }
    const uint64_t socket = wait->left ? path_socket_of_wait(w->thread, wait->left, end_ns) : 0;
    if (socket)
        path_wait_set_arrival(wait->left, wait->woken, &s);
    if (s.kind == REQUEST_PART_UNATTRIBUTED && wait->woken && path_wait_is_for_events(wait->left) && slice->tid) {
        const uint32_t tid = find_returning_thread(w, slice, end_ns);
        if (tid) {
            w->is_inferred = true;
            path_walk_go_to_peer(w, tid, end_ns, 0);
            return true;
        }
        set_event_of_loop(w, slice, end_ns, &s);
    } else if (s.kind == REQUEST_PART_DOWNSTREAM || s.kind == REQUEST_PART_NETWORK) {
        s.socket = socket;
    }
    if (s.kind == REQUEST_PART_UNATTRIBUTED && wait->woken && path_wait_is_for_events(wait->left) &&
        path_mark_later_read(w, wait->woken))
        return true;
    if (s.kind == REQUEST_PART_SLEEP && path_job_may_end_wait(w, wait->left, end_ns)) {
        s.kind = REQUEST_PART_UNATTRIBUTED;
        s.owner = REQUEST_OWNER_UNKNOWN;
        s.reason = "for a timer, or for a thread that may have finished a job just then";
    }
    path_walk_add(w, from_ns, s);
    return false;
}

/* Whether a thread woke the event loop as it had finished a job of another request. */
static bool is_woken_for_other(const struct path_walk *w, const struct thread_span *wait)
{
    return path_wait_is_for_events(wait->left) &&
           path_mark_is_job_of_other(w, recorder_low(wait->woken->value), wait->woken->time_ns);
}

/* Explains the thread's sleep until `end_ns`, and moves the walk to the origin of the event that ended it. */
static void step_wait(struct path_walk *w, const struct thread_span *wait, uint64_t end_ns)
{
    const uint64_t start_ns = wait->left ? wait->left->time_ns : 0;
    struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_OTHER);
    if (path_wait_is_for_events(wait->left) && path_job_is_ready(w, wait->left->time_ns)) {
        path_mark_finished(w);
        return;
    }
    s.syscall = wait->left ? wait->left->syscall : RECORDER_NO_SYSCALL;
    s.object = wait->left ? wait->left->object : 0;
    enum wait_source source = path_wait_source(wait->left, wait->woken, &s);
    if (source == WAIT_ENDED_BY_THREAD && is_woken_for_other(w, wait)) {
        source = WAIT_KNOWN;
        s.kind = REQUEST_PART_UNATTRIBUTED;
        s.owner = REQUEST_OWNER_UNKNOWN;
        s.reason = "the thread that woke it had finished work of another request";
    }
    struct work_slice slice = {0};
    const bool is_longer = waited_since_slice(w, wait, &slice);
    const uint64_t from_ns = not_before_floor(w, is_longer ? slice.end_ns : start_ns);
    if (schedules_itself(w) &&
        (is_longer || path_wait_is_for_events(wait->left) || path_wait_is_for_lock(wait->left))) {
        add_self_scheduled(w, is_longer ? &slice : NULL, start_ns,
                           source == WAIT_ENDED_BY_THREAD ? recorder_low(wait->woken->value) : 0);
        return;
    }
    s.is_inferred |= is_longer;
    const bool is_elsewhere = source == WAIT_ENDED_BY_THREAD ? wait_for_thread(w, wait, from_ns, end_ns, s.is_inferred)
                                                             : add_known_wait(w, wait, &slice, from_ns, end_ns, s);
    if (is_elsewhere)
        return;
    if (is_longer)
        path_walk_go_to(w, slice.tid, slice.end_ns);
}

static void step_runnable(struct path_walk *w, struct thread_span *span)
{
    struct path_segment s = path_run_queue_segment(w->thread, span);
    const bool is_after_lock =
        span->woken && span->left && flight_thread_is_held_lock(w->index, span->left->tid, span->left->object);
    if (!span->woken || is_after_lock) /* in the middle of a task */
        s.owner = path_turn_find(w, 0, is_after_lock ? span->left->time_ns : span->start_ns).owner;
    path_walk_add(w, span->start_ns, s);
    if (span->woken && w->t_ns > w->floor_ns)
        step_wait(w, span, span->start_ns);
}

static void step(struct path_walk *w)
{
    struct thread_span span = flight_thread_span(w->thread, w->t_ns);
    switch (span.state) {
    case THREAD_RUNNING:
        step_running(w, &span);
        break;
    case THREAD_RUNNABLE:
        step_runnable(w, &span);
        break;
    case THREAD_BLOCKED:
        span.woken = flight_thread_wake_up(w->thread, w->t_ns);
        step_wait(w, &span, w->t_ns);
        break;
    default:
        path_walk_add_unattributed(w, span.start_ns, "a switch between threads was not recorded");
    }
}

/* ---- the whole ---- */

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a < b ? b - a : a - b;
}

/* The send on the request's socket that is nearest to `t`: it was recorded twice, at about the same time. NULL: none.
 */
static const struct recorder_record *find_nearest_send(const struct flight_index *index, uint64_t cookie, uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    const struct recorder_record *nearest = NULL;
    for (uint32_t i = flight_operation_before(socket, t_ns + START_SLACK_NS);
         i != FLIGHT_NONE && flight_index_spend(index); i = flight_previous_operation(socket, i)) {
        const struct recorder_record *r = socket->events[i].record;
        if (r->time_ns + START_SLACK_NS < t_ns)
            break;
        if (socket->events[i].role == FLIGHT_SENDS &&
            (!nearest || distance(r->time_ns, t_ns) < distance(nearest->time_ns, t_ns)))
            nearest = r;
    }
    return nearest;
}

/* The send of the last byte of the reply; NULL: not recorded. */
static const struct recorder_record *find_reply(const struct flight_index *index,
                                                const struct critical_path_request *request)
{
    const struct flight_list *socket = flight_index_socket(index, request->socket);
    const struct recorder_record *sent = find_nearest_send(index, request->socket, request->end_ns);
    if (!sent) {
        const uint32_t before = flight_list_before(socket, request->end_ns);
        const uint32_t last = before == FLIGHT_NONE ? FLIGHT_NONE : socket->events[before].send;
        sent = last == FLIGHT_NONE ? NULL : socket->events[last].record;
    }
    return sent && sent->time_ns > request->read_ns ? sent : NULL;
}

/* Whether there is more to explain. Goes on at `finished`, `handed` or a waiting task when the walk has come to its
 * floor. */
static bool has_more(struct path_walk *w)
{
    if (w->finished && w->t_ns <= w->floor_ns)
        path_job_go_to_finished(w);
    if (w->handed && w->t_ns <= w->floor_ns)
        path_job_go_to_handed(w);
    while (w->waiting_count && w->t_ns <= w->floor_ns)
        path_task_return(w);
    return w->t_ns > w->floor_ns && !w->end_reason && !w->out->is_full;
}

static const char *walk_back(struct path_walk *w)
{
    unsigned depth = w->depth + 1;
    for (unsigned steps = 0; has_more(w); steps++) {
        if (steps == STEPS_MAX || flight_index_is_spent(w->index))
            return "the path has too many events to follow it further back";
        if (w->depth == 0 && depth > 0 && !w->schedules_itself)
            path_job_find(w);
        depth = w->depth;
        const uint64_t before_ns = w->t_ns;
        const struct flight_list *thread = w->thread;
        step(w);
        w->hops = w->t_ns < before_ns ? 0 : w->hops;
        if (w->t_ns == before_ns && w->thread == thread)
            return "nothing earlier is recorded";
    }
    return w->end_reason ? w->end_reason : "the flight recorder had overwritten its events";
}

/* Threads of the pool did such work, be it for this request or for others at the same time. */
static void set_owners_of_jobs(const struct path_walk *w, uint32_t loop_tid)
{
    for (size_t i = 0; w->is_one_of && i < w->out->count; i++) {
        struct path_segment *s = &w->out->items[i];
        if (s->tid == loop_tid || s->pid != w->task_pid ||
            (s->owner != REQUEST_OWNER_THIS && s->owner != REQUEST_OWNER_OTHER))
            continue;
        s->owner = REQUEST_OWNER_SEVERAL;
        s->is_inferred = true;
    }
}

int critical_path_find(const struct flight_index *index, const struct critical_path_request *request,
                       struct path_segments *ret)
{
    _cleanup_(request_hands_freep) struct request_hands *hands = NULL;
    *ret = (struct path_segments){0};
    flight_index_start_searches(index);
    const uint64_t complete_from_ns = flight_index_window(index)->complete_from_ns;
    const struct recorder_record *reply = find_reply(index, request);
    struct path_walk w = {.index = index, .out = ret};
    w.thread = flight_index_thread(index, reply ? reply->tid : request->tid);
    if (!w.thread)
        return -ENODATA;
    path_segments_start(ret, request->start_ns, request->end_ns);
    if (ret->begin_ns == ret->next_end_ns)
        return -ENODATA;
    int r = request_hands_new(index, request->socket, ret->begin_ns, ret->next_end_ns, &hands);
    if (r < 0)
        return r;
    w.hands = hands;
    w.t_ns = ret->next_end_ns;
    w.floor_ns = ret->begin_ns > complete_from_ns ? ret->begin_ns : complete_from_ns;
    w.first_ns = w.floor_ns;
    w.subjects[0] = request->socket;
    w.schedules_itself = request->schedules_itself;
    w.task_pid = w.thread->pid;
    path_task_start(&w, reply);
    const uint32_t loop_tid = (uint32_t)w.thread->key;
    const char *reason = walk_back(&w);
    set_owners_of_jobs(&w, loop_tid);
    r = path_segments_finish(ret, reason) ?: path_interrupts_take(index, ret)
        ?: path_reclaim_take(index, ret) ?: path_taken_find(index, ret);
    for (size_t i = 0; r == 0 && request->is_shared && i < ret->count; i++)
        ret->items[i].is_inferred = true;
    return r < 0 ? r : path_evidence_find(index, ret, &ret->evidence);
}
