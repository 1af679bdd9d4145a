/* Follows which request each thread works for, by the probes of libsonde's provider sonde_trace:
 * thread_enter(trace_id_high, trace_id_low, span_id, id), and thread_leave with what holds again, or zeros.
 * src/sources/link/link.c attaches these programs to the provider of each process that has one, and to nothing where
 * there is none.
 *
 * A thread that ends or calls exec() is forgotten, and one that user space says is not heard to leave any more. Loses
 * threads that find the table full (struct link_stats). */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/context/thread_link.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct link_stats);
} link_stats SEC(".maps");

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_0(r) ((r)->di)
#define ARGUMENT_1(r) ((r)->si)
#define ARGUMENT_2(r) ((r)->dx)
#elif defined(__TARGET_ARCH_arm64)
#define ARGUMENT_0(r) ((r)->regs[0])
#define ARGUMENT_1(r) ((r)->regs[1])
#define ARGUMENT_2(r) ((r)->regs[2])
#endif

static __always_inline struct thread_link *thread_find(__u64 id, __u64 started_ns)
{
    __u32 tid = id;
    struct thread_link *l = bpf_map_lookup_elem(&thread_links, &tid);

    return l && l->started_ns == started_ns && link_is_believed(l) ? l : NULL;
}

static __always_inline struct thread_link *thread_add(__u64 id, __u64 started_ns)
{
    const struct thread_link fresh = {.started_ns = started_ns, .pid = id >> 32, .epoch = link_epoch()};
    __u32 tid = id;

    bpf_map_update_elem(&thread_links, &tid, &fresh, BPF_ANY);
    return thread_find(id, started_ns);
}

static __always_inline void work_for(struct thread_link *l, const struct link_ids *ids, __u64 now)
{
    bool same = l->ids.trace_id_high == ids->trace_id_high && l->ids.trace_id_low == ids->trace_id_low;

    if (!same) {
        if (l->since_ns)
            l->other_until_ns = l->working ? now : l->until_ns;
        l->since_ns = l->entered_ns = now;
        l->earlier_until_ns = 0;
        l->first_span_id = ids->span_id;
    } else if (!l->working) {
        l->entered_ns = now;
        l->earlier_until_ns = l->until_ns;
        if (l->first_span_id != ids->span_id)
            l->first_span_id = 0;
    }
    l->ids = *ids;
    l->working = 1;
    l->check = link_check(l);
}

static __always_inline void work_for_nobody(struct thread_link *l, __u64 now)
{
    if (l->working)
        l->until_ns = now;
    l->working = 0;
    l->check = link_check(l);
}

/* Only who enters becomes known: when nobody enters any more, the table can be forgotten for good. */
static __always_inline void follow(const struct user_registers *r, struct link_stats *stats, __u64 now, bool enters)
{
    const struct link_ids ids = {ARGUMENT_0(r), ARGUMENT_1(r), ARGUMENT_2(r)};
    bool works = ids.trace_id_high | ids.trace_id_low;
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    __u64 id = bpf_get_current_pid_tgid(), started_ns = BPF_CORE_READ(task, start_time);
    struct thread_link *l = thread_find(id, started_ns);

    if (!l && works && enters && link_epoch()) {
        l = thread_add(id, started_ns);
        stats->map_full += !l;
    }
    if (l && works)
        work_for(l, &ids, now);
    else if (l)
        work_for_nobody(l, now);
}

static __always_inline int fired(const struct user_registers *r, bool enters)
{
    __u64 now = bpf_ktime_get_ns();
    __u32 zero = 0;
    struct link_stats *stats = bpf_map_lookup_elem(&link_stats, &zero);

    if (!stats)
        return 0;
    follow(r, stats, now, enters);
    if (stats->firings++ % LINK_TIMED_EVERY == 0)
        stats->sampled_ns += bpf_ktime_get_ns() - now;
    return 0;
}

SEC("uprobe")
int thread_enter(struct user_registers *r)
{
    return fired(r, true);
}

SEC("uprobe")
int thread_leave(struct user_registers *r)
{
    return fired(r, false);
}

struct raw_tracepoint_context {
    __u64 args[2];
};

SEC("raw_tp/sched_process_exit")
int forget_exit(struct raw_tracepoint_context *ctx)
{
    __u32 tid = bpf_get_current_pid_tgid();

    bpf_map_delete_elem(&thread_links, &tid);
    return 0;
}

/* Whoever calls exec() gets its process's number: what stood under either is of the old program. */
SEC("raw_tp/sched_process_exec")
int forget_exec(struct raw_tracepoint_context *ctx)
{
    __u32 tid = bpf_get_current_pid_tgid(), old = ctx->args[1];

    bpf_map_delete_elem(&thread_links, &tid);
    bpf_map_delete_elem(&thread_links, &old);
    return 0;
}

/* Run by user space (struct link_forget), attached to nothing. What the thread works for is believed no more, until it
 * enters again. In place: whatever is taken out of the table here could be another thread's while its own still writes
 * there. Should it be another's by now, that one loses its link. Returns whether a link was given up. */
SEC("raw_tp")
int forget_thread(struct raw_tracepoint_context *ctx)
{
    __u32 tid = ctx->args[0], pid = ctx->args[1];
    struct thread_link *l = bpf_map_lookup_elem(&thread_links, &tid);

    if (!l || l->pid != pid || !link_is_believed(l))
        return 0;
    l->epoch = 0;
    return l->working != 0;
}
