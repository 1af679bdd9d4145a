/* The wire record of one CPU sample: who ran, where in the kernel and where in user space. Written by cpu.bpf.c, read
 * by resolve. Variable length: the arrays follow one another in `data`, each only as long as it is. */
#pragma once

#include "probes/common/record.h"
#include "probes/go_labels.h"
#include "probes/link.h"
#include "probes/python.h"

#define CPU_MAX_KERNEL_FRAMES 127
#define CPU_MAX_USER_FRAMES   1024
#define CPU_STACK_COPY_BYTES  32768 /* of the user stack, copied when rows were missing */

/* How the walk of the user stack ended. Only UNWIND_END_ENTRY is a whole stack. */
enum unwind_end {
    UNWIND_END_ENTRY = 0,       /* reached the thread's entry (_start, clone's child: return address undefined) */
    UNWIND_END_NO_USER = 1,     /* no user half: a kernel thread */
    UNWIND_END_NO_PROCESS = 2,  /* the process's mappings are not in the tables yet: the stack was copied */
    UNWIND_END_NO_ROWS = 3,     /* a mapping's rows are not in the tables yet: the stack was copied */
    UNWIND_END_NO_MAPPING = 4,  /* an address outside every mapping that has code */
    UNWIND_END_BAD_READ = 5,    /* stack memory could not be read (paged out, or not a stack) */
    UNWIND_END_NO_CFI = 6,      /* code without unwinding rules, and no frame pointer to go by */
    UNWIND_END_TOO_DEEP = 7,    /* CPU_MAX_USER_FRAMES reached */
    UNWIND_END_UNSUPPORTED = 8, /* a rule of a kind that rows cannot express */
    UNWIND_END_NOT_RUNNING = 9, /* the thread waited since before anybody looked: its stack was copied
                                   (sleeping_tasks.bpf.c), or cannot be read from here */
    UNWIND_END_COUNT,
};

struct cpu_sample {
    struct record_header h;
    __u64 cgroup_id; /* kernfs id of the task's cgroup, which is its directory's inode: in the hierarchy that enum
                      * cpu_cgroups says (v1 is where jobs live on hybrid hosts) */
    __u64 weight_ns; /* CPU time that this sample stands for; of an event: events, or its bytes; of
                        RECORD_OFF_CPU_WAKER: see offcpu.h */
    __u32 cpu;
    __u8 kernel_frames; /* data[0 ..): kernel return addresses, leaf first */
    __u8 labels;        /* of the goroutine: so many struct go_label, behind all of data[] but links */
    __u16 user_frames; /* then: user addresses, leaf first; exact ones are marked CPU_FRAME_EXACT, the others are return
                          addresses */
    __u8 user_end;     /* enum unwind_end */
    __u8 flags;        /* CPU_SAMPLE_* */
    __u16 stack_skipped_words;
    __u32 stack_bytes; /* then: this many bytes of the user stack, a multiple of 8; then what flags tell of */
    /* User registers of the last user frame in data[], where the walk stopped: for going on from the stack copy, which
     * begins stack_skipped_words above stop_sp rounded down to 8. */
    __u64 stop_ip, stop_sp, stop_fp, stop_lr, stop_bx;
    char comm[16]; /* the thread's name */
    __u64 data[];
};
_Static_assert(sizeof(struct cpu_sample) == 112, "wire format");

#define CPU_SAMPLE_LEAF_IN_KERNEL   1 /* the user half begins in a system call, fault or interrupt */
#define CPU_SAMPLE_KERNEL_TRUNCATED 2
#define CPU_SAMPLE_SECOND_STACK                                                                                        \
    32 /* data[] goes on with the copy of another stack, which a signal interrupted: its address, its words */
#define CPU_SAMPLE_REGISTERS                                                                                           \
    8 /* x86-64: data[] ends with the CPU_SAMPLE_REGISTER_COUNT registers of the leaf, by DWARF's numbers */
#define CPU_SAMPLE_REGISTER_COUNT 16
#define CPU_SAMPLE_LINKED                                                                                              \
    64 /* the thread works for a traced request: behind all else in data[] there is a struct link_ids */
#define CPU_SAMPLE_INTERPRETED                                                                                         \
    128 /* an interpreter's frames were looked for: behind all of data[] but labels and links struct python_entry[],   \
           struct python_tail */
#define CPU_SAMPLE_STOP_BY_FP 16 /* a frame pointer led to the last user frame: one that lies in no code is none */
#define CPU_SAMPLE_STOP_INTERRUPTED                                                                                    \
    4 /* stop_ip is exact: a leaf, or interrupted by a signal; otherwise a return address */

/* What the kernel half counts, a CPU's share each. */
struct cpu_stats {
    __u64 runs;             /* of the program, on tasks that were asked for */
    __u64 run_time_ns;      /* spent in them */
    __u64 samples;          /* written to the ring */
    __u64 ring_full;        /* not written */
    __u64 no_room;          /* of a CPU without scratch memory, or too large for it */
    __u64 copies_refused;   /* stacks not copied, because the ring was half full or the budget short */
    __u64 links_lost;       /* samples too large to say which request they were taken in */
    __u64 interpreted_lost; /* samples too large for their interpreter's frames */
    __u64 labels_lost;      /* samples without all labels of their goroutine, or with one cut */
    __u64 seen;             /* events counted by the kernel for which a program ran, of whatever task */
    __u64 since_sample;     /* events of tasks that were asked for, since the last one that was taken */
    __u64 interrupted;      /* events in the middle of another one on the same CPU: not told */
    __u32 at_work;          /* an event is being told */
    __u32 reserved;
};

/* What is sampled. */
enum cpu_event {
    CPU_EVENT_COUNTED,    /* a clock's tick, or a perf event's overflow: the kernel counts to the period */
    CPU_EVENT_TRACEPOINT, /* each run is one: counted here, after the filters */
    CPU_EVENT_USER_PROBE,
    CPU_EVENT_MMAP, /* weighs the bytes that it added to the address space */
    CPU_EVENT_BRK,
};

#define CPU_MAX_BRK 4096 /* threads within brk() at a time */

/* Whose hierarchy names jobs: that of the first controller that is mounted as cgroup v1, in this order, else cgroup v2.
 */
enum cpu_cgroups {
    CPU_CGROUPS_V2,
    CPU_CGROUPS_MEMORY,
    CPU_CGROUPS_CPUACCT,
    CPU_CGROUPS_CPU,
    CPU_CGROUPS_PIDS,
    CPU_CGROUPS_DEVICES,
};

#define CPU_MAX_FOLLOWED 10240
#define CPU_MAX_FILTERS  64

/* Set in a user address of data[] that is exact: a leaf, or one interrupted by a signal. The others are return
 * addresses, whose call is one byte earlier. User addresses never have this bit of their own. */
#define CPU_FRAME_EXACT (1ULL << 63)

/* What stands at the very end of a record: struct go_label[], struct link_ids. */
static inline __u32 cpu_sample_end_bytes(const struct cpu_sample *s)
{
    return s->labels * (__u32)sizeof(struct go_label) +
           (s->flags & CPU_SAMPLE_LINKED ? (__u32)sizeof(struct link_ids) : 0);
}

static inline const struct go_label *cpu_sample_labels(const struct cpu_sample *s)
{
    return (const struct go_label *)((const char *)s + s->h.size_bytes - cpu_sample_end_bytes(s));
}

static inline const struct python_tail *cpu_sample_python_tail(const struct cpu_sample *s)
{
    return (const struct python_tail *)((const char *)s + s->h.size_bytes - cpu_sample_end_bytes(s) -
                                        sizeof(struct python_tail));
}

/* What stands behind all else in a record, found from its end: struct python_entry[] and struct python_tail, struct
 * go_label[], struct link_ids. Of a record that cannot hold what it says: all of it. */
static inline __u32 cpu_sample_tail_bytes(const struct cpu_sample *s)
{
    const __u32 end_bytes = cpu_sample_end_bytes(s), fixed_bytes = end_bytes + sizeof(struct python_tail);

    if (s->labels > GO_LABELS_MAX)
        return s->h.size_bytes;
    if (!(s->flags & CPU_SAMPLE_INTERPRETED))
        return end_bytes;
    if (s->h.size_bytes < sizeof(*s) + fixed_bytes)
        return s->h.size_bytes;
    const struct python_tail *tail = cpu_sample_python_tail(s);
    return tail->entries <= PYTHON_MAX_ENTRIES ? fixed_bytes + tail->entries * (__u32)sizeof(struct python_entry)
                                               : s->h.size_bytes;
}
