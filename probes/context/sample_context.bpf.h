/* The context of a sample: the traced request that the current thread works for, from the table of threads
 * (thread_link.bpf.h) or published by the thread itself (thread_context.bpf.h), and its goroutine's labels
 * (go_labels.bpf.h). First read into scratch memory of the CPU, then appended to the record: in between, off-CPU
 * profiling decides whether the stack is sent at all. Shared by cpu.bpf.c and offcpu.bpf.c. */
#pragma once

#include "probes/context/go_labels.bpf.h"
#include "probes/context/thread_context.bpf.h"
#include "probes/context/thread_link.bpf.h"
#include "probes/unwind/unwind_sample.bpf.h"

/* Reads the request's IDs into thread_context_scratch. */
static __always_inline bool ids_take(const struct stack_record *s)
{
    const struct link_ids *known =
        links ? link_of_current((struct task_struct *)bpf_get_current_task(), s->h.tid) : NULL;
    struct link_ids *ids = known ? context_ids_get() : NULL;

    if (!ids)
        return context_of_current(s->h.pid);
    *ids = *known;
    return true;
}

/* Reads the labels into go_labels_scratch; returns their number. */
static __always_inline __u8 labels_take(const struct stack_record *s, int *ret_is_incomplete)
{
    const struct go_labels_scratch *labels = go_labels_of_current(s->h.pid) ? go_labels_scratch_get() : NULL;

    *ret_is_incomplete = labels && labels->is_incomplete;
    return labels ? labels->count : 0;
}

/* Reads the context of the record in the CPU's scratch memory and sets the record's flags. Returns 1 if labels are
 * incomplete. A global function without arguments, which the verifier checks separately. */
__noinline int sample_take_context(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    int is_incomplete;

    if (!scratch)
        return 0;
    if (ids_take(stack_record_of(scratch)))
        stack_record_of(scratch)->flags |= STACK_RECORD_LINKED;
    stack_record_of(scratch)->labels = labels_take(stack_record_of(scratch), &is_incomplete);
    return is_incomplete;
}

/* Appends the labels to the record of `size` bytes; returns their size. */
static __always_inline __u64 sample_put_labels(struct unwind_scratch *scratch, __u64 *lost, __u64 size)
{
    struct stack_record *s = stack_record_of(scratch);
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

/* Likewise for the request's IDs, which end the record. */
static __always_inline __u64 sample_put_link(struct unwind_scratch *scratch, __u64 *lost, __u64 size)
{
    struct stack_record *s = stack_record_of(scratch);
    const struct link_ids *ids = s->flags & STACK_RECORD_LINKED ? context_ids_get() : NULL;
    __u64 at = size - sizeof(*s);

    UNWIND_SAME_REGISTER(at);
    if (!ids)
        return 0;
    if (at > sizeof(scratch->data) - sizeof(*ids) ||
        bpf_probe_read_kernel((__u8 *)scratch->data + at, sizeof(*ids), ids)) {
        s->flags &= ~STACK_RECORD_LINKED;
        ++*lost;
        return 0;
    }
    return sizeof(*ids);
}
