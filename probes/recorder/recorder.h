/* The records of the flight recorder: what the scheduler and the sockets of this node did in the last seconds. BPF
 * programs write them to rings that overwrite their oldest records; user space reads them only when a slow request is
 * to be explained.
 *
 * Each CPU has two rings, so that one kind of traffic does not evict the other: the scheduler's records, and records of
 * objects (sockets, ends of threads). A ring is written by its own CPU alone. */
#pragma once

#if !defined(__bpf__)
#include <linux/types.h>
#endif

enum recorder_kind {
    RECORDER_NONE, /* a place that was never written */

    /* Scheduler ring. */
    RECORDER_SWITCH, /* a CPU goes from thread `tid` to another. object: first argument of the system call that `tid`
                        is in; value: the next thread (low half), process of `tid` (high half) */
    RECORDER_WAKING, /* thread `tid` is woken, or begins to exist. syscall, object: what the waker is in, and its first
                        argument; value: the waker (low half) and its process (high half). In an interrupt the waker is
                        only the thread that was interrupted, and syscall and object are not set; with is_detailed they
                        are that thread's if a softirq interrupted it */

    /* Object ring. `object` is the socket's cookie, `tid` the current thread. */
    RECORDER_SEND, /* bytes handed to the kernel. value: how many (low half; 0: it connects), TCP's write_seq after them
                      (high half); syscall: the call that they make (client_call.h), RECORDER_NO_SYSCALL: not known */
    RECORDER_RECEIVE, /* bytes read by the program. value: how many (low half; 0: the peer has closed), TCP's copied_seq
                         after them (high half) */
    RECORDER_READY,   /* bytes have arrived at the socket. value: TCP's rcv_nxt (high half); the current thread is who
                         sent them, if the flags show no interrupt, or a local sender's softirq. Over TCP always a
                         softirq, also where a thread that held the socket has processed them after it */
    RECORDER_EXIT,    /* thread `tid` of process `value` ends; object: when it began (CLOCK_MONOTONIC) */
    RECORDER_RETRANSMIT, /* TCP sends a segment again. tid: none */

    RECORDER_TAKEN = 7, /* in the scheduler ring. While thread `tid` was the current one, until its switch of the same
                           time, its CPU did something else for `value` ns (low half), including the time that the
                           hypervisor took (high half); the rest were interrupts. By the scheduler's accounts */
    RECORDER_FILE = 8,  /* thread `tid`, whose switch has the same time, sleeps for this. object: key of the file
                           (struct recorder_file); syscall: its system call; value: recorder_pages */

    /* In the object ring. */
    RECORDER_HELD, /* thread `tid`, whose switch has the same time, begins to wait for a lock. object: address of the
                      lock, which has RECORDER_LOCK_BYTES; value: the thread that has it (low half), and the process of
                      both (high half) */
    RECORDER_DISK = 10, /* a request of a block device ended, which thread `tid` had handed in. object: its bytes, in
                           sectors of 512 (low half), the device (high half); value: microseconds in the queue (low
                           half), then at the device (high half) */

    RECORDER_INTERRUPT = 11, /* on a CPU, an interrupt or softirq that ran for long ends. tid: the thread that it
                                interrupted (0: the CPU was idle); object: the handler's number by interrupts.h (low
                                half), the CPU (high half); value: how long, in ns */
    RECORDER_RECLAIM = 12,   /* thread `tid` has reclaimed or compacted memory: flags: enum reclaim_kind (reclaim.h);
                                object: ID of the thread's cgroup; value: for how long, in ns, in one run or in several.
                                Each run began within RECLAIM_SPREAD * RECLAIM_RECORDER_NS after the first one did */

    RECORDER_CONTROL =
        13, /* in the object ring. The RECORDER_SEND or RECORDER_RECEIVE of the same time, by thread `tid`
               on socket `object`, had whole frames of HTTP/2 that are of no request (http2_is_control) */

    /* Tasks that a program schedules on its threads itself; in the object ring. */
    RECORDER_TASK = 16, /* flags: enum recorder_task_state, of task `object` (its id in its process), which thread `tid`
                           runs, or ran last (0: not known), or has finished something for; value: the process (high
                           half), RECORDER_BY_WRITE, RECORDER_OFF_CPU, recorder_creator or 0 (low half); syscall:
                           recorder_site, RECORDER_NO_SYSCALL: not known */
};

/* What a task does. All but the first: it waits, and the thread that ran it is free for others. */
enum recorder_task_state {
    RECORDER_TASK_RUNS,
    RECORDER_TASK_WAITS,    /* for a reason that is not one of the following */
    RECORDER_TASK_WAITS_IO, /* for a socket, pipe or the like */
    RECORDER_TASK_WAITS_TIMER,
    RECORDER_TASK_WAITS_LOCK,
    RECORDER_TASK_WAITS_TASK, /* for another one: a channel, a condition, the end of others */
    RECORDER_TASK_WAITS_GC,   /* for the garbage collector */
    RECORDER_TASK_FINISHED,   /* the thread, which does not run the task, has finished the awaited work */
    RECORDER_TASK_WORKS,      /* the thread, which does not run the task, does the awaited work. Recorded once after the
                                 thread has waited for work, when it first sleeps */
};

/* Of RECORDER_TASK_FINISHED: the thread let its event loop know by write(), to an eventfd or a pipe. This is recorded
 * only if the event loop slept. */
#define RECORDER_BY_WRITE 1

/* Of RECORDER_TASK_RUNS: the thread, whose switch has the same time, leaves its CPU in the middle of this task. It is
 * preempted, or waits for the GIL. */
#define RECORDER_OFF_CPU 2

/* Of the other states: this bit, with the low bits of the id of the task that created this one. */
#define RECORDER_CREATED_BY 0x80000000U

static inline __u32 recorder_creator(__u64 id)
{
    return RECORDER_CREATED_BY | (__u32)id;
}

/* The low bits of the address of the statement that created a task: tasks with the same ones do the same work. */
static inline __s16 recorder_site(__u64 address)
{
    return address & 0x7fff;
}

/* Flags of RECORDER_SWITCH: why the thread stops running. None of the first two: it sleeps. */
#define RECORDER_PREEMPTED       1 /* still runnable */
#define RECORDER_DEAD            2
#define RECORDER_UNINTERRUPTIBLE 4  /* sleeps in state D */
#define RECORDER_IO_WAIT         8  /* the kernel counts its sleep as waiting for I/O */
#define RECORDER_STOPPED         16 /* by a signal, a debugger or a freezer */
#define RECORDER_THROTTLED       32 /* its cgroup has used up its CPU quota */
#define RECORDER_MEMSTALL        64 /* the kernel counts its sleep as a stall for memory (PSI) */

/* Flags of RECORDER_WAKING and RECORDER_READY: the context. None: the current thread did it. */
#define RECORDER_IN_SOFTIRQ    1
#define RECORDER_IN_HARDIRQ    2
#define RECORDER_KERNEL_THREAD 4 /* the current thread is one */

/* Flags of socket records, also of RECORDER_READY. */
#define RECORDER_REQUESTS 32 /* a request is served on it. Its absence shows nothing: the first records may lack it */
#define RECORDER_UNIX     64 /* AF_UNIX */
#define RECORDER_TCP      128

/* Flags of RECORDER_FILE. Without the first, the range is what the system call asks for, of the file that it is about.
 */
#define RECORDER_ADDED_PAGES 1 /* it is what the thread has last added to the page cache since it last slept */
#define RECORDER_DIRECT      2 /* the system call bypasses the page cache */

/* Flags of RECORDER_DISK. */
#define RECORDER_DISK_WRITES 1
#define RECORDER_DISK_FAILED 2

#define RECORDER_NO_SYSCALL  (-1)

#define RECORDER_LOCK_BYTES  208 /* CPython's GIL */

struct recorder_record {
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u8 kind;     /* enum recorder_kind */
    __u8 flags;
    __s16 syscall; /* number on the machine's own table; RECORDER_NO_SYSCALL */
    __u32 tid;
    __u64 object;
    __u64 value;
};
_Static_assert(sizeof(struct recorder_record) == 32, "record format");

/* A CPU's two rings: how many records were written to each so far, and where they are. The records of CPU c begin at
 * c * (scheduler_mask + 1 + object_mask + 1): first its scheduler ring, then its object ring; record number n is at
 * n & mask. A mask of 0: nothing is recorded. */
struct recorder_cpu {
    __u64 scheduler_count;
    __u64 object_count;
    __u32 scheduler_mask;
    __u32 object_mask;
    /* Of the current thread: when it got the CPU, and what the scheduler's accounts were then. Its own CPU's only. */
    __u32 current_tid;
    __u32 reserved;
    __u64 current_ns;
    __u64 current_runtime_ns;
    __u64 stolen_ns; /* by the hypervisor from this CPU, when it was last read */
    __u64 reserved2;
};
_Static_assert(sizeof(struct recorder_cpu) == 64, "one line of cache");

/* A file that waits were for: the value of `recorder_files`, by a hash of its device, inode and name. */
#define RECORDER_FILE_NAME_BYTES 48
struct recorder_file {
    char name[RECORDER_FILE_NAME_BYTES]; /* last component of its path; "": none, as for a device's own blocks */
    char file_system[16];                /* "ext4" */
};

/* A range of a file, in pages of 4 KiB, as far as it fits: where it begins, and how many it has (0: the range is not
 * known). */
#define RECORDER_PAGE_SHIFT 12
#define RECORDER_PAGE_BITS  40

static inline __u64 recorder_pages(__u64 first, __u64 count)
{
    const __u64 most = (1ULL << (64 - RECORDER_PAGE_BITS)) - 1;
    return (first & ((1ULL << RECORDER_PAGE_BITS) - 1)) | (count < most ? count : most) << RECORDER_PAGE_BITS;
}

static inline __u64 recorder_first_page(__u64 value)
{
    return value & ((1ULL << RECORDER_PAGE_BITS) - 1);
}

static inline __u64 recorder_page_count(__u64 value)
{
    return value >> RECORDER_PAGE_BITS;
}

/* Of a block device, as the kernel numbers them. */
static inline __u32 recorder_device_major(__u32 device)
{
    return device >> 20;
}

static inline __u32 recorder_device_minor(__u32 device)
{
    return device & 0xfffff;
}

static inline __u32 recorder_low(__u64 value)
{
    return (__u32)value;
}

static inline __u32 recorder_high(__u64 value)
{
    return (__u32)(value >> 32);
}
