/* Run-queue latency: from the moment when a thread becomes runnable (it is woken, created or preempted) until it runs.
 * Counts all waits by cgroup, and writes a record of each that is longer than the threshold, with the thread that ran
 * on the CPU before.
 *
 * Losses: threads that do not fit the table, records that find the ring full (struct runqueue_stats). */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_tracing.h>

#include "probes/common/cgroup.bpf.h"
#include "probes/common/task.bpf.h"
#include "probes/runqueue.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u64 threshold_ns = 20000000;

volatile __u32 enabled = 0, is_shed = 0;

/* Since when a thread has been runnable; 0: it is not, or it runs. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, RUNQUEUE_MAX_THREADS);
    __type(key, __u32);
    __type(value, __u64);
} runnable_since SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, RUNQUEUE_MAX_CGROUPS + 1);
    __type(key, __u64);
    __type(value, struct runqueue_waits);
} waits SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 262144);
} records SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct runqueue_stats);
} stats SEC(".maps");

/* In place of a new cgroup's counters on the stack, whose size is limited. */
static const struct runqueue_waits no_waits = {};

static __always_inline struct runqueue_stats *stats_get(void)
{
    const __u32 zero = 0;

    return bpf_map_lookup_elem(&stats, &zero);
}

static __always_inline void set_runnable(__u32 tid, __u64 now, struct runqueue_stats *stat)
{
    __u64 *since = bpf_map_lookup_elem(&runnable_since, &tid);

    if (since)
        *since = now;
    else if (bpf_map_update_elem(&runnable_since, &tid, &now, BPF_ANY))
        stat->threads_full++;
}

static __noinline struct runqueue_waits *waits_of(__u64 cgroup)
{
    const __u64 other = RUNQUEUE_OTHER;
    struct runqueue_waits *w = bpf_map_lookup_elem(&waits, &cgroup);

    if (w)
        return w;
    bpf_map_update_elem(&waits, &cgroup, &no_waits, BPF_NOEXIST);
    w = bpf_map_lookup_elem(&waits, &cgroup);
    return w ? w : bpf_map_lookup_elem(&waits, &other);
}

static __always_inline __u32 bucket_of(__u64 wait_ns)
{
    __u64 us = wait_ns / 1000;
    __u32 bucket = 0;

    for (int i = 0; i < RUNQUEUE_BUCKETS - 1; i++) {
        bucket += us > 0;
        us >>= 1;
    }
    return bucket;
}

static __always_inline void write_delay(struct task_struct *before, struct task_struct *after, __u64 cgroup,
                                        __u64 delay_ns, __u64 now, struct runqueue_stats *stat)
{
    struct runqueue_delay *d = bpf_ringbuf_reserve(&records, sizeof(*d), 0);

    if (!d) {
        stat->ring_full++;
        return;
    }
    d->h.size_bytes = sizeof(*d);
    d->h.kind = RECORD_RUNQUEUE_DELAY;
    d->h.reserved = 0;
    d->h.time_ns = now;
    d->h.pid = after->tgid;
    d->h.tid = after->pid;
    d->cgroup_id = cgroup;
    d->delay_ns = delay_ns;
    d->cpu = bpf_get_smp_processor_id();
    d->previous_pid = before->tgid;
    d->previous_tid = before->pid;
    d->reserved = 0;
    BPF_CORE_READ_STR_INTO(&d->comm, after, comm);
    BPF_CORE_READ_STR_INTO(&d->previous_comm, before, comm);
    bpf_ringbuf_submit(d, 0);
}

static __always_inline void end_wait(struct task_struct *before, struct task_struct *after, __u64 now,
                                     struct runqueue_stats *stat)
{
    __u32 tid = after->pid;
    __u64 *since = bpf_map_lookup_elem(&runnable_since, &tid);

    if (!since || !*since || *since > now)
        return;
    __u64 wait_ns = now - *since, cgroup = cgroup_id(cgroup_of(after));
    *since = 0;
    struct runqueue_waits *w = waits_of(cgroup);
    if (!w)
        return;
    __u32 bucket = bucket_of(wait_ns);
    if (bucket < RUNQUEUE_BUCKETS)
        __sync_fetch_and_add(&w->counts[bucket], 1);
    __sync_fetch_and_add(&w->sum_ns, wait_ns);
    if (wait_ns <= threshold_ns)
        return;
    __sync_fetch_and_add(&w->delays, 1);
    write_delay(before, after, cgroup, wait_ns, now, stat);
}

/* A thread that is woken while it still runs is not in the run queue: what its wake-up noted is dropped here. */
static __always_inline void leave(struct task_struct *task, bool preempted, __u64 now, struct runqueue_stats *stat)
{
    __u32 tid = task->pid, state = task_wait_state(task);

    if (preempted || state == 0) {
        set_runnable(tid, now, stat);
    } else if (state & TASK_DEAD) {
        bpf_map_delete_elem(&runnable_since, &tid);
    } else {
        __u64 *since = bpf_map_lookup_elem(&runnable_since, &tid);

        if (since)
            *since = 0;
    }
}

SEC("tp_btf/sched_switch")
int BPF_PROG(runqueue_switch, bool preempted, struct task_struct *before, struct task_struct *after)
{
    struct runqueue_stats *stat = stats_get();

    if (!stat || !enabled) {
        if (stat && is_shed)
            stat->shed++;
        return 0;
    }
    __u64 now = bpf_ktime_get_ns();
    if (before->pid)
        leave(before, preempted, now, stat);
    if (after->pid)
        end_wait(before, after, now, stat);
    stat->runs++;
    stat->run_time_ns += bpf_ktime_get_ns() - now;
    return 0;
}

static __always_inline int woken(struct task_struct *task)
{
    struct runqueue_stats *stat = stats_get();

    if (!stat || !enabled)
        return 0;
    __u64 now = bpf_ktime_get_ns();
    set_runnable(task->pid, now, stat);
    stat->runs++;
    stat->run_time_ns += bpf_ktime_get_ns() - now;
    return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(runqueue_woken, struct task_struct *task)
{
    return woken(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(runqueue_born, struct task_struct *task)
{
    return woken(task);
}
