/* The record of one served request, written by request.bpf.c when the serving thread turns to other work, and the
 * counters that it keeps for all requests, including those without a record.
 *
 * A record contains the user stacks of its waits. Stacks that the BPF program could not walk to their end (an unwind
 * table was missing) precede it: RECORD_REQUEST_STACK, a struct stack_record with a copy of the stack,
 * identified by its thread and time.
 *
 * A reply may continue after its record was sent (a stream). A later record with the same `id` then replaces it. */
#pragma once

#include "probes/common/record.h"
#include "probes/common/run_timer.h"
#include "probes/link.h"

enum { RECORD_REQUEST = 35 }; /* struct request_record; 34: until it had `unread_ns` and `weight` */

/* The other end of a socket on which something was sent that is no reply to a request: of a service, usually. The
 * place of one is the low bits of its cookie; another socket may have taken it. */
struct request_peer {
    __u64 socket; /* cookie; 0: none */
    __u16 family; /* AF_INET, AF_INET6 */
    __u16 port;
    __u32 reserved;
    __u8 address[16];
};
_Static_assert(sizeof(struct request_peer) == 32, "two a line of cache");

/* How many of each are known at a time. */
#define REQUEST_PEERS_MAX       4096
#define REQUEST_THREADS_MAX     16384
#define REQUEST_CONNECTIONS_MAX 4096
#define REQUEST_PROCESSES_MAX   1024

/* Of a place that is taken, with its index: the key among the claims. */
#define REQUEST_CLAIM_THREAD     (1ULL << 63)
#define REQUEST_CLAIM_CONNECTION (1ULL << 63 | 1ULL << 32)
#define REQUEST_CLAIM_PROCESS    (1ULL << 63 | 2ULL << 32)
/* And with a process's name; names of sockets are claimed as they are. */
#define REQUEST_CLAIM_NAME (1ULL << 63 | 1ULL << 62)

/* The name of a process: its PID, and when it began (since boot, in steps of 1024 ns), by which the next process of
 * that PID is another. */
#define REQUEST_NAME_PID_BITS 22
#define REQUEST_NAME_BITS     62

static inline __u64 request_process_name(__u32 pid, __u64 start_boot_ns)
{
    return ((start_boot_ns >> 10) << REQUEST_NAME_PID_BITS & ((1ULL << REQUEST_NAME_BITS) - 1)) | pid;
}

static inline __u32 request_name_pid(__u64 name)
{
    return name & ((1U << REQUEST_NAME_PID_BITS) - 1);
}

#define REQUEST_LINE_BYTES       160
#define REQUEST_WAITS            8
#define REQUEST_KERNEL_FRAMES    12
#define REQUEST_USER_FRAMES      64    /* of one stack; a deeper one ends there (UNWIND_END_TOO_DEEP) */
#define REQUEST_FRAMES           256   /* of all stacks of a record together */
#define REQUEST_STACK_COPY_BYTES 16384 /* of the user stack, copied when an unwind table was missing */

/* What a thread waited on, as far as the system call's file descriptor shows. */
enum request_object {
    REQUEST_OBJECT_NONE = 0,
    REQUEST_OBJECT_CLIENT, /* the connection that the request came in on */
    REQUEST_OBJECT_SOCKET, /* another socket, IPv4 or IPv6 */
    REQUEST_OBJECT_UNIX,   /* another socket, AF_UNIX */
    REQUEST_OBJECT_FILE,   /* a regular file, a directory or a block device */
    REQUEST_OBJECT_PIPE,
    REQUEST_OBJECT_OTHER,      /* a device, an eventfd, ... */
    REQUEST_OBJECT_EVENT_LOOP, /* the thread's event loop slept meanwhile; the reason is unknown */
};

#define REQUEST_WAIT_UNINTERRUPTIBLE 1 /* state D */
#define REQUEST_WAIT_IO              2 /* the kernel counted it as waiting for I/O */
#define REQUEST_WAIT_STOPPED         4 /* by a signal, a debugger or a freezer, whatever the system call was */

/* Values of user_end besides enum unwind_end: why there is no user stack. */
#define REQUEST_STACK_NONE  255 /* too short to matter, or not seen in the thread's own context */
#define REQUEST_STACK_SHED  254 /* the CPU's share of time for walks was spent */
#define REQUEST_STACK_LOST  253 /* it found no room in the table of stacks or in the record */
#define REQUEST_STACK_APART 252 /* it came in a record of its own: `stack` is its time */

/* Waits of one request that are alike (same system call, same object) are added up. */
struct request_wait {
    __u64 duration_ns;
    __u64 longest_ns;
    __u64 kernel[REQUEST_KERNEL_FRAMES]; /* stack of the longest one, leaf first; none when all were short */
    __u64 stack;                         /* name of the user stack of the longest one (REQUEST_STACK_NAME_*) */
    __s32 syscall;                       /* number on the machine's own table; -1: a page fault */
    __u32 count;
    __u8 object; /* enum request_object */
    __u8 state;  /* REQUEST_WAIT_* */
    __u8 kernel_frames;
    __u8 peer_family; /* AF_INET, AF_INET6 or 0 */
    __u16 peer_port;
    __u8 user_frames; /* how many of the record's frames are this wait's: those after the ones of the waits before it */
    __u8 user_end;    /* enum unwind_end, or REQUEST_STACK_* */
    __u8 peer_address[16];
    char file_system[8]; /* "ext4" */
    char file_name[32];  /* last component, cut */
};
_Static_assert(sizeof(struct request_wait) == 16 + 96 + 8 + 8 + 8 + 16 + 8 + 32, "record format");

#define REQUEST_HANDED_OVER 1  /* another thread went on with it: what happened in between is not known */
#define REQUEST_PIPELINED   2  /* its line came in with an earlier request's and was not seen */
#define REQUEST_NO_REPLY    4  /* the connection was closed before any reply */
#define REQUEST_LINE_CUT    8  /* the request line may be longer than `line` */
#define REQUEST_ACCOUNTED   16 /* runtime_ns and stolen_ns are known */

/* The components of latency: `waits`, the sums below, and the rest of the duration, which is CPU time (see
 * runtime_ns). */
struct request_record {
    struct record_header h; /* time_ns: when the last byte of the reply seen so far had been sent */
    __u64 id;
    __u64 socket; /* it came in on: the socket's cookie, as in the flight recorder's records (recorder/recorder.h); its
                     address where programs have no cookies */
    __u64 start_ns; /* its first byte arrived; where that is not known: it was read */
    __u64 duration_ns;
    __u64 unread_ns; /* from start_ns until the server read it */
    __u64 bytes_in, bytes_out;
    __u64 cgroup_id;
    __u64 run_queue_ns;
    __u64 throttled_ns;      /* of run_queue_ns: what began with its cgroup's CPU quota being used up */
    __u64 other_requests_ns; /* the thread worked for others */
    __u64 unattributed_ns;
    __u64 more_waits_ns; /* waits that found `waits` full */
    __u64 runtime_ns; /* what the scheduler itself accounted to the thread meanwhile, exact to a tick at either end: the
                       * rest of the duration cannot have been CPU time beyond it, even if a switch was missed here */
    __u64 stolen_ns;  /* what the hypervisor took from the thread's CPU while it was on one, by the same accounts; with
                         runtime_ns */
    struct link_ids link; /* the trace that the thread worked for meanwhile, if it was one; zeros: none, or several */
    __u16 status;         /* 0: none seen */
    __u16 peer_port;
    __u8 peer_family;
    __u8 flags; /* REQUEST_HANDED_OVER ... */
    __u8 wait_count;
    __u8 line_bytes;
    __u8 peer_address[16];
    __u32 weight; /* in the sample, as one of so many requests of its process; 0: not in it: it is slow, or failed */
    __u32 reserved;
    char comm[16];
    char line[REQUEST_LINE_BYTES];            /* the first bytes of the request */
    struct request_wait waits[REQUEST_WAITS]; /* only wait_count of them are sent, unless frames follow */
};
_Static_assert(sizeof(struct request_record) == 24 + 144 + 8 + 32 + 8 + 160 + 8 * sizeof(struct request_wait),
               "record format");

/* A record with user stacks: as many frames as its waits say together, as struct stack_record has them. */
struct request_record_stacks {
    struct request_record r;
    __u64 frames[REQUEST_FRAMES];
};

/* Whether what a record says of its sizes is true of it: how many waits there are, and frames. Reads nothing beyond
 * size_bytes. */
static inline int request_record_is_sound(const struct request_record *r)
{
    const __u64 fixed_bytes = __builtin_offsetof(struct request_record, waits);
    __u64 waits_bytes, frames = 0;
    if (r->h.size_bytes < fixed_bytes || r->wait_count > REQUEST_WAITS || r->line_bytes > REQUEST_LINE_BYTES)
        return 0;
    waits_bytes = r->wait_count * sizeof(struct request_wait);
    if (r->h.size_bytes < fixed_bytes + waits_bytes)
        return 0;
    for (__u32 i = 0; i < r->wait_count; i++) {
        if (r->waits[i].user_frames > REQUEST_USER_FRAMES || r->waits[i].kernel_frames > REQUEST_KERNEL_FRAMES)
            return 0;
        frames += r->waits[i].user_frames;
    }
    if (frames || r->h.size_bytes >= sizeof(*r))
        return r->h.size_bytes == sizeof(*r) + frames * sizeof(__u64);
    return r->h.size_bytes == fixed_bytes + waits_bytes;
}

/* A stack's name is a hash of its contents, so that the reader can verify that it is the intended one. Never 0. */
#define REQUEST_STACK_NAME_START(end)          (0xcbf29ce484222325ULL ^ (end))
#define REQUEST_STACK_NAME_STEP(name, address) ((((name) ^ (address)) * 0x9e3779b97f4a7c15ULL) ^ (name) >> 29)
#define REQUEST_STACK_NAME_END(name)           ((name) | 1)

/* All requests of one process. Class 0: no reply; else the status's first digit. Bucket i: durations in [2^(i+10),
 * 2^(i+11)) ns, the first and the last take the rest. */
#define REQUEST_CLASSES      6
#define REQUEST_BUCKETS      28
#define REQUEST_BUCKET_SHIFT 10

struct request_process {
    __u64 duration_sum_ns[REQUEST_CLASSES];
    __u64 last_ns;
    /* Which requests get a record: those slower than the threshold, which follows the traffic; whatever is slower than
     * all before it in the same second; some that failed; and one in 2^sample_shift, at random. */
    __u64 window;
    __u64 threshold_ns;
    __u64 window_longest_ns;
    __u32 window_records;
    __u32 window_candidates;
    __u32 window_samples;
    __u32 window_failed; /* records for that reason alone */
    __u32 sample_shift;
    char comm[16];
    __u64 buckets[REQUEST_CLASSES][REQUEST_BUCKETS];
};

/* When user stacks are walked. */
enum request_walks {
    REQUEST_WALKS_NONE,
    REQUEST_WALKS_AT_RETURN,  /* when a thread is back from a wait that was long */
    REQUEST_WALKS_AT_LEAVING, /* when it begins a wait, however long that will be */
};

/* What a CPU may still spend on walks. */
struct request_walk_share {
    __u64 filled_ns;
    __u64 left_ns;
    __u64 window; /* in which `copies` stacks were copied for user space */
    __u64 copies;
};

/* Which programs are timed together. */
enum {
    REQUEST_TIMER_RECEIVE,
    REQUEST_TIMER_SEND,
    REQUEST_TIMER_SWITCH,
    REQUEST_TIMER_WAKING,
    REQUEST_TIMER_STACK,
    REQUEST_TIMER_RECORD, /* for the flight recorder, of sends and receives */
    REQUEST_TIMER_READY,
    REQUEST_TIMERS
};
_Static_assert(REQUEST_TIMERS <= RUN_TIMER_PLACES, "a place a timer");

enum request_loss {
    REQUEST_LOSS_RING_FULL,
    REQUEST_LOSS_MAP_FULL,
    REQUEST_LOSS_UNMATCHED,
    REQUEST_LOSS_NOT_DETAILED,
    REQUEST_LOSS_COUNT,
};
