/* What the current thread works for, in the record of its stack: the traced request, which a table of threads knows
 * (thread_link.bpf.h) or the thread itself says (thread_context.bpf.h), and its goroutine's labels (go_labels.bpf.h).
 * First taken, into scratch memory of the CPU's, then put behind the record: who sends a stack only when it is another
 * one asks in between. Shared by cpu.bpf.c and offcpu.bpf.c. */
#pragma once

#include "probes/context/go_labels.bpf.h"
#include "probes/context/thread_context.bpf.h"
#include "probes/context/thread_link.bpf.h"
#include "probes/unwind/unwind_sample.bpf.h"

/* Into thread_context_scratch. */
static __always_inline bool ids_take(const struct cpu_sample *s)
{
    const struct link_ids *known =
        links ? link_of_current((struct task_struct *)bpf_get_current_task(), s->h.tid) : NULL;
    struct link_ids *ids = known ? context_ids_get() : NULL;

    if (!ids)
        return context_of_current(s->h.pid);
    *ids = *known;
    return true;
}

/* Into go_labels_scratch; how many. */
static __always_inline __u8 labels_take(const struct cpu_sample *s, int *ret_is_incomplete)
{
    const struct go_labels_scratch *labels = go_labels_of_current(s->h.pid) ? go_labels_scratch_get() : NULL;

    *ret_is_incomplete = labels && labels->is_incomplete;
    return labels ? labels->count : 0;
}

/* Of the record in the CPU's scratch, which says from here on what there is. 1: without all of its labels. A global
 * function of nothing, which the verifier checks by itself. */
__noinline int sample_take_context(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    int is_incomplete;

    if (!scratch)
        return 0;
    if (ids_take(sample_of(scratch)))
        sample_of(scratch)->flags |= CPU_SAMPLE_LINKED;
    sample_of(scratch)->labels = labels_take(sample_of(scratch), &is_incomplete);
    return is_incomplete;
}

/* Behind the record of `size` bytes the labels that were taken; how many bytes that is. */
static __always_inline __u64 sample_put_labels(struct unwind_scratch *scratch, __u64 *lost, __u64 size)
{
    struct cpu_sample *s = sample_of(scratch);
    const struct go_labels_scratch *labels = s->labels ? go_labels_scratch_get() : NULL;
    __u64 at = size - sizeof(*s), bytes = s->labels * sizeof(struct go_label);

    UNWIND_SAME_REGISTER(at);
    UNWIND_SAME_REGISTER(bytes);
    if (!labels)
        return 0;
    if (at > sizeof(scratch->data) - sizeof(labels->label) || bytes > sizeof(labels->label) ||
        bpf_probe_read_kernel((__u8 *)scratch->data + at, bytes, labels->label)) {
        s->labels = 0;
        ++*lost;
        return 0;
    }
    return bytes;
}

/* Likewise the request's ids; behind all else. */
static __always_inline __u64 sample_put_link(struct unwind_scratch *scratch, __u64 *lost, __u64 size)
{
    struct cpu_sample *s = sample_of(scratch);
    const struct link_ids *ids = s->flags & CPU_SAMPLE_LINKED ? context_ids_get() : NULL;
    __u64 at = size - sizeof(*s);

    UNWIND_SAME_REGISTER(at);
    if (!ids)
        return 0;
    if (at > sizeof(scratch->data) - sizeof(*ids) ||
        bpf_probe_read_kernel((__u8 *)scratch->data + at, sizeof(*ids), ids)) {
        s->flags &= ~CPU_SAMPLE_LINKED;
        ++*lost;
        return 0;
    }
    return sizeof(*ids);
}
