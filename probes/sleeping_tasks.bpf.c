/* The user stacks of threads that were waiting before monitoring began: a sleepable task iterator copies them from
 * their processes' memory, for unwinding in user space. The thread table of offcpu.bpf.c selects the threads;
 * it is not changed here. The record has the same time as the one with the kernel stack only (offcpu.h), which it
 * replaces.
 *
 * The number of context switches before and after shows that a thread did not run while it was read
 * (sleeping_stack.bpf.h).
 *
 * Losses: struct sleeping_tasks_stats. Such a thread keeps its earlier record. Linux 5.18 and later. */
#include "probes/common/vmlinux.h"

#include "probes/offcpu/sleeping_stack.bpf.h"

#include <bpf/bpf_tracing.h>

#include "probes/offcpu/offcpu_threads.bpf.h"
#include "probes/sleeping_tasks.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u64 ring_bytes = 0;

volatile __u32 is_last = 0; /* the ring is not drained during the walk */
struct sleeping_tasks_stats stats = {};

/* The ring of offcpu.bpf.c. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
} records SEC(".maps");

/* When the thread was found waiting, if it still waits there; else 0. */
static __always_inline __u64 found_waiting_ns(__u32 tid)
{
    const struct off_cpu_thread *t = bpf_map_lookup_elem(&threads, &tid);
    if (!t || !t->off_since_ns || t->on_since_ns || t->stack_hash || t->stack_ns != t->off_since_ns)
        return 0;
    return t->stack_ns;
}

SEC("iter.s/task")
int sleeping_tasks_stack(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    __u32 zero = 0;
    __u64 since_ns, before, after;
    struct unwind_scratch *scratch = bpf_map_lookup_elem(&unwind_scratch, &zero);
    if (!task || !scratch || BPF_CORE_READ(task, flags) & PF_KTHREAD)
        return 0;
    since_ns = found_waiting_ns(task->pid);
    if (!since_ns)
        return 0;
    if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 2) {
        if (!is_last)
            return 1; /* repeats this task: the reader must drain first */
        stats.lost++; /* the reader no longer drains, and the other half of the ring is for the waits themselves */
        return 0;
    }
    if (!is_off_cpu(task, &before)) {
        stats.ran++;
        return 0;
    }
    bool is_taken = sleeping_stack_take(scratch, task, since_ns);
    if (!is_off_cpu(task, &after) || before != after || found_waiting_ns(task->pid) != since_ns)
        stats.ran++;
    else if (!is_taken)
        stats.unreadable++;
    else
        sleeping_stack_send(scratch, &records, &stats.copied, &stats.lost);
    return 0;
}
