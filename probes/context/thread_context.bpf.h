/* Reads the traced request of the current thread where the thread itself publishes it (thread_context.h), without any
 * attachment and at no cost to the program. The thread is stopped by the sample, or just leaves its CPU, so the data
 * is consistent. Reads with bpf_probe_read_user only: paged-out memory counts as no context. x86-64. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/context/context_tables.bpf.h"
#include "probes/link.h"

#define CONTEXT_STATIC_TLS_MAX (1ULL << 32) /* TLS offsets below the thread pointer are negative, addresses are not */

struct thread_context_scratch {
    struct link_ids ids; /* first member: compilers take the address of another member before the test for NULL, which
                            older verifiers reject */
    struct thread_context_record record;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct thread_context_scratch);
} thread_context_scratch SEC(".maps");

static __always_inline bool context_read(void *to, __u32 size, __u64 address)
{
    return bpf_probe_read_user(to, size, (const void *)address) == 0;
}

/* The variable of a module loaded later: in a block of its own, found with glibc's DTV (its sysdeps/x86_64/nptl/tls.h:
 * the thread's second word points to it; the entry before holds its length). 0: the thread has no block yet. */
static __always_inline __u64 context_in_module(const __u64 *pair, __u64 thread_pointer)
{
    __u64 modules, length, block;

    if (!context_read(&modules, 8, thread_pointer + 8) || !context_read(&length, 8, modules - 16) || pair[0] == 0 ||
        pair[0] > length || !context_read(&block, 8, modules + pair[0] * 16) || block == 0 || block == ~0ULL)
        return 0;
    return block + pair[1];
}

/* The address of the thread's variable, or 0. */
static __always_inline __u64 context_variable(const struct thread_context_place *p, __u64 thread_pointer)
{
    __u64 pair[2];

    if (p->kind == THREAD_CONTEXT_OFFSET)
        return thread_pointer + p->place;
    if (!context_read(pair, sizeof(pair), p->place))
        return 0;
    if (p->kind == THREAD_CONTEXT_GOT_OFFSET)
        return thread_pointer + pair[0];
    if (p->kind == THREAD_CONTEXT_DESCRIPTOR) {
        if (-pair[1] < CONTEXT_STATIC_TLS_MAX)
            return pair[1] ? thread_pointer + pair[1] : 0;
        if (!p->has_modules || !context_read(pair, sizeof(pair), pair[1]))
            return 0;
    }
    return p->has_modules ? context_in_module(pair, thread_pointer) : 0;
}

static __always_inline struct thread_context_scratch *context_scratch_get(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&thread_context_scratch, &zero);
}

/* Writes the current thread's published request to thread_context_scratch. Returns 1; 0: none. A global function of
 * scalars, which the verifier checks separately. */
__noinline int context_of_current(__u32 pid)
{
    const struct thread_context_place *place = bpf_map_lookup_elem(&thread_contexts, &pid);
    struct thread_context_scratch *s = place ? context_scratch_get() : NULL;
    __u64 variable, record;

    if (!place || !s)
        return 0;
#if defined(__TARGET_ARCH_x86)
    variable = context_variable(place, BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), thread.fsbase));
#else
    variable = 0;
#endif
    if (variable == 0 || !context_read(&record, 8, variable) || record == 0 || !context_read(&s->record, 28, record) ||
        s->record.valid != 1 || (s->record.trace_id[0] | s->record.trace_id[1]) == 0 || s->record.span_id == 0)
        return 0;
    s->ids.trace_id_high = __builtin_bswap64(s->record.trace_id[0]);
    s->ids.trace_id_low = __builtin_bswap64(s->record.trace_id[1]);
    s->ids.span_id = __builtin_bswap64(s->record.span_id);
    return 1;
}

/* The IDs written by context_of_current. */
static __always_inline struct link_ids *context_ids_get(void)
{
    struct thread_context_scratch *s = context_scratch_get();

    return s ? &s->ids : NULL;
}
