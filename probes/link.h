/* Which request a thread works for: what probes/link.bpf.c keeps of a thread between libsonde's probes
 * sonde_trace:thread_enter and thread_leave, and cpu.bpf.c and request.bpf.c read. */
#pragma once

#define LINK_THREADS_MAX 4096
/* No thread has this number: here stands of which epoch (CLOCK_MONOTONIC, when it began) entries are believed; 0: none
 * is, and none is made. */
#define LINK_EPOCH_KEY   0
#define LINK_TIMED_EVERY 64

/* A trace's id as W3C writes it, in two halves, and a span's. */
struct link_ids {
    __u64 trace_id_high, trace_id_low;
    __u64 span_id;
};

/* Only the thread itself writes here; but for `epoch`, which may be taken away from outside (link.bpf.c,
 * forget_thread). */
struct thread_link {
    struct link_ids ids;    /* what it works for, or worked for last */
    __u64 started_ns;       /* the thread's own start: tells two users of its number apart */
    __u64 since_ns;         /* it has worked for no other trace since then */
    __u64 entered_ns;       /* ... and began to do so the last time then */
    __u64 until_ns;         /* while it does not work: when it left */
    __u64 earlier_until_ns; /* when it left this trace the time before; 0: it did not */
    __u64 other_until_ns;   /* when it last left another trace than this one; 0: it did not */
    __u64 first_span_id;    /* of this trace's spans the one entered first; 0: there were several, one after another */
    __u64 check;            /* link_check() of what stands here */
    __u64 epoch;            /* in which it was made: what is of an earlier one, or of none, is as good as not there */
    __u32 pid;
    __u32 working;
};
_Static_assert(sizeof(struct thread_link) == 24 + 8 * 8 + 16, "shared by programs");

/* A CPU's share each. */
struct link_stats {
    __u64 firings;
    __u64 sampled_ns; /* that one of LINK_TIMED_EVERY took */
    __u64 map_full;   /* threads that entered and found no room */
};

/* What forget_thread is run with. */
struct link_forget {
    __u64 tid, pid;
};
