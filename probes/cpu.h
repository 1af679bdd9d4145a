/* The record of one CPU sample: which thread ran, and its kernel and user stack. Written by cpu.bpf.c, read by
 * resolve. Variable length: the arrays follow one another in `data` without gaps. */
#pragma once

#include "probes/common/record.h"
#include "probes/go_labels.h"
#include "probes/link.h"
#include "probes/python.h"

#define CPU_MAX_KERNEL_FRAMES 127
#define CPU_MAX_USER_FRAMES   1024
#define CPU_STACK_COPY_BYTES  32768 /* of the user stack, copied when an unwind table was missing */

/* How the walk of the user stack ended. Only UNWIND_END_ENTRY is a complete stack. */
enum unwind_end {
    UNWIND_END_ENTRY = 0,       /* reached the thread's entry (_start or clone's child: return address undefined) */
    UNWIND_END_NO_USER = 1,     /* no user part: a kernel thread */
    UNWIND_END_NO_PROCESS = 2,  /* the process's mappings are not in the tables yet: the stack was copied */
    UNWIND_END_NO_TABLE = 3,    /* a mapping's unwind table is not there yet: the stack was copied */
    UNWIND_END_NO_MAPPING = 4,  /* an address outside every mapping that has code */
    UNWIND_END_BAD_READ = 5,    /* stack memory could not be read (paged out, or not a stack) */
    UNWIND_END_NO_CFI = 6,      /* code without CFI, and no frame pointer to use instead */
    UNWIND_END_TOO_DEEP = 7,    /* CPU_MAX_USER_FRAMES reached */
    UNWIND_END_UNSUPPORTED = 8, /* a CFI rule that rows cannot express */
    UNWIND_END_NOT_RUNNING = 9, /* the thread was waiting before monitoring began: its stack was copied
                                   (sleeping_tasks.bpf.c), or cannot be read */
    UNWIND_END_COUNT,
};

struct cpu_sample {
    struct record_header h;
    __u64 cgroup_id; /* kernfs ID of the task's cgroup, which is its directory's inode number, in the hierarchy of enum
                        cpu_cgroups (v1 is where jobs live on hybrid hosts) */
    __u64 weight_ns; /* CPU time of this sample in ns; with --event: events or bytes; of RECORD_OFF_CPU_WAKER: see
                        offcpu.h */
    __u32 cpu;
    __u8 kernel_frames; /* data[0 ..): kernel return addresses, leaf first */
    __u8 labels;        /* number of struct go_label, after everything in data[] except links */
    __u16 user_frames; /* then: user addresses, leaf first; exact ones are marked CPU_FRAME_EXACT, the others are return
                          addresses */
    __u8 user_end;     /* enum unwind_end */
    __u8 flags;        /* CPU_SAMPLE_* */
    __u16 stack_skipped_words;
    __u32 stack_bytes; /* then: this many bytes of the user stack, a multiple of 8; then the parts named by flags */
    /* User registers of the last user frame in data[], where the walk stopped, to resume from the stack copy, which
     * begins stack_skipped_words above stop_sp rounded down to 8. */
    __u64 stop_ip, stop_sp, stop_fp, stop_lr, stop_bx;
    char comm[16]; /* the thread's name */
    __u64 data[];
};
_Static_assert(sizeof(struct cpu_sample) == 112, "record format");

#define CPU_SAMPLE_LEAF_IN_KERNEL   1 /* the user part begins in a system call, fault or interrupt */
#define CPU_SAMPLE_KERNEL_TRUNCATED 2
#define CPU_SAMPLE_SECOND_STACK                                                                                        \
    32 /* data[] continues with the copy of another stack, which a signal interrupted: its address, its words */
#define CPU_SAMPLE_REGISTERS                                                                                           \
    8 /* x86-64: data[] ends with the CPU_SAMPLE_REGISTER_COUNT registers of the leaf, in DWARF numbering */
#define CPU_SAMPLE_REGISTER_COUNT 16
#define CPU_SAMPLE_LINKED         64 /* the thread works for a traced request: a struct link_ids ends data[] */
#define CPU_SAMPLE_INTERPRETED                                                                                         \
    128 /* an interpreter's frames were searched: struct python_entry[] and struct python_tail end data[], before      \
           labels and links */
#define CPU_SAMPLE_STOP_BY_FP                                                                                          \
    16 /* a frame pointer led to the last user frame: if its address is not code, the frame does not exist */
#define CPU_SAMPLE_STOP_INTERRUPTED                                                                                    \
    4 /* stop_ip is exact: a leaf, or interrupted by a signal; otherwise a return address */

/* Counters of the BPF program, per CPU. */
struct cpu_stats {
    __u64 runs;             /* of the program, on tasks that pass the filters */
    __u64 run_time_ns;      /* in these runs */
    __u64 samples;          /* written to the ring */
    __u64 ring_full;        /* samples lost: ring full */
    __u64 no_room;          /* samples lost: no scratch memory on this CPU, or too large for it */
    __u64 copies_refused;   /* stacks not copied, because the ring was half full or the budget short */
    __u64 links_lost;       /* samples too large to contain their traced request */
    __u64 interpreted_lost; /* samples too large to contain their interpreter's frames */
    __u64 labels_lost;      /* samples without all labels of their goroutine, or with a truncated one */
    __u64 seen;             /* events counted by the kernel for which the program ran, of any task */
    __u64 since_sample;     /* events of tasks that pass the filters, since the last sample */
    __u64 interrupted;      /* events during another event on the same CPU: not recorded */
    __u32 at_work;          /* an event is being recorded */
    __u32 reserved;
};

/* Event types. */
enum cpu_event {
    CPU_EVENT_COUNTED,    /* a clock tick or a perf event overflow: the kernel counts to the period */
    CPU_EVENT_TRACEPOINT, /* counted here, after the filters */
    CPU_EVENT_USER_PROBE,
    CPU_EVENT_MMAP, /* weight: bytes added to the address space */
    CPU_EVENT_BRK,
};

#define CPU_MAX_BRK 4096 /* threads inside brk() at a time */

/* The cgroup hierarchy that identifies jobs: that of the first controller in this order that is mounted as cgroup v1,
 * else cgroup v2. */
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

/* Marks a user address of data[] as exact: a leaf, or interrupted by a signal. Others are return addresses, whose call
 * is one byte earlier. User addresses never have this bit set. */
#define CPU_FRAME_EXACT (1ULL << 63)

/* Size of the end of a record: struct go_label[], struct link_ids. */
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

/* Size of the tail of a record, computed from its end: struct python_entry[] and struct python_tail, struct
 * go_label[], struct link_ids. The whole size if the record is inconsistent. */
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
