/* The records of off-CPU time: where a thread waits (a struct stack_record of kind RECORD_OFF_CPU_STACK, taken when it
 * leaves its CPU, with the request it works for, as in a CPU sample) and for how long (struct off_cpu_wait, written
 * when it runs again). A stack is sent only if it, or the request, differs from the thread's last one: a thread that
 * waits in the same place repeatedly sends one stack and many short records. The same applies to its waker, if
 * requested (RECORD_OFF_CPU_WAKER: a struct stack_record of the waker). Written by offcpu.bpf.c. */
#pragma once

#include "probes/common/record.h"
#include "probes/unwind/stack.h"

/* What a thread waited on, as far as the system call's file descriptor shows. */
enum off_cpu_object {
    OFF_CPU_OBJECT_NONE = 0,
    OFF_CPU_OBJECT_SOCKET = 2, /* IPv4 or IPv6 */
    OFF_CPU_OBJECT_UNIX,       /* AF_UNIX */
    OFF_CPU_OBJECT_FILE,       /* a regular file, a directory or a block device */
    OFF_CPU_OBJECT_PIPE,
    OFF_CPU_OBJECT_OTHER, /* a device, an eventfd, ... */
};

#define OFF_CPU_WAIT_UNINTERRUPTIBLE 1 /* state D */
#define OFF_CPU_WAIT_IO              2 /* the kernel counted it as waiting for I/O */
#define OFF_CPU_WAIT_STOPPED         4 /* by a signal, a debugger or a freezer, whatever the system call was */

enum { RECORD_OFF_CPU = 3 }; /* struct off_cpu_wait: how long a thread waited */

struct off_cpu_wait {
    struct record_header h; /* time_ns: when it ended */
    __u64 cgroup_id;
    __u64 start_ns;  /* when the thread left its CPU, or when the recording began */
    __u64 weight_ns; /* off-CPU time of this wait, or the sampling threshold if it was sampled at random */
    __u64 queued_ns; /* final part of weight_ns that was spent runnable, waiting for a CPU */
    __u64 stack_ns;  /* time_ns of this thread's stack records that apply (the last one counts); 0: no stack */
    __u32 count;     /* number of waits it is weighted for */
    __s32 syscall;   /* system call number; -1: none, a page fault or an interrupt */
    __u8 object;     /* enum off_cpu_object */
    __u8 state;      /* OFF_CPU_WAIT_* */
    __u8 flags;      /* OFF_CPU_* */
    __u8 waker;      /* enum off_cpu_waker */
    __u32 waker_ns;  /* low 32 bits of time_ns of the waker's record: the last one for this thread */
    char comm[16];   /* the thread's name */
};
_Static_assert(sizeof(struct off_cpu_wait) == 96, "record format");

#define OFF_CPU_PREEMPTED  1 /* runnable all the time */
#define OFF_CPU_UNFINISHED 2 /* the wait was not over when the recording ended */
#define OFF_CPU_ACCOUNTED  4 /* its start or end was not seen: its length is from the scheduler's accounting */
#define OFF_CPU_SO_FAR     8 /* the wait continues: later records have the same start_ns and include this one */

#define OFF_CPU_SO_FAR_NS  1000000000ull /* shorter waits are recorded only when they end */

/* The waker, as far as the BPF program can determine it. In its record (RECORD_OFF_CPU_WAKER) pid, tid and comm are
 * the waker's, all 0 for an interrupt. */
enum off_cpu_waker {
    OFF_CPU_WAKER_NONE,   /* no waker: runnable all the time, still waiting, or not requested */
    OFF_CPU_WAKER_UNSEEN, /* its record was lost or never written */
    OFF_CPU_WAKER_THREAD,
    OFF_CPU_WAKER_INTERRUPT, /* or an idle CPU */
    OFF_CPU_WAKER_SOFTIRQ,   /* on a thread's stack, which may have triggered it (its own packet to this machine) or not
                              */
    OFF_CPU_WAKER_UNKNOWN,   /* a thread, or an interrupt on top of it: this kernel does not distinguish them */
    OFF_CPU_WAKER_COUNT,
};

/* State of one thread. */
struct off_cpu_thread {
    __u64 off_since_ns; /* 0: it runs */
    __u64 woken_ns;     /* when it was last woken */
    __u64 on_since_ns;  /* when it got its CPU; 0: not seen */
    __u64 runtime_ns;   /* CPU time it had used when it last left or got its CPU */
    __u64 stack_hash;   /* of the stack sent last; 0: send the next one unconditionally */
    __u64 stack_ns;     /* when that stack was sent; 0: never */
    __u64 waker_hash;   /* likewise for the waker */
    __u64 waker_ns;
    __s32 syscall;
    __u8 object, state, flags;
    __u8 waker; /* enum off_cpu_waker, since it last got a CPU */
};

#define OFF_CPU_MAX_THREADS 16384

/* Counters of the BPF programs, per CPU. */
struct off_cpu_stats {
    __u64 runs, run_time_ns;     /* of the programs, on tasks that pass the filters */
    __u64 waits, waits_ns;       /* recorded */
    __u64 short_count, short_ns; /* not recorded: below the minimum */
    __u64 left_out, left_out_ns; /* left out by random sampling: the recorded ones are weighted for them */
    __u64 lost, lost_ns;         /* not recorded: ring full */
    __u64 stacks_lost;      /* waits recorded without their stack: ring full or no scratch memory when it was taken */
    __u64 copies_refused;   /* stacks not copied for unwinding in user space: the ring was half full */
    __u64 interpreted_lost; /* stacks too large to contain their interpreter's frames */
    __u64 links_lost;       /* stacks too large to contain their traced request */
    __u64 labels_lost;      /* stacks without all labels of their goroutine, or with a truncated one */
    __u64 threads_full;     /* waits of unknown length, not recorded: the thread table was full */
    __u64 shed;             /* not monitored, because the budget sheds work */
};
