/* BPF side of the stacks of servers' threads (waits.h): where the threads of a few processes wait and run, so that a
 * segment on the critical path of a request has a stack. All other threads pay for one access to memory.
 *
 * Kernels that have a tracepoint where a thread comes back from the scheduler (sched_exit_tp, 6.16 and later) let the
 * stack be walked there: how long the wait was is known, and short ones pay nothing. The scheduler's accounts of the
 * thread give the length, so that nothing need be noted when it leaves. On older kernels the stack is walked when the
 * thread leaves the CPU, however long the wait will be. Walks have a share of each CPU's time.
 *
 * While processes are watched, a clock event samples the code that they and their child processes run. These samples
 * are evidence for requests only: profiles have their own samples, at their own rate.
 *
 * Losses: struct waits_stats. */
#include "probes/common/vmlinux.h"

#include "probes/interpreter/interpreters.bpf.h"

#include <bpf/bpf_tracing.h>

#include "probes/common/cgroup.bpf.h"
#include "probes/common/run_timer.bpf.h"
#include "probes/common/syscalls.bpf.h"
#include "probes/common/task.bpf.h"
#include "probes/context/answered_sockets.bpf.h"
#include "probes/offcpu/frames_hash.bpf.h"
#include "probes/offcpu/offcpu_walk.bpf.h"
#include "probes/waits.h"

char LICENSE[] SEC("license") = "GPL";

#define WALK_SHARE      128     /* of each CPU's time: 1/128 */
#define WALK_SAVED_NS   8000000 /* what may be saved up */
#define WALK_MAX_NS     50000   /* more was spent elsewhere: the CPU is a virtual one, or there was an interrupt */
#define WINDOW_SHIFT    27      /* 134 ms */
#define WAITS_A_WINDOW  128     /* of the node: 1,000 a second; likewise samples */
#define COPIES_A_WINDOW 8
#define STACKS_KNOWN    1024
#define STACK_RESEND_NS 5000000000ULL /* user space may have dropped it by then */
#define THREADS         8192

volatile __u32 watched[WAITS_LINES][WAITS_WAYS]; /* written by user space */

static __always_inline bool is_watched(__u32 pid)
{
    const volatile __u32 *line = watched[pid & (WAITS_LINES - 1)];
    return pid && (line[0] == pid || line[1] == pid || line[2] == pid || line[3] == pid);
}

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct waits_stats);
} stats SEC(".maps");

static __always_inline struct waits_stats *stats_get(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&stats, &zero);
}

/* At the low bits of its ID; another thread may take its place. */
struct wait_thread {
    __u64 start_time; /* with the ID: which thread it is */
    __u32 tid;
    /* At switches: its wait before was long; it ran for long. */
    __u16 was_long, has_run;
    __u64 back_ns; /* when it came back last */
    /* At returns: the scheduler's accounts of it then. */
    __u64 runtime_ns, queued_ns, sleeps, preemptions;
    /* At switches: when it left, 0: it runs; and the name of its stack, 0: not walked. */
    __u64 left_ns, stack;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, THREADS);
    __type(key, __u32);
    __type(value, struct wait_thread);
} wait_threads SEC(".maps");

/* The state of `task`. One that is seen for the first time begins as when the thread began. */
static __always_inline struct wait_thread *thread_of(const struct task_struct *task)
{
    __u32 tid = task->pid, at = tid & (THREADS - 1);
    struct wait_thread *t = bpf_map_lookup_elem(&wait_threads, &at);
    if (!t || (t->tid == tid && t->start_time == task->start_time))
        return t;
    t->tid = tid;
    t->start_time = task->start_time;
    t->back_ns = task->start_time;
    t->runtime_ns = t->queued_ns = t->sleeps = t->preemptions = 0;
    t->left_ns = t->was_long = t->has_run = 0;
    return t;
}

/* ---- bounds ---- */

/* Of the node: a lost update lets a few more pass. */
struct {
    __u64 number;
    __u32 waits, samples, copies;
} window;

static __always_inline void window_begin(__u64 now)
{
    if (window.number == now >> WINDOW_SHIFT)
        return;
    window.number = now >> WINDOW_SHIFT;
    window.waits = window.samples = window.copies = 0;
}

static __always_inline bool window_takes_wait(__u64 now)
{
    window_begin(now);
    if (window.waits >= WAITS_A_WINDOW)
        return false;
    __sync_fetch_and_add(&window.waits, 1);
    return true;
}

static __always_inline bool window_takes_sample(__u64 now)
{
    window_begin(now);
    if (window.samples >= WAITS_A_WINDOW)
        return false;
    __sync_fetch_and_add(&window.samples, 1);
    return true;
}

struct waits_walk_share walk_shares[RUN_TIMER_CPUS]; /* CPUs beyond share */

static __always_inline struct waits_walk_share *walk_share_of(__u64 now)
{
    struct waits_walk_share *share = &walk_shares[bpf_get_smp_processor_id() & (RUN_TIMER_CPUS - 1)];
    __u64 left_ns = share->left_ns + (now - share->filled_ns) / WALK_SHARE;
    share->left_ns = left_ns < WALK_SAVED_NS ? left_ns : WALK_SAVED_NS;
    share->filled_ns = now;
    return share;
}

static __always_inline void walk_share_pay(struct waits_walk_share *share, __u64 start_ns)
{
    __u64 took_ns = bpf_ktime_get_ns() - start_ns;
    if (took_ns > WALK_MAX_NS)
        took_ns = WALK_MAX_NS;
    share->left_ns -= took_ns < share->left_ns ? took_ns : share->left_ns;
}

/* ---- stacks ---- */

/* When a stack was sent last; the place of one is the low bits of its name. */
struct {
    __u64 name, sent_ns;
} stacks_known[STACKS_KNOWN];

static __always_inline bool stack_is_known(__u64 name, __u64 now)
{
    __u32 at = name & (STACKS_KNOWN - 1);
    return stacks_known[at].name == name && now - stacks_known[at].sent_ns < STACK_RESEND_NS;
}

/* A stack that user space has to finish is not like any other. */
static __always_inline __u64 name_of(struct unwind_scratch *scratch, const struct stack_record *s)
{
    __u64 name = s->stack_bytes ? hash_mix(s->h.time_ns, s->h.tid) : hash_stack(s->kernel_frames + s->user_frames);
    if (!s->stack_bytes && scratch->walk.interpreted)
        name = hash_interpreted(name);
    return hash_mix(name, (__u64)s->user_end << 32 | s->h.pid) | 1;
}

static __always_inline bool stack_send(struct unwind_scratch *scratch, struct stack_record *s, struct waits_stats *stat)
{
    __u64 size = sample_finish(scratch);
    size += sample_interpreted(scratch, &stat->interpreted_lost, size);
    UNWIND_SAME_REGISTER(size);
    if (size > sizeof(*s) + sizeof(scratch->data))
        return false;
    s->h.size_bytes = size;
    /* The sooner a copy is read, the fewer have to be made. */
    return bpf_ringbuf_output(&records, s, size, s->stack_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP) == 0;
}

static __always_inline void stack_begin(struct stack_record *s, struct task_struct *task, __u64 now)
{
    __builtin_memset(s, 0, sizeof(*s));
    s->h.kind = RECORD_WAIT_STACK;
    s->h.time_ns = now;
    s->h.pid = BPF_CORE_READ(task, tgid);
    s->h.tid = BPF_CORE_READ(task, pid);
    s->cpu = bpf_get_smp_processor_id();
    s->cgroup_id = cgroup_id(cgroup_of(task));
    BPF_CORE_READ_STR_INTO(&s->comm, task, comm);
}

static __always_inline __u64 walk_stack(void *ctx, struct task_struct *task, bool in_kernel, struct waits_stats *stat,
                                        __u64 now)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    if (!scratch)
        return 0;
    struct stack_record *s = stack_record_of(scratch);
    unwind_walk_clear(&scratch->walk);
    stack_begin(s, task, now);
    if (in_kernel) {
        s->flags |= STACK_RECORD_LEAF_IN_KERNEL;
        sample_kernel(ctx, scratch);
    }
    scratch->walk.pid = s->h.pid;
    scratch->walk.base = s->kernel_frames;
    window_begin(now);
    sample_set_walk(scratch, walk_user(scratch, task, window.copies < COPIES_A_WINDOW, &stat->copies_refused));
    if (s->stack_bytes)
        __sync_fetch_and_add(&window.copies, 1);
    __u64 name = name_of(scratch, s);
    if (stack_is_known(name, now))
        return name;
    s->wait.name = name;
    if (!stack_send(scratch, s, stat)) {
        stat->lost++;
        return 0;
    }
    stat->stacks++;
    __u32 at = name & (STACKS_KNOWN - 1);
    stacks_known[at].name = name;
    stacks_known[at].sent_ns = now;
    return name;
}

/* Walks the stack of the current thread and sends it unless it is known. Returns its name; 0: it is lost. Not within
 * another walk on its CPU, whose scratch memory it uses. */
static __always_inline __u64 take_stack(void *ctx, struct task_struct *task, bool in_kernel, struct waits_stats *stat,
                                        __u64 now)
{
    stat->at_work = BPF_CORE_READ(task, pid);
    __u64 name = walk_stack(ctx, task, in_kernel, stat, now);
    stat->at_work = 0;
    return name;
}

static __always_inline void emit_wait(const struct task_struct *task, struct waits_stats *stat, __u64 start_ns,
                                      __u64 end_ns, __u64 stack)
{
    struct wait_record r = {
        .h = {.size_bytes = sizeof(r), .kind = RECORD_WAIT, .time_ns = end_ns, .pid = task->tgid, .tid = task->pid},
        .start_ns = start_ns,
        .stack = stack,
    };
    if (bpf_ringbuf_output(&records, &r, sizeof(r), BPF_RB_NO_WAKEUP))
        stat->lost++;
    else
        stat->waits++;
}

static __always_inline void emit_sample(const struct task_struct *task, struct waits_stats *stat, __u64 now,
                                        __u64 stack)
{
    struct run_record r = {
        .h = {.size_bytes = sizeof(r),
              .kind = RECORD_RUN,
              .time_ns = now,
              .pid = BPF_CORE_READ(task, tgid),
              .tid = BPF_CORE_READ(task, pid)},
        .stack = stack,
    };
    if (bpf_ringbuf_output(&records, &r, sizeof(r), BPF_RB_NO_WAKEUP))
        stat->lost++;
    else
        stat->samples++;
}

/* As take_stack, of a thread that waits or has waited. A tick of the clock that interrupted the walk has left its time:
 * its sample has this stack. */
static __always_inline __u64 take_wait_stack(void *ctx, struct task_struct *task, struct waits_stats *stat, __u64 now)
{
    if (stat->at_work) { /* on kernels that may preempt a walk */
        stat->interrupted++;
        return 0;
    }
    __u64 stack = take_stack(ctx, task, true, stat, now), tick_ns = stat->tick_ns;
    stat->tick_ns = 0;
    if (!tick_ns)
        return stack;
    if (stack)
        emit_sample(task, stat, tick_ns, stack);
    else
        stat->interrupted++;
    return stack;
}

/* ---- a thread comes back (6.16 and later) ---- */

/* When its only wait since it came back last began and, by the wake-up, ended. False: it was too short or the thread
 * was preempted, or it left several times, unseen. A new thread's first wait is placed too early by the time that
 * it was queued before its first run. */
static __always_inline bool last_wait(const struct wait_thread *t, const struct task_struct *task, __u64 now,
                                      __u64 *ret_start, __u64 *ret_end)
{
    __u64 start_ns = t->back_ns + (task->se.sum_exec_runtime - t->runtime_ns);
    __u64 end_ns = now - (task_queued((struct task_struct *)task) - t->queued_ns);
    __u64 min_ns = start_ns - t->back_ns >= WAITS_RUN_NS ? 1 : WAITS_MIN_NS;
    *ret_start = start_ns;
    *ret_end = end_ns;
    return task->nvcsw - t->sleeps == 1 && task->nivcsw == t->preemptions && start_ns + min_ns <= end_ns;
}

static __always_inline void note_return(struct wait_thread *t, const struct task_struct *task, __u64 now)
{
    t->back_ns = now;
    t->runtime_ns = task->se.sum_exec_runtime;
    t->queued_ns = task_queued((struct task_struct *)task);
    t->sleeps = task->nvcsw;
    t->preemptions = task->nivcsw;
}

/* Whether the current thread waited for the next request of a client: a server that has a thread for each connection
 * does so once for each request, and most of the share of walks would be spent on that. */
static __always_inline bool awaited_request(struct task_struct *task)
{
    const struct syscall_registers *registers = (const struct syscall_registers *)bpf_task_pt_regs(task);
    if (!is_receive(REGISTERS_NUMBER(registers)))
        return false;
    struct sock *sk = file_socket(task_file(task, REGISTERS_FIRST(registers)));
    return sk && answered_has(BPF_CORE_READ(sk, __sk_common.skc_cookie.counter));
}

static __always_inline void came_back(void *ctx, struct task_struct *task, __u64 now)
{
    struct wait_thread *t = thread_of(task);
    struct waits_stats *stat = stats_get();
    __u64 start_ns, end_ns;
    if (!t || !stat)
        return;
    const bool has_waited = last_wait(t, task, now, &start_ns, &end_ns);
    note_return(t, task, now);
    if (!has_waited || awaited_request(task))
        return;
    struct waits_walk_share *share = walk_share_of(now);
    if (!share->left_ns) {
        stat->shed++;
        return;
    }
    if (!window_takes_wait(now)) {
        stat->over_rate++;
        return;
    }
    __u64 stack = take_wait_stack(ctx, task, stat, now);
    if (stack)
        emit_wait(task, stat, start_ns, end_ns, stack);
    walk_share_pay(share, now);
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(waits_return, bool switched)
{
    struct task_struct *task = bpf_get_current_task_btf();
    if (!switched || !is_watched(task->tgid))
        return 0;
    __u64 start_ns = timer_start(WAITS_TIMER_SWITCH);
    came_back(ctx, task, bpf_ktime_get_ns());
    timer_stop(WAITS_TIMER_SWITCH, start_ns);
    return 0;
}

/* ---- a thread leaves, and another one arrives ---- */

/* When half of the share is spent, only threads whose last wait was long are walked. */
static __always_inline void leave(void *ctx, struct task_struct *task, bool preempted, __u64 now)
{
    struct wait_thread *t = thread_of(task);
    struct waits_stats *stat = stats_get();
    __u32 state = task_wait_state(task);
    if (!t || !stat)
        return;
    t->left_ns = 0;
    if (preempted || state == 0 || state & TASK_DEAD)
        return;
    t->left_ns = now;
    t->stack = 0;
    t->has_run = now - t->back_ns >= WAITS_RUN_NS;
    struct waits_walk_share *share = walk_share_of(now);
    if (share->left_ns <= (t->was_long ? 0 : WALK_SAVED_NS / 2))
        return;
    t->stack = take_wait_stack(ctx, task, stat, now);
    walk_share_pay(share, now);
}

/* A function, so that its record is not on the stack while another thread's stack is walked. */
static __noinline int arrive(struct task_struct *task, __u64 now)
{
    struct wait_thread *t = thread_of(task);
    struct waits_stats *stat = stats_get();
    if (!t || !stat)
        return 0;
    t->back_ns = now;
    if (!t->left_ns)
        return 0;
    __u64 start_ns = t->left_ns;
    t->left_ns = 0;
    t->was_long = now - start_ns >= WAITS_MIN_NS;
    if (!t->was_long && !t->has_run)
        return 0;
    if (!t->stack)
        stat->shed++;
    else if (!window_takes_wait(now))
        stat->over_rate++;
    else
        emit_wait(task, stat, start_ns, now, t->stack);
    return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(waits_switch, bool preempted, struct task_struct *before, struct task_struct *after)
{
    const bool leaves = is_watched(before->tgid), arrives = is_watched(after->tgid);
    if (!leaves && !arrives)
        return 0;
    __u64 start_ns = timer_start(WAITS_TIMER_SWITCH), now = bpf_ktime_get_ns();
    if (leaves)
        leave(ctx, before, preempted, now);
    if (arrives)
        arrive(after, now);
    timer_stop(WAITS_TIMER_SWITCH, start_ns);
    return 0;
}

/* ---- a tick of the clock ---- */

static __always_inline void take_sample(void *ctx, struct task_struct *task, bool in_kernel, __u64 now)
{
    struct waits_stats *stat = stats_get();
    if (!stat)
        return;
    struct waits_walk_share *share = walk_share_of(now);
    if (!share->left_ns) {
        stat->samples_shed++;
        return;
    }
    if (!window_takes_sample(now)) {
        stat->samples_over_rate++;
        return;
    }
    if (stat->at_work == BPF_CORE_READ(task, pid)) {
        stat->tick_ns = now;
        return;
    }
    if (stat->at_work) {
        stat->interrupted++;
        return;
    }
    __u64 stack = take_stack(ctx, task, in_kernel, stat, now);
    if (stack)
        emit_sample(task, stat, now, stack);
    walk_share_pay(share, now);
}

SEC("perf_event")
int waits_run(struct perf_sample_context *ctx)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    if (!is_watched(BPF_CORE_READ(task, tgid)) && !is_watched(BPF_CORE_READ(task, real_parent, tgid)))
        return 0;
    __u64 start_ns = timer_start(WAITS_TIMER_RUN);
    take_sample(ctx, task, !user_mode(&ctx->regs), bpf_ktime_get_ns());
    timer_stop(WAITS_TIMER_RUN, start_ns);
    return 0;
}
