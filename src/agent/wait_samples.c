/* Joins what resolve and diagnose know of a wait; see wait_samples.h. */
#include "agent/wait_samples.h"

#include "diagnose/off_cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wait_samples {
    struct wait_sums *sums;
    struct sample_resolver *resolver;
    struct losses *losses;
    void (*give)(void *context, const struct sample *sample);
    void *context;
};

/* Waits without a stack have all the rest. */
static struct cpu_sample no_stack_of(const struct off_cpu_wait *wait)
{
    struct cpu_sample s = {.h = wait->h, .cgroup_id = wait->cgroup_id, .user_end = UNWIND_END_NO_USER};
    s.h.kind = WIRE_OFF_CPU_STACK;
    s.h.size_bytes = sizeof(s);
    memcpy(s.comm, wait->comm, sizeof(s.comm));
    return s;
}

static void hand_on(struct wait_samples *w, struct sample *s, const char *leaf, uint64_t waits, uint64_t ns)
{
    if (!waits)
        return;
    sample_put_leaf(w->resolver, s, leaf);
    s->count = waits;
    s->weight_ns = ns;
    w->give(w->context, s);
}

/* What the thread waited for, and what it then waited for a CPU, are two. */
static void take(void *context, const struct wait_sum *sum)
{
    struct wait_samples *w = context;
    const struct cpu_sample none = no_stack_of(sum->wait);
    char text[OFF_CPU_TEXT_BYTES];
    struct sample sample;
    if (sum->wait->stack_ns && !sum->stack) /* it was taken, and there was no room for it */
        w->losses->count[LOSS_TRUNCATED] += sum->waits + sum->queued;
    sample_resolve(w->resolver, sum->stack ? sum->stack : &none, w->losses, &sample);
    sample.time_ns = sum->wait->h.time_ns;
    off_cpu_text(sum->wait, &sample, text);
    hand_on(w, &sample, text, sum->waits, sum->waited_ns);
    hand_on(w, &sample, OFF_CPU_RUN_QUEUE, sum->queued, sum->queued_ns);
}

int wait_samples_new(struct sample_resolver *resolver, size_t max_bytes, struct losses *losses,
                     void (*give)(void *context, const struct sample *sample), void *context, struct wait_samples **ret)
{
    struct wait_samples *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct wait_samples){.resolver = resolver, .losses = losses, .give = give, .context = context};
    int r = wait_sums_new(max_bytes, take, w, &w->sums);
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
    free(w);
}

void wait_samples_stack(struct wait_samples *w, const struct cpu_sample *record)
{
    if (wait_sums_stack(w->sums, record) < 0)
        w->losses->count[LOSS_TRUNCATED]++;
}

void wait_samples_add(struct wait_samples *w, const struct off_cpu_wait *record)
{
    wait_sums_add(w->sums, record);
}

void wait_samples_flush(struct wait_samples *w, uint32_t pid)
{
    wait_sums_flush(w->sums, pid);
}

void wait_samples_forget(struct wait_samples *w, uint32_t pid, uint32_t tid)
{
    wait_sums_forget(w->sums, pid, tid);
}
