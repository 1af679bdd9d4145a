/* The segments of a critical path: exclusive stretches of a request's wall time, collected backwards from the reply.
 * Each has an activity (what the time was spent on) and an owner (whose work it was). */
#pragma once

#include "diagnose/path/path_evidence.h"
#include "model/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct path_segment {
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; [start, end) */
    enum request_part_kind kind;
    uint32_t tid,
        pid; /* whose activity it is: the thread that ran, waited or held the lock; 0: no thread of this node */
    uint32_t for_tid;    /* the thread that waited for it meanwhile; 0: none, or itself */
    int for_syscall;     /* of that wait, of a thread for a lock; RECORDER_NO_SYSCALL: none, or not known; */
    uint64_t for_object; /* its first argument */
    enum request_owner owner;
    uint64_t owner_id;         /* REQUEST_OWNER_OTHER: the cookie of the other request's socket; 0: none */
    bool is_inferred;          /* it rests on an inference, which `reason` names; otherwise it is measured */
    bool is_other_work;        /* its thread ran something else while the request was ready */
    bool has_gil;              /* its thread ran, and had the GIL of a Python interpreter */
    int syscall;               /* of a wait; RECORDER_NO_SYSCALL: none, or a page fault */
    uint64_t object;           /* first argument of that system call */
    uint64_t socket;           /* cookie of the one that it waited for; 0: none, or unknown */
    uint64_t call;             /* cookie of the socket where the process that serves the request waited for the answer
                                  of another process, whose work this is; 0: none, or unknown */
    int asks;                  /* the call on socket `call`, or else on `socket`: probes/recorder/client_call.h; 0: no
                                  call, or not known */
    uint32_t retransmissions;  /* by TCP, on that socket meanwhile */
    uint64_t retransmitted_ns; /* of the segment, until the last one of them */
    bool is_interrupt;         /* REQUEST_PART_OTHER: the thread was on its CPU, which ran `interrupt` */
    uint64_t interrupt;        /* RECORDER_INTERRUPT's object */
    bool is_reclaim;           /* REQUEST_PART_OTHER: the thread reclaimed or compacted memory */
    uint32_t reclaim_kind;     /* enum reclaim_kind */
    uint64_t reclaim_cgroup;   /* its ID */
    const char *reason;        /* static string: why it is unattributed or inferred, or what the thread did; "" */
};

struct path_segments {
    struct path_segment *items; /* latest first while they are added; path_segments_finish reverses them */
    size_t count, room;
    uint64_t begin_ns, next_end_ns; /* of the request; where the next segment ends */
    bool is_full;                   /* nothing more can be added: earlier time is unattributed */
    bool is_failed;                 /* no memory */
    struct path_evidence evidence;  /* of the finished segments; empty until it is looked for */
};

/* [begin, end) is to be covered. */
void path_segments_start(struct path_segments *s, uint64_t begin_ns, uint64_t end_ns);
/* Adds `segment` from its start, cut to begin_ns, up to where the last one began. A start later than that adds
 * nothing. Like neighbours are merged. */
void path_segments_add(struct path_segments *s, const struct path_segment *segment);
/* Orders the segments by time. They cover [begin_ns, end_ns) exactly; the time without a segment is unattributed, for
 * `reason`. -ENOMEM. */
int path_segments_finish(struct path_segments *s, const char *reason);
/* Returns the index of the first finished segment that ends after `t_ns`; their number if all end earlier. */
size_t path_segments_since(const struct path_segments *s, uint64_t t_ns);
/* Splits finished segment `i` in two at `at`, a time within it: the second one is `i` + 1. -ENOMEM: nothing changed. */
int path_segments_split(struct path_segments *s, size_t i, uint64_t at_ns);
/* Makes the part of finished segment `*i` within [from, to), which overlaps it, a segment of its own, and sets `*i` to
 * it. -ENOMEM. */
int path_segments_cut_out(struct path_segments *s, size_t *i, uint64_t from_ns, uint64_t to_ns);
void path_segments_clear(struct path_segments *s);
