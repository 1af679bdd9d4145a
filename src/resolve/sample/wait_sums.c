/* Hash table of threads by TID, each with its stacks and one sum; see wait_sums.h. */
#include "resolve/sample/wait_sums.h"

#include "base/turn_time.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096 /* a power of two */

struct waiter {
    struct waiter *next;
    uint32_t pid, tid;
    struct stack_record *stack; /* NULL: none received or stored */
    struct stack_record *waker; /* likewise */
    struct off_cpu_wait wait;   /* the last wait of `sum`, if it is not empty */
    uint64_t reported_start_ns, reported_ns,
        reported_queued_ns; /* the newest wait: its start, and how much of it was reported already */
    struct wait_sum sum;
};

struct wait_sums {
    size_t bytes, max_bytes;
    void (*take)(void *context, const struct wait_sum *sum);
    void *context;
    size_t next_bucket; /* where wait_sums_flush_all goes on */
    struct waiter *buckets[BUCKETS];
};

int wait_sums_new(size_t max_bytes, void (*take)(void *context, const struct wait_sum *sum), void *context,
                  struct wait_sums **ret)
{
    struct wait_sums *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->max_bytes = max_bytes;
    s->take = take;
    s->context = context;
    *ret = s;
    return 0;
}

static void drop_record(struct wait_sums *s, struct stack_record **place)
{
    if (*place)
        s->bytes -= (*place)->h.size_bytes;
    free(*place);
    *place = NULL;
}

static const struct stack_record *stack_of(const struct waiter *w, const struct off_cpu_wait *wait)
{
    return wait->stack_ns && w->stack && w->stack->h.time_ns == wait->stack_ns ? w->stack : NULL;
}

/* False: there was nothing to emit. */
static bool flush_waiter(struct wait_sums *s, struct waiter *w)
{
    if (!w->sum.waits && !w->sum.queued)
        return false;
    w->sum.wait = &w->wait;
    w->sum.stack = stack_of(w, &w->wait);
    w->sum.waker = w->wait.waker > OFF_CPU_WAKER_UNSEEN && w->waker && (uint32_t)w->waker->h.time_ns == w->wait.waker_ns
                       ? w->waker
                       : NULL;
    s->take(s->context, &w->sum);
    w->sum = (struct wait_sum){0};
    return true;
}

static void remove_waiter(struct wait_sums *s, struct waiter **place)
{
    struct waiter *w = *place;
    *place = w->next;
    drop_record(s, &w->stack);
    drop_record(s, &w->waker);
    s->bytes -= sizeof(*w);
    free(w);
}

void wait_sums_free(struct wait_sums *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (s->buckets[i])
            remove_waiter(s, &s->buckets[i]);
    free(s);
}

static struct waiter *find_or_add_waiter(struct wait_sums *s, uint32_t pid, uint32_t tid)
{
    struct waiter **bucket = &s->buckets[tid & (BUCKETS - 1)], *w;
    for (w = *bucket; w; w = w->next)
        if (w->tid == tid && w->pid == pid)
            return w;
    if (s->bytes + sizeof(*w) > s->max_bytes)
        return NULL;
    w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    *w = (struct waiter){.next = *bucket, .pid = pid, .tid = tid};
    s->bytes += sizeof(*w);
    *bucket = w;
    return w;
}

/* Replaces a stored record. The current sum is emitted first, because it belongs to the old record. */
static int replace_record(struct wait_sums *s, struct waiter *w, struct stack_record **place,
                          const struct stack_record *record)
{
    flush_waiter(s, w);
    drop_record(s, place);
    if (s->bytes + record->h.size_bytes > s->max_bytes)
        return -ENOSPC;
    *place = malloc(record->h.size_bytes);
    if (!*place)
        return -ENOMEM;
    memcpy(*place, record, record->h.size_bytes);
    s->bytes += record->h.size_bytes;
    return 0;
}

/* Replaces a stack with a more complete one of the same wait. The thread may wait for hours, so such stacks may use
 * only half of the memory; the rest is for short waits. */
static int replace_stack(struct wait_sums *s, struct waiter *w, const struct stack_record *record)
{
    return s->bytes - w->stack->h.size_bytes + record->h.size_bytes > s->max_bytes / 2
               ? -ENOSPC
               : replace_record(s, w, &w->stack, record);
}

int wait_sums_stack(struct wait_sums *s, const struct stack_record *record)
{
    struct waiter *w = find_or_add_waiter(s, record->h.pid, record->h.tid);
    if (!w)
        return -ENOSPC;
    const uint64_t last_ns = w->stack ? w->stack->h.time_ns : 0;
    if (record->h.time_ns < last_ns) /* delayed record: the thread already has a newer wait */
        return 0;
    return w->stack && record->h.time_ns == last_ns ? replace_stack(s, w, record)
                                                    : replace_record(s, w, &w->stack, record);
}

int wait_sums_waker(struct wait_sums *s, const struct stack_record *record)
{
    struct waiter *w = find_or_add_waiter(s, record->woken.pid, record->woken.tid);
    return w ? replace_record(s, w, &w->waker, record) : -ENOSPC;
}

static bool are_equal_waits(const struct off_cpu_wait *a, const struct off_cpu_wait *b)
{
    return a->stack_ns == b->stack_ns && a->syscall == b->syscall && a->object == b->object && a->state == b->state &&
           a->flags == b->flags && a->waker == b->waker && a->waker_ns == b->waker_ns && a->cgroup_id == b->cgroup_id &&
           memcmp(a->comm, b->comm, sizeof(a->comm)) == 0;
}

static void add_wait(struct wait_sum *sum, const struct off_cpu_wait *record)
{
    sum->waits += record->flags & OFF_CPU_PREEMPTED ? 0 : record->count;
    sum->waited_ns += record->weight_ns - record->queued_ns;
    sum->queued += record->queued_ns > 0 ? record->count : 0;
    sum->queued_ns += record->queued_ns;
}

static uint64_t subtract_saturating(uint64_t all, uint64_t part)
{
    return all > part ? all - part : 0;
}

/* Reduces a wait to the part that was not reported before, while it lasted. False: nothing is left. */
static bool subtract_reported(struct waiter *w, struct off_cpu_wait *wait)
{
    const bool is_same = w->reported_start_ns == wait->start_ns;
    const uint64_t reported_ns = is_same ? w->reported_ns : 0, reported_queued_ns = is_same ? w->reported_queued_ns : 0;
    if (is_same && wait->weight_ns <= reported_ns)
        return false;
    w->reported_start_ns = wait->start_ns;
    w->reported_ns = wait->weight_ns;
    w->reported_queued_ns = wait->queued_ns;
    wait->weight_ns -= reported_ns;
    wait->queued_ns = subtract_saturating(wait->queued_ns, reported_queued_ns);
    if (wait->queued_ns > wait->weight_ns) /* the previous report counted run-queue time as waiting */
        wait->queued_ns = wait->weight_ns;
    return true;
}

void wait_sums_add(struct wait_sums *s, const struct off_cpu_wait *record)
{
    struct off_cpu_wait wait = *record;
    struct waiter *w = find_or_add_waiter(s, record->h.pid, record->h.tid);
    if (!w) { /* no memory for a sum: emit the wait alone, and only when it is complete */
        struct wait_sum sum = {.wait = record};
        add_wait(&sum, record);
        if (!(record->flags & OFF_CPU_SO_FAR))
            s->take(s->context, &sum);
        return;
    }
    if (!subtract_reported(w, &wait))
        return;
    if (!are_equal_waits(&w->wait, &wait))
        flush_waiter(s, w);
    w->wait = wait;
    add_wait(&w->sum, &wait);
}

void wait_sums_flush(struct wait_sums *s, uint32_t pid)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct waiter *w = s->buckets[i]; w; w = w->next)
            if (w->pid == pid || (w->waker && w->waker->h.pid == pid))
                flush_waiter(s, w);
}

void wait_sums_flush_all(struct wait_sums *s)
{
    bool is_over = false;
    for (size_t i = 0; i < BUCKETS && !is_over; i++) {
        bool is_emitted = false;
        for (struct waiter *w = s->buckets[s->next_bucket]; w; w = w->next)
            is_emitted |= flush_waiter(s, w);
        s->next_bucket = (s->next_bucket + 1) % BUCKETS;
        is_over = is_emitted && turn_time_is_over();
    }
}

uint64_t wait_sums_pending(const struct wait_sums *s)
{
    uint64_t count = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct waiter *w = s->buckets[i]; w; w = w->next)
            count += w->sum.waits + w->sum.queued;
    return count;
}

static void remove_in_bucket(struct wait_sums *s, struct waiter **place, uint32_t pid, uint32_t tid)
{
    while (*place) {
        if ((*place)->pid != pid || (tid && (*place)->tid != tid)) {
            place = &(*place)->next;
            continue;
        }
        flush_waiter(s, *place);
        remove_waiter(s, place);
    }
}

void wait_sums_forget(struct wait_sums *s, uint32_t pid, uint32_t tid)
{
    if (tid)
        remove_in_bucket(s, &s->buckets[tid & (BUCKETS - 1)], pid, tid);
    else
        for (size_t i = 0; i < BUCKETS; i++)
            remove_in_bucket(s, &s->buckets[i], pid, 0);
}
