/* Calls of other services, which processes that serve requests make: the counters that request.bpf.c keeps for all of
 * them. A call is a send whose statement, command or method is known (recorder/client_call.h), until the first bytes
 * of the reply are read. Several sends before that are one call. */
#pragma once

/* Of durations, four for each power of two, from 2^16 ns (66 us) on; the last one begins at 13 s. */
#define SERVICE_CALL_BUCKETS  72
#define SERVICE_CALL_KEYS_MAX 512
#define SERVICE_CALL_OPEN_MAX 512 /* calls without a reply yet */
#define SERVICE_ADDRESSES_MAX 256 /* of this node's servers */

struct service_address {
    __u8 address[16]; /* of IPv6; IPv4 mapped into it; with port 0: of a Unix socket, the PID of the process that
                         listens on it, or 0 */
    __u32 network;    /* the inode number of the network namespace, for loopback addresses; else 0 */
    __u16 port;
    __u16 reserved;
};

struct service_call_key {
    __u64 process; /* REQUEST_NAME_* of the caller */
    struct service_address server;
    __u32 call; /* client_call */
    __u32 reserved;
};

/* Counts never decrease while the key exists, and may wrap. */
struct service_call_counts {
    __u64 wait_ns;
    __u32 failed;                            /* the reply begins with an error, or the connection ended without one */
    __u32 buckets[SERVICE_CALL_BUCKETS + 1]; /* the last one is always 0: the size is a multiple of 8 */
};
_Static_assert(sizeof(struct service_call_counts) == 304, "no padding");

/* The process that reads on the accepted connections of an address. */
struct service_process {
    __u32 pid;
    char comm[16];
};
