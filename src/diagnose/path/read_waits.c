/* Walks back from wake-ups to reads; see read_waits.h. */
#include "diagnose/path/read_waits.h"

#include "diagnose/flight/flight_index.h"
#include "diagnose/path/path_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#define HASH_NONFATAL_OOM 1 /* before the first include of uthash.h */
#include <uthash.h>

#define ENTRIES_MAX 65536  /* of a table; further ones are left out of it */
#define HOPS_MAX    32     /* from thread to thread, of those that wait for each other */
#define STEPS_MAX   200000 /* of all walks in a window: some 100 ms */

/* ---- sums ---- */

struct entry_key {
    uint64_t first, second;
};

struct entry {
    struct entry_key key;
    size_t number;
    UT_hash_handle hh;
};

/* Sums in an array, found by their keys. */
struct table {
    struct entry *entries;
    char *sums;
    size_t count, room;
    bool is_full; /* something was left out */
};

/* A thread that slept at the end of the last window. */
struct sleeper {
    struct recorder_record left; /* its switch; time 0: it runs */
    uint64_t file;               /* file of a read; 0: no read, or not known */
    bool is_reading;
};

struct read_waits {
    struct table threads, pairs, files;
    struct table sleepers; /* by thread ID: their switch may be too old for the next window */
    uint64_t observed_ns, last_ns;
};

int read_waits_new(struct read_waits **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

static void clear_table(struct table *t)
{
    struct entry *entry, *next;
    HASH_ITER (hh, t->entries, entry, next) {
        HASH_DEL(t->entries, entry);
        free(entry);
    }
    free(t->sums);
    *t = (struct table){0};
}

void read_waits_free(struct read_waits *w)
{
    if (!w)
        return;
    clear_table(&w->threads);
    clear_table(&w->pairs);
    clear_table(&w->files);
    clear_table(&w->sleepers);
    free(w);
}

static bool has_room(struct table *t, size_t size)
{
    if (t->count < t->room)
        return true;
    const size_t room = t->room ? 2 * t->room : 64;
    char *sums = room <= ENTRIES_MAX ? realloc(t->sums, room * size) : NULL;
    if (!sums) {
        t->is_full = true;
        return false;
    }
    t->sums = sums;
    t->room = room;
    return true;
}

/* The sum of this key, `size` bytes, which begins as `*initial`. NULL: no memory, or there are too many. Valid until
 * the next call. */
static void *find_sum(struct table *t, uint64_t first, uint64_t second, const void *initial, size_t size)
{
    const struct entry_key key = {first, second};
    struct entry *entry = NULL;
    HASH_FIND(hh, t->entries, &key, sizeof(key), entry);
    if (entry)
        return t->sums + entry->number * size;
    entry = has_room(t, size) ? calloc(1, sizeof(*entry)) : NULL;
    if (!entry)
        return NULL;
    entry->key = key;
    entry->number = t->count;
    HASH_ADD(hh, t->entries, key, sizeof(entry->key), entry);
    if (!entry->hh.tbl) {
        free(entry);
        return NULL;
    }
    t->count++;
    return memcpy(t->sums + entry->number * size, initial, size);
}

/* Returns NULL if there is no such sum. */
static void *look_up_sum(const struct table *t, uint64_t first, uint64_t second, size_t size)
{
    const struct entry_key key = {first, second};
    struct entry *entry = NULL;
    HASH_FIND(hh, t->entries, &key, sizeof(key), entry);
    return entry ? t->sums + entry->number * size : NULL;
}

static uint64_t thread_key(uint32_t pid, uint32_t tid)
{
    return (uint64_t)pid << 32 | tid;
}

/* ---- what a thread sleeps for ---- */

/* System calls that wait for a file system to find something: none of its data is written. */
static bool is_lookup(int number)
{
    switch (number) {
    case SYS_openat:
    case SYS_openat2:
    case SYS_statx:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_getdents64:
    case SYS_readlinkat:
#if defined(__x86_64__)
    case SYS_open:
    case SYS_stat:
    case SYS_lstat:
    case SYS_newfstatat:
    case SYS_access:
    case SYS_getdents:
    case SYS_readlink:
#endif
        return true;
    default:
        return false;
    }
}

static bool is_read(int number)
{
    switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_readahead:
        return true;
    default:
        return false;
    }
}

/* Returns the record of the file that a thread which was switched away by `left` waits for: the record of its system
 * call if there is one, otherwise the record of the pages which it added. NULL if there is no record. */
static const struct recorder_record *file_of(const struct flight_window *window, const struct recorder_record *left)
{
    const struct recorder_record *found = NULL;
    for (size_t i = flight_window_since(window, left->time_ns);
         i < window->count && window->records[i].time_ns == left->time_ns; i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->kind == RECORDER_FILE && r->tid == left->tid && (!found || found->flags & RECORDER_ADDED_PAGES))
            found = r;
    }
    return found;
}

/* Whether the thread slept for a read, or to find a file. Of a page fault, which has no system call, only pages that it
 * brought into the page cache show it. */
static bool is_for_read(const struct flight_window *window, const struct recorder_record *left, uint64_t *ret_file)
{
    *ret_file = 0;
    if (!left || left->flags & RECORDER_STOPPED)
        return false;
    const struct recorder_record *file = file_of(window, left);
    *ret_file = file ? file->object : 0;
    if (is_lookup(left->syscall))
        return true;
    if (left->syscall == RECORDER_NO_SYSCALL)
        return file != NULL;
    return is_read(left->syscall) && (file || left->flags & RECORDER_IO_WAIT);
}

/* ---- walks ---- */

/* A thread, and since when another one waited for it. */
struct awaited {
    const struct flight_list *thread;
    uint64_t since_ns;
    bool is_inferred; /* that it waited for this one */
};

struct walk {
    struct read_waits *sums;
    const struct flight_index *index;
    bool (*is_selected)(void *context, uint32_t pid);
    void *context;
    uint64_t complete_ns;
    unsigned steps_left;
    /* Of the thread whose waits are followed. */
    struct read_waits_thread waiter;
    /* The chain of awaited threads: each one waited for the next one. The walk follows the last one until `t_ns`, and,
     * before the wait for it, the previous one. */
    struct awaited awaited[HOPS_MAX];
    unsigned depth;
    uint64_t t_ns;
};

static const struct awaited *last_awaited(const struct walk *w)
{
    return &w->awaited[w->depth - 1];
}

static void add_read(struct walk *w, uint64_t start_ns, uint64_t file)
{
    const struct read_waits_thread *waiter = &w->waiter;
    const struct awaited *reader = last_awaited(w);
    const struct read_waits_pair pair = {waiter->tid, waiter->pid, (uint32_t)reader->thread->key, reader->thread->pid,
                                         0};
    const struct read_waits_file of_file = {.file = file, .tid = waiter->tid, .pid = waiter->pid};
    const uint64_t ns = w->t_ns - start_ns;
    struct read_waits_pair *pair_sum = find_sum(&w->sums->pairs, thread_key(pair.pid, pair.tid),
                                                thread_key(pair.reader_pid, pair.reader), &pair, sizeof(pair));
    struct read_waits_file *file_sum =
        file ? find_sum(&w->sums->files, file, thread_key(pair.pid, pair.tid), &of_file, sizeof(of_file)) : NULL;
    if (pair_sum)
        pair_sum->ns += ns;
    if (file_sum) {
        file_sum->ns += ns;
        file_sum->reader_pid = pair.reader_pid;
    }
    w->waiter.for_reads_ns += ns;
    w->waiter.inferred_ns += reader->is_inferred ? ns : 0;
}

/* Loopback's packets are received in an interrupt of the sender's CPU, on behalf of the sender, as it sends. */
static bool is_by_sender(const struct walk *w, const struct recorder_record *left, const struct recorder_record *woken)
{
    if (woken->flags != RECORDER_IN_SOFTIRQ || !path_wait_is_send(woken->syscall) ||
        !(path_wait_is_receive(left->syscall) || path_wait_is_for_events(left)))
        return false;
    const struct flight_list *interrupted = flight_index_thread(w->index, recorder_low(woken->value));
    return interrupted && w->is_selected(w->context, interrupted->pid);
}

enum waker { WAKER_THREAD, WAKER_INFERRED, WAKER_OTHER, WAKER_UNKNOWN };

static enum waker classify_waker(const struct walk *w, const struct recorder_record *left,
                                 const struct recorder_record *woken)
{
    struct path_segment wait = {0};
    if (!left && woken && path_wait_is_creation(woken)) /* before that, the thread was not there */
        return WAKER_THREAD;
    if (!left || !woken)
        return WAKER_UNKNOWN;
    if (is_by_sender(w, left, woken))
        return WAKER_INFERRED;
    if (path_wait_source(left, woken, &wait) == WAIT_ENDED_BY_THREAD)
        return WAKER_THREAD;
    const bool is_interrupt = woken->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ);
    const bool is_explained =
        wait.kind != REQUEST_PART_UNATTRIBUTED && (wait.kind != REQUEST_PART_OTHER || recorder_low(woken->value));
    return is_interrupt || is_explained ? WAKER_OTHER : WAKER_UNKNOWN;
}

/* `t` is when a thread was woken that had waited since `since`: follows the thread that woke it. False: something else
 * did, or it is not known; that is added. */
static bool follow_waker(struct walk *w, const struct recorder_record *left, const struct recorder_record *woken,
                         uint64_t since_ns)
{
    const enum waker waker = classify_waker(w, left, woken);
    const bool is_thread = waker == WAKER_THREAD || waker == WAKER_INFERRED;
    const struct flight_list *thread = is_thread ? flight_index_thread(w->index, recorder_low(woken->value)) : NULL;
    if (thread && w->depth < HOPS_MAX) {
        const bool is_inferred = waker == WAKER_INFERRED || (w->depth && last_awaited(w)->is_inferred);
        w->awaited[w->depth++] = (struct awaited){thread, since_ns, is_inferred};
        return true;
    }
    if (waker != WAKER_OTHER)
        w->waiter.unknown_ns += w->t_ns - since_ns;
    return false;
}

/* Returns the switch of `span` that put a thread to sleep. It may be older than the window. NULL: not known. */
static const struct recorder_record *left_of(const struct walk *w, const struct flight_list *list,
                                             const struct thread_span *span, bool *ret_is_read, uint64_t *ret_file)
{
    *ret_is_read = false;
    if (span->left) {
        *ret_is_read = is_for_read(flight_index_window(w->index), span->left, ret_file);
        return span->left;
    }
    const struct sleeper *s = look_up_sum(&w->sums->sleepers, list->key, 0, sizeof(*s));
    if (!s || !s->left.time_ns)
        return NULL;
    *ret_is_read = s->is_reading;
    *ret_file = s->file;
    return &s->left;
}

/* Goes back to `start`, or follows another thread. */
static void step_back(struct walk *w)
{
    const struct awaited *awaited = last_awaited(w);
    const struct thread_span span = flight_thread_span(awaited->thread, w->t_ns);
    const uint64_t start_ns = span.start_ns > awaited->since_ns ? span.start_ns : awaited->since_ns;
    if (span.state == THREAD_UNKNOWN) {
        w->waiter.unknown_ns += w->t_ns - start_ns;
    } else if (span.state == THREAD_BLOCKED) {
        uint64_t file;
        bool is_read;
        const struct recorder_record *left = left_of(w, awaited->thread, &span, &is_read, &file);
        if (is_read)
            add_read(w, start_ns, file);
        else if (follow_waker(w, left, flight_thread_wake_up(awaited->thread, w->t_ns), start_ns))
            return;
    }
    w->t_ns = start_ns;
}

/* Whether the thread waits for a process to end, as a shell does: not for data. */
static bool is_for_child(const struct recorder_record *left)
{
    return left && (left->syscall == SYS_wait4 || left->syscall == SYS_waitid);
}

/* The thread slept since `left`, at `since`, until it was woken by `woken`. */
static void follow_wait(struct walk *w, const struct recorder_record *left, uint64_t since_ns,
                        const struct recorder_record *woken)
{
    const uint64_t from_ns = since_ns > w->complete_ns ? since_ns : w->complete_ns;
    w->t_ns = woken->time_ns;
    w->depth = 0;
    if (from_ns >= w->t_ns || is_for_child(left))
        return;
    if (!follow_waker(w, left, woken, from_ns))
        return;
    if (left && since_ns < from_ns)
        w->waiter.unknown_ns += from_ns - since_ns;
    while (w->depth && w->steps_left) {
        w->steps_left--;
        if (w->t_ns > last_awaited(w)->since_ns)
            step_back(w);
        else
            w->depth--;
    }
    if (w->t_ns > from_ns)
        w->waiter.unknown_ns += w->t_ns - from_ns;
}

/* The thread slept until `woken`. */
static void add_wait(struct walk *w, const struct flight_list *list, const struct recorder_record *woken)
{
    const struct thread_span span = flight_thread_span(list, woken->time_ns);
    uint64_t file;
    bool is_read;
    if (span.state != THREAD_BLOCKED || (!span.left && path_wait_is_creation(woken)))
        return;
    const struct recorder_record *left = left_of(w, list, &span, &is_read, &file);
    if (!is_read)
        follow_wait(w, left, left ? left->time_ns : 0, woken);
}

/* What the next window may no longer have of a thread that sleeps at `t`. Also of those that the selected ones wait
 * for.
 */
static void note_sleeper(const struct walk *w, const struct flight_list *list, uint64_t t_ns)
{
    static const struct sleeper none;
    const struct thread_span span = flight_thread_span(list, t_ns);
    struct sleeper *s = look_up_sum(&w->sums->sleepers, list->key, 0, sizeof(*s));
    if (span.state == THREAD_BLOCKED && !span.left)
        return; /* it has slept all the time */
    if (span.state != THREAD_BLOCKED) {
        if (s)
            *s = none;
        return;
    }
    s = s ?: find_sum(&w->sums->sleepers, list->key, 0, &none, sizeof(*s));
    if (s) {
        s->left = *span.left;
        s->is_reading = is_for_read(flight_index_window(w->index), span.left, &s->file);
    }
}

static uint64_t overlap_ns(uint64_t start_ns, uint64_t end_ns, uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t start = start_ns > from_ns ? start_ns : from_ns, end = end_ns < to_ns ? end_ns : to_ns;
    return end > start ? end - start : 0;
}

static void add_thread(struct walk *w, const struct flight_list *list, uint64_t from_ns, uint64_t to_ns)
{
    enum thread_state state = list->first_state;
    uint64_t since_ns = from_ns;
    for (size_t i = 0; i < list->count; i++) {
        const struct flight_event *e = &list->events[i];
        const uint64_t t_ns = e->record->time_ns;
        if (state == THREAD_RUNNING)
            w->waiter.ran_ns += overlap_ns(since_ns, t_ns, from_ns, to_ns);
        if (e->role == FLIGHT_WOKEN && state == THREAD_BLOCKED && t_ns > from_ns && t_ns <= to_ns)
            add_wait(w, list, e->record);
        state = e->state;
        since_ns = t_ns;
    }
    if (state == THREAD_RUNNING)
        w->waiter.ran_ns += overlap_ns(since_ns, to_ns, from_ns, to_ns);
}

/* From its switch before this window, if it only woke up in it. 0: not known. */
static uint32_t pid_of(const struct read_waits *sums, const struct flight_list *list)
{
    const struct sleeper *s = list->pid ? NULL : look_up_sum(&sums->sleepers, list->key, 0, sizeof(*s));
    return s ? recorder_high(s->left.value) : list->pid;
}

void read_waits_add(struct read_waits *sums, const struct flight_index *index, uint64_t from_ns, uint64_t to_ns,
                    bool (*is_selected)(void *context, uint32_t pid), void *context)
{
    const struct flight_window *window = flight_index_window(index);
    struct walk w = {.sums = sums,
                     .index = index,
                     .is_selected = is_selected,
                     .context = context,
                     .complete_ns = window->complete_from_ns,
                     .steps_left = STEPS_MAX};
    if (from_ns < w.complete_ns)
        from_ns = w.complete_ns;
    if (from_ns >= to_ns)
        return;
    if (from_ns > sums->last_ns)
        clear_table(&sums->sleepers); /* they may have run and slept again meanwhile */
    sums->observed_ns += to_ns - from_ns;
    sums->last_ns = to_ns;
    for (size_t i = 0; i < flight_index_thread_count(index); i++) {
        const struct flight_list *list = flight_index_thread_at(index, i);
        const uint32_t pid = pid_of(sums, list);
        if (!pid || !list->count || !is_selected(context, pid))
            continue;
        w.waiter = (struct read_waits_thread){.tid = (uint32_t)list->key, .pid = pid};
        struct read_waits_thread *sum =
            find_sum(&sums->threads, thread_key(pid, w.waiter.tid), 0, &w.waiter, sizeof(*sum));
        if (!sum)
            continue;
        w.waiter = *sum;
        add_thread(&w, list, from_ns, to_ns);
        *sum = w.waiter;
    }
    for (size_t i = 0; i < flight_index_thread_count(index); i++)
        note_sleeper(&w, flight_index_thread_at(index, i), to_ns);
}

/* ---- results ---- */

const struct read_waits_thread *read_waits_threads(const struct read_waits *w, size_t *ret_count)
{
    *ret_count = w->threads.count;
    return (const struct read_waits_thread *)(const void *)w->threads.sums;
}

const struct read_waits_pair *read_waits_pairs(const struct read_waits *w, size_t *ret_count)
{
    *ret_count = w->pairs.count;
    return (const struct read_waits_pair *)(const void *)w->pairs.sums;
}

const struct read_waits_file *read_waits_files(const struct read_waits *w, size_t *ret_count, bool *ret_is_complete)
{
    *ret_count = w->files.count;
    *ret_is_complete = !w->files.is_full;
    return (const struct read_waits_file *)(const void *)w->files.sums;
}

uint64_t read_waits_observed_ns(const struct read_waits *w)
{
    return w->observed_ns;
}
