/* A table of the threads that sleep in calls that count, filled from switches; see slow_waits.h. */
#include "diagnose/slow_waits.h"

#include "diagnose/flight/flight_index.h"
#include "diagnose/flight/syscalls.h"
#include "diagnose/path/path_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define SLOTS    2048 /* a power of two */
#define OPEN_MAX 1024 /* half of it, so that searches are short */

/* A wait that has not ended. */
struct open_wait {
    uint64_t start_ns, file;
    uint32_t tid, pid; /* tid 0: free */
    int16_t syscall;
    uint8_t flags; /* of RECORDER_SWITCH */
};

struct slow_waits {
    uint64_t threshold_ns, lost;
    size_t count;
    struct open_wait slots[SLOTS]; /* by tid; the next free one if its own is taken */
};

int slow_waits_new(uint64_t threshold_ns, struct slow_waits **ret)
{
    struct slow_waits *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->threshold_ns = threshold_ns;
    *ret = w;
    return 0;
}

void slow_waits_free(struct slow_waits *w)
{
    free(w);
}

void slow_waits_forget(struct slow_waits *w)
{
    memset(w->slots, 0, sizeof(w->slots));
    w->count = 0;
}

uint64_t slow_waits_lost(const struct slow_waits *w)
{
    return w->lost;
}

/* ---- the table ---- */

static size_t home_of(uint32_t tid)
{
    return tid * 0x9e3779b1u >> 8 & (SLOTS - 1);
}

/* Its slot, or the free one where it would be. */
static size_t find_slot(const struct slow_waits *w, uint32_t tid)
{
    size_t slot = home_of(tid);
    while (w->slots[slot].tid && w->slots[slot].tid != tid)
        slot = (slot + 1) & (SLOTS - 1);
    return slot;
}

/* Moves the waits behind the slot up, so that searches find them without it. */
static void free_slot(struct slow_waits *w, size_t slot)
{
    for (size_t i = (slot + 1) & (SLOTS - 1); w->slots[i].tid; i = (i + 1) & (SLOTS - 1)) {
        const size_t distance = (i - home_of(w->slots[i].tid)) & (SLOTS - 1);
        if (distance < ((i - slot) & (SLOTS - 1)))
            continue;
        w->slots[slot] = w->slots[i];
        slot = i;
    }
    w->slots[slot].tid = 0;
    w->count--;
}

/* Takes the wait out. False: the thread has none. */
static bool take_wait(struct slow_waits *w, uint32_t tid, struct open_wait *ret)
{
    if (!w->count || !tid)
        return false;
    const size_t slot = find_slot(w, tid);
    if (!w->slots[slot].tid)
        return false;
    *ret = w->slots[slot];
    free_slot(w, slot);
    return true;
}

/* ---- which waits count ---- */

/* Calls that are made to wait, whatever the thread sleeps for. */
static bool waits_by_design(const struct recorder_record *left)
{
    const enum syscall_reason reason = syscall_reason(left->syscall);
    if (reason == SYSCALL_REASON_LOCK || reason == SYSCALL_REASON_SLEEP || path_wait_is_for_events(left))
        return true;
    switch (left->syscall) {
    case SYS_wait4:
    case SYS_waitid:
    case SYS_exit:
    case SYS_exit_group:
#if defined(SYS_vfork)
    case SYS_vfork:
#endif
        return true;
    default:
        return false;
    }
}

static bool counts(const struct recorder_record *left)
{
    if (left->syscall < 0 || left->flags & (RECORDER_PREEMPTED | RECORDER_DEAD | RECORDER_STOPPED) ||
        waits_by_design(left))
        return false;
    return left->flags & RECORDER_UNINTERRUPTIBLE || syscall_reason(left->syscall) == SYSCALL_REASON_DISK ||
           left->syscall == SYS_connect;
}

static bool is_open(int number)
{
#if defined(SYS_open)
    if (number == SYS_open || number == SYS_creat)
        return true;
#endif
    return number == SYS_openat || number == SYS_openat2;
}

static bool is_end_of_program(int number)
{
    return number == SYS_execve || number == SYS_execveat || number == SYS_exit || number == SYS_exit_group;
}

/* Whether the wake-up shows that the call waited for another thread, by its meaning: the open of a FIFO ends with the
 * open of its other end, or with a signal, which may be a timer's. */
static bool was_for_other(const struct open_wait *wait, const struct recorder_record *woken)
{
    const bool by_interrupt = woken->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ);
    if (is_open(wait->syscall) && !(wait->flags & RECORDER_UNINTERRUPTIBLE))
        return by_interrupt || is_open(woken->syscall) || path_wait_is_signal(woken);
    return (wait->syscall == SYS_clone || wait->syscall == SYS_clone3) && !by_interrupt &&
           is_end_of_program(woken->syscall);
}

/* ---- records ---- */

static void begin_wait(struct slow_waits *w, const struct recorder_record *left)
{
    if (w->count == OPEN_MAX) {
        w->lost++;
        return;
    }
    w->count++;
    w->slots[find_slot(w, left->tid)] = (struct open_wait){.start_ns = left->time_ns,
                                                           .tid = left->tid,
                                                           .pid = recorder_high(left->value),
                                                           .syscall = left->syscall,
                                                           .flags = left->flags};
}

static void follow_switch(struct slow_waits *w, const struct recorder_record *r)
{
    struct open_wait unended;
    take_wait(w, recorder_low(r->value), &unended); /* it runs: its wake-up came before it slept */
    take_wait(w, r->tid, &unended);                 /* it ran, though its return was not recorded */
    if (r->tid && counts(r))
        begin_wait(w, r);
}

/* Comes after its thread's switch, which has the same time. Pages that the thread has added may be of another file, or
 * of the device itself. */
static void note_file(struct slow_waits *w, const struct recorder_record *r)
{
    struct open_wait *wait = &w->slots[find_slot(w, r->tid)];
    if (wait->tid && wait->start_ns == r->time_ns && !(r->flags & RECORDER_ADDED_PAGES))
        wait->file = r->object;
}

static void end_wait(struct slow_waits *w, const struct recorder_record *woken, slow_waits_take *take, void *context)
{
    struct open_wait wait;
    if (!take_wait(w, woken->tid, &wait) || woken->time_ns - wait.start_ns < w->threshold_ns ||
        was_for_other(&wait, woken))
        return;
    const struct slow_wait slow = {.start_ns = wait.start_ns,
                                   .end_ns = woken->time_ns,
                                   .file = wait.file,
                                   .tid = wait.tid,
                                   .pid = wait.pid,
                                   .syscall = wait.syscall,
                                   .is_memory_stall = wait.flags & RECORDER_MEMSTALL};
    take(context, &slow);
}

void slow_waits_follow(struct slow_waits *w, const struct flight_window *window, uint64_t from_ns,
                       slow_waits_take *take, void *context)
{
    if (window->complete_from_ns > from_ns)
        slow_waits_forget(w);
    for (size_t i = flight_window_since(window, window->complete_from_ns); i < window->count; i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->kind == RECORDER_SWITCH)
            follow_switch(w, r);
        else if (r->kind == RECORDER_WAKING)
            end_wait(w, r, take, context);
        else if (r->kind == RECORDER_FILE)
            note_file(w, r);
    }
}
