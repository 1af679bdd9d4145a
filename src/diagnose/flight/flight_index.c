/* Lists the records of a window by thread and by socket, and follows each thread's state through them; see
 * flight_index.h. */
#include "diagnose/flight/flight_index.h"

#include "diagnose/flight/control_frames.h"
#include "diagnose/flight/flight_lists.h"
#include "diagnose/flight/futex_words.h"
#include "diagnose/flight/held_locks.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define WRITERS_MAX 16
#define SEARCH_MAX  1000000 /* events, in all searches for a request: some 10 ms */

struct flight_index {
    const struct flight_window *window;
    struct flight_window without_control; /* if the window had control frames: what is left of it, and its memory */
    struct recorder_record *own_records;
    struct flight_lists threads, sockets, tasks;
    struct futex_words *words;
    struct held_locks *held;
    uint32_t *record_sockets; /* of each record: 1 + number of its socket; 0: none */
    bool has_arrivals;
    uint32_t writers[WRITERS_MAX]; /* processes whose threads let event loops know by write() of finished jobs */
    size_t writer_count;           /* WRITERS_MAX: there may be more */
    uint32_t *searches_left;       /* its own allocation, as searching does not change the index */
};

/* ---- which lists a record is in ---- */

static size_t thread_entries(const struct recorder_record *r, struct flight_entry ret[FLIGHT_ENTRIES_MAX])
{
    size_t n = 0;
    switch (r->kind) {
    case RECORDER_SWITCH:
        ret[n++] = (struct flight_entry){r->tid, FLIGHT_OUT};
        ret[n++] = (struct flight_entry){recorder_low(r->value), FLIGHT_IN};
        break;
    case RECORDER_WAKING:
        ret[n++] = (struct flight_entry){r->tid, FLIGHT_WOKEN};
        if (!(r->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ)))
            ret[n++] = (struct flight_entry){recorder_low(r->value), FLIGHT_WAKES};
        break;
    case RECORDER_SEND:
        ret[n++] = (struct flight_entry){r->tid, FLIGHT_SENDS};
        break;
    case RECORDER_RECEIVE:
        ret[n++] = (struct flight_entry){r->tid, FLIGHT_RECEIVES};
        break;
    case RECORDER_READY:
        if (!(r->flags & RECORDER_IN_HARDIRQ))
            ret[n++] = (struct flight_entry){r->tid, FLIGHT_PRODUCES};
        break;
    case RECORDER_EXIT:
        ret[n++] = (struct flight_entry){r->tid, FLIGHT_ENDS};
        break;
    }
    return n;
}

static size_t socket_entries(const struct recorder_record *r, struct flight_entry ret[FLIGHT_ENTRIES_MAX])
{
    switch (r->kind) {
    case RECORDER_SEND:
        ret[0] = (struct flight_entry){r->object, FLIGHT_SENDS};
        return 1;
    case RECORDER_RECEIVE:
        ret[0] = (struct flight_entry){r->object, FLIGHT_RECEIVES};
        return 1;
    case RECORDER_READY:
        ret[0] = (struct flight_entry){r->object, FLIGHT_PRODUCES};
        return 1;
    case RECORDER_RETRANSMIT:
        ret[0] = (struct flight_entry){r->object, FLIGHT_RETRANSMITS};
        return 1;
    default:
        return 0;
    }
}

/* Differs from that of any thread. */
static uint64_t task_key(uint32_t pid, uint64_t id)
{
    return (id * 0x9e3779b97f4a7c15ull ^ pid) | 1ull << 63;
}

static size_t task_entries(const struct recorder_record *r, struct flight_entry ret[FLIGHT_ENTRIES_MAX])
{
    if (r->kind != RECORDER_TASK)
        return 0;
    ret[0] = (struct flight_entry){task_key(recorder_high(r->value), r->object), FLIGHT_TASK};
    ret[1] = (struct flight_entry){r->tid, FLIGHT_TASK};
    return 2;
}

/* ---- states of threads ---- */

/* What the first event shows of the time before it. Wake-ups are recorded, so a thread that gets a CPU first was
 * runnable all the time. */
static enum thread_state state_before_first(const struct flight_list *thread)
{
    switch (thread->events[0].role) {
    case FLIGHT_WOKEN:
        return THREAD_BLOCKED;
    case FLIGHT_IN:
        return THREAD_RUNNABLE;
    default:
        return THREAD_RUNNING;
    }
}

struct follower {
    enum thread_state state;
    uint32_t since, woken;
    uint32_t early; /* a wake-up while the thread still ran; FLIGHT_NONE: none since it got its CPU */
};

/* The thread runs though no switch to it was recorded: since when is not known. */
static void return_unseen(struct flight_event *events, uint32_t now, struct follower *f)
{
    for (uint32_t i = f->since; i != FLIGHT_NONE && i < now; i++)
        if (events[i].since == f->since)
            events[i].state = THREAD_UNKNOWN;
    *f = (struct follower){THREAD_RUNNING, now, FLIGHT_NONE, FLIGHT_NONE};
}

/* Whether this wake-up may be for the sleep that follows it. One by another futex was for a wait that the thread gave
 * up before it slept. */
static bool may_end(const struct recorder_record *woken, const struct recorder_record *left)
{
    if (woken->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ) || woken->syscall != SYS_futex ||
        recorder_high(woken->value) != recorder_high(left->value))
        return true;
    return left->syscall == SYS_futex && left->object - woken->object + FUTEX_WORDS_NEAR <= 2 * FUTEX_WORDS_NEAR;
}

static void leave_cpu(const struct flight_event *events, uint32_t now, struct follower *f)
{
    const struct recorder_record *left = events[now].record;
    const uint8_t flags = left->flags;
    const uint32_t early = f->early != FLIGHT_NONE && may_end(events[f->early].record, left) ? f->early : FLIGHT_NONE;
    *f = (struct follower){THREAD_BLOCKED, now, FLIGHT_NONE, FLIGHT_NONE};
    if (flags & RECORDER_DEAD)
        f->state = THREAD_UNKNOWN;
    else if (flags & RECORDER_PREEMPTED)
        f->state = THREAD_RUNNABLE;
    else if (early != FLIGHT_NONE) { /* a waker need not wait until the sleeper has left its CPU */
        f->state = THREAD_RUNNABLE;
        f->woken = early;
    }
}

static void follow_event(struct flight_event *events, uint32_t now, struct follower *f)
{
    const struct flight_event *e = &events[now];
    const bool is_off = f->state == THREAD_RUNNABLE || f->state == THREAD_BLOCKED;
    if (e->role == FLIGHT_IN) {
        if (f->state != THREAD_RUNNING || f->since == FLIGHT_NONE)
            *f = (struct follower){THREAD_RUNNING, now, FLIGHT_NONE, FLIGHT_NONE};
    } else if (e->role == FLIGHT_WOKEN) {
        if (f->state == THREAD_BLOCKED)
            *f = (struct follower){THREAD_RUNNABLE, now, now, FLIGHT_NONE};
        else if (f->state == THREAD_RUNNING)
            f->early = now;
    } else if (is_off && f->since != FLIGHT_NONE) {
        return_unseen(events, now, f);
    } else if (is_off) {
        *f = (struct follower){THREAD_RUNNING, now, FLIGHT_NONE, FLIGHT_NONE};
    }
    if (e->role == FLIGHT_OUT)
        leave_cpu(events, now, f);
}

static void follow_thread(struct flight_list *thread, struct flight_event *events)
{
    thread->first_state = state_before_first(thread);
    struct follower f = {thread->first_state, FLIGHT_NONE, FLIGHT_NONE, FLIGHT_NONE};
    for (uint32_t i = 0; i < thread->count; i++) {
        follow_event(events, i, &f);
        events[i].state = f.state;
        events[i].since = f.since;
        events[i].woken = f.woken;
    }
}

/* From its switches and wake-ups; 0: unknown. */
static uint32_t find_pid(const struct flight_list *thread)
{
    for (size_t i = 0; i < thread->count; i++)
        if ((thread->events[i].role == FLIGHT_OUT || thread->events[i].role == FLIGHT_WAKES) &&
            recorder_high(thread->events[i].record->value))
            return recorder_high(thread->events[i].record->value);
    return 0;
}

/* ---- sends and receives ---- */

static bool is_operation(enum flight_role role)
{
    return role == FLIGHT_SENDS || role == FLIGHT_RECEIVES;
}

static void link_operations(const struct flight_list *list, struct flight_event *events)
{
    uint32_t last = FLIGHT_NONE;
    for (uint32_t i = 0; i < list->count; i++) {
        last = is_operation(events[i].role) ? i : last;
        events[i].operation = last;
    }
}

static void link_sends(struct flight_list *socket, struct flight_event *events)
{
    uint32_t last = FLIGHT_NONE, read = FLIGHT_NONE;
    for (uint32_t i = 0; i < socket->count; i++) {
        last = events[i].role == FLIGHT_SENDS ? i : last;
        read = events[i].role == FLIGHT_RECEIVES && recorder_low(events[i].record->value) ? i : read;
        events[i].send = last;
        events[i].read = read;
        socket->is_read |= events[i].role == FLIGHT_RECEIVES;
        socket->has_arrivals |= events[i].role == FLIGHT_PRODUCES;
    }
}

/* Whether replies of the thread are marked as such. */
static bool has_marked_sends(const struct flight_list *thread)
{
    for (size_t i = 0; i < thread->count; i++)
        if (thread->events[i].role == FLIGHT_SENDS && thread->events[i].record->flags & RECORDER_REQUESTS)
            return true;
    return false;
}

static bool has_marks(const struct flight_list *socket)
{
    for (size_t i = 0; i < socket->count; i++)
        if (socket->events[i].record->flags & RECORDER_REQUESTS)
            return true;
    return false;
}

/* Whether requests are served on the socket: by the recorder's mark or, without it, if it received first, as servers
 * do. A connection older than the window may begin with an answer: it calls another service if something is sent on it
 * without the mark, by a thread whose replies have it. */
static bool is_served(const struct flight_index *index, const struct flight_list *socket)
{
    if (has_marks(socket))
        return true;
    if (socket->events[0].record->flags & RECORDER_UNIX || socket->events[0].role == FLIGHT_SENDS)
        return false;
    const uint32_t sent = socket->events[socket->count - 1].send;
    const struct flight_list *sender =
        sent == FLIGHT_NONE ? NULL : flight_lists_find(&index->threads, socket->events[sent].record->tid);
    return !sender || !sender->is_marking;
}

/* Whether the task sends a reply at this record of it. */
static bool is_reply(const struct flight_index *index, const struct recorder_record *task)
{
    const struct flight_list *thread = flight_lists_find(&index->threads, task->tid);
    const uint32_t i =
        task->flags == RECORDER_TASK_RUNS ? flight_operation_before(thread, task->time_ns + 1) : FLIGHT_NONE;
    if (i == FLIGHT_NONE || thread->events[i].record->time_ns != task->time_ns ||
        thread->events[i].role != FLIGHT_SENDS)
        return false;
    const struct flight_list *socket = flight_record_socket(index, thread->events[i].record);
    return socket && socket->is_served;
}

static void link_replies(const struct flight_index *index, const struct flight_list *task, struct flight_event *events)
{
    uint32_t last = FLIGHT_NONE;
    for (uint32_t i = 0; i < task->count; i++) {
        last = is_reply(index, events[i].record) ? i : last;
        events[i].operation = last;
    }
}

/* ---- public ---- */

static bool has_tasks(const struct flight_window *window)
{
    for (size_t i = 0; i < window->count; i++)
        if (window->records[i].kind == RECORDER_TASK)
            return true;
    return false;
}

static void note_writer(struct flight_index *index, const struct recorder_record *task)
{
    const uint32_t pid = recorder_high(task->value);
    if (task->flags == RECORDER_TASK_FINISHED && recorder_low(task->value) == RECORDER_BY_WRITE &&
        !flight_index_has_jobs_by_write(index, pid))
        index->writers[index->writer_count++] = pid;
}

void flight_index_free(struct flight_index *index)
{
    if (!index)
        return;
    flight_lists_clear(&index->threads);
    flight_lists_clear(&index->sockets);
    flight_lists_clear(&index->tasks);
    futex_words_free(index->words);
    held_locks_free(index->held);
    free(index->searches_left);
    free(index->record_sockets);
    free(index->own_records);
    free(index);
}

int flight_index_new(const struct flight_window *window, struct flight_index **ret)
{
    _cleanup_(flight_index_freep) struct flight_index *index = calloc(1, sizeof(*index));
    if (!index)
        return -ENOMEM;
    if (control_frames_are_in(window)) {
        if (control_frames_remove(window, &index->without_control, &index->own_records) < 0)
            return -ENOMEM;
        window = &index->without_control;
    }
    index->window = window;
    index->searches_left = calloc(1, sizeof(*index->searches_left));
    index->record_sockets = calloc(window->count + 1, sizeof(*index->record_sockets));
    if (!index->searches_left || !index->record_sockets)
        return -ENOMEM;
    if (flight_lists_fill(&index->threads, window, thread_entries) < 0 ||
        flight_lists_fill(&index->sockets, window, socket_entries) < 0 ||
        (has_tasks(window) && flight_lists_fill(&index->tasks, window, task_entries) < 0))
        return -ENOMEM;
    if (futex_words_new(window, &index->words) < 0 || held_locks_new(window, &index->held) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < index->threads.count; i++) {
        struct flight_list *thread = &index->threads.lists[i];
        struct flight_event *events = index->threads.events + (thread->events - index->threads.events);
        follow_thread(thread, events);
        link_operations(thread, events);
        thread->pid = find_pid(thread);
        thread->is_marking = has_marked_sends(thread);
    }
    for (size_t i = 0; i < index->sockets.count; i++) {
        struct flight_list *socket = &index->sockets.lists[i];
        struct flight_event *events = index->sockets.events + (socket->events - index->sockets.events);
        link_operations(socket, events);
        link_sends(socket, events);
        socket->is_served = is_served(index, socket);
        index->has_arrivals |= socket->has_arrivals;
        for (size_t k = 0; k < socket->count; k++)
            index->record_sockets[events[k].record - window->records] = socket->number + 1;
    }
    for (size_t i = 0; i < index->tasks.count; i++) {
        const struct flight_list *task = &index->tasks.lists[i];
        link_replies(index, task, index->tasks.events + (task->events - index->tasks.events));
        for (size_t k = 0; k < task->count; k++)
            note_writer(index, task->events[k].record);
    }
    *ret = take_ptr(index);
    return 0;
}

const struct flight_window *flight_index_window(const struct flight_index *index)
{
    return index->window;
}

bool flight_index_has_arrivals(const struct flight_index *index)
{
    return index->has_arrivals;
}

const struct held_locks *flight_index_held_locks(const struct flight_index *index)
{
    return index->held;
}

const struct flight_list *flight_index_thread(const struct flight_index *index, uint32_t tid)
{
    return flight_lists_find(&index->threads, tid);
}

const struct flight_list *flight_index_socket(const struct flight_index *index, uint64_t cookie)
{
    return flight_lists_find(&index->sockets, cookie);
}

const struct flight_list *flight_index_task(const struct flight_index *index, uint32_t pid, uint64_t id)
{
    return flight_lists_find(&index->tasks, task_key(pid, id));
}

bool flight_index_has_jobs_by_write(const struct flight_index *index, uint32_t pid)
{
    size_t i = 0;
    while (i < index->writer_count && index->writers[i] != pid)
        i++;
    return i < index->writer_count || index->writer_count == WRITERS_MAX;
}

const struct flight_list *flight_index_tasks_of(const struct flight_index *index, uint32_t tid)
{
    return flight_lists_find(&index->tasks, tid);
}

const struct flight_list *flight_record_socket(const struct flight_index *index, const struct recorder_record *record)
{
    const uint32_t number = index->record_sockets[record - index->window->records];
    return number ? &index->sockets.lists[number - 1] : NULL;
}

size_t flight_index_thread_count(const struct flight_index *index)
{
    return index->threads.count;
}

const struct flight_list *flight_index_thread_at(const struct flight_index *index, size_t number)
{
    return &index->threads.lists[number];
}

void flight_index_start_searches(const struct flight_index *index)
{
    *index->searches_left = SEARCH_MAX;
}

bool flight_index_spend(const struct flight_index *index)
{
    if (!*index->searches_left)
        return false;
    --*index->searches_left;
    return true;
}

bool flight_index_is_spent(const struct flight_index *index)
{
    return !*index->searches_left;
}

size_t flight_window_since(const struct flight_window *window, uint64_t t_ns)
{
    size_t low = 0, high = window->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (window->records[middle].time_ns < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t flight_operation_before(const struct flight_list *list, uint64_t t_ns)
{
    const uint32_t before = flight_list_before(list, t_ns);
    return before == FLIGHT_NONE ? FLIGHT_NONE : list->events[before].operation;
}

uint32_t flight_previous_operation(const struct flight_list *list, uint32_t i)
{
    return i ? list->events[i - 1].operation : FLIGHT_NONE;
}

/* Narrows [low, high], between which a search for `t` ends, from the last search's end outwards. */
static void narrow_search(const struct flight_list *list, uint64_t t_ns, size_t *low, size_t *high)
{
    const size_t from = *list->hint;
    size_t step = 1;
    if (from < list->count && list->events[from].record->time_ns < t_ns) {
        for (; from + step < list->count && list->events[from + step].record->time_ns < t_ns; step *= 2)
            *low = from + step + 1;
        *high = from + step < list->count ? from + step : list->count;
        return;
    }
    *high = from;
    for (; step <= from && list->events[from - step].record->time_ns >= t_ns; step *= 2)
        *high = from - step;
    *low = step <= from ? from - step + 1 : 0;
}

uint32_t flight_list_before(const struct flight_list *list, uint64_t t_ns)
{
    if (!list)
        return FLIGHT_NONE;
    size_t low = 0, high = list->count; /* events below `low` are before t, those from `high` on are not */
    narrow_search(list, t_ns, &low, &high);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list->events[middle].record->time_ns < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    *list->hint = (uint32_t)low;
    return low ? (uint32_t)low - 1 : FLIGHT_NONE;
}

/* The last switch away at or before this event. */
static const struct recorder_record *last_leave(const struct flight_list *thread, uint32_t at)
{
    for (uint32_t i = at; i != FLIGHT_NONE; i--)
        if (thread->events[i].role == FLIGHT_OUT)
            return thread->events[i].record;
        else if (thread->events[i].role == FLIGHT_IN)
            break;
    return NULL;
}

struct thread_span flight_thread_span(const struct flight_list *thread, uint64_t t_ns)
{
    const uint32_t at = flight_list_before(thread, t_ns);
    if (at == FLIGHT_NONE)
        return (struct thread_span){.state = thread->first_state};
    const struct flight_event *e = &thread->events[at];
    struct thread_span span = {.state = e->state};
    if (e->since != FLIGHT_NONE) {
        span.began = thread->events[e->since].record;
        span.start_ns = span.began->time_ns;
        if (e->state == THREAD_RUNNABLE || e->state == THREAD_BLOCKED)
            span.left = last_leave(thread, e->since);
    }
    if (e->state == THREAD_RUNNABLE && e->woken != FLIGHT_NONE)
        span.woken = thread->events[e->woken].record;
    return span;
}

const struct recorder_record *flight_thread_wake_up(const struct flight_list *thread, uint64_t t_ns)
{
    const uint32_t before = flight_list_before(thread, t_ns);
    const size_t at = before == FLIGHT_NONE ? 0 : (size_t)before + 1;
    return at < thread->count && thread->events[at].role == FLIGHT_WOKEN ? thread->events[at].record : NULL;
}

bool flight_threads_share_process(const struct flight_list *a, const struct flight_list *b)
{
    return !a->pid || !b->pid || a->pid == b->pid;
}

bool flight_thread_is_held_lock(const struct flight_index *index, uint32_t tid, uint64_t word)
{
    const struct flight_list *thread = flight_lists_find(&index->threads, tid);
    return thread && held_locks_have_word(index->held, thread->pid, word);
}

bool flight_thread_is_locking(const struct flight_index *index, uint32_t tid, uint64_t word)
{
    return flight_thread_is_held_lock(index, tid, word) || futex_words_are_lock(index->words, tid, word);
}
