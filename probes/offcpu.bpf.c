/* BPF side of off-CPU profiling: walks the stack of a thread that leaves its CPU, and records the wait when the thread
 * runs again (offcpu.h).
 *
 * The stack is walked when the thread leaves, because only then do all kernels allow it to be read; it is sent only if
 * it differs from the thread's last one. Waits in progress when the recording begins or ends are found by task
 * iterators. Some kernels trace no switch away from a thread of process 1 (such as the agent of a virtual machine),
 * and hence none to the thread that runs after it: the scheduler's accounting then shows how long each of them ran.
 *
 * Losses: records when the ring is full, threads when the table is full (struct off_cpu_stats). Most of this runs
 * under the scheduler's locks: nothing here sleeps or allocates. */
#include "probes/common/vmlinux.h"

#include "probes/interpreter/interpreters.bpf.h"

#include <bpf/bpf_tracing.h>

#include "probes/common/context.bpf.h"
#include "probes/common/sampling_rule.bpf.h"
#include "probes/context/sample_context.bpf.h"
#include "probes/offcpu/offcpu_cause.bpf.h"
#include "probes/offcpu/offcpu_threads.bpf.h"
#include "probes/offcpu/offcpu_walk.bpf.h"
#include "probes/offcpu/stack_hash.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u64 min_ns = 0;
const volatile __u64 sample_ns =
    0; /* longer waits are all recorded, shorter ones with a probability of length / sample_ns; below 2^32 */
const volatile bool wakers = false;     /* record which thread woke the sleeper */
const volatile bool leaves_out = false; /* some rules exclude tasks */
const volatile __u32 spare_scratch =
    0; /* index of the task iterators' scratch memory: the other programs may interrupt them on the same CPU */

volatile __u32 enabled = 0; /* from start to stop */
volatile __u32 is_shed = 0; /* disabled, because of its cost */
/* sample_ns by rule; the last used element is for tasks without a rule. Like sampling_rule_shares. */
volatile __u64 sampling_rule_sample_ns[SAMPLING_RULE_SLOTS] = {};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct off_cpu_stats);
} stats SEC(".maps");

static __always_inline struct off_cpu_stats *stats_get(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&stats, &zero);
}

/* ---- stacks ---- */

static __always_inline bool stack_send(struct unwind_scratch *scratch, struct off_cpu_stats *stat)
{
    struct stack_record *s = stack_record_of(scratch);
    __u64 size = sample_finish(scratch);
    size += sample_interpreted(scratch, &stat->interpreted_lost, size);
    size += sample_put_labels(scratch, &stat->labels_lost, size);
    size += sample_put_link(scratch, &stat->links_lost, size);
    UNWIND_SAME_REGISTER(size);
    if (size > sizeof(*s) + sizeof(scratch->data))
        return false;
    s->h.size_bytes = size;
    return bpf_ringbuf_output(&records, s, size, records_wakeup(s->stack_bytes)) == 0;
}

/* Tasks that sampling rules exclude from CPU profiling are excluded here, too. */
static __always_inline bool is_monitored(struct task_struct *task)
{
    return task_wanted(task, task->tgid) && !(leaves_out && sampling_rule_is_never(task));
}

/* Takes the stack of the running thread, which is about to leave. */
static __always_inline void take_stack(void *ctx, struct off_cpu_thread *t, struct task_struct *task,
                                       struct off_cpu_stats *stat, __u64 now)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    __u64 hash;
    if (!scratch) {
        t->stack_hash = t->stack_ns = 0;
        stat->stacks_lost++;
        return;
    }
    struct stack_record *s = stack_begin(scratch, task, now);
    sample_kernel(ctx, scratch);
    scratch->walk.pid = s->h.pid;
    scratch->walk.base = s->kernel_frames;
    sample_set_walk(scratch, walk_user(scratch, task, true, &stat->copies_refused));
    bool is_incomplete =
        sample_take_context(); /* reads the thread's own memory, like its stack: only possible while it is current */
    hash = hash_of(scratch, s);
    if (hash && hash == t->stack_hash)
        return;
    t->stack_hash = hash;
    t->stack_ns = now;
    stat->labels_lost += is_incomplete;
    if (stack_send(scratch, stat))
        return;
    t->stack_hash = t->stack_ns = 0;
    stat->stacks_lost++;
}

/* ---- wakers ---- */

/* Idle CPUs count as interrupts, too: they accept calls from other CPUs without one. */
static __always_inline __u8 waker_kind(struct task_struct *current)
{
    __u32 count = context_count(current);
    if (BPF_CORE_READ(current, pid) == 0)
        return OFF_CPU_WAKER_INTERRUPT;
    if (count == CONTEXT_UNKNOWN)
        return OFF_CPU_WAKER_UNKNOWN;
    return count & CONTEXT_HARDIRQ   ? OFF_CPU_WAKER_INTERRUPT
           : count & CONTEXT_SOFTIRQ ? OFF_CPU_WAKER_SOFTIRQ
                                     : OFF_CPU_WAKER_THREAD;
}

/* An interrupt has a kernel stack only; the interrupted thread's user stack is unrelated. */
static __always_inline int walk_waker(struct unwind_scratch *scratch, struct off_cpu_stats *stat,
                                      struct task_struct *current, __u8 kind)
{
    struct stack_record *s = stack_record_of(scratch);
    scratch->walk.base = s->kernel_frames;
    if (kind != OFF_CPU_WAKER_INTERRUPT) {
        scratch->walk.pid = s->h.pid;
        return walk_user(scratch, current, true, &stat->copies_refused);
    }
    s->h.pid = s->h.tid = 0;
    s->cgroup_id = 0;
    __builtin_memset(s->comm, 0, sizeof(s->comm));
    return UNWIND_END_NO_USER;
}

/* Takes the stack of the current thread as waker of `woken`. The last waker before the thread runs counts. */
static __always_inline void take_waker(void *ctx, struct off_cpu_thread *t, struct task_struct *woken,
                                       struct off_cpu_stats *stat, __u64 now)
{
    struct task_struct *current = (struct task_struct *)bpf_get_current_task();
    struct unwind_scratch *scratch = unwind_scratch_get();
    __u64 hash;
    t->waker = OFF_CPU_WAKER_UNSEEN;
    if (!scratch) {
        stat->stacks_lost++;
        return;
    }
    __u8 kind = waker_kind(current);
    struct stack_record *s = stack_begin(scratch, current, now);
    s->h.kind = RECORD_OFF_CPU_WAKER;
    s->woken.pid = BPF_CORE_READ(woken, tgid);
    s->woken.tid = BPF_CORE_READ(woken, pid);
    sample_kernel(ctx, scratch);
    sample_set_walk(scratch, walk_waker(scratch, stat, current, kind));
    hash = hash_of(scratch, s);
    if (hash)
        hash ^= (__u64)s->h.tid << 32 | (__u64)kind << 8;
    if (!hash || hash != t->waker_hash) {
        t->waker_hash = hash;
        t->waker_ns = now;
        if (!stack_send(scratch, stat)) {
            t->waker_hash = t->waker_ns = 0;
            stat->stacks_lost++;
            return;
        }
    }
    t->waker = kind;
}

/* A thread that was runnable all the time, or still waits, has no waker. */
static __always_inline __u8 waker_of(const struct off_cpu_thread *t, __u8 flags)
{
    if (!wakers || flags & OFF_CPU_PREEMPTED || (flags & OFF_CPU_UNFINISHED && !t->waker))
        return OFF_CPU_WAKER_NONE;
    return t->waker ? t->waker : OFF_CPU_WAKER_UNSEEN;
}

/* ---- waits ---- */

/* Scales a wait that was sampled at random, so that the expected sums of time and of waits are correct. */
static __always_inline void scale_wait(struct off_cpu_wait *wait, __u64 of_ns)
{
    __u64 length_ns = wait->weight_ns;
    if (length_ns == 0 || length_ns >= of_ns)
        return;
    wait->queued_ns = wait->queued_ns * of_ns / length_ns;
    wait->weight_ns = of_ns;
    wait->count = sampling_wait_count(sampling_random(~wait->start_ns), length_ns, of_ns);
}

/* Finds the threshold by the task's rule at the time its wait is recorded. False: excluded since it left its CPU. */
static __always_inline bool sampling_rule_samples(struct task_struct *task, __u64 *of_ns)
{
    __u32 rule;
    *of_ns = sample_ns;
    if (!sampling_rule_kinds)
        return true;
    rule = sampling_rule_of(task, BPF_CORE_READ(task, tgid));
    UNWIND_SAME_REGISTER(rule);
    *of_ns = sampling_rule_sample_ns[rule & (SAMPLING_RULE_SLOTS - 1)];
    return sampling_rule_shares[rule & (SAMPLING_RULE_SLOTS - 1)] != 0;
}

/* Whether a wait is recorded: it is long enough, and sampled. Counts it if it is not. */
static __always_inline bool wait_is_recorded(struct off_cpu_stats *stat, __u64 start_ns, __u64 length_ns, __u64 of_ns)
{
    if (length_ns < min_ns) {
        stat->short_count++;
        stat->short_ns += length_ns;
        return false;
    }
    if (length_ns < of_ns && !sampling_takes_wait(sampling_random(start_ns), length_ns, of_ns)) {
        stat->left_out++;
        stat->left_out_ns += length_ns;
        return false;
    }
    return true;
}

/* Fills in whose wait it is, what the thread waited for, and who woke it. */
static __always_inline void describe_wait(struct off_cpu_wait *wait, const struct off_cpu_thread *t,
                                          struct task_struct *task, __u8 flags)
{
    wait->h.pid = BPF_CORE_READ(task, tgid);
    wait->h.tid = BPF_CORE_READ(task, pid);
    wait->cgroup_id = cgroup_id(cgroup_of(task));
    wait->stack_ns = t->stack_ns;
    wait->syscall = t->syscall;
    wait->object = t->object;
    wait->state = t->state;
    wait->flags = t->flags | flags;
    wait->waker = waker_of(t, wait->flags);
    wait->waker_ns = wait->waker > OFF_CPU_WAKER_UNSEEN ? (__u32)t->waker_ns : 0;
    BPF_CORE_READ_STR_INTO(&wait->comm, task, comm);
}

/* Records a wait unless it is too short, left out, or excluded. */
static __always_inline void emit_wait(const struct off_cpu_thread *t, struct task_struct *task,
                                      struct off_cpu_stats *stat, __u64 start_ns, __u64 end_ns, __u64 queued_ns,
                                      __u8 flags)
{
    struct off_cpu_wait wait = {.h = {.size_bytes = sizeof(wait), .kind = RECORD_OFF_CPU, .time_ns = end_ns}};
    __u64 length_ns = end_ns - start_ns, of_ns;
    if (!sampling_rule_samples(task, &of_ns) || !wait_is_recorded(stat, start_ns, length_ns, of_ns))
        return;
    wait.start_ns = start_ns;
    wait.count = 1;
    wait.weight_ns = length_ns;
    wait.queued_ns = queued_ns;
    scale_wait(&wait, of_ns);
    describe_wait(&wait, t, task, flags);
    long r = bpf_ringbuf_output(&records, &wait, sizeof(wait), records_wakeup(false));
    if (flags & OFF_CPU_SO_FAR) /* counted as recorded or lost when the wait ends */
        return;
    if (r) {
        stat->lost += wait.count; /* including those it was weighted for */
        stat->lost_ns += wait.weight_ns;
    } else {
        stat->waits++;
        stat->waits_ns += length_ns;
    }
}

/* Ends the thread's wait, or records it at the end of the recording. `ran`: CPU time since the thread left its CPU or,
 * if that was not seen, since it got its CPU; it is not off-CPU time, and when it occurred is unknown. */
static __noinline void end_wait(struct off_cpu_thread *t, struct task_struct *task, __u64 now, __u64 ran, __u8 flags)
{
    struct off_cpu_stats *stat = stats_get();
    __u64 since = t->off_since_ns ? t->off_since_ns : t->on_since_ns, woken = t->woken_ns, queued = 0;
    t->off_since_ns = 0;
    if (!stat || !since || now <= since || now - since <= ran) /* off_cpu_begin found it just arriving */
        return;
    now -= ran;
    if (t->flags & OFF_CPU_PREEMPTED)
        queued = now - since;
    else if (woken > since && woken < now)
        queued = now - woken;
    emit_wait(t, task, stat, since, now, queued, flags);
}

static __always_inline __u64 ran_since(const struct off_cpu_thread *t, struct task_struct *task)
{
    __u64 runtime = task_runtime(task);
    return runtime > t->runtime_ns ? runtime - t->runtime_ns : 0;
}

static __noinline struct off_cpu_thread *thread_get(__u32 tid, struct off_cpu_stats *stat)
{
    struct off_cpu_thread *t = bpf_map_lookup_elem(&threads, &tid);
    if (t)
        return t;
    struct off_cpu_thread fresh = {};
    bpf_map_update_elem(&threads, &tid, &fresh, BPF_NOEXIST);
    t = bpf_map_lookup_elem(&threads, &tid);
    if (!t)
        stat->threads_full++;
    return t;
}

static __always_inline void leave(void *ctx, struct task_struct *task, bool preempted, struct off_cpu_stats *stat,
                                  __u64 now)
{
    __u32 tid = task->pid, state = task_wait_state(task);
    if (!is_monitored(task) || state & TASK_DEAD) {
        if (filter.cgroups || filter.commands || filter.users || leaves_out || state & TASK_DEAD)
            bpf_map_delete_elem(&threads, &tid);
        if (leaves_out) /* the rule lookup costs time, too */
            stat->run_time_ns += bpf_ktime_get_ns() - now;
        return;
    }
    struct off_cpu_thread *t = thread_get(tid, stat);
    if (!t)
        return;
    if (t->off_since_ns) { /* its arrival was not seen */
        end_wait(t, task, now, ran_since(t, task), OFF_CPU_ACCOUNTED);
        t->waker = OFF_CPU_WAKER_NONE;
    }
    set_cause(t, task, kernel_registers_of(task), true);
    t->flags = preempted || state == 0 ? OFF_CPU_PREEMPTED : 0;
    t->runtime_ns = task_runtime(task);
    t->woken_ns = 0;
    t->off_since_ns = now;
    take_stack(ctx, t, task, stat, now);
    stat->runs++;
    stat->run_time_ns += bpf_ktime_get_ns() - now;
}

static __always_inline void arrive(struct task_struct *task, struct off_cpu_stats *stat, __u64 now)
{
    __u32 tid = task->pid;
    struct off_cpu_thread *t = bpf_map_lookup_elem(&threads, &tid);
    if (!t)
        return;
    if (t->off_since_ns) {
        end_wait(t, task, now, 0, 0);
    } else if (t->on_since_ns) { /* its departure was not seen: where it waited is unknown */
        t->stack_hash = t->stack_ns = 0;
        t->flags = t->state = t->object = 0;
        t->syscall = -1;
        end_wait(t, task, now, ran_since(t, task), OFF_CPU_ACCOUNTED);
    }
    t->woken_ns = 0;
    t->waker =
        OFF_CPU_WAKER_NONE; /* later wakeups belong to its next wait: a thread may be woken on its way off the CPU */
    t->on_since_ns = now;
    t->runtime_ns = task_runtime(task);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(off_cpu_switch, bool preempted, struct task_struct *before, struct task_struct *after)
{
    struct off_cpu_stats *stat = stats_get();
    if (stat && is_shed && before->pid && task_wanted(before, before->tgid))
        stat->shed++;
    if (!enabled || !stat)
        return 0;
    __u64 now = bpf_ktime_get_ns(); /* one time for both: the scheduler, too, charges this work to the next thread */
    leave(ctx, before, preempted, stat, now);
    arrive(after, stat, now);
    return 0;
}

/* The thread is in the run queue from here on; sched_waking comes earlier, while it may still be leaving its last CPU.
 */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(off_cpu_woken, struct task_struct *task)
{
    __u32 tid = task->pid;
    struct off_cpu_thread *t = bpf_map_lookup_elem(&threads, &tid);
    if (enabled && t && !t->woken_ns)
        t->woken_ns = bpf_ktime_get_ns();
    return 0;
}

/* At sched_waking the waker is the current thread; when the thread enters a queue it may not be. Loaded only if wakers
 * are requested. */
SEC("tp_btf/sched_waking")
int BPF_PROG(off_cpu_waking, struct task_struct *task)
{
    struct off_cpu_stats *stat = stats_get();
    __u32 tid = task->pid;
    struct off_cpu_thread *t = bpf_map_lookup_elem(&threads, &tid);
    if (!enabled || !stat || !t ||
        (struct task_struct *)bpf_get_current_task() == task) /* the thread has not left, and will not */
        return 0;
    __u64 now = bpf_ktime_get_ns();
    take_waker(ctx, t, task, stat, now);
    stat->runs++;
    stat->run_time_ns += bpf_ktime_get_ns() - now;
    return 0;
}

/* A new thread is runnable. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(off_cpu_born, struct task_struct *task)
{
    struct off_cpu_stats *stat = stats_get();
    struct off_cpu_thread *t;
    if (!enabled || !stat || !is_monitored(task))
        return 0;
    t = thread_get(task->pid, stat);
    if (!t)
        return 0;
    *t = (struct off_cpu_thread){.off_since_ns = bpf_ktime_get_ns(), .syscall = -1, .flags = OFF_CPU_PREEMPTED};
    return 0;
}

/* ---- waits in progress: when the recording begins and ends, and in between ---- */

static __always_inline const void *registers_of(struct task_struct *task)
{
    if (bpf_core_enum_value_exists(enum bpf_func_id___local, BPF_FUNC_task_pt_regs___local))
        return (const void *)bpf_task_pt_regs(task);
    return (const char *)BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES - bpf_core_type_size(struct pt_regs);
}

/* For a thread that is waiting. Its user stack is read later, if at all, by a program that may sleep
 * (sleeping_tasks.bpf.c). */
static __always_inline void take_kernel_stack(struct off_cpu_thread *t, struct task_struct *task,
                                              struct off_cpu_stats *stat, __u64 now)
{
    __u32 spare = spare_scratch;
    struct unwind_scratch *scratch = bpf_map_lookup_elem(&unwind_scratch, &spare);
    if (!scratch)
        return;
    stack_begin(scratch, task, now);
    if (!stack_take_kernel(scratch, task))
        return;
    sample_set_walk(scratch, BPF_CORE_READ(task, flags) & PF_KTHREAD ? UNWIND_END_NO_USER : UNWIND_END_NOT_RUNNING);
    if (stack_send(scratch, stat))
        t->stack_ns = now;
    else
        stat->stacks_lost++;
}

SEC("iter/task")
int off_cpu_begin(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    struct off_cpu_stats *stat = stats_get();
    if (!task || !stat || !is_monitored(task))
        return 0;
    __u32 tid = task->pid, state = task_wait_state(task);
    bool runs = task->on_cpu;
    __u64 now = bpf_ktime_get_ns();
    struct off_cpu_thread t = {
        .syscall = -1, .runtime_ns = task_runtime(task), .off_since_ns = runs ? 0 : now, .on_since_ns = runs ? now : 0};
    if (state & TASK_DEAD || bpf_map_lookup_elem(&threads, &tid))
        return 0;
    if (!runs) {
        t.flags = state == 0 ? OFF_CPU_PREEMPTED : 0;
        set_cause(&t, task, registers_of(task), false);
        take_kernel_stack(&t, task, stat, now);
    }
    if (bpf_map_update_elem(&threads, &tid, &t, BPF_NOEXIST) == 0) {
        if (task->on_cpu != runs) /* it came or left meanwhile: its next wait is seen completely */
            bpf_map_delete_elem(&threads, &tid);
    } else if (!bpf_map_lookup_elem(&threads, &tid)) {
        stat->threads_full++;
    }
    return 0;
}

/* Runs after `enabled` was cleared. */
SEC("iter/task")
int off_cpu_end(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    struct off_cpu_stats *stat = stats_get();
    if (!task || !stat)
        return 0;
    __u32 tid = task->pid;
    struct off_cpu_thread *t = bpf_map_lookup_elem(&threads, &tid);
    if (!t || !t->off_since_ns)
        return 0;
    __u64 ran = ran_since(t, task);
    end_wait(t, task, bpf_ktime_get_ns(), ran, OFF_CPU_UNFINISHED | (ran ? OFF_CPU_ACCOUNTED : 0));
    return 0;
}

/* Runs periodically during the recording: records long waits as far as they have come. Does not change the thread's
 * state, because it may be woken meanwhile: the reader subtracts earlier records of a wait from later ones. */
SEC("iter/task")
int off_cpu_so_far(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    if (!task || !enabled)
        return 0;
    __u32 tid = task->pid;
    struct off_cpu_thread *t = bpf_map_lookup_elem(&threads, &tid);
    __u64 now = bpf_ktime_get_ns();
    if (!t)
        return 0;
    struct off_cpu_thread copy = *t;
    if (!copy.off_since_ns || copy.off_since_ns + OFF_CPU_SO_FAR_NS > now || ran_since(&copy, task) ||
        *(volatile __u64 *)&t->off_since_ns != copy.off_since_ns) /* it came and left meanwhile */
        return 0;
    end_wait(&copy, task, now, 0, OFF_CPU_UNFINISHED | OFF_CPU_SO_FAR);
    return 0;
}
