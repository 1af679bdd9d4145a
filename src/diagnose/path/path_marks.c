/* Readiness of a request at the marks of its threads; see path_marks.h. */
#include "diagnose/path/path_marks.h"

#include "diagnose/path/path_ready.h"
#include "diagnose/path/path_socket.h"
#include "diagnose/path/path_turn.h"
#include "diagnose/path/path_wait.h"
#include "diagnose/path/task_request.h"
#include "diagnose/path/task_wait.h"

/* [from, w->t) passed until bytes from another process of this node arrived at `to`. They were sent on socket
 * `asked_on` of this request's work; 0: not known. If TCP had to send them again, the request waited for the service
 * there. */
static struct path_segment segment_on_the_way(const struct path_walk *w, uint32_t from_tid, uint64_t from_ns,
                                              uint64_t asked_on, uint64_t to)
{
    uint64_t last_ns;
    const struct flight_list *asker = flight_index_thread(w->index, from_tid);
    const bool is_lost =
        asked_on && asker && path_socket_retransmissions(w->index, asked_on, from_ns, w->t_ns, &last_ns);
    struct path_segment s =
        path_walk_segment(is_lost ? asker : w->thread, is_lost ? REQUEST_PART_DOWNSTREAM : REQUEST_PART_NETWORK);
    s.socket = is_lost ? asked_on : to;
    s.is_inferred = true;
    s.reason = "on the way from another process of this node";
    return s;
}

/* The bytes that began the work at this depth arrived at `first`: back to the thread of this node that sent them. */
static void leave_peer(struct path_walk *w, const struct recorder_record *first)
{
    const uint64_t asked_on = w->calls[w->depth];
    struct work_slice slice;
    w->depth--;
    if (!(first->flags & RECORDER_IN_SOFTIRQ) || request_work_sender(w->index, first)) {
        path_walk_go_to_sender(w, first->tid, first->time_ns);
    } else if (path_walk_previous(w, first->time_ns, &slice)) { /* delivered later, in an interrupt of another thread */
        path_walk_add(w, slice.end_ns, segment_on_the_way(w, slice.tid, slice.end_ns, asked_on, first->object));
        path_walk_go_to(w, slice.tid, slice.end_ns);
    } else {
        path_walk_stop(w, "the sender of the data that it read is not known");
    }
}

void path_mark_finished(struct path_walk *w)
{
    path_ready_add(w, w->floor_ns, REQUEST_PART_LOOP_BUSY, false, "the event loop served others");
}

/* Returns the last send of the slice's thread before w->t_ns, on another socket than its request's; the send itself may
 * end after that. NULL: no such send. */
static const struct recorder_record *last_question(const struct path_walk *w, const struct work_slice *slice)
{
    const struct recorder_record *sending = request_work_send_at(w->index, slice->tid, w->t_ns, path_walk_subject(w));
    if (sending)
        return sending;
    const struct flight_list *thread = flight_index_thread(w->index, slice->tid);
    for (uint32_t i = flight_operation_before(thread, w->t_ns); i != FLIGHT_NONE && flight_index_spend(w->index);
         i = flight_previous_operation(thread, i)) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < slice->start_ns)
            break;
        if (e->role == FLIGHT_SENDS && e->record->object != path_walk_subject(w))
            return e->record;
    }
    return NULL;
}

/* Another process of this node read at w->t_ns the call of the slice's thread. The arrival of the call is not recorded:
 * goes back to the thread's send. */
static void go_to_asker(struct path_walk *w, const struct work_slice *slice)
{
    const struct recorder_record *question = last_question(w, slice);
    const uint64_t asked_ns = question && question->time_ns > slice->end_ns ? question->time_ns : slice->end_ns;
    struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_NETWORK);
    s.is_inferred = true;
    s.reason = "on the way from another process of this node";
    path_walk_add(w, asked_ns, s);
    path_walk_go_to(w, slice->tid, asked_ns);
}

void path_mark_read(struct path_walk *w)
{
    const uint64_t subject = path_walk_subject(w);
    const unsigned depth = w->depth;
    const struct work_arrivals arrivals = request_work_arrivals(w->index, subject, w->t_ns);
    const uint64_t ready_ns = arrivals.first ? arrivals.first->time_ns : w->t_ns;
    path_ready_add(w, ready_ns, REQUEST_PART_UNREAD, true, "the bytes waited in the socket");
    if (w->t_ns <= w->floor_ns)
        return;
    if (w->depth > 0 && arrivals.first) { /* it came from a thread of this node that the walk left before */
        leave_peer(w, arrivals.first);
        return;
    }
    struct work_slice slice;
    if (!path_walk_previous(w, w->t_ns, &slice)) {
        path_walk_stop(w, "no work is recorded before the first read");
        return;
    }
    if (w->depth < depth) {
        go_to_asker(w, &slice);
        return;
    }
    const struct flight_list *socket = flight_index_socket(w->index, subject);
    if (!arrivals.first && socket && socket->has_arrivals) { /* left there by the read before: Go's reads one byte */
        path_ready_add(w, slice.end_ns, REQUEST_PART_UNREAD, true, "the rest of its bytes waited in the socket");
    } else {
        struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_NETWORK);
        s.socket = subject;
        s.reason = "the client sent the rest of the request";
        path_walk_add(w, slice.end_ns, s);
    }
    path_walk_go_to(w, slice.tid, slice.end_ns);
}

static bool is_by_own_thread(const struct path_walk *w, const struct recorder_record *sent)
{
    const uint64_t request = task_request_of_run(w->index, sent->tid, sent->time_ns);
    if (request)
        return path_walk_is_subject(w, request);
    return request_work_is_for(w->index, sent->tid, path_walk_subject(w), w->out->begin_ns, sent->time_ns) ||
           request_hands_find(w->hands, sent->tid, sent->time_ns);
}

/* Whether this send on the socket of a service was the request's: a thread that worked for the request sent it, or
 * opened the connection for it. On a connection that requests share, the last send may be another request's. */
static bool is_own_question(const struct path_walk *w, const struct flight_list *socket, uint32_t send)
{
    const uint32_t before = flight_previous_operation(socket, send);
    const struct flight_event *connect = before == FLIGHT_NONE ? NULL : &socket->events[before];
    return is_by_own_thread(w, socket->events[send].record) ||
           (connect && connect->role == FLIGHT_SENDS && recorder_low(connect->record->value) == 0 &&
            is_by_own_thread(w, connect->record));
}

/* The answer of a service of another node arrived at `arrival`: the request had waited since its call. */
static void at_remote_answer(struct path_walk *w, const struct recorder_record *arrival)
{
    const struct flight_list *socket = flight_index_socket(w->index, arrival->object);
    struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_DOWNSTREAM);
    s.socket = arrival->object;
    const uint32_t before = flight_list_before(socket, arrival->time_ns);
    const uint32_t asked = before == FLIGHT_NONE ? FLIGHT_NONE : socket->events[before].send;
    if (asked != FLIGHT_NONE) {
        const struct recorder_record *sent = socket->events[asked].record;
        s.is_inferred = !is_own_question(w, socket, asked);
        path_walk_add(w, sent->time_ns, s);
        path_walk_go_to_sender(w, sent->tid, sent->time_ns);
        return;
    }
    struct work_slice slice;
    if (!path_walk_previous(w, arrival->time_ns, &slice)) {
        path_walk_stop(w, "no recorded request asked for the received bytes");
        return;
    }
    s.is_inferred = true;
    path_walk_add(w, slice.end_ns, s);
    path_walk_go_to(w, slice.tid, slice.end_ns);
}

/* Returns the last arrival that a thread of this node sent on the socket, before this arrival and after the last send
 * on the socket; NULL if there is no such arrival. It is an answer if `arrival` is the end of its connection. */
static const struct recorder_record *last_local_arrival(const struct path_walk *w,
                                                        const struct recorder_record *arrival,
                                                        const struct recorder_record **ret_sent)
{
    const struct flight_list *socket = flight_index_socket(w->index, arrival->object);
    for (uint32_t i = flight_list_before(socket, arrival->time_ns); i != FLIGHT_NONE && flight_index_spend(w->index);
         i--) {
        const struct flight_event *e = &socket->events[i];
        if (e->role == FLIGHT_SENDS)
            break;
        *ret_sent = e->role == FLIGHT_PRODUCES ? request_work_sender(w->index, e->record) : NULL;
        if (*ret_sent)
            return e->record;
    }
    return NULL;
}

void path_mark_arrival(struct path_walk *w, const struct recorder_record *arrival)
{
    const struct recorder_record *sent = request_work_sender(w->index, arrival);
    w->is_inferred |= w->depth == 0 && w->is_unpaired && arrival->flags & RECORDER_UNIX;
    if (!sent) {
        const struct recorder_record *answer = last_local_arrival(w, arrival, &sent);
        struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_DOWNSTREAM);
        s.socket = arrival->object;
        s.reason = "until it closed the connection";
        if (answer)
            path_walk_add(w, answer->time_ns, s);
    }
    if (sent) {
        path_walk_go_to_peer(w, sent->tid, w->t_ns < arrival->time_ns ? w->t_ns : arrival->time_ns, sent->object);
        path_walk_set_call(w, arrival->object);
    } else {
        at_remote_answer(w, arrival);
    }
}

bool path_mark_is_job_of_other(const struct path_walk *w, uint32_t tid, uint64_t t_ns)
{
    const struct recorder_record *job = task_job_find(w->index, tid, t_ns);
    const uint64_t request = job ? task_request_of_job(w->index, job) : 0;
    if (!job || request)
        return path_walk_is_for_other(w, request);
    const uint64_t began_ns = request_work_item_start(w->index, tid, (uint32_t)w->thread->key, job->time_ns);
    return began_ns && began_ns < w->out->begin_ns;
}

/* Whether the data that was read from this socket at `t_ns` answers a question that was asked before the request began.
 * Without a recorded question, only a TCP connection is known to carry questions and answers: threads may use a socket
 * of AF_UNIX to wake the event loop. */
static bool was_asked_before(const struct path_walk *w, const struct flight_list *socket, uint64_t t_ns)
{
    const uint32_t read = flight_list_before(socket, t_ns + 1);
    if (read == FLIGHT_NONE)
        return false;
    const uint32_t asked = socket->events[read].send;
    if (asked != FLIGHT_NONE)
        return socket->events[asked].record->time_ns < w->out->begin_ns;
    return socket->events[read].record->flags & RECORDER_TCP && w->first_ns == w->out->begin_ns;
}

/* When the thread was last woken before `t_ns`; 0: not known. */
static uint64_t last_woken_ns(const struct flight_index *index, const struct flight_list *thread, uint64_t t_ns)
{
    uint32_t i = flight_list_before(thread, t_ns);
    while (i != FLIGHT_NONE && (thread->events[i].role != FLIGHT_WOKEN || thread->events[i].woken != i) &&
           flight_index_spend(index))
        i--;
    return i == FLIGHT_NONE ? 0 : thread->events[i].record->time_ns;
}

bool path_mark_is_reader_of_other(const struct path_walk *w, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *thread = flight_index_thread(w->index, tid);
    const uint64_t since_ns = last_woken_ns(w->index, thread, t_ns);
    bool has_read = false;
    if (!thread || !flight_threads_share_process(thread, w->thread))
        return false;
    for (uint32_t i = flight_operation_before(thread, t_ns); i != FLIGHT_NONE && flight_index_spend(w->index);
         i = flight_previous_operation(thread, i)) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < since_ns)
            break;
        if (e->role != FLIGHT_RECEIVES)
            continue;
        if (!request_work_is_served(w->index, e->record) || path_walk_is_subject(w, e->record->object))
            return false;
        has_read = true;
    }
    return has_read;
}

bool path_mark_is_for_other(const struct path_walk *w, uint64_t cookie, uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(w->index, cookie);
    size_t count = 0;
    if (was_asked_before(w, socket, t_ns) ||
        path_walk_is_for_other(w, task_request_of_question(w->index, cookie, t_ns)))
        return true;
    for (uint32_t i = flight_list_before(socket, t_ns); i != FLIGHT_NONE && flight_index_spend(w->index); i--) {
        const struct flight_event *e = &socket->events[i];
        if (e->role == FLIGHT_RECEIVES)
            break;
        if (e->role == FLIGHT_PRODUCES && !path_mark_is_job_of_other(w, e->record->tid, e->record->time_ns) &&
            !(e->record->flags & RECORDER_UNIX && path_mark_is_reader_of_other(w, e->record->tid, e->record->time_ns)))
            return false;
        count += e->role == FLIGHT_PRODUCES;
    }
    return count > 0;
}

/* Whether the request waited for this arrival: the thread that sent it has finished a job of the request's task or, if
 * the task is not known, works for the request. */
static bool is_own_arrival(const struct path_walk *w, const struct recorder_record *arrival)
{
    const struct recorder_record *job = task_job_find(w->index, arrival->tid, arrival->time_ns);
    const uint64_t request = job ? task_request_of_job(w->index, job) : 0;
    return request ? path_walk_is_subject(w, request)
                   : request_hands_find(w->hands, arrival->tid, arrival->time_ns) != NULL;
}

/* Returns the arrival that made the request ready, of several arrivals that the read at `t_ns` returned: the arrival
 * sent by a thread that finished a job of the request's task, the one sent by a thread that works for the request, or
 * the one given by the order of the answers. */
static const struct recorder_record *own_arrival(struct path_walk *w, uint64_t cookie, uint64_t t_ns,
                                                 uint64_t answer_ns)
{
    const struct flight_list *socket = flight_index_socket(w->index, cookie);
    const struct work_arrivals arrivals = request_work_arrivals(w->index, cookie, t_ns);
    if (arrivals.last && request_work_asked(w->index, cookie, path_walk_subject(w), w->out->begin_ns, t_ns))
        return arrivals.last;
    for (uint32_t i = flight_list_before(socket, t_ns); i != FLIGHT_NONE && flight_index_spend(w->index); i--) {
        const struct flight_event *e = &socket->events[i];
        if (e->role == FLIGHT_RECEIVES)
            break;
        if (e->role == FLIGHT_PRODUCES && is_own_arrival(w, e->record))
            return e->record;
    }
    const struct recorder_record *in_order =
        request_work_arrival_in_order(w->index, w->thread, cookie, path_walk_subject(w), t_ns, answer_ns);
    const struct recorder_record *found = in_order || !arrivals.is_one_producer ? in_order : arrivals.last;
    w->is_inferred |= found != NULL;
    return found;
}

/* Whether the thread, just before `t_ns`, waited for data on this socket, or had just been woken by such data. */
static bool waits_for_socket(const struct path_walk *w, uint64_t cookie, uint64_t t_ns)
{
    const struct thread_span span = flight_thread_span(w->thread, t_ns);
    if (span.state == THREAD_RUNNING || (span.state == THREAD_RUNNABLE && !span.woken))
        return false;
    if (!span.left || path_wait_is_for_events(span.left))
        return true;
    return path_wait_is_receive(span.left->syscall) && path_socket_of_wait(w->thread, span.left, t_ns) == cookie;
}

/* Whether the data that the thread had asked for arrived, at `arrival` first, while the thread did other work for this
 * request. This work then delayed the request. */
static bool was_at_own_work(const struct path_walk *w, const struct recorder_record *arrival)
{
    enum work_mark mark = WORK_NO_MARK;
    const uint64_t subject = path_walk_subject(w), begin_ns = w->out->begin_ns;
    const struct flight_event *before = request_work_last_mark(w->index, w->thread, subject, begin_ns, w->t_ns, &mark);
    return (mark == WORK_READ || mark == WORK_CONSUMED) && before->record->time_ns < arrival->time_ns &&
           request_work_asked(w->index, arrival->object, subject, begin_ns, w->t_ns) &&
           !waits_for_socket(w, arrival->object, arrival->time_ns);
}

void path_mark_consumed(struct path_walk *w, uint64_t cookie, uint64_t answer_ns)
{
    const struct work_arrivals arrivals = request_work_arrivals(w->index, cookie, w->t_ns);
    if (!arrivals.last)
        return; /* not recorded: the thread's own waits show the rest */
    const struct recorder_record *arrival =
        arrivals.is_one_producer ? arrivals.last : own_arrival(w, cookie, w->t_ns, answer_ns);
    if (!arrival) {
        struct work_slice slice;
        const uint64_t from_ns = path_walk_previous(w, w->t_ns, &slice) ? slice.end_ns : w->out->begin_ns;
        struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_UNATTRIBUTED);
        s.owner = REQUEST_OWNER_SEVERAL;
        s.reason = "several threads finished work; which of them worked for this request is not known";
        path_walk_add(w, from_ns, s);
        if (from_ns > w->out->begin_ns)
            path_walk_go_to(w, slice.tid, from_ns);
        return;
    }
    if (was_at_own_work(w, arrivals.first))
        return; /* the walk goes on in this thread */
    path_ready_add(w, arrival->time_ns, REQUEST_PART_LOOP_BUSY, true, "its answer waited in the socket");
    path_mark_arrival(w, arrival);
}

/* The first receive that the thread makes at `t_ns` or later before it sleeps; NULL: none. */
static const struct recorder_record *next_read(const struct flight_index *index, const struct flight_list *thread,
                                               uint64_t t_ns)
{
    const uint32_t before = flight_list_before(thread, t_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; i < thread->count && flight_index_spend(index); i++) {
        const struct flight_event *e = &thread->events[i];
        if (e->role == FLIGHT_RECEIVES)
            return e->record;
        if (e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED)
            break;
    }
    return NULL;
}

bool path_mark_later_read(struct path_walk *w, const struct recorder_record *woken)
{
    const struct recorder_record *read = next_read(w->index, w->thread, w->t_ns);
    const struct work_arrivals arrivals =
        read ? request_work_arrivals(w->index, read->object, read->time_ns) : (struct work_arrivals){0};
    const struct recorder_record *arrival = arrivals.is_one_producer ? arrivals.last : NULL;
    if (!arrival || request_work_is_served(w->index, read) || arrival->time_ns > woken->time_ns ||
        arrival->time_ns + PATH_WAKE_UP_NS < woken->time_ns || arrival->tid != recorder_low(woken->value) ||
        path_mark_is_for_other(w, read->object, read->time_ns))
        return false;
    w->is_inferred = true;
    path_mark_arrival(w, arrival);
    return true;
}

/* Whether the thread waited for its next piece of work, and not in the middle of one. */
static bool is_idle_wait(struct path_walk *w, const struct recorder_record *left, const struct recorder_record *woken)
{
    if (path_wait_is_for_events(left))
        return true;
    if (!path_wait_is_for_lock(left) || woken->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ) ||
        request_work_is_busy(w->index, w->thread, left->time_ns))
        return false;
    return !request_hands_is_release(w->hands, (uint32_t)w->thread->key, woken);
}

/* The wake-up that ended the thread's last wait for work in (from, t), and the switch to it; NULL: none. */
static const struct recorder_record *find_last_idle(struct path_walk *w, uint64_t from_ns, uint64_t t_ns,
                                                    const struct recorder_record **ret_left)
{
    for (uint32_t i = flight_list_before(w->thread, t_ns); i != FLIGHT_NONE && flight_index_spend(w->index); i--) {
        const struct flight_event *e = &w->thread->events[i];
        if (e->record->time_ns <= from_ns)
            break;
        if (e->role != FLIGHT_WOKEN || e->state != THREAD_RUNNABLE || e->woken != i)
            continue;
        *ret_left = flight_thread_span(w->thread, e->record->time_ns + 1).left;
        if (*ret_left && is_idle_wait(w, *ret_left, e->record))
            return e->record;
    }
    return NULL;
}

/* Returns the arrival of data that the thread read for this request in (from_ns, t_ns), on another socket than the
 * request's. */
static const struct recorder_record *find_own_arrival(struct path_walk *w, uint64_t from_ns, uint64_t t_ns,
                                                      uint64_t answer_ns)
{
    for (uint32_t i = flight_operation_before(w->thread, t_ns); i != FLIGHT_NONE && flight_index_spend(w->index);
         i = flight_previous_operation(w->thread, i)) {
        const struct flight_event *e = &w->thread->events[i];
        if (e->record->time_ns <= from_ns)
            break;
        if (request_work_mark(w->index, e, path_walk_subject(w)) != WORK_CONSUMED)
            continue;
        if (path_mark_is_for_other(w, e->record->object, e->record->time_ns))
            continue;
        const struct recorder_record *arrival = own_arrival(w, e->record->object, e->record->time_ns, answer_ns);
        if (arrival)
            return arrival;
    }
    return NULL;
}

/* The thread waited from `left` to w->t_ns, when it was woken. If the request's handler, or another thread of the
 * request, woke it, the request was handed on by this wake-up. Otherwise, the thread had other work if it did not yet
 * wait when the handler was last seen (the handler would have woken it), or if a thread of another process woke it
 * (work comes from its own process). */
static void at_idle_worker(struct path_walk *w, const struct work_slice *slice, const struct recorder_record *left,
                           const struct recorder_record *woken)
{
    if (recorder_low(woken->value) == slice->tid) {
        path_walk_go_to(w, slice->tid, woken->time_ns);
        return;
    }
    if (path_walk_go_to_own(w, recorder_low(woken->value), woken->time_ns))
        return;
    const struct flight_list *waker = flight_index_thread(w->index, recorder_low(woken->value));
    if (left->time_ns < slice->end_ns || (waker && !flight_threads_share_process(waker, w->thread))) {
        struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_QUEUE_BEHIND);
        s.owner = REQUEST_OWNER_OTHER;
        s.reason = "its thread had other work";
        path_walk_add(w, slice->end_ns, s);
    } else {
        path_walk_add_unattributed(w, slice->end_ns, "when this request was handed to the thread is not recorded");
    }
    path_walk_go_to(w, slice->tid, slice->end_ns);
}

/* The thread finished a job at w->t_ns. Whether that was this request's, as is the next one, where the walk comes from:
 * both were for one task, and a part of the reply was sent between their ends. */
static bool is_end_of_own_job(const struct path_walk *w)
{
    const uint32_t tid = (uint32_t)w->thread->key;
    const struct recorder_record *ended = task_job_before(w->index, tid, w->floor_ns, w->t_ns + 1),
                                 *next = ended ? task_job_after(w->index, tid, w->t_ns) : NULL;
    if (!next || !task_job_is_for(w->index, ended, next->object))
        return false;
    const struct flight_list *socket = flight_index_socket(w->index, w->subjects[0]);
    const uint32_t last = flight_operation_before(socket, next->time_ns);
    return last != FLIGHT_NONE && socket->events[last].role == FLIGHT_SENDS &&
           socket->events[last].record->time_ns > w->t_ns;
}

void path_mark_foreign(struct path_walk *w, bool is_end, uint64_t answer_ns)
{
    struct work_slice slice;
    if (is_end && is_end_of_own_job(w))
        return; /* the walk goes on in this thread */
    if (is_end && w->depth > 0)
        w->depth--;
    const unsigned depth = w->depth;
    if (!path_walk_previous(w, w->t_ns, &slice)) {
        path_walk_stop(w, "when this request was handed to the thread is not recorded");
        return;
    }
    path_turn_extend(w, &slice);
    const bool is_loop = slice.tid == w->thread->key && depth == w->depth && !is_end;
    const bool is_served_by_loop = is_loop || (w->thread->key == w->loop_tid && !is_end);
    const enum request_part_kind busy = is_served_by_loop ? REQUEST_PART_LOOP_BUSY : REQUEST_PART_QUEUE_BEHIND;
    const char *reason = is_served_by_loop ? "the event loop served others" : "its thread had other work";
    const bool was_inferred = w->is_inferred;
    const struct recorder_record *left = NULL, *woken = find_last_idle(w, slice.end_ns, w->t_ns, &left);
    /* An event loop has handled all data that it read before it sleeps. */
    const uint64_t since_ns = woken && path_wait_is_for_events(left) ? woken->time_ns : slice.end_ns;
    /* A thread that has finished one thing before another reads nothing for the latter in between. */
    const struct recorder_record *arrival =
        is_end && w->is_paired ? NULL : find_own_arrival(w, since_ns, w->t_ns, answer_ns);
    if (arrival) {
        path_ready_add(w, arrival->time_ns, REQUEST_PART_LOOP_BUSY, false, "the event loop served others");
        path_mark_arrival(w, arrival);
        return;
    }
    w->is_inferred = true;
    uint32_t worker;
    uint64_t done_ns;
    /* A loop that slept since had nothing to do: that worker handed its work on. */
    if (is_loop && request_work_handed_by(w->index, &slice, path_walk_subject(w), w->t_ns, &worker, &done_ns) &&
        (!woken || done_ns > woken->time_ns)) {
        path_ready_add(w, done_ns, busy, false, "the event loop served others");
        path_walk_go_to_peer(w, worker, done_ns, 0);
    } else if (woken) {
        path_ready_add(w, woken->time_ns, busy, false, reason);
        /* After a wait for events, the walk goes on with the event that ended it: the request was ready by then. */
        if (!path_wait_is_for_events(left))
            at_idle_worker(w, &slice, left, woken);
    } else {
        path_ready_add(w, slice.end_ns, busy, false, reason);
        path_walk_go_to(w, slice.tid, slice.end_ns);
    }
    w->is_inferred = was_inferred;
}
