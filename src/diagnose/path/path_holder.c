/* Follows the threads that a request's thread waited for; see path_holder.h. */
#include "diagnose/path/path_holder.h"

#include "diagnose/flight/held_locks.h"
#include "diagnose/path/path_wait.h"
#include "diagnose/path/request_work.h"

#include <sys/syscall.h>

#define ROUNDS_MAX 1024
#define ROUND_NS   200000 /* a thread that runs for less between two waits only tried the lock again */

/* The request that the thread worked for at `t`, by the last one that it touched; 0: none. */
static uint64_t request_of(const struct flight_index *index, const struct flight_list *thread, uint64_t t_ns)
{
    for (uint32_t i = flight_operation_before(thread, t_ns); i != FLIGHT_NONE && flight_index_spend(index);
         i = flight_previous_operation(thread, i))
        if (request_work_mark(index, &thread->events[i], 0) == WORK_FOREIGN)
            return thread->events[i].role == FLIGHT_RECEIVES ? thread->events[i].record->object : 0;
    return 0;
}

static struct path_segment segment_of(const struct holder_walk *walk, const struct flight_list *thread,
                                      const struct thread_span *span, uint64_t t_ns)
{
    static const char *const held[THREAD_STATES] = {"the holder: not known", "the holder was running",
                                                    "the holder was waiting for a CPU", "the holder slept"};
    static const char *const held_gil[THREAD_STATES] = {
        "the holder of Python's GIL: not known", "the holder of Python's GIL was running",
        "the holder of Python's GIL was waiting for a CPU", "the holder of Python's GIL slept"};
    static const char *const awaited[THREAD_STATES] = {"its activity is not known", "it was running",
                                                       "it was waiting for a CPU", "it slept"};
    struct path_segment s = {.kind = REQUEST_PART_CPU,
                             .tid = (uint32_t)thread->key,
                             .pid = thread->pid,
                             .syscall = RECORDER_NO_SYSCALL,
                             .reason = ""};
    if (span->state == THREAD_RUNNABLE)
        s = path_run_queue_segment(thread, span);
    s.is_inferred = walk->is_inferred || walk->kind == REQUEST_PART_UNATTRIBUTED;
    if (span->state == THREAD_BLOCKED && span->left) {
        s.syscall = span->left->syscall;
        s.object = span->left->object;
        if (path_wait_source(span->left, span->woken, &s) == WAIT_ENDED_BY_THREAD)
            s.kind = REQUEST_PART_LOCK;
    }
    if (span->state == THREAD_UNKNOWN || (span->state == THREAD_BLOCKED && !span->left))
        s.kind = REQUEST_PART_UNATTRIBUTED;
    if (s.kind == REQUEST_PART_UNATTRIBUTED && !s.reason[0])
        s.reason = "what this thread did is not known";
    if (walk->kind == REQUEST_PART_LOCK)
        s.reason = s.kind == REQUEST_PART_DISK ? "the holder waited for a disk"
                   : walk->is_gil              ? held_gil[span->state]
                                               : held[span->state];
    else if (walk->kind != REQUEST_PART_UNATTRIBUTED)
        s.reason = s.kind == REQUEST_PART_DISK ? "it waited for a disk" : awaited[span->state];
    if (walk->kind != REQUEST_PART_UNATTRIBUTED)
        s.kind = walk->kind;
    s.has_gil = walk->is_gil && span->state == THREAD_RUNNING;
    s.for_tid = walk->waiter;
    s.for_syscall = walk->left ? walk->left->syscall : RECORDER_NO_SYSCALL;
    s.for_object = walk->left ? walk->left->object : 0;
    s.owner_id = request_of(walk->index, thread, t_ns);
    s.owner = s.owner_id ? REQUEST_OWNER_OTHER : walk->owner;
    return s;
}

/* The thread that ended this wait, to go on with; NULL: none, or the wait is explained by itself. */
static const struct flight_list *holder_of(const struct holder_walk *walk, const struct thread_span *wait)
{
    struct path_segment s = {.syscall = wait->left ? wait->left->syscall : RECORDER_NO_SYSCALL};
    if (path_wait_source(wait->left, wait->woken, &s) != WAIT_ENDED_BY_THREAD)
        return NULL;
    return flight_index_thread(walk->index, recorder_low(wait->woken->value));
}

/* ---- locks whose holders are recorded ---- */

/* Whether the time is part of a wait for a lock. */
static bool is_followed(const struct holder_walk *walk)
{
    return walk->kind != REQUEST_PART_UNATTRIBUTED;
}

/* Returns since when the thread had been awake at `t_ns`, not before `from_ns`; `t_ns` if it slept until then. */
static uint64_t awake_since(const struct flight_index *index, const struct flight_list *thread, uint64_t from_ns,
                            uint64_t t_ns)
{
    while (t_ns > from_ns && flight_index_spend(index)) {
        const struct thread_span span = flight_thread_span(thread, t_ns);
        if (span.state == THREAD_BLOCKED || span.state == THREAD_UNKNOWN)
            break;
        t_ns = span.start_ns;
    }
    return t_ns > from_ns ? t_ns : from_ns;
}

/* Returns when the thread first slept in [from_ns, t_ns); `t_ns` if it did not. */
static uint64_t first_sleep(const struct flight_index *index, const struct flight_list *thread, uint64_t from_ns,
                            uint64_t t_ns)
{
    uint64_t first_ns = t_ns;
    while (t_ns > from_ns && flight_index_spend(index)) {
        const struct thread_span span = flight_thread_span(thread, t_ns);
        t_ns = span.start_ns;
        if (span.state == THREAD_BLOCKED || span.state == THREAD_UNKNOWN)
            first_ns = t_ns;
    }
    return first_ns > from_ns ? first_ns : from_ns;
}

/* Adds the time from `start_ns` on, in which the thread had the lock and was awake. */
static void add_holder(const struct holder_walk *walk, const struct flight_list *thread, uint64_t start_ns)
{
    while (walk->out->next_end_ns > start_ns && !walk->out->is_full) {
        const uint64_t t_ns = walk->out->next_end_ns;
        const struct thread_span span = flight_thread_span(thread, t_ns);
        struct path_segment s = segment_of(walk, thread, &span, t_ns);
        s.start_ns = span.start_ns > start_ns ? span.start_ns : start_ns;
        path_segments_add(walk->out, &s);
        if (walk->out->next_end_ns == t_ns)
            break;
    }
}

/* The thread that had the lock when `r` was written had lost it by `start_ns`. The next holder is the thread that
 * waited for the lock, since it was woken, if it has not slept since. Until it was woken, the holder is not known. */
static void add_next_holder(const struct holder_walk *walk, const struct recorder_record *r, uint64_t start_ns)
{
    const struct flight_list *next = r && r->tid != walk->waiter ? flight_index_thread(walk->index, r->tid) : NULL;
    const uint64_t end_ns = walk->out->next_end_ns;
    const uint64_t since_ns = next ? awake_since(walk->index, next, start_ns, end_ns) : end_ns;
    struct holder_walk inferred = *walk;
    inferred.is_inferred = true;
    if (since_ns < end_ns)
        add_holder(&inferred, next, since_ns);
    path_segments_add(walk->out, &(struct path_segment){.start_ns = start_ns,
                                                        .kind = walk->kind,
                                                        .tid = walk->waiter,
                                                        .owner = walk->owner,
                                                        .is_inferred = true,
                                                        .syscall = RECORDER_NO_SYSCALL,
                                                        .reason = "the holder is not known"});
}

/* A sleeping thread does not have such a lock. So the holder of a record has the lock until it sleeps, and the holder
 * of the next record has had it since that thread was last woken. */
bool path_holder_add_held(const struct holder_walk *walk, const struct recorder_record *left, uint32_t tid,
                          uint64_t from_ns, uint64_t end_ns)
{
    const struct held_locks *locks = flight_index_held_locks(walk->index);
    struct holder_walk of_gil = *walk; /* the holders of other locks are not recorded */
    const struct flight_list *holder = flight_index_thread(walk->index, tid);
    uint64_t t_ns = end_ns;
    if (!left || left->syscall != SYS_futex || !held_locks_have_word(locks, recorder_high(left->value), left->object))
        return false;
    of_gil.is_gil = true;
    while (t_ns > from_ns && !flight_index_is_spent(walk->index) && !walk->out->is_full) {
        const struct recorder_record *r = held_locks_before(locks, recorder_high(left->value), left->object, t_ns);
        const uint64_t start_ns = r && r->time_ns > from_ns ? r->time_ns : from_ns;
        const struct flight_list *before = r ? flight_index_thread(walk->index, recorder_low(r->value)) : NULL;
        if (holder) {
            t_ns = awake_since(walk->index, holder, start_ns, t_ns);
            add_holder(&of_gil, holder, t_ns);
        }
        if (t_ns > start_ns)
            add_next_holder(&of_gil, r, before ? first_sleep(walk->index, before, start_ns, t_ns) : start_ns);
        if (before)
            add_holder(&of_gil, before, start_ns);
        t_ns = start_ns;
        holder = before;
    }
    return true;
}

/* ---- others ---- */

void path_holder_add(const struct holder_walk *walk, uint32_t tid, uint64_t from_ns, uint64_t end_ns)
{
    const struct flight_list *waiter = is_followed(walk) ? flight_index_thread(walk->index, walk->waiter) : NULL;
    if (waiter && path_holder_add_held(walk, flight_thread_span(waiter, end_ns).left, tid, from_ns, end_ns))
        return;
    const struct flight_list *thread = flight_index_thread(walk->index, tid);
    uint64_t t_ns = end_ns;
    while (thread && t_ns > from_ns && !walk->out->is_full && flight_index_spend(walk->index)) {
        struct thread_span span = flight_thread_span(thread, t_ns);
        uint64_t start_ns = span.start_ns > from_ns ? span.start_ns : from_ns;
        if (span.state == THREAD_RUNNABLE && span.woken) {
            struct path_segment s = segment_of(walk, thread, &span, t_ns);
            s.start_ns = start_ns;
            path_segments_add(walk->out, &s);
            t_ns = start_ns;
            if (t_ns <= from_ns)
                break;
            const struct flight_list *next = holder_of(walk, &span);
            const uint64_t slept_ns = span.left && span.left->time_ns > from_ns ? span.left->time_ns : from_ns;
            struct holder_walk holders = *walk;
            if (!is_followed(walk))
                holders.kind = REQUEST_PART_LOCK;
            if (path_holder_add_held(&holders, span.left, next ? (uint32_t)next->key : 0, slept_ns, t_ns)) {
                t_ns = slept_ns;
                continue;
            }
            if (next && next->key != walk->waiter && next != thread) {
                thread = next;
                continue;
            }
            span.state = THREAD_BLOCKED;
            start_ns = slept_ns;
        }
        struct path_segment s = segment_of(walk, thread, &span, t_ns);
        s.start_ns = start_ns;
        path_segments_add(walk->out, &s);
        t_ns = start_ns < t_ns ? start_ns : from_ns;
    }
    path_segments_add(walk->out, &(struct path_segment){.start_ns = from_ns,
                                                        .kind = walk->kind,
                                                        .tid = tid,
                                                        .for_tid = walk->waiter,
                                                        .owner = walk->owner,
                                                        .is_inferred = true,
                                                        .syscall = RECORDER_NO_SYSCALL,
                                                        .reason = "what this thread did is not known"});
}

uint64_t path_holder_wait_start(const struct flight_list *thread, uint64_t start_ns, uint64_t word)
{
    for (unsigned rounds = 0; rounds < ROUNDS_MAX; rounds++) {
        const struct thread_span run = flight_thread_span(thread, start_ns);
        if (run.state != THREAD_RUNNING || !run.began || start_ns - run.start_ns > ROUND_NS)
            break;
        const struct thread_span wait = flight_thread_span(thread, run.start_ns);
        if (wait.state != THREAD_RUNNABLE || !wait.woken || !wait.left || wait.left->syscall != SYS_futex ||
            !request_work_is_same_lock(wait.left->object, word))
            break;
        start_ns = wait.left->time_ns;
    }
    return start_ns;
}
