/* What the network of this node loses (drops.bpf.c): packets that the kernel drops, segments that TCP sends again,
 * resets, connections that a full accept queue refuses. Shared by the BPF programs, src/sources/drops and
 * src/signals/drops. */
#pragma once

#include "probes/common/record.h"

enum { RECORD_DROPS = 80 }; /* struct drops_record */

/* Index of a counter. The first ones count packets by the kernel's reason (enum skb_drop_reason). */
#define DROPS_REASONS 256 /* the last one: reasons of subsystems, and those beyond */
enum drops_counter {
    DROPS_SYN = DROPS_REASONS, /* segments that TCP sent again, by cause */
    DROPS_SYN_ACK,
    DROPS_LOSS_PROBE, /* the last segment, as no acknowledgement came for twice the round-trip time */
    DROPS_TIMEOUT,    /* the retransmission timer expired */
    DROPS_FAST,       /* later segments were acknowledged */
    DROPS_SLOW_START, /* the segments after one of DROPS_TIMEOUT */
    DROPS_RESET_SENT,
    DROPS_RESET_RECEIVED,
    DROPS_COUNTERS,
};

/* How a reason counts. User space sets it for each reason of the running kernel before it loads the program. */
enum drops_class {
    DROPS_FAULT,
    DROPS_POLICY,   /* a rule of the administrator's: a firewall, a BPF program */
    DROPS_EXPECTED, /* no program lacks the packet: counted without cgroup */
};

#define DROPS_MAX_COUNTERS 1024 /* by cgroup; further ones count for DROPS_OTHER */
#define DROPS_MAX_PEERS    256  /* likewise */

/* In place of a cgroup's ID. */
#define DROPS_OTHER     0
#define DROPS_NO_SOCKET (~0ULL) /* packets that were dropped before a socket was found for them */

struct drops_key {
    __u64 cgroup_id;
    __u32 counter; /* enum drops_counter */
    __u32 reserved;
};

struct drops_peer {
    __u16 family; /* AF_INET, AF_INET6; 0: all peers that did not fit */
    __u16 port;   /* 0: the peer has connected to this node, from any port */
    __u32 reserved;
    __u8 address[16];
};

struct drops_peer_count {
    __u64 segments; /* sent again */
    __u64 last_ns;
};

/* A listening socket of TCP, as the iterator writes it; once for each file descriptor. */
struct drops_listener {
    __u64 socket; /* its address in the kernel */
    __u64 cgroup_id;
    __u32 pid; /* a process that has it */
    __u32 port;
    __u32 drops; /* connections that it refused so far */
    __u32 backlog, backlog_max;
    __u32 reserved;
    char comm[16];
};
_Static_assert(sizeof(struct drops_listener) == 56, "format of the iterator");

/* Timers of the programs (run_timer.bpf.h). */
enum { DROPS_TIMER_PACKET, DROPS_TIMER_RETRANSMISSION, DROPS_TIMER_RESET, DROPS_TIMERS };

enum drops_event { DROPS_EVENT_PACKETS, DROPS_EVENT_RETRANSMISSIONS, DROPS_EVENT_LISTEN, DROPS_EVENTS };

/* More losses of one kind than its limit within an interval. Written by the source. The process in `h` is the
 * listener's. */
struct drops_record {
    struct record_header h;
    __u64 cgroup_id;
    __u64 count;
    __u64 interval_ns;
    __u32 event; /* enum drops_event */
    __u32 port;  /* of a listener */
    __u32 backlog, backlog_max;
    struct drops_peer peer;
    char name[48]; /* the reason of packets, the command of a listener */
    char cgroup[128];
};
_Static_assert(sizeof(struct drops_record) == 264, "record format");
