/* The kernel half of CPU profiling: runs on every tick of a CPU's perf event, decides whether the task at
 * hand is asked for, walks its kernel and user stack and writes one record of variable length (cpu.h) into
 * the ring.
 *
 * Loses: records that find the ring full, and stack copies when the ring is half full (struct cpu_stats).
 * Whatever is not asked for is a constant that the verifier removes with the code and the maps behind it. */
#include "unwind_sample.bpf.h"

#include "cgroup.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Changed while we run, when the agent's budget is short. */
volatile __u64 weight_ns = 0;
volatile __u32 no_copies = 0;

/* When the reader was called last for a copied stack. */
volatile __u64 called_ns = 0;
#define CALL_MIN_NS 20000000

const volatile __u64 ring_bytes = 0;
const volatile __u32 skip_pid = 0;
const volatile bool filter_pids = false;
const volatile bool filter_cgroups = false;
const volatile bool filter_commands = false;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096); /* set at load */
} records SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct cpu_stats);
} stats SEC(".maps");

/* Processes asked for and their descendants, with the time at which they began (0: before the recording did). */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CPU_MAX_FOLLOWED);
    __type(key, __u32);
    __type(value, __u64);
} followed SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CPU_MAX_FILTERS);
    __type(key, __u64);
    __type(value, __u8);
} cgroups SEC(".maps");

struct command {
    char name[16];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CPU_MAX_FILTERS);
    __type(key, struct command);
    __type(value, __u8);
} commands SEC(".maps");

/* By the thread's own name or its process's. */
static __always_inline bool command_wanted(struct task_struct *task)
{
    struct command command = {};

    bpf_get_current_comm(command.name, sizeof(command.name));
    if (bpf_map_lookup_elem(&commands, &command))
        return true;
    __builtin_memset(&command, 0, sizeof(command));
    BPF_CORE_READ_STR_INTO(&command.name, task, group_leader, comm);
    return bpf_map_lookup_elem(&commands, &command);
}

static __always_inline bool task_wanted(struct task_struct *task, __u32 pid)
{
    if (pid == 0 || pid == skip_pid)
        return false;
    if (filter_pids && !bpf_map_lookup_elem(&followed, &pid))
        return false;
    if (filter_cgroups && !cgroup_wanted(cgroup_of(task), &cgroups))
        return false;
    return !filter_commands || command_wanted(task);
}

static __always_inline int sample_user(struct perf_sample_context *ctx, struct unwind_scratch *scratch,
                                       struct cpu_stats *stat, struct task_struct *task)
{
    struct unwind_walk *w = &scratch->walk;
    struct user_registers regs;
    int end;

    if ((BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
        return UNWIND_END_NO_USER;
    if (user_mode(&ctx->regs)) {
        if (!walk_begin(w, &ctx->regs))
            return UNWIND_END_UNSUPPORTED;
    } else {
        sample_of(scratch)->flags |= CPU_SAMPLE_LEAF_IN_KERNEL;
        if (!kernel_registers(task, &regs) || !user_mode(&regs))
            return UNWIND_END_NO_USER;
        if (!walk_begin(w, &regs))
            return UNWIND_END_UNSUPPORTED;
    }
    w->interrupted = 1;
    end = unwind_user();
    if (!end_is_mendable(end))
        return end;
    if (no_copies || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 2)
        stat->copies_refused++;
    else
        unwind_copy_stack(BPF_CORE_READ(task, mm, start_stack));
    return end;
}

static __always_inline void sample_kernel(struct perf_sample_context *ctx, struct unwind_scratch *scratch)
{
    long bytes;

    if (user_mode(&ctx->regs))
        return;
    bytes = bpf_get_stack(ctx, scratch->data, CPU_MAX_KERNEL_FRAMES * 8, 0);
    if (bytes <= 0 || bytes > CPU_MAX_KERNEL_FRAMES * 8)
        return;
    sample_of(scratch)->kernel_frames = (__u64)bytes / 8;
    if (bytes == CPU_MAX_KERNEL_FRAMES * 8)
        sample_of(scratch)->flags |= CPU_SAMPLE_KERNEL_TRUNCATED;
}

static __always_inline bool reader_is_needed(const struct cpu_sample *s)
{
    if (s->stack_bytes == 0 || s->h.time_ns - called_ns < CALL_MIN_NS)
        return false;
    called_ns = s->h.time_ns;
    return true;
}

static __always_inline void sample_send(struct unwind_scratch *scratch, struct cpu_stats *stat)
{
    struct cpu_sample *s = sample_of(scratch);
    __u64 flags = BPF_RB_NO_WAKEUP, size = sample_finish(scratch);

    if (size > sizeof(*s) + sizeof(scratch->data))
        return;
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
    if (!scratch || !stat)
        return 0;

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

    sample_kernel(ctx, scratch);
    scratch->walk.pid = id >> 32;
    scratch->walk.base = s->kernel_frames;
    sample_set_walk(scratch, sample_user(ctx, scratch, stat, task));
    sample_send(scratch, stat);
    stat->run_time_ns += bpf_ktime_get_ns() - start_ns;
    stat->runs++;
    return 0;
}

struct raw_tracepoint_context {
    __u64 args[2];
};

/* Children of followed processes are followed. Loaded only when processes were asked for. */
SEC("raw_tp/sched_process_fork")
int follow_fork(struct raw_tracepoint_context *ctx)
{
    struct task_struct *parent_task = (struct task_struct *)ctx->args[0];
    struct task_struct *child_task = (struct task_struct *)ctx->args[1];
    __u32 parent = BPF_CORE_READ(parent_task, tgid), child = BPF_CORE_READ(child_task, tgid);
    __u64 start_ns = BPF_CORE_READ(child_task, start_time);
    __u32 zero = 0;

    if (child == parent || !bpf_map_lookup_elem(&followed, &parent))
        return 0;
    if (bpf_map_update_elem(&followed, &child, &start_ns, BPF_ANY)) {
        struct cpu_stats *stat = bpf_map_lookup_elem(&stats, &zero);

        if (stat)
            stat->followed_full++;
    }
    return 0;
}

/* The last of a process is gone. Its number may long belong to another: tasks are freed some time after their numbers are. */
SEC("raw_tp/sched_process_free")
int follow_free(struct raw_tracepoint_context *ctx)
{
    struct task_struct *task = (struct task_struct *)ctx->args[0];
    __u32 tgid = BPF_CORE_READ(task, tgid);
    __u64 *start_ns;

    if (BPF_CORE_READ(task, pid) != tgid)
        return 0;
    start_ns = bpf_map_lookup_elem(&followed, &tgid);
    if (start_ns && (*start_ns == 0 || *start_ns == BPF_CORE_READ(task, start_time)))
        bpf_map_delete_elem(&followed, &tgid);
    return 0;
}
