/* The kernel half of CPU profiling: runs on every tick of a CPU's perf event, decides whether the task at
 * hand is asked for, walks its kernel and user stack and writes one record of variable length (cpu.h) into
 * the ring.
 *
 * Loses: records that find the ring full or no room to be made in, and stack copies when the ring is half full (struct cpu_stats).
 * Whatever is not asked for is a constant that the verifier removes with the code and the maps behind it. */
#include "python.bpf.h"

#include "filter.bpf.h"
#include "thread_link.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Changed while we run, when the agent's budget is short. */
volatile __u64 weight_ns = 0;
volatile __u32 no_copies = 0;

/* When the reader was called last for a copied stack. */
volatile __u64 called_ns = 0;
#define CALL_MIN_NS 20000000

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct cpu_stats);
} stats SEC(".maps");

static __always_inline int sample_user(struct perf_sample_context *ctx, struct unwind_scratch *scratch,
                                       struct cpu_stats *stat, struct task_struct *task)
{
    struct unwind_walk *w = &scratch->walk;
    /* Behind the kernel's frames, until the walk writes there: the stack is for calls, 512 bytes for all of them together. */
    struct user_registers *regs = (struct user_registers *)(scratch->data + CPU_MAX_KERNEL_FRAMES);
    int end;

    if ((BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
        return UNWIND_END_NO_USER;
    if (user_mode(&ctx->regs)) {
        if (!walk_begin(w, &ctx->regs))
            return UNWIND_END_UNSUPPORTED;
    } else {
        sample_of(scratch)->flags |= CPU_SAMPLE_LEAF_IN_KERNEL;
        if (!kernel_registers(task, regs) || !user_mode(regs))
            return UNWIND_END_NO_USER;
        if (!walk_begin(w, regs))
            return UNWIND_END_UNSUPPORTED;
    }
    w->interrupted = 1;
    python_walk(scratch, task, bpf_get_current_pid_tgid(), sample_of(scratch)->h.time_ns);
    end = unwind_user();
    python_doubt(scratch, bpf_get_current_pid_tgid());
    if (!end_is_mendable(end))
        return end;
    if (no_copies || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 2)
        stat->copies_refused++;
    else
        copy_stack(task);
    return end;
}

static __always_inline bool reader_is_needed(const struct cpu_sample *s)
{
    if (s->stack_bytes == 0 || s->h.time_ns - called_ns < CALL_MIN_NS)
        return false;
    called_ns = s->h.time_ns;
    return true;
}

/* Behind the record of `size` bytes what the thread works for; how many bytes that is. */
static __always_inline __u64 sample_link(struct unwind_scratch *scratch, struct cpu_stats *stat, struct task_struct *task,
                                         __u64 size)
{
    struct cpu_sample *s = sample_of(scratch);
    const struct link_ids *ids = links ? link_of_current(task, s->h.tid) : NULL;
    __u64 at = size - sizeof(*s);

    if (!ids)
        return 0;
    UNWIND_SAME_REGISTER(at);
    if (at > sizeof(scratch->data) - sizeof(*ids) ||
        bpf_probe_read_kernel((__u8 *)scratch->data + at, sizeof(*ids), ids)) {
        stat->links_lost++;
        return 0;
    }
    s->flags |= CPU_SAMPLE_LINKED;
    return sizeof(*ids);
}

static __always_inline void sample_send(struct unwind_scratch *scratch, struct cpu_stats *stat, struct task_struct *task)
{
    struct cpu_sample *s = sample_of(scratch);
    __u64 flags = BPF_RB_NO_WAKEUP, size = sample_finish(scratch);

    size += sample_interpreted(scratch, stat, size);
    size += sample_link(scratch, stat, task, size);

    if (size > sizeof(*s) + sizeof(scratch->data)) {
        stat->no_room++;
        return;
    }
    s->h.size_bytes = size;
    /* The reader comes by itself now and then; it is called when a quarter is full, and for a copied stack: the
     * sooner the tables have what was missing, the fewer stacks have to be copied. */
    if (reader_is_needed(s) || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 4)
        flags = BPF_RB_FORCE_WAKEUP;
    if (bpf_ringbuf_output(&records, s, size, flags))
        stat->ring_full++;
    else
        stat->samples++;
}

SEC("perf_event")
int cpu_sample(struct perf_sample_context *ctx)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    __u64 id = bpf_get_current_pid_tgid(), start_ns;
    struct unwind_scratch *scratch;
    struct cpu_stats *stat;
    struct cpu_sample *s;
    __u32 zero = 0;

    if (!task_wanted(task, id >> 32))
        return 0;
    start_ns = bpf_ktime_get_ns();
    scratch = unwind_scratch_get();
    stat = bpf_map_lookup_elem(&stats, &zero);
    if (!stat)
        return 0;
    if (!scratch) {
        stat->no_room++;
        return 0;
    }

    __builtin_memset(&scratch->walk, 0, sizeof(scratch->walk));
    s = sample_of(scratch);
    __builtin_memset(s, 0, sizeof(*s));
    s->h.kind = WIRE_CPU_SAMPLE;
    s->h.time_ns = start_ns;
    s->h.pid = id >> 32;
    s->h.tid = id;
    s->weight_ns = weight_ns;
    s->cpu = bpf_get_smp_processor_id();
    s->cgroup_id = cgroup_id(cgroup_of(task));
    bpf_get_current_comm(s->comm, sizeof(s->comm));

    if (!user_mode(&ctx->regs))
        sample_kernel(ctx, scratch);
    scratch->walk.pid = id >> 32;
    scratch->walk.base = s->kernel_frames;
    sample_set_walk(scratch, sample_user(ctx, scratch, stat, task));
    sample_send(scratch, stat, task);
    stat->run_time_ns += bpf_ktime_get_ns() - start_ns;
    stat->runs++;
    return 0;
}
