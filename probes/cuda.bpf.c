/* Counts the calls of libcuda by process, and the time in those that wait for the GPU. src/sources/cuda/cuda.c has each
 * program attached to the functions of its kind.
 *
 * A call that waits is matched with its return by the thread and the stack pointer. If one such function calls another,
 * the inner call counts. A thread that ends in a call ends the call.
 *
 * Losses: calls of processes and waits of threads that do not fit the tables (`uncounted`). */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/preemption.bpf.h"
#include "probes/common/run_timer.bpf.h"
#include "probes/cuda.h"

char LICENSE[] SEC("license") = "GPL";

volatile __u64 uncounted = 0;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CUDA_MAX_PROCESSES);
    __type(key, struct cuda_process_name);
    __type(value, struct cuda_process);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CUDA_MAX_THREADS);
    __type(key, __u32);
    __type(value, struct cuda_wait);
} waits SEC(".maps");

static const struct cuda_process no_calls = {};

static __always_inline struct cuda_process_name current_process(void)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();

    return (struct cuda_process_name){.pid = bpf_get_current_pid_tgid() >> 32,
                                      .start_ns = BPF_CORE_READ(task, group_leader, start_boottime)};
}

static __always_inline struct cuda_process *process_get(const struct cuda_process_name *name)
{
    struct cuda_process *p = bpf_map_lookup_elem(&processes, name);

    if (p)
        return p;
    bpf_map_update_elem(&processes, name, &no_calls, BPF_NOEXIST);
    return bpf_map_lookup_elem(&processes, name);
}

static __always_inline void count_call(const struct cuda_process_name *name, enum cuda_call call)
{
    struct cuda_process *p = process_get(name);

    if (p)
        __sync_fetch_and_add(&p->calls[call], 1);
    else
        __sync_fetch_and_add(&uncounted, 1);
}

static __always_inline void count_current(enum cuda_call call)
{
    const __u64 start_ns = timer_start(CUDA_TIMER_CALL);
    const struct cuda_process_name name = current_process();

    count_call(&name, call);
    timer_stop(CUDA_TIMER_CALL, start_ns);
}

static __always_inline void begin_wait(__u64 stack)
{
    const __u64 start_ns = timer_start(CUDA_TIMER_CALL);
    const struct cuda_wait wait = {.process = current_process(), .stack = stack, .since_ns = bpf_ktime_get_ns()};
    __u32 tid = bpf_get_current_pid_tgid();

    count_call(&wait.process, CUDA_CALL_SYNCHRONIZE);
    if (bpf_map_update_elem(&waits, &tid, &wait, BPF_ANY))
        __sync_fetch_and_add(&uncounted, 1);
    timer_stop(CUDA_TIMER_CALL, start_ns);
}

/* The process has an entry since the wait began, unless user space has deleted it. */
static __always_inline void take_wait(__u32 tid, const struct cuda_wait *w)
{
    struct cuda_process *p = bpf_map_lookup_elem(&processes, &w->process);
    const __u64 waited_ns = bpf_ktime_get_ns() - w->since_ns;

    bpf_map_delete_elem(&waits, &tid);
    if (p)
        __sync_fetch_and_add(&p->synchronize_ns, waited_ns);
}

static __always_inline void end_wait(__u64 stack)
{
    const __u64 start_ns = timer_start(CUDA_TIMER_CALL);
    __u32 tid = bpf_get_current_pid_tgid();
    const struct cuda_wait *w = bpf_map_lookup_elem(&waits, &tid);

    if (w && stack - w->stack <= sizeof(__u64)) /* else it is the return of another call */
        take_wait(tid, w);
    timer_stop(CUDA_TIMER_CALL, start_ns);
}

SEC("uprobe")
int cuda_launch(struct user_registers *r)
{
    preemption_disable();
    count_current(CUDA_CALL_LAUNCH);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int cuda_graph_launch(struct user_registers *r)
{
    preemption_disable();
    count_current(CUDA_CALL_GRAPH_LAUNCH);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int cuda_copy(struct user_registers *r)
{
    preemption_disable();
    count_current(CUDA_CALL_COPY);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int cuda_allocation(struct user_registers *r)
{
    preemption_disable();
    count_current(CUDA_CALL_ALLOCATION);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int cuda_synchronize(struct user_registers *r)
{
    preemption_disable();
    begin_wait(r->sp);
    preemption_enable();
    return 0;
}

SEC("uretprobe")
int cuda_synchronize_return(struct user_registers *r)
{
    preemption_disable();
    end_wait(r->sp);
    preemption_enable();
    return 0;
}

SEC("raw_tp/sched_process_exit")
int cuda_exit(void *ctx)
{
    __u32 tid = bpf_get_current_pid_tgid();
    const struct cuda_wait *w = bpf_map_lookup_elem(&waits, &tid);

    if (w)
        take_wait(tid, w);
    return 0;
}
