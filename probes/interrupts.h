/* Interrupts and softirqs (interrupts.bpf.c): the counters of each CPU and of each interrupt line, and the record of
 * one that ran for long. Shared by the BPF program, src/sources/interrupts and src/signals/interrupts. */
#pragma once

#include "probes/common/record.h"

enum { RECORD_INTERRUPT = 96 }; /* struct interrupt_record */

/* Numbers of handlers, in one range: softirqs as the kernel numbers them, then the vectors of x86-64 that have no
 * interrupt line, then the interrupt lines. */
#define INTERRUPTS_SOFTIRQS 10
enum interrupt_vector {
    INTERRUPT_LOCAL_TIMER,
    INTERRUPT_RESCHEDULE,
    INTERRUPT_CALL_FUNCTION,
    INTERRUPT_IRQ_WORK,
    INTERRUPTS_VECTORS,
};
#define INTERRUPT_FIRST_VECTOR INTERRUPTS_SOFTIRQS
#define INTERRUPT_FIRST_LINE   16

#define INTERRUPTS_LINES       1024 /* a power of two; the last place has all numbers from there on */
#define INTERRUPT_NAME_BYTES   32

/* Bucket i counts the softirqs that took at most INTERRUPTS_BOUNDS[i] nanoseconds and did not fit the bucket before;
 * the last one counts the rest. */
#define INTERRUPTS_BOUNDS_NS                                                                                           \
    {                                                                                                                  \
        1000, 3000, 10000, 30000, 100000, 300000, 1000000, 3000000, 10000000, 30000000                                 \
    }
#define INTERRUPTS_BUCKETS 11

struct interrupts_softirq {
    __u64 ns;
    __u64 counts[INTERRUPTS_BUCKETS];
};

struct interrupts_vector {
    __u64 ns;
    __u64 count;
};

/* One CPU's, written by that CPU alone. A softirq can be interrupted, but not by a softirq; an interrupt cannot. */
struct interrupts_cpu {
    __u64 softirq_start_ns; /* 0: none runs */
    __u64 interrupt_start_ns;
    __u64 records_lost; /* the ring was full */
    __u64 reserved[5];
    struct interrupts_softirq softirqs[INTERRUPTS_SOFTIRQS];
    struct interrupts_vector vectors[INTERRUPTS_VECTORS];
};
_Static_assert(sizeof(struct interrupts_cpu) % 64 == 0, "whole lines of cache");

/* An interrupt line, of all CPUs. */
struct interrupts_line {
    __u64 ns;
    __u64 count;
    __u64 action; /* the handler that `name` is of */
    __u64 reserved;
    char name[INTERRUPT_NAME_BYTES]; /* "virtio1-req.0": of the handler that ran last */
};
_Static_assert(sizeof(struct interrupts_line) == 64, "one line of cache");

/* Timers of the programs (run_timer.bpf.h). */
enum { INTERRUPTS_TIMER_SOFTIRQ, INTERRUPTS_TIMER_LINE, INTERRUPTS_TIMER_VECTOR, INTERRUPTS_TIMERS };

/* An interrupt or softirq ran for longer than the threshold. The header has its end and the interrupted thread (0: the
 * CPU was idle). */
struct interrupt_record {
    struct record_header h;
    __u64 duration_ns;
    __u32 number; /* of the handler: see above */
    __u32 cpu;
    char comm[16];                   /* of the interrupted thread */
    char name[INTERRUPT_NAME_BYTES]; /* of an interrupt line: its handler */
};
_Static_assert(sizeof(struct interrupt_record) == 88, "record format");
