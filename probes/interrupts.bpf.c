/* Interrupts and softirqs: how many ran, and how long. Each CPU counts for itself, except for interrupt lines, which
 * mostly belong to one CPU anyway. One that ran for longer than the threshold has a record, and one in the flight
 * recorder for the requests that it delayed.
 *
 * Losses: records that find the ring full; runs that the kernel skips because the program is already running on that
 * CPU. */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "probes/common/run_timer.bpf.h"
#include "probes/interrupts.h"
#include "probes/recorder/recorder.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. */
const volatile __u64 threshold_ns = 1000000;
const volatile bool has_recorder = false; /* the flight recorder's maps exist */

volatile __u32 enabled = 0;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* possible CPUs, set at load */
    __type(key, __u32);
    __type(value, struct interrupts_cpu);
} cpus SEC(".maps");

struct interrupts_line lines[INTERRUPTS_LINES] __attribute__((aligned(64)));

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 65536);
} records SEC(".maps");

static const __u64 bounds_ns[] = INTERRUPTS_BOUNDS_NS;

static __always_inline struct interrupts_cpu *this_cpu(void)
{
    __u32 number = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&cpus, &number);
}

/* ---- one that ran for long ---- */

static __always_inline void record_for_requests(__u32 number, __u64 duration_ns, __u64 now)
{
    if (!has_recorder)
        return;
    const struct recorder_place place = recorder_place();
    if (!place.cpu)
        return;
    const struct recorder_record r = {.time_ns = now,
                                      .kind = RECORDER_INTERRUPT,
                                      .syscall = RECORDER_NO_SYSCALL,
                                      .tid = bpf_get_current_pid_tgid(),
                                      .object = (__u64)bpf_get_smp_processor_id() << 32 | number,
                                      .value = duration_ns};
    recorder_put_object(&place, &r);
}

/* `action`: of an interrupt line, else NULL. */
static __noinline void write_record(__u32 number, __u64 duration_ns, __u64 now, const struct irqaction *action)
{
    __u64 thread = bpf_get_current_pid_tgid();
    struct interrupt_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
    record_for_requests(number, duration_ns, now);
    if (!r) {
        struct interrupts_cpu *cpu = this_cpu();
        if (cpu)
            cpu->records_lost++;
        return;
    }
    r->h.size_bytes = sizeof(*r);
    r->h.kind = RECORD_INTERRUPT;
    r->h.reserved = 0;
    r->h.time_ns = now;
    r->h.pid = thread >> 32;
    r->h.tid = thread;
    r->duration_ns = duration_ns;
    r->number = number;
    r->cpu = bpf_get_smp_processor_id();
    bpf_get_current_comm(r->comm, sizeof(r->comm));
    r->name[0] = 0;
    if (action)
        bpf_probe_read_kernel_str(r->name, sizeof(r->name), BPF_CORE_READ(action, name));
    bpf_ringbuf_submit(r, 0);
}

/* ---- softirqs ---- */

SEC("tp_btf/softirq_entry")
int BPF_PROG(interrupts_softirq_entry, unsigned int softirq)
{
    struct interrupts_cpu *cpu = this_cpu();
    if (cpu && enabled)
        cpu->softirq_start_ns = bpf_ktime_get_ns();
    return 0;
}

static __always_inline void count_softirq(struct interrupts_softirq *s, __u64 ns)
{
    __u32 bucket = 0;

    while (bucket < INTERRUPTS_BUCKETS - 1 && ns > bounds_ns[bucket])
        bucket++;
    s->counts[bucket]++;
    s->ns += ns;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(interrupts_softirq_exit, unsigned int softirq)
{
    struct interrupts_cpu *cpu = this_cpu();
    if (!cpu || !cpu->softirq_start_ns)
        return 0;
    __u64 timer_ns = timer_start(INTERRUPTS_TIMER_SOFTIRQ), now = bpf_ktime_get_ns(), ns = now - cpu->softirq_start_ns;
    cpu->softirq_start_ns = 0;
    if (softirq < INTERRUPTS_SOFTIRQS)
        count_softirq(&cpu->softirqs[softirq], ns);
    if (ns > threshold_ns)
        write_record(softirq, ns, now, NULL);
    timer_stop(INTERRUPTS_TIMER_SOFTIRQ, timer_ns);
    return 0;
}

/* ---- interrupts ---- */

static __always_inline int begin_interrupt(void)
{
    struct interrupts_cpu *cpu = this_cpu();
    if (cpu && enabled)
        cpu->interrupt_start_ns = bpf_ktime_get_ns();
    return 0;
}

/* Returns how long the interrupt took; 0: its begin was not recorded. */
static __always_inline __u64 end_interrupt(struct interrupts_cpu *cpu, __u64 now)
{
    __u64 ns = cpu->interrupt_start_ns ? now - cpu->interrupt_start_ns : 0;

    cpu->interrupt_start_ns = 0;
    return ns;
}

static __always_inline struct interrupts_line *line_of(__u32 number)
{
    __u32 place = number < INTERRUPTS_LINES ? number : INTERRUPTS_LINES - 1;
    barrier_var(place); /* the verifier needs the mask, which the compiler would leave out */
    return &lines[place & (INTERRUPTS_LINES - 1)];
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(interrupts_handler_entry)
{
    return begin_interrupt();
}

/* Once for each handler of a line. */
SEC("tp_btf/irq_handler_exit")
int BPF_PROG(interrupts_handler_exit, int irq, struct irqaction *action)
{
    __u32 number = irq;
    struct interrupts_line *line = line_of(number);
    struct interrupts_cpu *cpu = this_cpu();
    if (!cpu || !cpu->interrupt_start_ns)
        return 0;
    __u64 timer_ns = timer_start(INTERRUPTS_TIMER_LINE), now = bpf_ktime_get_ns(), ns = end_interrupt(cpu, now);
    __sync_fetch_and_add(&line->ns, ns);
    __sync_fetch_and_add(&line->count, 1);
    if (line->action != (__u64)action) {
        line->action = (__u64)action;
        bpf_probe_read_kernel_str(line->name, sizeof(line->name), action->name);
    }
    if (ns > threshold_ns)
        write_record(INTERRUPT_FIRST_LINE + number, ns, now, action);
    timer_stop(INTERRUPTS_TIMER_LINE, timer_ns);
    return 0;
}

/* Maps the vectors of x86-64 (arch/x86/include/asm/irq_vectors.h). User space attaches the two programs to the
 * tracepoints of several vectors. */
static __always_inline __u32 vector_index(__u32 vector)
{
    switch (vector) {
    case 0xec:
        return INTERRUPT_LOCAL_TIMER;
    case 0xfd:
        return INTERRUPT_RESCHEDULE;
    case 0xfc: /* of all CPUs */
    case 0xfb: /* of one */
        return INTERRUPT_CALL_FUNCTION;
    case 0xf6:
        return INTERRUPT_IRQ_WORK;
    default:
        return INTERRUPTS_VECTORS;
    }
}

SEC("raw_tp")
int interrupts_vector_entry(__u64 *arguments)
{
    return begin_interrupt();
}

SEC("raw_tp")
int interrupts_vector_exit(__u64 *arguments)
{
    __u32 index = vector_index(arguments[0]);
    struct interrupts_cpu *cpu = this_cpu();
    if (!cpu || !cpu->interrupt_start_ns)
        return 0;
    __u64 timer_ns = timer_start(INTERRUPTS_TIMER_VECTOR), now = bpf_ktime_get_ns(), ns = end_interrupt(cpu, now);
    if (index < INTERRUPTS_VECTORS) {
        cpu->vectors[index].count++;
        cpu->vectors[index].ns += ns;
        if (ns > threshold_ns)
            write_record(INTERRUPT_FIRST_VECTOR + index, ns, now, NULL);
    }
    timer_stop(INTERRUPTS_TIMER_VECTOR, timer_ns);
    return 0;
}
