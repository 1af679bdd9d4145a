/* Combines the results of resolve and diagnose for a wait; see wait_samples.h. */
#include "signals/offcpu/wait_samples.h"

#include "diagnose/off_cpu.h"
#include "signals/offcpu/waker_stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wait_samples {
    struct wait_sums *sums;
    struct sample_resolver *resolver;
    struct losses *losses;
    void (*give)(void *context, const struct sample *sample);
    void *context;
    struct waker_stack waker; /* of the current wait_sum */
    uint64_t wakers_unseen;
};

/* The record of a wait without a stack. */
static struct stack_record record_without_stack(const struct off_cpu_wait *wait)
{
    struct stack_record s = {.h = wait->h, .cgroup_id = wait->cgroup_id, .user_end = UNWIND_END_NO_USER};
    s.h.kind = RECORD_OFF_CPU_STACK;
    s.h.size_bytes = sizeof(s);
    memcpy(s.comm, wait->comm, sizeof(s.comm));
    return s;
}

/* Resolves the waker into w->waker; no frames if the wait has no waker. Unresolvable frames are counted like frames of
 * the wait's own stack. */
static void name_waker(struct wait_samples *w, const struct wait_sum *sum)
{
    char text[OFF_CPU_TEXT_BYTES] = OFF_CPU_WAKER_NOT_SEEN;
    struct sample waker = {0};
    bool is_interrupt = false;
    size_t count = 0;
    w->waker.count = 0;
    if (sum->wait->waker == OFF_CPU_WAKER_NONE || sum->waits == 0)
        return;
    if (sum->waker && sample_resolve(w->resolver, sum->waker, w->losses, &waker) != -EBADMSG) {
        count = off_cpu_waker_frames(sum->wait->waker, &waker, &is_interrupt);
        off_cpu_waker_text(is_interrupt ? NULL : &waker, sum->wait->h.pid, text);
    } else {
        w->wakers_unseen += sum->waits;
    }
    if (waker_stack_set(&w->waker, &waker, count, text) < 0)
        w->losses->count[LOSS_TRUNCATED] += sum->waits;
}

static void emit_sample(struct wait_samples *w, struct sample *s, uint64_t waits, uint64_t ns)
{
    s->count = waits;
    s->value = ns;
    w->give(w->context, s);
}

/* Emits two samples: the wait itself, which ended with the wake-up, and the time in the run queue after it. */
static void emit_sum(void *context, const struct wait_sum *sum)
{
    struct wait_samples *w = context;
    const struct stack_record none = record_without_stack(sum->wait);
    char text[OFF_CPU_TEXT_BYTES];
    struct sample sample;
    name_waker(w, sum);
    if (sum->wait->stack_ns && !sum->stack) /* a stack was recorded but had to be dropped */
        w->losses->count[LOSS_TRUNCATED] += sum->waits + sum->queued;
    sample_resolve(w->resolver, sum->stack ? sum->stack : &none, w->losses, &sample);
    sample.type = &sample_type_off_cpu;
    sample.time_ns = sum->wait->h.time_ns;
    sample.wait_reason = off_cpu_reason(sum->wait, &sample);
    sample_put_leaf(w->resolver, &sample, off_cpu_text(sum->wait, &sample, text));
    if (sum->waits) {
        struct sample with_waker = sample;
        if (waker_stack_put(&w->waker, &with_waker) < 0)
            w->losses->count[LOSS_TRUNCATED] += sum->waits;
        emit_sample(w, &with_waker, sum->waits, sum->waited_ns);
    }
    if (sum->queued) {
        sample.wait_reason = OFF_CPU_RUN_QUEUE_REASON;
        sample_put_leaf(w->resolver, &sample, OFF_CPU_RUN_QUEUE);
        emit_sample(w, &sample, sum->queued, sum->queued_ns);
    }
}

int wait_samples_new(struct sample_resolver *resolver, size_t max_bytes, struct losses *losses,
                     void (*give)(void *context, const struct sample *sample), void *context, struct wait_samples **ret)
{
    struct wait_samples *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct wait_samples){.resolver = resolver, .losses = losses, .give = give, .context = context};
    int r = wait_sums_new(max_bytes, emit_sum, w, &w->sums);
    if (r < 0)
        free(w);
    else
        *ret = w;
    return r;
}

void wait_samples_free(struct wait_samples *w)
{
    if (!w)
        return;
    wait_sums_free(w->sums);
    waker_stack_clear(&w->waker);
    free(w);
}

/* A thread that has been blocked since before monitoring began may stay so for hours. To save memory, its copied
 * stack is replaced by the unwound frames, unless unwinding lacks something that may arrive later. */
static const struct stack_record *replace_copy(const struct wait_samples *w, const struct stack_record *record)
{
    if (record->user_end != UNWIND_END_NOT_RUNNING)
        return record;
    const struct stack_record *walked = sample_walk_copy(w->resolver, record);
    const unsigned end = walked->user_end;
    const bool may_improve =
        end == UNWIND_END_NOT_RUNNING || end == UNWIND_END_NO_PROCESS || end == UNWIND_END_NO_TABLE;
    return may_improve || walked->user_frames == 0 ? record : walked;
}

void wait_samples_stack(struct wait_samples *w, const struct stack_record *record)
{
    int r = record->h.kind == RECORD_OFF_CPU_WAKER ? wait_sums_waker(w->sums, record)
                                                   : wait_sums_stack(w->sums, replace_copy(w, record));
    w->losses->count[LOSS_TRUNCATED] += r < 0;
}

uint64_t wait_samples_wakers_unseen(const struct wait_samples *w)
{
    return w->wakers_unseen;
}

void wait_samples_add(struct wait_samples *w, const struct off_cpu_wait *record)
{
    wait_sums_add(w->sums, record);
}

void wait_samples_flush(struct wait_samples *w, uint32_t pid)
{
    wait_sums_flush(w->sums, pid);
}

void wait_samples_flush_all(struct wait_samples *w)
{
    wait_sums_flush_all(w->sums);
}

uint64_t wait_samples_pending(const struct wait_samples *w)
{
    return wait_sums_pending(w->sums);
}

void wait_samples_forget(struct wait_samples *w, uint32_t pid, uint32_t tid)
{
    wait_sums_forget(w->sums, pid, tid);
}
