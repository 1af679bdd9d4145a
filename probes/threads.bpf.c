/* Reads the threads of one process when user space asks for it (src/sources/threads): for each a struct thread_record,
 * and the stack of those that are off their CPU. An iterator over all tasks, which may sleep: a helper process runs it.
 *
 * Losses: struct threads_stats. Linux 5.18 and later. */
#include "probes/common/vmlinux.h"

#include "probes/offcpu/sleeping_stack.bpf.h"

#include <bpf/bpf_tracing.h>

#include "probes/threads.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u64 ring_bytes = 0;

volatile __u32 wanted_pid = 0;
struct threads_stats stats = {};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096); /* set at load */
} records SEC(".maps");

/* ---- how long a thread has waited ---- */

static __always_inline const struct rq *cpu_of(struct task_struct *task)
{
    struct cfs_rq *cfs = NULL;

    if (bpf_core_field_exists(task->se.cfs_rq) && bpf_core_field_exists(cfs->rq))
        cfs = BPF_CORE_READ(task, se.cfs_rq);
    return cfs ? BPF_CORE_READ(cfs, rq) : NULL;
}

/* From the clocks of the CPU that the thread left and of this one: the former stands still while its CPU is idle. 0:
 * unknown. Leaves out what interrupts took of that CPU since then. */
static __always_inline __u64 off_cpu_ns(struct task_struct *task)
{
    const struct rq *left = cpu_of(task), *here = cpu_of((struct task_struct *)bpf_get_current_task());
    __u64 clock, clock_task, start, waited;

    if (!left || !here)
        return 0;
    start = BPF_CORE_READ(task, se.exec_start);
    clock_task = BPF_CORE_READ(left, clock_task);
    clock = BPF_CORE_READ(left, clock);
    waited = clock_task - start + BPF_CORE_READ(here, clock) - clock;
    return (__s64)waited > 0 ? waited : 0;
}

/* ---- records ---- */

static __always_inline void send_thread(struct task_struct *task, __u64 now, __u32 flags, __u64 switches)
{
    struct thread_record r = {.h = {.size_bytes = sizeof(r), .kind = RECORD_THREAD, .time_ns = now},
                              .thread_pointer = task_thread_pointer(task),
                              .switches = switches,
                              .flags = flags};
    r.h.pid = BPF_CORE_READ(task, tgid);
    r.h.tid = BPF_CORE_READ(task, pid);
    if (!(flags & THREAD_ON_CPU) && task_wait_state(task)) {
        r.flags |= THREAD_WAITING;
        r.waited_ns = off_cpu_ns(task);
    }
    stats.lost += bpf_ringbuf_output(&records, &r, sizeof(r), BPF_RB_FORCE_WAKEUP) != 0;
}

SEC("iter.s/task")
int threads_of_process(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    __u32 zero = 0, flags = 0;
    __u64 before = 0, after, now;
    struct unwind_scratch *scratch = bpf_map_lookup_elem(&unwind_scratch, &zero);
    if (!task || !scratch || task->tgid != wanted_pid)
        return 0;
    if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 2)
        return 1; /* repeats this task: the reader must drain first */
    now = bpf_ktime_get_ns();
    if (!is_off_cpu(task, &before)) {
        send_thread(task, now, THREAD_ON_CPU, before);
        return 0;
    }
    if (!sleeping_stack_take(scratch, task, now))
        stats.unreadable++;
    else if (!is_off_cpu(task, &after) || before != after)
        stats.ran++;
    else
        flags = THREAD_STACK;
    send_thread(task, now, flags, before);
    if (!flags)
        return 0;
    stack_record_of(scratch)->h.kind = RECORD_THREAD_STACK;
    sleeping_stack_send(scratch, &records, &stats.stacks, &stats.lost);
    return 0;
}
