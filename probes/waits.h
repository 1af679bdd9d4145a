/* Where threads of servers wait and run: evidence for the critical paths of requests. A wait (struct wait_record) and a
 * sample of a running thread (struct run_record) refer to their stack by a name; the stack itself (RECORD_WAIT_STACK, a
 * struct stack_record) is sent when no thread of the process sent it for a while. Only waits of processes that user
 * space watches are recorded; running threads of their child processes are sampled too. Written by waits.bpf.c. */
#pragma once

#include "probes/common/record.h"
#include "probes/common/run_timer.h"

enum {
    RECORD_WAIT = 49, /* struct wait_record */
    RECORD_RUN = 50,  /* struct run_record */
};

struct wait_record {
    struct record_header h; /* time_ns: when the thread was woken, or ran again where that is not known */
    __u64 start_ns;
    __u64 stack; /* name of its stack; never 0 */
};
_Static_assert(sizeof(struct wait_record) == 40, "record format");

struct run_record {
    struct record_header h; /* time_ns: when the thread was found running */
    __u64 stack;            /* name of its stack; never 0 */
};
_Static_assert(sizeof(struct run_record) == 32, "record format");

#define WAITS_RUN_HZ 99 /* samples of a CPU in a second, while processes are watched */

/* Waits of WAITS_MIN_NS are recorded, and shorter ones after the thread ran for WAITS_RUN_NS: their stack shows the
 * code that it ran. For example, the holder of Python's GIL waits for a moment when it is forced to give it up, after 5
 * ms. */
#define WAITS_MIN_NS 1000000
#define WAITS_RUN_NS 3000000

/* The watched processes: a process is at any place of the line that the low bits of its ID give. 0: free. */
#define WAITS_LINES 256
#define WAITS_WAYS  4

enum { WAITS_TIMER_SWITCH, WAITS_TIMER_RUN, WAITS_TIMERS };

/* The remaining share of a CPU's time for walking stacks. */
struct waits_walk_share {
    __u64 filled_ns, left_ns;
};

/* Counters of the BPF programs, per CPU. */
struct waits_stats {
    __u64 waits;             /* recorded */
    __u64 stacks;            /* sent */
    __u64 over_rate;         /* waits not recorded: too many a second */
    __u64 shed;              /* waits not recorded: the CPU time for walks was used up */
    __u64 samples;           /* of running threads, recorded */
    __u64 samples_over_rate; /* not recorded: too many a second */
    __u64 samples_shed;      /* not recorded: the CPU time for walks was used up */
    __u64 interrupted;       /* stacks not walked, as another thread's was being walked on that CPU */
    __u64 at_work;           /* no counter: the thread whose stack is being walked on this CPU; 0: none */
    __u64 tick_ns;           /* no counter: when a tick interrupted that walk; 0: none did */
    __u64 lost;              /* waits, samples and stacks not recorded: ring full */
    __u64 copies_refused;    /* stacks not copied for unwinding in user space */
    __u64 interpreted_lost;  /* stacks too large to contain their interpreter's frames */
};
