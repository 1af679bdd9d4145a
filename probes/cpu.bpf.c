/* BPF side of CPU profiling: runs on every tick of a CPU's perf event, filters by the current task, walks its kernel
 * and user stack and writes one record of variable length (unwind/stack.h) to the ring. Other events that the kernel
 * counts arrive the same way. Tracepoints and user probes have programs of their own; only one of all these programs is
 * loaded.
 *
 * Losses: records when the ring is full or scratch memory is missing, stack copies when the ring is half full, events
 * during another event (struct cpu_stats). Unused features are constants, which the verifier removes together with
 * their code and maps. */
#include "probes/common/vmlinux.h"

#include "probes/interpreter/interpreters.bpf.h"

#include "probes/common/preemption.bpf.h"
#include "probes/common/sampling_rule.bpf.h"
#include "probes/common/task_filter.bpf.h"
#include "probes/context/sample_context.bpf.h"
#include "probes/cpu.h"
#include "probes/gpu_time.h"
#include "probes/oom.h"

char LICENSE[] SEC("license") = "GPL";

/* Changed at run time when the agent's budget is short. */
volatile __u64 sample_value = 0;
volatile __u32 no_copies = 0;

/* Of events that are counted here, one in this many is sampled. */
const volatile __u64 event_period = 1;
const volatile bool counts_seen = false;
volatile __u32 enabled = 0; /* from start to stop: tracepoints and probes run as soon as they are attached */

#define PERF_TYPE_SOFTWARE        1
#define PERF_COUNT_SW_PAGE_FAULTS 2
#define PAGE_FAULT_MIN_NS         50000000 /* between two samples */

/* The program also runs at page faults of processes whose memory grows (signal "oom"): a second program with the walk
 * of stacks would double what the kernel has to verify. */
const volatile bool page_faults = false;
volatile __u64 page_fault_ns = 0; /* of the last sample */

/* When the reader was last woken for a stack copy. */
volatile __u64 called_ns = 0;
#define CALL_MIN_NS 20000000

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct cpu_stats);
} stats SEC(".maps");

/* `at`: registers where the CPU was; NULL: somewhere in the kernel. */
static __always_inline int sample_user(const struct user_registers *at, struct unwind_scratch *scratch,
                                       struct cpu_stats *stat, struct task_struct *task)
{
    struct unwind_walk *w = &scratch->walk;
    /* Stored behind the kernel frames until the walk writes there, because the BPF stack has only 512 bytes for all
     * calls together. */
    struct user_registers *regs = (struct user_registers *)(scratch->data + STACK_MAX_KERNEL_FRAMES);
    int end;

    if ((BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
        return UNWIND_END_NO_USER;
    if (at && user_mode(at)) {
        if (!walk_begin(w, at))
            return UNWIND_END_UNSUPPORTED;
    } else {
        stack_record_of(scratch)->flags |= STACK_RECORD_LEAF_IN_KERNEL;
        if (!kernel_registers(task, regs) || !user_mode(regs))
            return UNWIND_END_NO_USER;
        if (!walk_begin(w, regs))
            return UNWIND_END_UNSUPPORTED;
    }
    w->interrupted = 1;
    interpreters_walk(scratch, task, bpf_get_current_pid_tgid(), stack_record_of(scratch)->h.time_ns);
    end = unwind_user();
    interpreters_walked(scratch, bpf_get_current_pid_tgid());
    if (!end_is_resumable(end))
        return end;
    if (no_copies || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 2)
        stat->copies_refused++;
    else
        copy_stack(task);
    return end;
}

static __always_inline bool reader_is_needed(const struct stack_record *s)
{
    if (s->stack_bytes == 0 || s->h.time_ns - called_ns < CALL_MIN_NS)
        return false;
    called_ns = s->h.time_ns;
    return true;
}

static __always_inline struct cpu_stats *stats_get(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&stats, &zero);
}

/* Completes and sends the record in the CPU's scratch memory. A global function without arguments: the verifier checks
 * it once, not once per path that leads here. */
__noinline int sample_send(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct cpu_stats *stat = stats_get();
    struct stack_record *s;
    __u64 size;

    if (!scratch || !stat)
        return 0;
    s = stack_record_of(scratch);
    stat->labels_lost += sample_take_context();
    size = sample_finish(scratch);
    size += sample_interpreted(scratch, &stat->interpreted_lost, size);
    size += sample_put_labels(scratch, &stat->labels_lost, size);
    size += sample_put_link(scratch, &stat->links_lost, size);

    if (size > sizeof(*s) + sizeof(scratch->data)) {
        stat->no_room++;
        return 0;
    }
    s->h.size_bytes = size;
    /* The sooner the missing tables are there, the fewer stacks must be copied. */
    if (bpf_ringbuf_output(&records, s, size, records_wakeup(reader_is_needed(s))))
        stat->ring_full++;
    else if (s->h.kind == RECORD_CPU_SAMPLE)
        stat->samples++;
    return 0;
}

/* Takes one sample of the current task. Inlined with constants, except for `kind` and `value`. */
static __always_inline void sample_task(void *ctx, const struct user_registers *at, bool with_kernel, __u16 kind,
                                        __u64 value, struct cpu_stats *stat)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    __u64 id = bpf_get_current_pid_tgid(), start_ns = bpf_ktime_get_ns();
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct stack_record *s;

    if (!scratch) {
        stat->no_room++;
        return;
    }
    unwind_walk_clear(&scratch->walk);
    s = stack_record_of(scratch);
    __builtin_memset(s, 0, sizeof(*s));
    s->h.kind = kind;
    s->h.time_ns = start_ns;
    s->h.pid = id >> 32;
    s->h.tid = id;
    s->sample.value = value;
    s->cpu = bpf_get_smp_processor_id();
    s->cgroup_id = cgroup_id(cgroup_of(task));
    bpf_get_current_comm(s->comm, sizeof(s->comm));

    if (with_kernel)
        sample_kernel(ctx, scratch);
    if (with_kernel && at)
        sample_retpoline_caller(at, scratch);
    scratch->walk.pid = id >> 32;
    scratch->walk.base = s->kernel_frames;
    sample_set_walk(scratch, sample_user(at, scratch, stat, task));
    sample_send();
    stat->run_time_ns += bpf_ktime_get_ns() - start_ns;
    stat->runs++;
}

static __always_inline bool current_is_wanted(void)
{
    return task_wanted((struct task_struct *)bpf_get_current_task(), bpf_get_current_pid_tgid() >> 32);
}

/* The cost of the rule lookup is counted as run time. */
static __always_inline bool tick_is_taken(struct cpu_stats *stat, __u64 *value)
{
    __u64 start_ns = bpf_ktime_get_ns();
    bool is_taken = sampling_rule_takes(value);

    stat->run_time_ns += bpf_ktime_get_ns() - start_ns;
    return is_taken;
}

static __always_inline bool is_page_fault(const struct perf_sample_context *ctx)
{
    struct perf_event *event = BPF_CORE_READ((const struct bpf_perf_event_data_kern *)ctx, event);

    return BPF_CORE_READ(event, attr.type) == PERF_TYPE_SOFTWARE &&
           BPF_CORE_READ(event, attr.config) == PERF_COUNT_SW_PAGE_FAULTS;
}

/* Of processes whose memory grows, few page faults are enough, however many threads have them. */
static __always_inline bool page_fault_is_taken(void)
{
    __u64 now_ns = bpf_ktime_get_ns();

    if (now_ns - page_fault_ns < PAGE_FAULT_MIN_NS)
        return false;
    page_fault_ns = now_ns;
    return true;
}

SEC("perf_event")
int cpu_sample(struct perf_sample_context *ctx)
{
    struct cpu_stats *stat = stats_get();
    const bool is_fault = page_faults && is_page_fault(ctx);
    __u64 value;

    if (!stat)
        return 0;
    if (counts_seen)
        stat->seen++;
    if (is_fault ? !page_fault_is_taken() : !current_is_wanted())
        return 0;
    value = is_fault ? ctx->sample_period : sample_value;
    if (is_fault || !sampling_rule_kinds || tick_is_taken(stat, &value))
        sample_task(ctx, &ctx->regs, !user_mode(&ctx->regs), is_fault ? RECORD_PAGE_FAULTS : RECORD_CPU_SAMPLE, value,
                    stat);
    return 0;
}

/* ---- events counted here ---- */

/* Guards the scratch memory against another task's event on kernels that can be preempted here. */
static __always_inline bool event_begin(struct cpu_stats *stat)
{
    if (stat->at_work) {
        stat->interrupted++;
        return false;
    }
    stat->at_work = 1;
    return true;
}

static __always_inline bool event_is_taken(struct cpu_stats *stat)
{
    if (++stat->since_sample < event_period)
        return false;
    stat->since_sample = 0;
    return true;
}

/* Takes a sample of an event that is not counted, without the kernel's stack. `at`: see take_event. */
static __always_inline void sample_event(void *ctx, const struct user_registers *at, __u16 kind, __u64 value)
{
    struct cpu_stats *stat = stats_get();

    if (!stat || !event_begin(stat))
        return;
    sample_task(ctx, at, false, kind, value, stat);
    stat->at_work = 0;
}

/* `at`: user registers at the event; NULL: not available. `in_kernel` is a separate constant because the compiler does
 * not know that a context is never NULL. Returns 1: with 0 the kernel would not pass the event on to other users of
 * the tracepoint (perf). */
static __always_inline int take_event(void *ctx, const struct user_registers *at, bool in_kernel)
{
    struct cpu_stats *stat;

    if (!enabled || !current_is_wanted())
        return 1;
    stat = stats_get();
    if (!stat || !event_begin(stat))
        return 1;
    if (event_is_taken(stat))
        sample_task(ctx, at, in_kernel, RECORD_CPU_SAMPLE, event_period, stat);
    stat->at_work = 0;
    return 1;
}

SEC("tracepoint")
int event_tracepoint(void *ctx)
{
    return take_event(ctx, NULL, true);
}

SEC("uprobe")
int event_user_probe(struct user_registers *ctx)
{
    preemption_disable();
    const int taken = take_event(ctx, ctx, false);
    preemption_enable();
    return taken;
}

/* ---- GPU time (lib/cuda) ---- */

#if defined(__TARGET_ARCH_x86)
#define PROBE_ARGUMENT(r) ((r)->di)
#elif defined(__TARGET_ARCH_arm64)
#define PROBE_ARGUMENT(r) ((r)->regs[0])
#endif

/* Windows that began, and that ended, in all processes: user space waits for the rest at the end. */
__u64 gpu_windows_began, gpu_windows_ended;

SEC("uprobe")
int event_gpu_launch(struct user_registers *ctx)
{
    preemption_disable();
    if (enabled && current_is_wanted())
        sample_event(ctx, ctx, RECORD_GPU_LAUNCH, PROBE_ARGUMENT(ctx));
    preemption_enable();
    return 0;
}

static __always_inline void count_gpu_window(const struct gpu_window *w)
{
    if (w->state == GPU_WINDOW_BEGAN)
        __sync_fetch_and_add(&gpu_windows_began, 1);
    else if (w->state == GPU_WINDOW_ENDED)
        __sync_fetch_and_add(&gpu_windows_ended, 1);
}

/* Copies a record from the program's memory; user space checks it. */
static __always_inline void copy_gpu_record(const void *from, struct record_header *to, struct cpu_stats *stat)
{
    __u64 id = bpf_get_current_pid_tgid(), size;

    if (bpf_probe_read_user(to, sizeof(*to), from))
        return;
    size = to->size_bytes;
    if (size < sizeof(struct gpu_sum) || size > GPU_RECORD_MAX_BYTES || bpf_probe_read_user(to, size, from))
        return;
    if (to->kind != RECORD_GPU_SUM && (to->kind != RECORD_GPU_WINDOW || size != sizeof(struct gpu_window)))
        return;
    to->size_bytes = size; /* the program could have changed it meanwhile */
    to->time_ns = bpf_ktime_get_ns();
    to->pid = id >> 32;
    to->tid = id;
    if (to->kind == RECORD_GPU_WINDOW)
        count_gpu_window((const struct gpu_window *)to);
    if (bpf_ringbuf_output(&records, to, size, records_wakeup(false)))
        stat->ring_full++;
}

static __always_inline void take_gpu_record(struct user_registers *ctx)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct cpu_stats *stat = stats_get();

    if (!scratch || !stat || !current_is_wanted() || !event_begin(stat))
        return;
    copy_gpu_record((const void *)PROBE_ARGUMENT(ctx), (struct record_header *)scratch->data, stat);
    stat->at_work = 0;
}

SEC("uprobe")
int event_gpu_record(struct user_registers *ctx)
{
    preemption_disable();
    take_gpu_record(ctx);
    preemption_enable();
    return 0;
}

/* ---- requested address space ---- */

#define ERRORS_FROM        (-4095L)
#define ADDRESS_SPACE_PAGE 4096UL

struct syscall_exit { /* ABI: context of a program on a system call's tracepoint */
    __u64 registers;
    __s64 number;
    __s64 result;
};

struct syscall_enter {
    __u64 registers;
    __s64 number;
    __u64 arguments[6];
};

/* End of the heap before the call, by thread. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, CPU_MAX_BRK);
    __type(key, __u32);
    __type(value, __u64);
} brk_before SEC(".maps");

#if defined(__TARGET_ARCH_x86)
#define SECOND_ARGUMENT si
#elif defined(__TARGET_ARCH_arm64)
#define SECOND_ARGUMENT regs[1]
#endif

/* The arguments of a system call are still in the thread's saved registers. Reads only one, to save BPF stack. */
static __always_inline __u64 second_argument(void)
{
    const char *regs = kernel_registers_of((struct task_struct *)bpf_get_current_task());
    __u64 value = 0;

    bpf_probe_read_kernel(&value, sizeof(value), regs + offsetof(struct user_registers, SECOND_ARGUMENT));
    return value;
}

SEC("tracepoint")
int event_mmap(struct syscall_exit *ctx)
{
    __s64 result = ctx->result;
    __u64 bytes;

    if (!enabled || (result < 0 && result >= ERRORS_FROM) || !current_is_wanted())
        return 1;
    bytes = (second_argument() + ADDRESS_SPACE_PAGE - 1) & ~(ADDRESS_SPACE_PAGE - 1);
    if (bytes)
        sample_event(ctx, NULL, RECORD_CPU_SAMPLE, bytes);
    return 1;
}

SEC("tracepoint")
int event_brk_enter(struct syscall_enter *ctx)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    __u32 tid = bpf_get_current_pid_tgid();
    __u64 before;

    if (!enabled || !ctx->arguments[0] || !current_is_wanted())
        return 1;
    before = BPF_CORE_READ(task, mm, brk);
    bpf_map_update_elem(&brk_before, &tid, &before, BPF_ANY);
    return 1;
}

SEC("tracepoint")
int event_brk(struct syscall_exit *ctx)
{
    __u32 tid = bpf_get_current_pid_tgid();
    __u64 *found = bpf_map_lookup_elem(&brk_before, &tid), before, after = ctx->result, bytes;

    if (!found)
        return 1;
    before = *found;
    bpf_map_delete_elem(&brk_before, &tid);
    /* The heap grows by whole pages: rounds both ends. */
    before = (before + ADDRESS_SPACE_PAGE - 1) & ~(ADDRESS_SPACE_PAGE - 1);
    after = (after + ADDRESS_SPACE_PAGE - 1) & ~(ADDRESS_SPACE_PAGE - 1);
    bytes = after - before;
    if (enabled && after > before && current_is_wanted())
        sample_event(ctx, NULL, RECORD_CPU_SAMPLE, bytes);
    return 1;
}
