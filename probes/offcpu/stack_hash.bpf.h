/* Hashes a waiting thread's stack: everything in its record about the thread's location and its request. A
 * thread that waits in the same place again is recorded without a stack. Operates on the record in the CPU's scratch
 * memory; see offcpu.bpf.c. */
#pragma once

#include "probes/context/sample_context.bpf.h"
#include "probes/offcpu/frames_hash.bpf.h"

#define HASH_LABEL_WORDS (sizeof(struct go_label) / 8)

/* Adds the traced request. */
__noinline __u64 hash_ids(__u64 hash)
{
    const struct link_ids *ids = context_ids_get();
    if (!ids)
        return hash;
    hash = hash_mix(hash, ids->trace_id_high);
    hash = hash_mix(hash, ids->trace_id_low);
    return hash_mix(hash, ids->span_id) | 1;
}

/* Adds the goroutine's labels, whose unused bytes are 0. */
__noinline __u64 hash_labels(__u64 hash, __u32 count)
{
    const struct go_labels_scratch *labels = go_labels_scratch_get();
    const __u64 *words = labels ? (const __u64 *)labels->label : NULL;
    if (!words)
        return hash;
    for (__u32 i = 0; i < GO_LABELS_MAX * HASH_LABEL_WORDS && i < count * HASH_LABEL_WORDS; i++)
        hash = hash_mix(hash, words[i]);
    return hash_mix(hash, count) | 1;
}

/* 0: the stack is incomplete until user space finishes it. */
static __always_inline __u64 hash_of(const struct unwind_scratch *scratch, const struct stack_record *s)
{
    __u64 hash;
    if (end_is_resumable(s->user_end))
        return 0;
    hash = hash_stack(s->kernel_frames + s->user_frames);
    if (scratch->walk.interpreted)
        hash = hash_interpreted(hash);
    if (s->flags & STACK_RECORD_LINKED)
        hash = hash_ids(hash);
    return s->labels ? hash_labels(hash, s->labels) : hash;
}
