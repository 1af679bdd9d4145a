/* The record of a stack: a thread's kernel frames, interpreter frames and user frames at one moment, and what the
 * thread worked for. All signals with stacks write it: RECORD_CPU_SAMPLE (cpu.bpf.c), RECORD_OFF_CPU_STACK and
 * RECORD_OFF_CPU_WAKER (offcpu.bpf.c, sleeping_tasks.bpf.c), RECORD_WAIT_STACK (waits.bpf.c), RECORD_THREAD_STACK
 * (threads.bpf.c). Variable length: the arrays follow one another in `data` without gaps. */
#pragma once

#include "probes/common/record.h"
#include "probes/go_labels.h"
#include "probes/interpreter/interpreter.h"
#include "probes/link.h"

/* The kinds whose record is a struct stack_record. */
enum {
    RECORD_CPU_SAMPLE = 1,
    RECORD_OFF_CPU_STACK = 2,  /* where a thread waits (offcpu.h) */
    RECORD_OFF_CPU_WAKER = 5,  /* the waker of a thread (offcpu.h) */
    RECORD_WAIT_STACK = 48,    /* where threads of servers wait (waits.h) */
    RECORD_THREAD_STACK = 209, /* where a thread of a process that hangs waits (threads.h) */
};

#define STACK_MAX_KERNEL_FRAMES 127
#define STACK_MAX_USER_FRAMES   1024
#define STACK_COPY_BYTES        32768 /* of the user stack, copied when an unwind table was missing */

/* How the walk of the user stack ended. Only UNWIND_END_ENTRY is a complete stack. */
enum unwind_end {
    UNWIND_END_ENTRY = 0,       /* reached the thread's entry (_start or clone's child: return address undefined) */
    UNWIND_END_NO_USER = 1,     /* no user part: a kernel thread */
    UNWIND_END_NO_PROCESS = 2,  /* the process's mappings are not in the tables yet: the stack was copied */
    UNWIND_END_NO_TABLE = 3,    /* a mapping's unwind table is not there yet: the stack was copied */
    UNWIND_END_NO_MAPPING = 4,  /* an address outside every mapping that has code */
    UNWIND_END_BAD_READ = 5,    /* stack memory could not be read (paged out, or not a stack) */
    UNWIND_END_NO_CFI = 6,      /* code without CFI, and no frame pointer to use instead */
    UNWIND_END_TOO_DEEP = 7,    /* STACK_MAX_USER_FRAMES reached */
    UNWIND_END_UNSUPPORTED = 8, /* a CFI rule that rows cannot express */
    UNWIND_END_NOT_RUNNING = 9, /* the thread was waiting before monitoring began: its stack was copied
                                   (sleeping_tasks.bpf.c), or cannot be read */
    UNWIND_END_COUNT,
};

struct stack_record {
    struct record_header h;
    __u64 cgroup_id; /* kernfs ID of the task's cgroup, which is its directory's inode number, in the hierarchy of enum
                        cgroup_hierarchy (v1 is where jobs live on hybrid hosts) */
    union {          /* by h.kind; 0 in the other kinds */
        struct {
            __u64 value; /* in the unit of the sample's type: CPU time in ns; with --event: events or bytes */
        } sample;        /* RECORD_CPU_SAMPLE */
        struct {
            __u32 tid, pid; /* of the thread that was woken; the header names the waker */
        } woken;            /* RECORD_OFF_CPU_WAKER */
        struct {
            __u64 name; /* waits refer to it by this name */
        } wait;         /* RECORD_WAIT_STACK */
    };
    __u32 cpu;
    __u8 kernel_frames; /* data[0 ..): kernel return addresses, leaf first */
    __u8 labels;        /* number of struct go_label, after everything in data[] except links */
    __u16 user_frames;  /* then: user addresses, leaf first; exact ones are marked FRAME_EXACT, the others are return
                           addresses */
    __u8 user_end;      /* enum unwind_end */
    __u8 flags;         /* STACK_RECORD_* */
    __u16 stack_skipped_words;
    __u32 stack_bytes; /* then: this many bytes of the user stack, a multiple of 8; then the parts named by flags */
    /* User registers of the last user frame in data[], where the walk stopped, to resume from the stack copy, which
     * begins stack_skipped_words above stop_sp rounded down to 8. */
    __u64 stop_ip, stop_sp, stop_fp, stop_lr, stop_bx;
    char comm[16]; /* the thread's name */
    __u64 data[];
};
_Static_assert(sizeof(struct stack_record) == 112, "record format");

/* Flags of struct stack_record. */
#define STACK_RECORD_LEAF_IN_KERNEL   1 /* the user part begins in a system call, fault or interrupt */
#define STACK_RECORD_KERNEL_TRUNCATED 2
#define STACK_RECORD_STOP_INTERRUPTED                                                                                  \
    4 /* stop_ip is exact: a leaf, or interrupted by a signal; otherwise a return address */
#define STACK_RECORD_REGISTERS                                                                                         \
    8 /* x86-64: data[] ends with the STACK_RECORD_REGISTER_COUNT registers of the leaf, in DWARF numbering */
#define STACK_RECORD_STOP_BY_FP                                                                                        \
    16 /* a frame pointer led to the last user frame: if its address is not code, the frame does not exist */
#define STACK_RECORD_SECOND_STACK                                                                                      \
    32 /* data[] continues with the copy of another stack, which a signal interrupted: its address, its words */
#define STACK_RECORD_LINKED 64 /* the thread works for a traced request: a struct link_ids ends data[] */
#define STACK_RECORD_INTERPRETED                                                                                       \
    128 /* an interpreter's frames were searched: struct interpreter_entry[] and struct interpreter_tail end data[],   \
           before labels and links */

#define STACK_RECORD_REGISTER_COUNT 16

/* Marks a user address of data[] as exact: a leaf, or interrupted by a signal. Others are return addresses, whose call
 * is one byte earlier. User addresses never have this bit set. */
#define FRAME_EXACT (1ULL << 63)

/* Size of the end of a record: struct go_label[], struct link_ids. */
static inline __u32 stack_record_end_bytes(const struct stack_record *s)
{
    return s->labels * (__u32)sizeof(struct go_label) +
           (s->flags & STACK_RECORD_LINKED ? (__u32)sizeof(struct link_ids) : 0);
}

static inline const struct go_label *stack_record_labels(const struct stack_record *s)
{
    return (const struct go_label *)((const char *)s + s->h.size_bytes - stack_record_end_bytes(s));
}

static inline const struct interpreter_tail *stack_record_interpreter_tail(const struct stack_record *s)
{
    return (const struct interpreter_tail *)((const char *)s + s->h.size_bytes - stack_record_end_bytes(s) -
                                             sizeof(struct interpreter_tail));
}

/* Size of the tail of a record, computed from its end: struct interpreter_entry[] and struct interpreter_tail, struct
 * go_label[], struct link_ids. The whole size if the record is inconsistent. */
static inline __u32 stack_record_tail_bytes(const struct stack_record *s)
{
    const __u32 end_bytes = stack_record_end_bytes(s), fixed_bytes = end_bytes + sizeof(struct interpreter_tail);

    if (s->labels > GO_LABELS_MAX)
        return s->h.size_bytes;
    if (!(s->flags & STACK_RECORD_INTERPRETED))
        return end_bytes;
    if (s->h.size_bytes < sizeof(*s) + fixed_bytes)
        return s->h.size_bytes;
    const struct interpreter_tail *tail = stack_record_interpreter_tail(s);
    return tail->entries <= INTERPRETER_MAX_ENTRIES
               ? fixed_bytes + tail->entries * (__u32)sizeof(struct interpreter_entry)
               : s->h.size_bytes;
}
