/* The threads of one process at one moment, and where they wait: the records of threads.bpf.c. Shared with
 * src/sources/threads. */
#pragma once

#include "probes/common/record.h"
#include "probes/unwind/stack.h"

enum {
    RECORD_THREAD = 208, /* struct thread_record; RECORD_THREAD_STACK (stack.h) is the stack of the same thread */
    RECORD_THREADS_END =
        210, /* struct threads_end: all threads have been read, or as many as the time was enough for */
};

#define THREAD_ON_CPU  1 /* it runs: it has no stack record */
#define THREAD_STACK   2 /* its stack record follows, unless it is lost */
#define THREAD_WAITING 4 /* it does not run, and is not runnable */

struct thread_record {
    struct record_header h;
    __u64 waited_ns;      /* of one that waits: how long it has been off its CPU, at least; 0: unknown */
    __u64 thread_pointer; /* of its C library */
    __u64 switches;       /* how often it has left its CPU */
    __u32 flags;          /* THREAD_* */
    __u32 reserved;
};
_Static_assert(sizeof(struct thread_record) == 56, "record format");

struct threads_end {
    struct record_header h; /* pid: of the process */
};
_Static_assert(sizeof(struct threads_end) == 24, "record format");

/* Counters of threads.bpf.c. */
struct threads_stats {
    __u64 stacks; /* recorded */
    __u64 ran;    /* not recorded: the thread ran while it was read */
    __u64 unreadable;
    __u64 lost; /* records that did not fit the ring */
};
