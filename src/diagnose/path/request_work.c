/* Rules of ownership (docs/why.md); see request_work.h. */
#include "diagnose/path/request_work.h"

#include "diagnose/flight/futex_words.h"
#include "diagnose/flight/syscalls.h"
#include "diagnose/path/task_request.h"

#include <sys/syscall.h>

#define SEND_NS        1000000 /* how long after it has an effect at the receiver a local send may end */
#define EXTENSIONS_MAX 16
#define ARRIVALS_MAX   64 /* returned by one read */

/* ---- sockets ---- */

bool request_work_is_served(const struct flight_index *index, const struct recorder_record *record)
{
    const struct flight_list *socket = flight_record_socket(index, record);
    return socket && socket->is_served;
}

struct work_arrivals request_work_arrivals(const struct flight_index *index, uint64_t cookie, uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    struct work_arrivals a = {.is_one_producer = true};
    if (!socket)
        return a;
    for (uint32_t i = flight_list_before(socket, t_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct flight_event *e = &socket->events[i];
        if (e->role == FLIGHT_RECEIVES)
            break;
        if (e->role != FLIGHT_PRODUCES)
            continue;
        a.first = e->record;
        a.last = a.last ? a.last : e->record;
        /* Of packets from elsewhere the thread is only the one that was interrupted. */
        a.is_one_producer &= e->record->tid == a.last->tid || e->record->flags & RECORDER_TCP;
    }
    return a;
}

const struct recorder_record *request_work_send_at(const struct flight_index *index, uint32_t tid, uint64_t t_ns,
                                                   uint64_t except)
{
    const struct flight_list *thread = flight_index_thread(index, tid);
    const uint32_t before = flight_list_before(thread, t_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before; thread && i < thread->count && flight_index_spend(index); i++) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns > t_ns + SEND_NS)
            break;
        if (e->role == FLIGHT_SENDS && e->record->time_ns >= t_ns && e->record->object != except)
            return e->record;
    }
    return NULL;
}

const struct recorder_record *request_work_sender(const struct flight_index *index,
                                                  const struct recorder_record *arrival)
{
    const struct recorder_record *sent =
        arrival->flags & RECORDER_IN_HARDIRQ
            ? NULL
            : request_work_send_at(index, arrival->tid, arrival->time_ns, arrival->object);
    /* TCP: the bytes that arrived must be a part of the bytes sent. */
    if (sent && arrival->flags & RECORDER_TCP &&
        recorder_high(sent->value) - recorder_high(arrival->value) >= recorder_low(sent->value))
        return NULL;
    return sent;
}

/* ---- marks ---- */

enum work_mark request_work_mark(const struct flight_index *index, const struct flight_event *e, uint64_t subject)
{
    if (e->role != FLIGHT_SENDS && e->role != FLIGHT_RECEIVES)
        return WORK_NO_MARK;
    const bool reads = e->role == FLIGHT_RECEIVES, is_end = reads && recorder_low(e->record->value) == 0;
    if (is_end && (e->record->object == subject || request_work_is_served(index, e->record)))
        return WORK_NO_MARK; /* a client closes */
    if (e->record->object == subject)
        return reads ? WORK_READ : WORK_END;
    if (request_work_is_served(index, e->record))
        return WORK_FOREIGN;
    return reads ? WORK_CONSUMED : WORK_NO_MARK;
}

/* Whether anything is read from this socket: if so, the sends on it are parts of one answer. */
static bool is_read(const struct flight_index *index, uint64_t cookie)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    return socket && socket->is_read;
}

const struct flight_event *request_work_last_mark(const struct flight_index *index, const struct flight_list *thread,
                                                  uint64_t subject, uint64_t floor_ns, uint64_t t_ns,
                                                  enum work_mark *ret)
{
    const bool is_answered = is_read(index, subject);
    for (uint32_t i = flight_operation_before(thread, t_ns); i != FLIGHT_NONE && flight_index_spend(index);
         i = flight_previous_operation(thread, i)) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < floor_ns)
            break;
        const enum work_mark mark = request_work_mark(index, e, subject);
        if (mark == WORK_NO_MARK || (mark == WORK_END && is_answered))
            continue;
        *ret = mark;
        return e;
    }
    return NULL;
}

uint64_t request_work_first_foreign(const struct flight_index *index, const struct flight_list *thread,
                                    uint64_t subject, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t first_ns = UINT64_MAX;
    for (uint32_t i = flight_operation_before(thread, to_ns); i != FLIGHT_NONE && flight_index_spend(index);
         i = flight_previous_operation(thread, i)) {
        if (thread->events[i].record->time_ns < from_ns)
            break;
        if (request_work_mark(index, &thread->events[i], subject) == WORK_FOREIGN)
            first_ns = thread->events[i].record->time_ns;
    }
    return first_ns;
}

/* ---- the work before ---- */

/* When the thread turned away from the work that it did at `m`: it went to sleep, or touched another request. */
static uint64_t slice_end(const struct flight_index *index, const struct flight_list *thread, uint64_t subject,
                          uint64_t m_ns, uint64_t t_ns)
{
    const uint32_t before = flight_list_before(thread, m_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before; i < thread->count && flight_index_spend(index); i++) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns <= m_ns)
            continue;
        if (e->record->time_ns >= t_ns)
            break;
        if ((e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED) ||
            request_work_mark(index, e, subject) == WORK_FOREIGN)
            return e->record->time_ns;
    }
    return t_ns;
}

/* The last read or send on a socket in [begin, t). */
static const struct flight_event *last_operation(const struct flight_index *index, uint64_t cookie, uint64_t begin_ns,
                                                 uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    if (!socket)
        return NULL;
    const uint32_t i = flight_operation_before(socket, t_ns);
    return i != FLIGHT_NONE && socket->events[i].record->time_ns >= begin_ns ? &socket->events[i] : NULL;
}

/* Whether a thread asked another service for the request of `subject`, as far as is known, by this event. Another task
 * than the one that asks may open the connection. */
static bool is_question(const struct flight_index *index, const struct flight_event *e, uint64_t subject)
{
    if (e->role != FLIGHT_SENDS || e->record->object == subject || request_work_is_served(index, e->record))
        return false;
    const uint64_t request = task_request_of_sends(index, e->record->object, e->record->time_ns);
    return !request || request == subject;
}

/* Sets `slice` to a later slice of the same request, which read another service's answer to this slice's question. */
static bool find_answer_slice(const struct flight_index *index, uint64_t subject, const struct flight_list *thread,
                              uint64_t from_ns, uint64_t t_ns, struct work_slice *slice)
{
    for (uint32_t i = flight_operation_before(thread, slice->end_ns); i != FLIGHT_NONE && flight_index_spend(index);
         i = flight_previous_operation(thread, i)) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < from_ns)
            break;
        if (!is_question(index, e, subject))
            continue;
        const struct flight_event *answer = last_operation(index, e->record->object, slice->end_ns, t_ns);
        if (!answer || answer->role != FLIGHT_RECEIVES)
            continue;
        const struct flight_list *reader = flight_index_thread(index, answer->record->tid);
        if (!reader)
            continue;
        *slice = (struct work_slice){answer->record->tid, answer->record->time_ns,
                                     slice_end(index, reader, subject, answer->record->time_ns, t_ns)};
        return true;
    }
    return false;
}

bool request_work_previous(const struct flight_index *index, uint64_t subject, uint64_t begin_ns, uint64_t t_ns,
                           struct work_slice *ret)
{
    const struct flight_event *m = last_operation(index, subject, begin_ns, t_ns);
    const struct flight_list *thread = m ? flight_index_thread(index, m->record->tid) : NULL;
    if (!thread)
        return false;
    uint64_t from_ns = m->record->time_ns;
    struct work_slice slice = {m->record->tid, from_ns, slice_end(index, thread, subject, from_ns, t_ns)};
    for (unsigned i = 0; i < EXTENSIONS_MAX; i++) {
        const uint64_t end_ns = slice.end_ns;
        if (!find_answer_slice(index, subject, thread, from_ns, t_ns, &slice))
            break;
        from_ns = end_ns;
        thread = flight_index_thread(index, slice.tid);
    }
    *ret = slice;
    return true;
}

/* ---- work handed to other threads ---- */

bool request_work_is_same_lock(uint64_t word, uint64_t other)
{
    return word <= other ? other - word <= FUTEX_WORDS_NEAR : word - other <= FUTEX_WORDS_NEAR;
}

/* The last request that the thread touched is this one. */
static bool works_for(const struct flight_index *index, const struct flight_list *waker, uint64_t subject,
                      uint64_t begin_ns, uint64_t t_ns)
{
    for (uint32_t i = flight_operation_before(waker, t_ns); i != FLIGHT_NONE && flight_index_spend(index);
         i = flight_previous_operation(waker, i)) {
        const struct flight_event *e = &waker->events[i];
        if (e->record->time_ns < begin_ns)
            break;
        const enum work_mark mark = request_work_mark(index, e, subject);
        if (mark == WORK_READ || mark == WORK_END || mark == WORK_FOREIGN)
            return mark != WORK_FOREIGN;
    }
    return false;
}

bool request_work_is_for(const struct flight_index *index, uint32_t tid, uint64_t subject, uint64_t begin_ns,
                         uint64_t t_ns)
{
    const struct flight_list *thread = flight_index_thread(index, tid);
    return thread && works_for(index, thread, subject, begin_ns, t_ns);
}

/* When the thread, woken by `wakeup`, waited for the same thing again. False: not before `t`. */
static bool find_done(const struct flight_index *index, const struct flight_list *thread,
                      const struct recorder_record *wakeup, uint64_t t_ns, uint64_t *ret_done_ns)
{
    const uint32_t before = flight_list_before(thread, wakeup->time_ns + 1);
    for (size_t i = before == FLIGHT_NONE ? 0 : before; i < thread->count && flight_index_spend(index); i++) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns >= t_ns)
            break;
        if (e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED && e->record->syscall == wakeup->syscall &&
            request_work_is_same_lock(e->record->object, wakeup->object)) {
            *ret_done_ns = e->record->time_ns;
            return true;
        }
    }
    return false;
}

/* Whether the thread has requests other than `subject`'s at `t_ns`: by `end_ns` it sends something for them, and reads
 * nothing more from them before that. */
static bool has_others(const struct flight_index *index, const struct flight_list *thread, uint64_t subject,
                       uint64_t t_ns, uint64_t end_ns)
{
    const uint32_t before = flight_list_before(thread, t_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; i < thread->count && flight_index_spend(index); i++) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns > end_ns)
            break;
        if (e->role != FLIGHT_SENDS || e->record->object == subject || !request_work_is_served(index, e->record))
            continue;
        const struct flight_list *socket = flight_record_socket(index, e->record);
        const uint32_t read = socket->events[flight_list_before(socket, e->record->time_ns + 1)].read;
        if (read != FLIGHT_NONE && socket->events[read].record->time_ns < t_ns)
            return true;
    }
    return false;
}

bool request_work_is_of_any(const struct flight_index *index, const struct flight_list *thread, uint64_t subject,
                            uint64_t t_ns, uint64_t end_ns)
{
    const uint32_t tid = (uint32_t)thread->key;
    const struct flight_list *tasks = flight_index_tasks_of(index, tid);
    const uint32_t i = flight_list_before(tasks, t_ns + 1);
    const struct recorder_record *run = i == FLIGHT_NONE ? NULL : tasks->events[i].record;
    return run && run->time_ns == t_ns && run->flags == RECORDER_TASK_RUNS && !task_request_of_run(index, tid, t_ns) &&
           has_others(index, thread, subject, t_ns, end_ns);
}

bool request_work_handed_by(const struct flight_index *index, const struct work_slice *slice, uint64_t subject,
                            uint64_t t_ns, uint32_t *ret_tid, uint64_t *ret_done_ns)
{
    const struct flight_list *thread = flight_index_thread(index, slice->tid);
    uint32_t tid = 0;
    for (uint32_t i = thread ? flight_list_before(thread, slice->end_ns + 1) : FLIGHT_NONE;
         i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < slice->start_ns)
            break;
        const struct flight_list *woken = e->role == FLIGHT_WAKES ? flight_index_thread(index, e->record->tid) : NULL;
        if (!woken || e->record->syscall != SYS_futex ||
            flight_thread_is_locking(index, (uint32_t)woken->key, e->record->object))
            continue;
        if (request_work_is_of_any(index, thread, subject, e->record->time_ns, t_ns))
            return false;
        if ((tid && tid != e->record->tid) || !find_done(index, woken, e->record, t_ns, ret_done_ns))
            return false;
        tid = e->record->tid;
    }
    *ret_tid = tid;
    return tid != 0;
}

bool request_work_is_busy(const struct flight_index *index, const struct flight_list *thread, uint64_t t_ns)
{
    for (uint32_t i = flight_operation_before(thread, t_ns); i != FLIGHT_NONE && flight_index_spend(index);
         i = flight_previous_operation(thread, i))
        if (request_work_mark(index, &thread->events[i], 0) == WORK_FOREIGN)
            return thread->events[i].role == FLIGHT_RECEIVES;
    return false;
}

uint64_t request_work_unanswered(const struct flight_index *index, const struct work_slice *slice, uint64_t subject,
                                 uint64_t t_ns)
{
    const struct flight_list *thread = flight_index_thread(index, slice->tid);
    for (uint32_t i = thread ? flight_list_before(thread, slice->end_ns + 1) : FLIGHT_NONE;
         i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < slice->start_ns)
            break;
        if (!is_question(index, e, subject))
            continue;
        const struct flight_event *last = last_operation(index, e->record->object, slice->start_ns, t_ns);
        if (last && last->role == FLIGHT_SENDS)
            return e->record->object;
    }
    return 0;
}

/* Whether the thread woke another one, at this record, in a task of a request other than `subject`'s. */
static bool wakes_for_other(const struct flight_index *index, uint32_t tid, const struct recorder_record *woken,
                            uint64_t subject)
{
    const uint64_t request = task_request_of_run(index, tid, woken->time_ns);
    return request && request != subject;
}

bool request_work_hands_on(const struct flight_index *index, const struct work_slice *slice, uint64_t subject)
{
    const struct flight_list *thread = flight_index_thread(index, slice->tid);
    for (uint32_t i = thread ? flight_list_before(thread, slice->end_ns + 1) : FLIGHT_NONE;
         i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < slice->start_ns)
            break;
        if (e->role == FLIGHT_WAKES &&
            !(e->record->syscall == SYS_futex &&
              flight_thread_is_locking(index, (uint32_t)thread->key, e->record->object)) &&
            !wakes_for_other(index, slice->tid, e->record, subject))
            return true;
    }
    return false;
}

uint64_t request_work_item_start(const struct flight_index *index, uint32_t tid, uint32_t consumer, uint64_t end_ns)
{
    const struct flight_list *thread = flight_index_thread(index, tid);
    for (uint32_t i = thread ? flight_list_before(thread, end_ns) : FLIGHT_NONE;
         i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct recorder_record *r = thread->events[i].record;
        if (thread->events[i].role == FLIGHT_WAKES && r->tid == consumer)
            return r->time_ns;
        if (thread->events[i].role == FLIGHT_WOKEN && thread->events[i].state == THREAD_RUNNABLE &&
            r->syscall == SYS_futex && !(r->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ)) &&
            !flight_thread_is_locking(index, (uint32_t)thread->key, r->object))
            return r->time_ns;
    }
    return 0;
}

/* How many requests the thread answered in [from, to), other than on `except`: consecutive sends on one socket are one
 * answer. */
static size_t count_answers(const struct flight_index *index, const struct flight_list *thread, uint64_t except,
                            uint64_t from_ns, uint64_t to_ns)
{
    const uint32_t before = flight_list_before(thread, from_ns);
    uint64_t last = 0;
    size_t count = 0;
    for (size_t i = before == FLIGHT_NONE ? 0 : before; i < thread->count && flight_index_spend(index); i++) {
        const struct recorder_record *r = thread->events[i].record;
        if (r->time_ns >= to_ns)
            break;
        if (r->time_ns < from_ns || thread->events[i].role != FLIGHT_SENDS || r->object == last ||
            r->object == except || !request_work_is_served(index, r))
            continue;
        last = r->object;
        count++;
    }
    return count;
}

/* When the socket was next read after `t`; UINT64_MAX: it was not. */
static uint64_t next_read(const struct flight_index *index, const struct flight_list *socket, uint64_t t_ns)
{
    const uint32_t before = flight_list_before(socket, t_ns + 1);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; i < socket->count && flight_index_spend(index); i++)
        if (socket->events[i].role == FLIGHT_RECEIVES)
            return socket->events[i].record->time_ns;
    return UINT64_MAX;
}

const struct recorder_record *request_work_arrival_in_order(const struct flight_index *index,
                                                            const struct flight_list *thread, uint64_t cookie,
                                                            uint64_t subject, uint64_t read_ns, uint64_t answer_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    const struct recorder_record *arrivals[ARRIVALS_MAX];
    size_t count = 0;
    for (uint32_t i = flight_list_before(socket, read_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        if (socket->events[i].role == FLIGHT_RECEIVES)
            break;
        if (socket->events[i].role != FLIGHT_PRODUCES)
            continue;
        if (count == ARRIVALS_MAX)
            return NULL;
        arrivals[count++] = socket->events[i].record; /* latest first */
    }
    const size_t place = count_answers(index, thread, subject, read_ns, answer_ns);
    if (place >= count || count_answers(index, thread, 0, read_ns, next_read(index, socket, read_ns)) != count)
        return NULL;
    return arrivals[count - 1 - place];
}

bool request_work_asked(const struct flight_index *index, uint64_t cookie, uint64_t subject, uint64_t begin_ns,
                        uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    const struct recorder_record *asked = NULL;
    for (uint32_t i = socket ? flight_list_before(socket, t_ns) : FLIGHT_NONE;
         i != FLIGHT_NONE && flight_index_spend(index); i--) {
        if (socket->events[i].role == FLIGHT_RECEIVES && asked)
            break;
        if (socket->events[i].role == FLIGHT_SENDS && recorder_low(socket->events[i].record->value))
            asked = socket->events[i].record; /* and not the connect before */
    }
    const uint64_t request = asked ? task_request_of_run(index, asked->tid, asked->time_ns) : 0;
    if (request)
        return request == subject;
    return asked && request_work_is_for(index, asked->tid, subject, begin_ns, asked->time_ns);
}
