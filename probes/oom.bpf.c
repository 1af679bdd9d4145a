/* Writes a record of each process that the kernel kills for memory: the victim with its memory, the cgroup whose limit
 * was reached, and the thread that asked for memory. An iterator, which user space reads, lists all processes with
 * their memory.
 *
 * The arguments of tracepoint mark_victim differ between kernels, and the kernel also marks processes that end anyway.
 * The signal solves both: the OOM killer sends SIGKILL to its victim right before it marks it, in the same thread and
 * under a lock of the whole kernel. */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "probes/common/cgroup.bpf.h"
#include "probes/oom.h"

char LICENSE[] SEC("license") = "GPL";

#define SIGNAL_KILL    9
#define SENT_BY_KERNEL 1  /* SEND_SIG_PRIV, in place of a siginfo */
#define SLACK_PAGES    64 /* CPUs charge memory in advance: the usage of a full cgroup can be below its limit */

volatile __u32 enabled = 0;
volatile __u64 below_cgroup_id = 0;
__u64 records_lost = 0; /* the ring was full */

/* killed_task: the task that the kernel last sent SIGKILL; killed_by: the thread that sent it. */
__u64 killed_by = 0;
__u64 killed_task = 0;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 16384);
} records SEC(".maps");

/* ---- memory of processes ---- */

#define COUNT_OF(mm, i)                                                                                                \
    (bpf_core_field_exists(((struct mm_struct___counters *)0)->rss_stat)                                               \
         ? (__s64)BPF_CORE_READ((struct mm_struct___counters *)(mm), rss_stat[i].count)                                \
         : (__s64)BPF_CORE_READ((struct mm_struct___old *)(mm), rss_stat.count[i].counter))

static __always_inline __u64 positive(__s64 count)
{
    return count > 0 ? count : 0;
}

static __always_inline void read_memory(struct mm_struct *mm, struct oom_memory *ret)
{
    ret->file = positive(COUNT_OF(mm, 0));
    ret->anonymous = positive(COUNT_OF(mm, 1));
    ret->swapped = positive(COUNT_OF(mm, 2));
    ret->shared = positive(COUNT_OF(mm, 3));
}

/* ---- cgroups of the memory controller ---- */

/* NULL: the kernel has no memory controller. */
static __always_inline struct cgroup_subsys_state *memory_state_of(struct task_struct *task)
{
    const int index = CONTROLLER_INDEX(memory_cgrp_id);
    struct css_set *set = BPF_CORE_READ(task, cgroups);
    struct cgroup_subsys_state *state = NULL;
    if (index >= 0)
        bpf_probe_read_kernel(&state, sizeof(state), &set->subsys[0] + index);
    return state;
}

/* The innermost cgroup that has both tasks, itself or in cgroups below. */
static __always_inline struct cgroup_subsys_state *common_cgroup(struct task_struct *a, struct task_struct *b)
{
    struct cgroup_subsys_state *one = memory_state_of(a), *other = memory_state_of(b);
    for (int i = 0; i < 2 * CGROUP_LEVELS_MAX && one && other && one != other; i++)
        if (BPF_CORE_READ(one, cgroup, level) > BPF_CORE_READ(other, cgroup, level))
            one = BPF_CORE_READ(one, parent);
        else
            other = BPF_CORE_READ(other, parent);
    return one == other ? one : NULL;
}

/* Pages that the limit of a cgroup leaves. */
static __always_inline __u64 pages_left(const struct mem_cgroup *memory)
{
    const __u64 max = BPF_CORE_READ(memory, memory.max), usage = BPF_CORE_READ(memory, memory.usage.counter);
    return usage < max ? max - usage : 0;
}

/* Pages that the limits of all cgroups of a task leave. */
static __always_inline __u64 least_pages_left(struct task_struct *task)
{
    struct cgroup_subsys_state *state = memory_state_of(task);
    __u64 least = ~0ull;
    for (int i = 0; i < CGROUP_LEVELS_MAX && state; i++) {
        const __u64 left = pages_left((const struct mem_cgroup *)state); /* `css` is its first member */
        least = left < least ? left : least;
        state = BPF_CORE_READ(state, parent);
    }
    return least;
}

/* The kernel names no cgroup to tracepoints. The one whose limit was reached has both the victim and the thread that
 * asked for memory, and has no memory left. */
static __always_inline void find_limit(struct task_struct *victim, struct oom_kill *r)
{
    struct cgroup_subsys_state *state = common_cgroup(victim, (struct task_struct *)bpf_get_current_task());
    for (int i = 0; i < CGROUP_LEVELS_MAX && state; i++) {
        const struct mem_cgroup *memory = (const struct mem_cgroup *)state; /* `css` is its first member */
        if (pages_left(memory) <= SLACK_PAGES) {
            r->limit_cgroup_id = cgroup_id(BPF_CORE_READ(state, cgroup));
            r->limit_pages = BPF_CORE_READ(memory, memory.max);
            r->is_group = BPF_CORE_READ(memory, oom_group);
            return;
        }
        state = BPF_CORE_READ(state, parent);
    }
}

/* ---- kills ---- */

SEC("raw_tp/signal_generate")
int oom_signal(__u64 *arguments)
{
    if (arguments[0] == SIGNAL_KILL && arguments[1] == SENT_BY_KERNEL && enabled) {
        killed_by = bpf_get_current_pid_tgid();
        killed_task = arguments[2];
    }
    return 0;
}

static __always_inline void fill_record(struct oom_kill *r, struct task_struct *victim, __u64 by)
{
    r->h.size_bytes = sizeof(*r);
    r->h.kind = RECORD_OOM_KILL;
    r->h.time_ns = bpf_ktime_get_ns();
    r->h.pid = r->h.tid = BPF_CORE_READ(victim, tgid);
    r->cgroup_id = cgroup_id(cgroup_of(victim));
    r->by_pid = by >> 32;
    r->by_tid = by;
    read_memory(BPF_CORE_READ(victim, mm), &r->memory);
    BPF_CORE_READ_STR_INTO(&r->comm, victim, group_leader, comm);
    bpf_get_current_comm(r->by_comm, sizeof(r->by_comm));
    find_limit(victim, r);
}

SEC("raw_tp/mark_victim")
int oom_kill(__u64 *arguments)
{
    const __u64 by = bpf_get_current_pid_tgid();
    struct task_struct *victim = (struct task_struct *)killed_task;
    if (!enabled || killed_by != by || !victim)
        return 0;
    killed_task = 0;
    struct oom_kill *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
    if (!r) {
        __sync_fetch_and_add(&records_lost, 1);
        return 0;
    }
    __builtin_memset(r, 0, sizeof(*r));
    fill_record(r, victim, by);
    bpf_ringbuf_submit(r, 0);
    return 0;
}

/* ---- all processes ---- */

static __always_inline bool is_below(struct task_struct *task, __u64 id)
{
    struct cgroup_subsys_state *state = id ? memory_state_of(task) : NULL;
    for (int i = 0; i < CGROUP_LEVELS_MAX && state; i++) {
        if (cgroup_id(BPF_CORE_READ(state, cgroup)) == id)
            return true;
        state = BPF_CORE_READ(state, parent);
    }
    return false;
}

SEC("iter/task")
int oom_processes(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    struct oom_process p = {};
    if (!task || BPF_CORE_READ(task, pid) != BPF_CORE_READ(task, tgid))
        return 0;
    struct mm_struct *mm = BPF_CORE_READ(task, mm);
    if (!mm || BPF_CORE_READ(task, flags) & PF_KTHREAD)
        return 0;
    p.pid = BPF_CORE_READ(task, pid);
    p.start_ns = BPF_CORE_READ(task, start_time);
    p.is_below = is_below(task, below_cgroup_id);
    read_memory(mm, &p.memory);
    p.left_pages = least_pages_left(task);
    BPF_CORE_READ_STR_INTO(&p.comm, task, comm);
    bpf_seq_write(ctx->meta->seq, &p, sizeof(p));
    return 0;
}
