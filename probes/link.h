/* Which traced request a thread works for: state that probes/link.bpf.c keeps per thread between libsonde's probes
 * sonde_trace:thread_enter and thread_leave; read by cpu.bpf.c, offcpu.bpf.c and request.bpf.c. */
#pragma once

#define LINK_THREADS_MAX 4096
/* Not a thread ID: this entry holds the current epoch (CLOCK_MONOTONIC of its start). Only entries of this epoch are
 * valid; 0: no entry is valid and none is created. */
#define LINK_EPOCH_KEY   0
#define LINK_TIMED_EVERY 64

/* A W3C trace ID, in two halves, and a span ID. */
struct link_ids {
    __u64 trace_id_high, trace_id_low;
    __u64 span_id;
};

/* Written by the thread itself only, except `epoch`, which user space may clear (link.bpf.c, forget_thread). */
struct thread_link {
    struct link_ids ids;    /* the request it works for, or last worked for */
    __u64 started_ns;       /* the thread's start time: distinguishes threads that reuse its ID */
    __u64 since_ns;         /* it has worked for no other trace since */
    __u64 entered_ns;       /* when it last entered this trace */
    __u64 until_ns;         /* when it left, if it is not working */
    __u64 earlier_until_ns; /* when it left this trace the previous time; 0: never */
    __u64 other_until_ns;   /* when it last left another trace; 0: never */
    __u64 first_span_id;    /* the span entered first; 0: several spans in sequence */
    __u64 check;            /* link_check() of this entry */
    __u64 epoch;            /* the epoch of its creation: an entry of another epoch, or of none, is invalid */
    __u32 pid;
    __u32 working;
};
_Static_assert(sizeof(struct thread_link) == 24 + 8 * 8 + 16, "shared by programs");

/* Per CPU. */
struct link_stats {
    __u64 firings;
    __u64 sampled_ns; /* of one firing in LINK_TIMED_EVERY */
    __u64 map_full;   /* threads that entered while the table was full */
};

/* Arguments of forget_thread. */
struct link_forget {
    __u64 tid, pid;
};
