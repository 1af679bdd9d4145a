/* The counters and event types of cpu.bpf.c. Its record is a struct stack_record (unwind/stack.h) of kind
 * RECORD_CPU_SAMPLE. */
#pragma once

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
    __u64 seen;             /* events that the kernel counted and passed to the program, of any task */
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
    CPU_EVENT_MMAP, /* value: bytes added to the address space */
    CPU_EVENT_BRK,
};

#define CPU_MAX_BRK 4096 /* threads inside brk() at a time */
