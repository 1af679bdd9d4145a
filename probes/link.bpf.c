/* Tracks which traced request each thread works for, through the probes of libsonde's provider sonde_trace:
 * thread_enter(trace_id_high, trace_id_low, span_id, id), and thread_leave with the IDs that apply again, or zeros.
 * src/sources/link/link.c attaches these programs to the provider of each process that has one.
 *
 * The entry of a thread that exits or calls exec() is deleted; user space invalidates entries of threads that no
 * longer fire thread_leave. Losses: threads when the table is full (struct link_stats). */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/common/preemption.bpf.h"
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

    return l && l->started_ns == started_ns && link_is_valid(l) ? l : NULL;
}

static __always_inline struct thread_link *thread_add(__u64 id, __u64 started_ns)
{
    const struct thread_link fresh = {.started_ns = started_ns, .pid = id >> 32, .epoch = link_epoch()};
    __u32 tid = id;

    bpf_map_update_elem(&thread_links, &tid, &fresh, BPF_ANY);
    return thread_find(id, started_ns);
}

static __always_inline void set_link(struct thread_link *l, const struct link_ids *ids, __u64 now)
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

static __always_inline void clear_link(struct thread_link *l, __u64 now)
{
    if (l->working)
        l->until_ns = now;
    l->working = 0;
    l->check = link_check(l);
}

/* Only thread_enter adds entries: once no probe fires thread_enter any more, invalidating the table is final. */
static __always_inline void update_link(const struct user_registers *r, struct link_stats *stats, __u64 now,
                                        bool enters)
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
        set_link(l, &ids, now);
    else if (l)
        clear_link(l, now);
}

static __always_inline void handle_firing(const struct user_registers *r, bool enters)
{
    __u64 now = bpf_ktime_get_ns();
    __u32 zero = 0;
    struct link_stats *stats = bpf_map_lookup_elem(&link_stats, &zero);

    if (!stats)
        return;
    update_link(r, stats, now, enters);
    if (stats->firings++ % LINK_TIMED_EVERY == 0)
        stats->sampled_ns += bpf_ktime_get_ns() - now;
}

SEC("uprobe")
int thread_enter(struct user_registers *r)
{
    preemption_disable();
    handle_firing(r, true);
    preemption_enable();
    return 0;
}

SEC("uprobe")
int thread_leave(struct user_registers *r)
{
    preemption_disable();
    handle_firing(r, false);
    preemption_enable();
    return 0;
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

/* A thread that calls exec() takes over its process's ID: entries of both IDs belong to the old program. */
SEC("raw_tp/sched_process_exec")
int forget_exec(struct raw_tracepoint_context *ctx)
{
    __u32 tid = bpf_get_current_pid_tgid(), old = ctx->args[1];

    bpf_map_delete_elem(&thread_links, &tid);
    bpf_map_delete_elem(&thread_links, &old);
    return 0;
}

/* Run by user space with a struct link_forget; not attached. Invalidates a thread's link until it enters again. In
 * place, because an entry deleted here could be reused by another thread while its own still writes to it. If it was
 * reused by now, the other thread loses its link. Returns whether a link was discarded. */
SEC("raw_tp")
int forget_thread(struct raw_tracepoint_context *ctx)
{
    __u32 tid = ctx->args[0], pid = ctx->args[1];
    struct thread_link *l = bpf_map_lookup_elem(&thread_links, &tid);

    if (!l || l->pid != pid || !link_is_valid(l))
        return 0;
    l->epoch = 0;
    return l->working != 0;
}
