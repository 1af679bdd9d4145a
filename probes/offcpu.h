/* The wire records of waiting time: where a thread waits (a struct cpu_sample of the kind RECORD_OFF_CPU_STACK, made as
 * it leaves its CPU, with what the thread then works for, as a CPU sample has it) and how long it did (struct
 * off_cpu_wait, made when it runs again). A stack is sent when it, or what the thread works for, is another one than
 * the thread's last: who waits in the same place again and again sends one stack and many short records. So it is with
 * who woke it, where that was asked for (RECORD_OFF_CPU_WAKER: a struct cpu_sample of the waker). Written by
 * offcpu.bpf.c. */
#pragma once

#include "probes/cpu.h"
#include "probes/request.h" /* REQUEST_OBJECT_*, REQUEST_WAIT_*: what was waited for, and how */

struct off_cpu_wait {
    struct record_header h; /* time_ns: when it ended */
    __u64 cgroup_id;
    __u64 start_ns;  /* when the thread left its CPU, or when the recording began */
    __u64 weight_ns; /* waiting time that it stands for: its own, and that of others which were left out by chance */
    __u64 queued_ns; /* of that, at its end: ready to run, without a CPU */
    __u64 stack_ns;  /* time_ns of the records of this thread that have the stack, the last of which counts; 0: there is
                        none */
    __u32 count;     /* waits that it stands for */
    __s32 syscall;   /* number; -1: none, a page fault or an interrupt */
    __u8 object;     /* enum request_object */
    __u8 state;      /* REQUEST_WAIT_* */
    __u8 flags;      /* OFF_CPU_* */
    __u8 waker;      /* enum off_cpu_waker */
    __u32 waker_ns;  /* the lower half of time_ns of the record that has who woke it: the last one for this thread */
    char comm[16];   /* the thread's name */
};
_Static_assert(sizeof(struct off_cpu_wait) == 96, "wire format");

#define OFF_CPU_PREEMPTED  1 /* it was ready to run all the time */
#define OFF_CPU_UNFINISHED 2 /* it still waits; the recording ended */
#define OFF_CPU_ACCOUNTED                                                                                              \
    4                       /* its beginning or its end was not seen: its length is that of the scheduler's accounts   \
                             */
#define OFF_CPU_SO_FAR    8 /* it goes on: what comes of it later has the same start_ns, and this in it */

#define OFF_CPU_SO_FAR_NS 1000000000ull /* shorter ones are told at their end alone */

/* Who woke it, as far as the kernel half can tell. In its record (RECORD_OFF_CPU_WAKER) pid, tid and name are the
 * waker's, all 0 of an interrupt, and weight_ns is not a time but who was woken: its pid in the upper half, its tid in
 * the lower. */
enum off_cpu_waker {
    OFF_CPU_WAKER_NONE,   /* nobody: it was ready all the time, it still waits; or nobody asked */
    OFF_CPU_WAKER_UNSEEN, /* somebody, whose record was lost or never made */
    OFF_CPU_WAKER_THREAD,
    OFF_CPU_WAKER_INTERRUPT, /* or an idle CPU */
    OFF_CPU_WAKER_SOFTIRQ,   /* on a thread's stack, which may have asked for it (its own packet to this machine) or not
                              */
    OFF_CPU_WAKER_UNTOLD,    /* a thread, or an interrupt upon it: this kernel does not say which */
    OFF_CPU_WAKER_COUNT,
};

/* What the kernel half remembers of one thread. */
struct off_cpu_thread {
    __u64 off_since_ns; /* 0: it runs */
    __u64 woken_ns;     /* when it was last told to run */
    __u64 on_since_ns;  /* when it got its CPU; 0: not seen */
    __u64 runtime_ns;   /* CPU time that it had used at the last of those two */
    __u64 stack_hash;   /* of the stack sent last; 0: send the next one whatever it is */
    __u64 stack_ns;     /* and when that was; 0: none was sent */
    __u64 waker_hash;   /* as those two, of who woke it */
    __u64 waker_ns;
    __s32 syscall;
    __u8 object, state, flags;
    __u8 waker; /* enum off_cpu_waker, since it last came */
};

#define OFF_CPU_MAX_THREADS 16384

/* What the kernel half counts, a CPU's share each. */
struct off_cpu_stats {
    __u64 runs, run_time_ns;     /* of the programs, on tasks that were asked for */
    __u64 waits, waits_ns;       /* told */
    __u64 short_count, short_ns; /* not told: below the minimum */
    __u64 left_out, left_out_ns; /* not told, by chance: those that are told stand for them */
    __u64 lost, lost_ns;         /* not told: the ring was full */
    __u64 stacks_lost; /* waits told without their stack: the ring was full when it was taken, or there was no room */
    __u64 copies_refused;   /* stacks not copied for finishing in user space: the ring was half full */
    __u64 interpreted_lost; /* stacks too large for their interpreter's frames */
    __u64 links_lost;       /* stacks too large to say which request they were taken in */
    __u64 labels_lost;      /* stacks without all labels of their goroutine, or with one cut */
    __u64 threads_full;     /* waits of unknown length, not told: of threads that are too many */
    __u64 shed;             /* not looked at, while less detail is worked at */
};
