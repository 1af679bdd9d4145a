/* Walks backwards from the reply: while the thread ran, that is CPU time, as long as the work was this request's; while
 * it was runnable, run queue; while it slept, the walk goes on in the thread that ended the sleep. Where a thread
 * turned to this request late, the walk jumps to the moment when the request was ready, and the time between is other
 * requests' work. Every step lowers the time or goes to another thread, so the walk ends and its segments are exact. */
#include "diagnose/critical_path.h"

#include "diagnose/path_holder.h"
#include "diagnose/path_wait.h"
#include "diagnose/request_work.h"

#include <errno.h>

#define STEPS_MAX      4096
#define HOPS_MAX       64 /* without going back in time */
#define PEERS_MAX      16
#define WAKE_UP_NS     50000  /* from an arrival to the wake-up of the thread that waits for it */
#define START_SLACK_NS 200000 /* between the records of one system call by two programs */

/* Whose request a thread works for, as far as its sockets show. */
struct peer {
    uint64_t subject; /* the socket on which it answers; 0: none */
};

struct walk {
    const struct flight_index *index;
    struct path_segments *out;
    const struct flight_list *thread;
    uint64_t t_ns;
    uint64_t floor_ns; /* the request's begin, or from where the records are complete: the walk goes no further back */
    struct peer peers[PEERS_MAX]; /* [0]: the request itself */
    unsigned depth;               /* of the current one */
    unsigned hops;
    const char *end_reason; /* why the walk stops early; NULL: it goes on */
    bool is_inferred;       /* since the last hop: what follows rests on it */
};

static uint64_t subject_of(const struct walk *w)
{
    return w->peers[w->depth].subject;
}

static void stop(struct walk *w, const char *reason)
{
    w->end_reason = reason;
}

/* ---- segments ---- */

static void add_segment(struct walk *w, uint64_t start_ns, struct path_segment segment)
{
    segment.start_ns = start_ns > w->floor_ns ? start_ns : w->floor_ns;
    segment.is_inferred |= w->is_inferred;
    path_segments_add(w->out, &segment);
    w->t_ns = segment.start_ns < w->t_ns ? segment.start_ns : w->t_ns;
}

static struct path_segment segment_in(const struct flight_list *thread, enum request_part_kind kind)
{
    return (struct path_segment){.kind = kind,
                                 .tid = (uint32_t)thread->key,
                                 .pid = flight_thread_pid(thread),
                                 .owner = REQUEST_OWNER_THIS,
                                 .syscall = RECORDER_NO_SYSCALL,
                                 .reason = ""};
}

static void add_unattributed(struct walk *w, uint64_t start_ns, const char *reason)
{
    struct path_segment s = segment_in(w->thread, REQUEST_PART_UNATTRIBUTED);
    s.owner = REQUEST_OWNER_UNKNOWN;
    s.reason = reason;
    add_segment(w, start_ns, s);
}

/* ---- going to other threads ---- */

static void go_to(struct walk *w, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *thread = flight_index_thread(w->index, tid);
    if (!thread) {
        stop(w, "a thread of which nothing was recorded");
        return;
    }
    w->hops = t_ns < w->t_ns ? 0 : w->hops + 1;
    if (w->hops > HOPS_MAX)
        stop(w, "threads that wake each other without end");
    w->thread = thread;
    w->t_ns = t_ns < w->t_ns ? t_ns : w->t_ns;
}

/* To a thread that works for this request, and answers on `subject`. */
static void go_to_peer(struct walk *w, uint32_t tid, uint64_t t_ns, uint64_t subject)
{
    if (w->depth + 1 == PEERS_MAX) {
        stop(w, "too many threads and processes one behind the other");
        return;
    }
    w->peers[++w->depth] = (struct peer){subject};
    go_to(w, tid, t_ns);
}

/* To thread `tid` as it was at `t`, if it worked for this request then. */
static bool go_to_own(struct walk *w, uint32_t tid, uint64_t t_ns)
{
    for (unsigned depth = w->depth + 1; depth-- > 0;)
        if (w->peers[depth].subject &&
            request_work_is_for(w->index, tid, w->peers[depth].subject, w->out->begin_ns, t_ns)) {
            w->depth = depth;
            go_to(w, tid, t_ns);
            return true;
        }
    if (!request_work_is_handed(w->index, tid, w->peers[0].subject, w->out->begin_ns, t_ns))
        return false;
    go_to_peer(w, tid, t_ns, 0);
    return true;
}

/* Back to where the request itself was last worked on before `t`, that time being accounted up to there by the
 * caller. False: nowhere. */
static bool find_previous(struct walk *w, uint64_t t_ns, struct work_slice *ret)
{
    for (unsigned depth = w->depth + 1; depth-- > 0;) {
        if (w->peers[depth].subject &&
            request_work_previous(w->index, w->peers[depth].subject, w->out->begin_ns, t_ns, ret)) {
            w->depth = depth;
            return true;
        }
    }
    return false;
}

/* ---- time in which the request was ready ---- */

/* Accounts [from, w->t) by what the thread did although the request was ready: `busy` while it ran for others. At w->t
 * it turned to the request; `reads`: by reading something, so that running without touching another request was on the
 * way there. */
static void add_ready_time(struct walk *w, uint64_t from_ns, enum request_part_kind busy, bool reads,
                           const char *reason)
{
    const uint64_t subject = subject_of(w);
    while (w->t_ns > from_ns && w->t_ns > w->floor_ns) {
        const struct thread_span span = flight_thread_span(w->thread, w->t_ns);
        uint64_t start_ns = span.start_ns > from_ns ? span.start_ns : from_ns;
        struct path_segment s = segment_in(w->thread, busy);
        s.reason = reason;
        if (span.state == THREAD_RUNNABLE) {
            s = path_run_queue_segment(w->thread, &span);
        } else if (span.state == THREAD_RUNNING) {
            enum work_mark mark;
            const struct flight_event *e =
                request_work_last_mark(w->index, w->thread, subject, start_ns, w->t_ns, &mark);
            if (e && e->record->time_ns > start_ns)
                start_ns = e->record->time_ns;
            s.owner = REQUEST_OWNER_OTHER;
            s.owner_id = e && mark == WORK_FOREIGN ? e->record->object : 0;
            if (reads && !request_work_is_foreign_between(w->index, w->thread, subject, from_ns, w->t_ns + 1))
                s = segment_in(w->thread, REQUEST_PART_CPU); /* on its way to this request */
        } else if (span.state == THREAD_BLOCKED && w->t_ns - start_ns < WAKE_UP_NS) {
            s = segment_in(w->thread, REQUEST_PART_RUN_QUEUE); /* its wake-up follows */
        } else if (span.state == THREAD_BLOCKED) {
            s.owner = REQUEST_OWNER_OTHER;
            s.syscall = span.left ? span.left->syscall : RECORDER_NO_SYSCALL;
            s.object = span.left ? span.left->object : 0;
        } else {
            s = segment_in(w->thread, REQUEST_PART_UNATTRIBUTED);
            s.owner = REQUEST_OWNER_UNKNOWN;
            s.reason = "a switch that was not recorded";
        }
        add_segment(w, start_ns, s);
    }
}

/* ---- marks ---- */

/* The request was read at w->t: until then its bytes waited in the socket. */
static void at_read(struct walk *w)
{
    const uint64_t subject = subject_of(w);
    const struct work_arrivals arrivals = request_work_arrivals(w->index, subject, w->t_ns);
    const uint64_t ready_ns = arrivals.first ? arrivals.first->time_ns : w->t_ns;
    add_ready_time(w, ready_ns, REQUEST_PART_UNREAD, true, "the bytes waited in the socket");
    if (w->t_ns <= w->floor_ns)
        return;
    if (w->depth > 0 && arrivals.first) { /* it came from a thread of this node that the walk left before */
        w->depth--;
        go_to(w, arrivals.first->tid, ready_ns);
        return;
    }
    struct work_slice slice;
    if (!find_previous(w, w->t_ns, &slice)) {
        stop(w, "what came before the first read is not known");
        return;
    }
    struct path_segment s = segment_in(w->thread, REQUEST_PART_NETWORK);
    s.object = subject;
    s.reason = "the client sent the rest of the request";
    add_segment(w, slice.end_ns, s);
    go_to(w, slice.tid, slice.end_ns);
}

/* The answer of a service elsewhere arrived at `arrival`: the request waited since it asked. */
static void at_remote_answer(struct walk *w, const struct recorder_record *arrival)
{
    const struct flight_list *socket = flight_index_socket(w->index, arrival->object);
    struct path_segment s = segment_in(w->thread, REQUEST_PART_DOWNSTREAM);
    s.object = arrival->object;
    for (uint32_t i = flight_list_before(socket, arrival->time_ns); i != FLIGHT_NONE; i--)
        if (socket->events[i].role == FLIGHT_SENDS) {
            add_segment(w, socket->events[i].record->time_ns, s);
            go_to(w, socket->events[i].record->tid, socket->events[i].record->time_ns);
            return;
        }
    struct work_slice slice;
    if (!find_previous(w, arrival->time_ns, &slice)) {
        stop(w, "bytes for which nothing was asked");
        return;
    }
    s.is_inferred = true;
    add_segment(w, slice.end_ns, s);
    go_to(w, slice.tid, slice.end_ns);
}

/* The arrival that made the request ready, of several that one read returned: the one by a thread that works for it. */
static const struct recorder_record *own_arrival(struct walk *w, uint64_t cookie, uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(w->index, cookie);
    for (uint32_t i = flight_list_before(socket, t_ns); i != FLIGHT_NONE; i--) {
        const struct flight_event *e = &socket->events[i];
        if (e->role == FLIGHT_RECEIVES)
            break;
        if (e->role == FLIGHT_PRODUCES &&
            request_work_is_handed(w->index, e->record->tid, w->peers[0].subject, w->out->begin_ns, e->record->time_ns))
            return e->record;
    }
    return NULL;
}

/* The thread read something at w->t that is not the request: it waited for that. */
static void at_consumed(struct walk *w, uint64_t cookie)
{
    const struct work_arrivals arrivals = request_work_arrivals(w->index, cookie, w->t_ns);
    if (!arrivals.last)
        return; /* not recorded: the thread's own waits show the rest */
    const struct recorder_record *arrival = arrivals.is_one_producer ? arrivals.last : own_arrival(w, cookie, w->t_ns);
    if (!arrival) {
        struct work_slice slice;
        const uint64_t from_ns = find_previous(w, w->t_ns, &slice) ? slice.end_ns : w->out->begin_ns;
        struct path_segment s = segment_in(w->thread, REQUEST_PART_UNATTRIBUTED);
        s.owner = REQUEST_OWNER_SEVERAL;
        s.reason = "several threads finished work, and which of it was this request's is not known";
        add_segment(w, from_ns, s);
        if (from_ns > w->out->begin_ns)
            go_to(w, slice.tid, from_ns);
        return;
    }
    add_ready_time(w, arrival->time_ns, REQUEST_PART_LOOP_BUSY, true, "its answer waited in the socket");
    const struct recorder_record *sent = request_work_sender(w->index, arrival);
    if (sent)
        go_to_peer(w, sent->tid, arrival->time_ns, sent->object);
    else
        at_remote_answer(w, arrival);
}

/* The wake-up that ended the thread's last sleep in (from, t), and the switch to that sleep. False: it did not sleep.
 */
static bool find_last_sleep(const struct flight_list *thread, uint64_t from_ns, uint64_t t_ns, uint64_t *ret_woken_ns,
                            const struct recorder_record **ret_left)
{
    for (uint32_t i = flight_list_before(thread, t_ns); i != FLIGHT_NONE; i--) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns <= from_ns)
            break;
        if (e->role != FLIGHT_WOKEN || e->state != THREAD_RUNNABLE || e->woken != i)
            continue;
        *ret_woken_ns = e->record->time_ns;
        *ret_left = flight_thread_span(thread, e->record->time_ns + 1).left;
        return true;
    }
    return false;
}

/* What the thread read for this request, other than its own socket, in (from, t). */
static const struct recorder_record *find_own_arrival(struct walk *w, uint64_t from_ns, uint64_t t_ns)
{
    for (uint32_t i = flight_list_before(w->thread, t_ns); i != FLIGHT_NONE; i--) {
        const struct flight_event *e = &w->thread->events[i];
        if (e->record->time_ns <= from_ns)
            break;
        if (request_work_mark(w->index, e, subject_of(w)) != WORK_CONSUMED)
            continue;
        const struct recorder_record *arrival = own_arrival(w, e->record->object, e->record->time_ns);
        if (arrival)
            return arrival;
    }
    return NULL;
}

/* At w->t the thread turned from another request, or an earlier piece of work, to this one. When had it been ready? */
static void at_foreign(struct walk *w, bool is_end)
{
    struct work_slice slice;
    if (is_end && w->depth > 0)
        w->depth--;
    const unsigned depth = w->depth;
    if (!find_previous(w, w->t_ns, &slice)) {
        stop(w, "nothing shows when this request was handed to the thread");
        return;
    }
    const bool is_loop = slice.tid == w->thread->key && depth == w->depth && !is_end;
    const enum request_part_kind busy = is_loop ? REQUEST_PART_LOOP_BUSY : REQUEST_PART_QUEUE_BEHIND;
    const struct recorder_record *arrival = find_own_arrival(w, slice.end_ns, w->t_ns);
    const bool was_inferred = w->is_inferred;
    const struct recorder_record *left;
    uint64_t woken_ns;
    if (arrival) {
        add_ready_time(w, arrival->time_ns, REQUEST_PART_LOOP_BUSY, false, "the event loop served others");
        const struct recorder_record *sent = request_work_sender(w->index, arrival);
        go_to_peer(w, arrival->tid, arrival->time_ns, sent ? sent->object : 0);
        return;
    }
    w->is_inferred = true;
    uint32_t worker;
    uint64_t done_ns;
    if (is_loop && request_work_handed_by(w->index, &slice, w->t_ns, &worker, &done_ns)) {
        add_ready_time(w, done_ns, busy, false, "the event loop served others");
        go_to_peer(w, worker, done_ns, 0);
    } else if (find_last_sleep(w->thread, slice.end_ns, w->t_ns, &woken_ns, &left)) {
        add_ready_time(w, woken_ns, busy, false,
                       is_loop ? "the event loop served others" : "its thread had other work");
        if (!path_wait_is_for_events(left)) { /* else step_wait goes on: the request was ready by then */
            add_unattributed(w, slice.end_ns,
                             "its thread waited for other things: the program may schedule its work itself");
            go_to(w, slice.tid, slice.end_ns);
        }
    } else {
        add_ready_time(w, slice.end_ns, busy, false,
                       is_loop ? "the event loop served others" : "its thread had other work");
        go_to(w, slice.tid, slice.end_ns);
    }
    w->is_inferred = was_inferred;
}

/* ---- states ---- */

static void step_running(struct walk *w, const struct thread_span *span)
{
    enum work_mark mark = WORK_NO_MARK;
    const uint64_t floor_ns = span->start_ns > w->floor_ns ? span->start_ns : w->floor_ns;
    const struct flight_event *e = request_work_last_mark(w->index, w->thread, subject_of(w), floor_ns, w->t_ns, &mark);
    struct path_segment s = segment_in(w->thread, REQUEST_PART_CPU);
    if (mark == WORK_FOREIGN && e->role == FLIGHT_RECEIVES) {
        s.is_inferred = true;
        s.reason = "work before the next reply";
    }
    add_segment(w, e ? e->record->time_ns : span->start_ns, s);
    switch (mark) {
    case WORK_READ:
        at_read(w);
        break;
    case WORK_CONSUMED:
        at_consumed(w, e->record->object);
        break;
    case WORK_FOREIGN:
    case WORK_END:
        at_foreign(w, mark == WORK_END);
        break;
    case WORK_NO_MARK:
        break;
    }
}

/* Whether a wait for events began for this request before the thread went to sleep: since the request was last worked
 * on, by this thread before it served others, or by another one. */
static bool waited_since_slice(struct walk *w, const struct thread_span *wait, struct work_slice *ret)
{
    if (!path_wait_is_for_events(wait->left) ||
        !request_work_previous(w->index, subject_of(w), w->out->begin_ns, wait->left->time_ns + 1, ret) ||
        ret->end_ns >= wait->left->time_ns)
        return false;
    return ret->tid != w->thread->key ||
           request_work_is_foreign_between(w->index, w->thread, subject_of(w), ret->end_ns, wait->left->time_ns);
}

/* The thread slept in [a, woken): for what? Goes on where that came from. */
static void step_wait(struct walk *w, const struct thread_span *wait, uint64_t end_ns)
{
    const uint64_t start_ns = wait->left ? wait->left->time_ns : 0;
    const struct recorder_record *woken = wait->woken;
    struct path_segment s = segment_in(w->thread, REQUEST_PART_OTHER);
    s.syscall = wait->left ? wait->left->syscall : RECORDER_NO_SYSCALL;
    s.object = wait->left ? wait->left->object : 0;
    const enum wait_source source = path_wait_source(wait->left, woken, &s);
    struct work_slice slice = {0};
    uint64_t from_ns = start_ns;
    const bool is_longer = waited_since_slice(w, wait, &slice);
    if (is_longer) {
        from_ns = slice.end_ns;
        s.is_inferred = true;
    }
    if (source == WAIT_ENDED_BY_THREAD) {
        const uint32_t waker = recorder_low(woken->value);
        const bool is_lock = path_wait_is_for_lock(wait->left);
        const bool is_released = is_lock && request_work_is_lock(w->index, (uint32_t)w->thread->key, woken,
                                                                 w->peers[0].subject, w->out->begin_ns);
        if (!is_released && go_to_own(w, waker, end_ns))
            return;
        if (!wait->left && path_wait_is_creation(woken)) { /* for this request, as it did nothing before */
            w->depth = 0;
            go_to(w, waker, end_ns);
            return;
        }
        if (!wait->left) {
            add_unattributed(w, from_ns, "it slept since before the recorder's history");
            return;
        }
        if (is_lock)
            from_ns = path_holder_wait_start(w->thread, from_ns, s.object);
        const struct holder_walk holder = {.index = w->index,
                                           .out = w->out,
                                           .waiter = (uint32_t)w->thread->key,
                                           .is_lock = is_lock,
                                           .is_inferred = w->is_inferred || s.is_inferred};
        path_holder_add(&holder, waker, from_ns, end_ns);
        w->t_ns = from_ns < w->t_ns ? from_ns : w->t_ns;
    } else {
        add_segment(w, from_ns, s);
    }
    if (is_longer)
        go_to(w, slice.tid, slice.end_ns);
}

static const struct recorder_record *wake_up_at(const struct flight_list *thread, uint64_t t_ns)
{
    const uint32_t at = flight_list_before(thread, t_ns + 1);
    const struct flight_event *e = at == FLIGHT_NONE ? NULL : &thread->events[at];
    return e && e->role == FLIGHT_WOKEN && e->record->time_ns == t_ns ? e->record : NULL;
}

static void step(struct walk *w)
{
    struct thread_span span = flight_thread_span(w->thread, w->t_ns);
    switch (span.state) {
    case THREAD_RUNNING:
        step_running(w, &span);
        break;
    case THREAD_RUNNABLE:
        add_segment(w, span.start_ns, path_run_queue_segment(w->thread, &span));
        if (span.woken && w->t_ns > w->floor_ns)
            step_wait(w, &span, span.start_ns);
        break;
    case THREAD_BLOCKED:
        span.woken = wake_up_at(w->thread, w->t_ns);
        step_wait(w, &span, w->t_ns);
        break;
    default:
        add_unattributed(w, span.start_ns, "a switch that was not recorded");
    }
}

/* ---- the whole ---- */

/* When the first byte of the request arrived; it was read at about `start`. */
static uint64_t find_arrival(const struct flight_index *index, const struct critical_path_request *request)
{
    const struct flight_list *socket = flight_index_socket(index, request->socket);
    if (!socket)
        return request->start_ns;
    for (uint32_t i = flight_list_before(socket, request->start_ns + START_SLACK_NS); i != FLIGHT_NONE; i--) {
        if (socket->events[i].role != FLIGHT_RECEIVES)
            continue;
        const struct recorder_record *read = socket->events[i].record;
        if (read->time_ns + START_SLACK_NS < request->start_ns)
            break;
        const struct work_arrivals arrivals = request_work_arrivals(index, request->socket, read->time_ns);
        return arrivals.first ? arrivals.first->time_ns : read->time_ns;
    }
    return request->start_ns;
}

/* The thread that sent the last byte of the reply. */
static uint32_t find_sender(const struct flight_index *index, const struct critical_path_request *request)
{
    const struct flight_list *socket = flight_index_socket(index, request->socket);
    for (uint32_t i = socket ? flight_list_before(socket, request->end_ns + START_SLACK_NS) : FLIGHT_NONE;
         i != FLIGHT_NONE; i--)
        if (socket->events[i].role == FLIGHT_SENDS && socket->events[i].record->time_ns > request->start_ns)
            return socket->events[i].record->tid;
    return request->tid;
}

static const char *walk_back(struct walk *w)
{
    for (unsigned steps = 0; w->t_ns > w->floor_ns && !w->end_reason; steps++) {
        if (steps == STEPS_MAX)
            return "too many steps";
        const uint64_t before_ns = w->t_ns;
        const struct flight_list *thread = w->thread;
        step(w);
        if (w->t_ns == before_ns && w->thread == thread)
            return "nothing shows what came before";
    }
    return w->end_reason ? w->end_reason : "the flight recorder no longer had it";
}

int critical_path_find(const struct flight_window *window, const struct critical_path_request *request,
                       struct path_segments *ret)
{
    _cleanup_(flight_index_freep) struct flight_index *index = NULL;
    *ret = (struct path_segments){0};
    int r = flight_index_new(window, &index);
    if (r < 0)
        return r;
    const uint32_t sender = find_sender(index, request);
    struct walk w = {.index = index, .out = ret, .thread = flight_index_thread(index, sender)};
    if (!w.thread)
        return -ENODATA;
    const uint64_t arrival_ns = find_arrival(index, request);
    path_segments_start(ret, arrival_ns < request->start_ns ? arrival_ns : request->start_ns, request->end_ns);
    w.t_ns = ret->next_end_ns;
    w.floor_ns = ret->begin_ns > window->complete_from_ns ? ret->begin_ns : window->complete_from_ns;
    w.peers[0].subject = request->socket;
    return path_segments_finish(ret, walk_back(&w));
}
