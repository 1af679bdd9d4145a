/* Follows a request's work from thread to thread, forwards in time; see request_hands.h. */
#include "diagnose/path/request_hands.h"

#include "diagnose/flight/read_burst.h"
#include "diagnose/path/path_wait.h"
#include "diagnose/path/request_work.h"
#include "diagnose/path/task_request.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define DEPTH_MAX   16    /* hand-overs one after another */
#define TOOK_NS     50000 /* a sleep this soon after the wake-up is for the queue's mutex, not for more work */
#define IDLE_EVENTS 16    /* searched for signs that a thread had nothing to do */

/* From `time_ns` on, a thread has this work. */
struct hand {
    uint64_t time_ns;
    const struct recorder_record *wakeup; /* NULL: it is done */
    uint32_t previous;                    /* of the same thread; FLIGHT_NONE */
    uint8_t depth;
    bool is_shared;  /* the handler had read other requests, too: the work may be one of theirs */
    bool is_of_task; /* a task of the request gave it */
};

struct thread_work {
    uint32_t hand;                                                      /* the latest; FLIGHT_NONE */
    enum { WORKS_FOR_NONE, WORKS_FOR_THIS, WORKS_FOR_OTHER } works_for; /* by the request that it last touched */
    bool has_only_read; /* WORKS_FOR_THIS: an event loop that reads several requests handles them afterwards */
    bool is_shared;     /* it has read others since */
    struct read_burst burst;
};

struct request_hands {
    const struct flight_index *index;
    uint64_t subject, begin_ns, end_ns;
    struct thread_work *threads; /* by flight_list.number */
    struct hand *hands;
    size_t hand_count;
};

/* ---- hand-overs ---- */

static struct thread_work *work_of(struct request_hands *h, uint32_t tid)
{
    const struct flight_list *thread = tid ? flight_index_thread(h->index, tid) : NULL;
    return thread ? &h->threads[thread->number] : NULL;
}

static const struct hand *current_hand(const struct request_hands *h, const struct thread_work *work)
{
    const struct hand *hand = work->hand == FLIGHT_NONE ? NULL : &h->hands[work->hand];
    return hand && hand->wakeup ? hand : NULL;
}

static void put_hand(struct request_hands *h, struct thread_work *work, uint64_t time_ns,
                     const struct recorder_record *wakeup, unsigned depth, bool is_shared)
{
    h->hands[h->hand_count] = (struct hand){
        .time_ns = time_ns, .wakeup = wakeup, .previous = work->hand, .depth = (uint8_t)depth, .is_shared = is_shared};
    work->hand = (uint32_t)h->hand_count++;
}

/* The event of `thread` that is this record. */
static uint32_t find_event(const struct flight_list *thread, const struct recorder_record *record)
{
    uint32_t i = flight_list_before(thread, record->time_ns + 1);
    while (i != FLIGHT_NONE && thread->events[i].record != record)
        i--;
    return i;
}

/* Whether the thread had nothing to do when it began the wait that `woken` ended: the last thing before, apart from
 * waits for locks, was to finish a piece of work, or nothing is known. */
static bool was_idle(const struct flight_index *index, const struct flight_list *thread,
                     const struct recorder_record *woken)
{
    const uint32_t at = find_event(thread, woken);
    for (uint32_t i = at == FLIGHT_NONE ? 0 : at, seen = 0; i-- > 0 && seen < IDLE_EVENTS; seen++) {
        const struct flight_event *e = &thread->events[i];
        if (e->role == FLIGHT_PRODUCES || e->role == FLIGHT_SENDS)
            return true;
        if (e->role == FLIGHT_WAKES && !(e->record->syscall == SYS_futex &&
                                         flight_thread_is_locking(index, (uint32_t)thread->key, e->record->object)))
            return true;
        if (e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED && e->record->syscall != SYS_futex)
            return false;
    }
    return true;
}

static bool is_locking(const struct flight_index *index, const struct flight_list *a, const struct flight_list *b,
                       uint64_t word)
{
    return flight_thread_is_locking(index, (uint32_t)a->key, word) ||
           flight_thread_is_locking(index, (uint32_t)b->key, word);
}

/* A thread that has waited since before the request began does not wait for a lock in the course of it. Threads of a
 * pool that give work to the pool themselves both wait for its queue and wake others by it. */
static bool has_waited_since_before(const struct request_hands *h, const struct flight_list *thread,
                                    const struct recorder_record *woken)
{
    const struct thread_span wait = flight_thread_span(thread, woken->time_ns);
    if (flight_thread_is_held_lock(h->index, (uint32_t)thread->key, woken->object))
        return false;
    return wait.state == THREAD_BLOCKED && wait.start_ns < h->begin_ns && was_idle(h->index, thread, woken);
}

/* Whether the wake-up of `thread` gives it work, and does not release a lock. */
static bool is_hand_over(const struct request_hands *h, const struct flight_list *waker,
                         const struct recorder_record *r)
{
    const struct flight_list *thread = flight_index_thread(h->index, r->tid);
    if (!thread || thread == waker)
        return false;
    if (r->syscall != SYS_futex)
        return true;
    if (flight_threads_share_process(thread, waker) && is_locking(h->index, thread, waker, r->object) &&
        !has_waited_since_before(h, thread, r))
        return false;
    return was_idle(h->index, thread, r);
}

/* How many requests the thread answers or hands on from this record on, until it reads one or waits for events. */
static uint32_t count_steps(const struct request_hands *h, const struct flight_list *thread,
                            const struct recorder_record *from)
{
    uint64_t last_sent = 0;
    uint32_t steps = 0;
    for (size_t i = find_event(thread, from); i < thread->count && flight_index_spend(h->index); i++) {
        const struct flight_event *e = &thread->events[i];
        if (e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED && path_wait_is_for_events(e->record))
            break;
        if (e->role == FLIGHT_RECEIVES && request_work_is_served(h->index, e->record))
            break;
        if (e->role == FLIGHT_WAKES && is_hand_over(h, thread, e->record)) {
            last_sent = 0;
            steps++;
        } else if (e->role == FLIGHT_SENDS && request_work_is_served(h->index, e->record)) {
            steps += e->record->object != last_sent;
            last_sent = e->record->object;
        }
    }
    return steps;
}

/* Only at the beginning of the burst's handling. */
static uint32_t steps_of(const struct request_hands *h, const struct thread_work *work, const struct recorder_record *r)
{
    const struct flight_list *thread =
        flight_index_thread(h->index, r->kind == RECORDER_WAKING ? recorder_low(r->value) : r->tid);
    return thread && work->burst.count > 1 && !work->burst.is_over ? count_steps(h, thread, r) : 0;
}

static void note_operation(struct request_hands *h, const struct recorder_record *r)
{
    struct thread_work *work = work_of(h, r->tid);
    if (!work)
        return;
    const bool reads = r->kind == RECORDER_RECEIVE;
    if (request_work_is_served(h->index, r)) {
        if (reads && recorder_low(r->value) != 0) /* 0: the client has closed its side */
            read_burst_read(&work->burst, r->object);
        else if (!reads)
            read_burst_answer(&work->burst, r->object, steps_of(h, work, r));
    }
    if (r->object == h->subject) {
        work->works_for = WORKS_FOR_THIS;
        work->has_only_read = reads;
        work->is_shared = false;
    } else if (!request_work_is_served(h->index, r)) {
        return;
    } else if (reads && work->has_only_read) {
        work->is_shared = true;
    } else {
        work->works_for = WORKS_FOR_OTHER;
        work->has_only_read = false;
    }
}

/* A thread goes to sleep. If it waits by the futex word that handed its work over, it is done with that work. */
static void note_sleep(struct request_hands *h, const struct recorder_record *r)
{
    struct thread_work *work = r->flags & RECORDER_PREEMPTED ? NULL : work_of(h, r->tid);
    const struct hand *hand = work ? current_hand(h, work) : NULL;
    if (work)
        work->has_only_read = false;
    if (work && path_wait_is_for_events(r))
        read_burst_end(&work->burst);
    if (hand && r->syscall == SYS_futex && hand->wakeup->syscall == SYS_futex &&
        request_work_is_same_lock(r->object, hand->wakeup->object) && r->time_ns - hand->time_ns > TOOK_NS)
        put_hand(h, work, r->time_ns, NULL, 0, false);
}

/* Whether the wake-up of `thread`, which has work of this request, shows that it has been given another's since. */
static bool is_for_other(const struct thread_work *waker, const struct hand *has, const struct recorder_record *r)
{
    return waker->works_for == WORKS_FOR_OTHER && has->wakeup->syscall == SYS_futex && r->syscall == SYS_futex &&
           request_work_is_same_lock(r->object, has->wakeup->object);
}

static void note_wakeup(struct request_hands *h, const struct recorder_record *r)
{
    const struct flight_list *thread = flight_index_thread(h->index, r->tid),
                             *waker_thread = flight_index_thread(h->index, recorder_low(r->value));
    if (!thread || !waker_thread || thread == waker_thread || r->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ))
        return;
    struct thread_work *work = &h->threads[thread->number], *waker = &h->threads[waker_thread->number];
    waker->has_only_read = false;
    const struct hand *has = current_hand(h, work), *gives = current_hand(h, waker);
    const uint64_t ran_for = task_request_of_run(h->index, recorder_low(r->value), r->time_ns),
                   in_order = waker->burst.count > 1 && is_hand_over(h, waker_thread, r)
                                  ? read_burst_hand_over(&waker->burst, steps_of(h, waker, r))
                                  : 0,
                   socket = ran_for && is_hand_over(h, waker_thread, r) ? ran_for : in_order;
    if (socket) {
        if (socket == h->subject || has) {
            put_hand(h, work, r->time_ns, socket == h->subject ? r : NULL, 1, socket != ran_for);
            h->hands[work->hand].is_of_task = socket == ran_for;
        }
        return;
    }
    if (gives && gives->is_of_task && r->syscall == SYS_futex &&
        request_work_is_same_lock(r->object, gives->wakeup->object))
        return; /* it has taken its job from the queue, and lets the next thread take one */
    if (has ? !is_for_other(waker, has, r) : waker->works_for != WORKS_FOR_THIS && !gives)
        return;
    if (r->syscall == SYS_futex && flight_threads_share_process(thread, waker_thread) &&
        is_locking(h->index, thread, waker_thread, r->object) && !has_waited_since_before(h, thread, r))
        return;
    if (has)
        put_hand(h, work, r->time_ns, NULL, 0, false);
    else if (r->syscall == SYS_futex &&
             (!was_idle(h->index, thread, r) ||
              request_work_is_of_any(h->index, waker_thread, h->subject, r->time_ns, h->end_ns)))
        return;
    else if (waker->works_for == WORKS_FOR_THIS)
        put_hand(h, work, r->time_ns, r, 1, waker->is_shared);
    else if (gives->depth < DEPTH_MAX)
        put_hand(h, work, r->time_ns, r, gives->depth + 1u, gives->is_shared);
}

static void follow_hands(struct request_hands *h, const struct recorder_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++)
        switch (records[i].kind) {
        case RECORDER_SEND:
        case RECORDER_RECEIVE:
            note_operation(h, &records[i]);
            break;
        case RECORDER_SWITCH:
            note_sleep(h, &records[i]);
            break;
        case RECORDER_WAKING:
            note_wakeup(h, &records[i]);
            break;
        }
}

static const struct hand *find_hand(const struct request_hands *h, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *thread = flight_index_thread(h->index, tid);
    uint32_t at = thread ? h->threads[thread->number].hand : FLIGHT_NONE;
    while (at != FLIGHT_NONE && h->hands[at].time_ns >= t_ns && flight_index_spend(h->index))
        at = h->hands[at].previous;
    return at != FLIGHT_NONE && h->hands[at].time_ns < t_ns && h->hands[at].wakeup ? &h->hands[at] : NULL;
}

const struct recorder_record *request_hands_find(const struct request_hands *h, uint32_t tid, uint64_t t_ns)
{
    const struct hand *hand = find_hand(h, tid, t_ns);
    return hand ? hand->wakeup : NULL;
}

bool request_hands_is_shared(const struct request_hands *h, uint32_t tid, uint64_t t_ns)
{
    const struct hand *hand = find_hand(h, tid, t_ns);
    return hand && hand->is_shared;
}

uint32_t request_hands_last(const struct request_hands *h, uint32_t pid, uint32_t except_tid, uint64_t from_ns,
                            uint64_t to_ns)
{
    for (size_t i = h->hand_count; i-- > 0 && h->hands[i].time_ns > from_ns && flight_index_spend(h->index);) {
        const struct recorder_record *wakeup = h->hands[i].wakeup;
        const struct flight_list *thread = wakeup ? flight_index_thread(h->index, wakeup->tid) : NULL;
        if (thread && wakeup->time_ns < to_ns && (!pid || thread->pid == pid) && wakeup->tid != except_tid &&
            request_hands_find(h, wakeup->tid, to_ns) == wakeup)
            return wakeup->tid;
    }
    return 0;
}

uint32_t request_hands_had(const struct request_hands *h, uint32_t tid, uint64_t t_ns, uint64_t to_ns)
{
    const struct recorder_record *wakeup = request_hands_find(h, tid, to_ns);
    while (wakeup && wakeup->time_ns >= t_ns) {
        tid = recorder_low(wakeup->value);
        wakeup = request_hands_find(h, tid, wakeup->time_ns);
    }
    return wakeup ? tid : 0;
}

bool request_hands_is_release(const struct request_hands *h, uint32_t waiter_tid, const struct recorder_record *woken)
{
    const struct flight_list *waiter = flight_index_thread(h->index, waiter_tid),
                             *waker = flight_index_thread(h->index, recorder_low(woken->value));
    if (waiter && waker && !flight_threads_share_process(waiter, waker))
        return false;
    const struct recorder_record *given = request_hands_find(h, waiter_tid, woken->time_ns + 1);
    if (given == woken)
        return false;
    if (flight_thread_is_locking(h->index, waiter_tid, woken->object) ||
        flight_thread_is_locking(h->index, recorder_low(woken->value), woken->object))
        return true;
    if (request_hands_find(h, recorder_low(woken->value), woken->time_ns))
        return false; /* it finished the work that it had been given */
    return given && !(given->syscall == woken->syscall && request_work_is_same_lock(given->object, woken->object));
}

/* ---- the whole ---- */

void request_hands_free(struct request_hands *h)
{
    if (!h)
        return;
    free(h->threads);
    free(h->hands);
    free(h);
}

int request_hands_new(const struct flight_index *index, uint64_t subject, uint64_t begin_ns, uint64_t end_ns,
                      struct request_hands **ret)
{
    _cleanup_(request_hands_freep) struct request_hands *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    const struct flight_window *window = flight_index_window(index);
    const size_t from = flight_window_since(window, begin_ns), to = flight_window_since(window, end_ns + 1),
                 threads = flight_index_thread_count(index);
    h->index = index;
    h->subject = subject;
    h->begin_ns = begin_ns;
    h->end_ns = end_ns;
    h->threads = calloc(threads + 1, sizeof(*h->threads));
    h->hands = reallocarray(NULL, to - from + 1, sizeof(*h->hands)); /* a record begins or ends one at most */
    if (!h->threads || !h->hands)
        return -ENOMEM;
    for (size_t i = 0; i < threads; i++)
        h->threads[i].hand = FLIGHT_NONE;
    follow_hands(h, window->records + from, to - from);
    *ret = take_ptr(h);
    return 0;
}
