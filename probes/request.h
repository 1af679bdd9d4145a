/* The record of one served request. Of HTTP/1 it is written by request.bpf.c when the next one begins on its
 * connection, when the connection ends, or when nothing more was sent for a while; and the counters that it keeps for
 * all requests, including those without a record. The flight recorder (recorder/recorder.h) holds how the time of a
 * request was spent.
 *
 * Each stream of HTTP/2 is a request. request.bpf.c copies parts of its frames (request/http2.h), and the source writes
 * the record from these copies when the stream has ended.
 *
 * A reply of HTTP/1 may continue after its record was sent (a stream). A later record with the same `id` then replaces
 * it. */
#pragma once

#include "probes/common/record.h"
#include "probes/common/run_timer.h"
#include "probes/link.h"

enum {
    RECORD_REQUEST = 36,        /* struct request_record; 34, 35: with the waits of its thread */
    RECORD_REQUEST_CALLER = 38, /* struct request_caller_record */
    RECORD_REQUEST_STREAM = 40, /* struct request_stream_record */
};

/* The peer of a socket that sent data other than a reply, usually a service that requests call. The low bits of the
 * cookie are the index of the entry, which another socket may have taken. */
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
#define REQUEST_CONNECTIONS_MAX 4096
#define REQUEST_PROCESSES_MAX   1024

/* Of a place that is taken, with its index: the key among the claims. */
#define REQUEST_CLAIM_CONNECTION (1ULL << 63 | 1ULL << 32)
#define REQUEST_CLAIM_PROCESS    (1ULL << 63 | 2ULL << 32)
#define REQUEST_CLAIM_PUBLISH    (1ULL << 63 | 3ULL << 32) /* a connection: by the program that publishes it */
#define REQUEST_CLAIM_OPAQUE     (1ULL << 63 | 4ULL << 32)
/* With the name of an entry of opaque traffic (61 bits), */
#define REQUEST_CLAIM_OPAQUE_NAME (1ULL << 63 | 1ULL << 61)
/* and with a process's name; names of sockets are claimed as they are. */
#define REQUEST_CLAIM_NAME (1ULL << 63 | 1ULL << 62)

/* The name of a process: its PID and its start time (since boot, in steps of 1024 ns). The start time distinguishes it
 * from a later process with the same PID. */
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

#define REQUEST_LINE_BYTES  160
#define REQUEST_MODEL_BYTES 64 /* of the name of a model, with its NUL; a longer one is cut */

#define REQUEST_PIPELINED   1  /* its line came in with an earlier request's and was not seen */
#define REQUEST_NO_REPLY    2  /* the connection was closed before any reply */
#define REQUEST_SHARED      8  /* other requests were in progress on its connection meanwhile: streams of HTTP/2 */
#define REQUEST_NOTABLE     4  /* slow for its process, or failed: it has a record without the sample, too */
#define REQUEST_TLS         16 /* it came in over TLS */
#define REQUEST_CLIENT      64 /* the process sent it to another service. HTTP/2; never in a record */
#define REQUEST_NO_PATH     32 /* its path, or the end of it, is not known: "*" in its line. HTTP/2 */

enum request_protocol { REQUEST_HTTP1, REQUEST_HTTP2, REQUEST_GRPC };

/* Of calls of gRPC: its status codes, 0 to 16, are added to this; 99: the call ended with a status that is not known.
 */
#define REQUEST_GRPC_STATUS  1000
#define REQUEST_GRPC_UNKNOWN 1099

struct request_record {
    struct record_header h; /* time_ns: when the last byte of the reply seen so far had been sent; tid: of the thread
                               that read its first byte */
    __u64 id;
    __u64 socket; /* it came in on: the socket's cookie, as in the flight recorder's records (recorder/recorder.h); its
                     address where programs have no cookies */
    __u64 start_ns; /* its first byte arrived; where that is not known: it was read */
    __u64 duration_ns;
    __u64 unread_ns; /* from start_ns until the server read it */
    __u64 bytes_in, bytes_out;
    __u64 cgroup_id;
    struct link_ids link; /* the trace that the thread worked for meanwhile, if it was one and the thread was with this
                             request alone; zeros: none, or not known */
    __u16 status;         /* of HTTP, or REQUEST_GRPC_STATUS + the status of a gRPC call; 0: none seen */
    __u16 peer_port;
    __u8 peer_family;
    __u8 flags; /* REQUEST_PIPELINED ... */
    __u8 line_bytes;
    __u8 protocol; /* enum request_protocol */
    __u8 peer_address[16];
    __u32 weight; /* in the sample, as one of so many requests of its process; 0: not in it: it is slow, or failed */
    __u16 local_port; /* that the server listens on; 0: not known */
    __u16 reserved2;
    char comm[16];
    char line[REQUEST_LINE_BYTES]; /* the first bytes of the request. Of HTTP/2 the same in other words: "POST /path
                                      HTTP/2", and of a gRPC call "... HTTP/2 model" if its model is known */
};
_Static_assert(sizeof(struct request_record) == 24 + 64 + sizeof(struct link_ids) + 48 + REQUEST_LINE_BYTES,
               "record format");

/* The caller's span, for a request with a record: the value of its header traceparent, unchecked. Comes ahead of the
 * record. Only where spans are exported. */
#define REQUEST_TRACEPARENT_BYTES 55

struct request_caller_record {
    struct record_header h;
    __u64 id;             /* of the request; 0: it has no such header */
    char traceparent[56]; /* REQUEST_TRACEPARENT_BYTES, and a NUL */
};
_Static_assert(sizeof(struct request_caller_record) == 24 + 8 + 56, "record format");

/* Whether what a record says of its sizes is true. Reads nothing beyond size_bytes. */
static inline int request_record_is_sound(const struct request_record *r)
{
    return r->h.size_bytes == sizeof(*r) && r->line_bytes <= REQUEST_LINE_BYTES && r->protocol <= REQUEST_GRPC;
}

/* A reply that is a stream of server-sent events, or of messages of gRPC, or a request of OpenAI's API: comes ahead of
 * the record of the request, and once at its end, whether or not the request has a record. */
#define REQUEST_STREAM_ENDED  1 /* nothing more comes of it; of a request, only one record says so */
#define REQUEST_STREAM_EVENTS 2 /* the reply is a stream; otherwise all counts and times of events are 0 */
#define REQUEST_STREAM_LATE   4 /* the send with the header was not read: events in it are not counted */
#define REQUEST_STREAM_UNREAD 8 /* nor is something of later sends: the counts are too low */

struct request_stream_record {
    struct record_header h; /* as of the request's record */
    __u64 id;
    __u64 cgroup_id;
    __u64 start_ns, duration_ns;
    __u64 first_byte_ns; /* of the reply, since start_ns; likewise: */
    __u64 first_ns;      /* the first token, or the first chunk if there are no tokens; 0: none; */
    __u64 last_ns;       /* the last */
    __u32 chunks;        /* events with data other than "[DONE]"; */
    __u32 tokens;        /* of them, those with text */
    __u32 usage;         /* how many tokens the server says there were; 0: it does not */
    __u16 status;
    __u16 local_port;
    __u8 flags; /* REQUEST_STREAM_ENDED ... */
    __u8 line_bytes;
    __u8 model_bytes;
    __u8 reserved[5];
    char comm[16];
    char model[REQUEST_MODEL_BYTES]; /* that the request names, with its NUL; "": not known */
    char line[REQUEST_LINE_BYTES];
};
_Static_assert(sizeof(struct request_stream_record) == 24 + 56 + 24 + 16 + REQUEST_MODEL_BYTES + REQUEST_LINE_BYTES,
               "record format");

/* As request_record_is_sound; and that its model is a string. */
static inline int request_stream_record_is_sound(const struct request_stream_record *r)
{
    return r->h.size_bytes == sizeof(*r) && r->line_bytes <= REQUEST_LINE_BYTES &&
           r->model_bytes < REQUEST_MODEL_BYTES && !r->model[r->model_bytes];
}

/* All requests of one process. Class 0: no reply; else the status's first digit. Bucket i: durations up to bound i, and
 * above the bound before it; the last bucket has no bound. OpenTelemetry's semantic conventions define the bounds, for
 * durations of HTTP requests and of calls; here in ns. */
#define REQUEST_BOUNDS(X)                                                                                              \
    X(5000000)                                                                                                         \
    X(10000000)                                                                                                        \
    X(25000000)                                                                                                        \
    X(50000000)                                                                                                        \
    X(75000000)                                                                                                        \
    X(100000000)                                                                                                       \
    X(250000000)                                                                                                       \
    X(500000000)                                                                                                       \
    X(750000000)                                                                                                       \
    X(1000000000)                                                                                                      \
    X(2500000000)                                                                                                      \
    X(5000000000)                                                                                                      \
    X(7500000000)                                                                                                      \
    X(10000000000)
#define REQUEST_CLASSES     6
#define REQUEST_BOUND_COUNT 14
#define REQUEST_BUCKETS     (REQUEST_BOUND_COUNT + 1)

/* The bucket of a duration, for user space: request_publish.bpf.h has it without branches. */
static inline __u32 request_duration_bucket(__u64 ns)
{
    __u32 bucket = 0;
#define ADD_IF_ABOVE(bound) bucket += ns > (bound);
    REQUEST_BOUNDS(ADD_IF_ABOVE)
#undef ADD_IF_ABOVE
    return bucket;
}

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
    __u32 window_requests;
    __u32 window_samples; /* with the present sample_shift */
    __u32 window_failed;  /* records for that reason alone */
    __u32 sample_shift;
    char comm[16];
    __u64 buckets[REQUEST_CLASSES][REQUEST_BUCKETS];
};

/* What the processes of one name exchanged on one listening port, in one network namespace, without requests that could
 * be read: on connections that they accepted. Counts never decrease, and may wrap. */
#define REQUEST_OPAQUE_MAX 256

struct request_opaque {
    __u64 received, sent; /* bytes */
    __u32 connections;    /* whose first bytes were read */
    __u32 reads;
    __u32 tls_reads; /* of the reads, those that begin as a TLS record does */
    __u32 pid;       /* of the process that read last */
    __u16 port;
    __u16 reserved;
    __u32 reserved2;
    char comm[16]; /* of the process */
    __u64 reserved3;
};
_Static_assert(sizeof(struct request_opaque) == 64, "a line of cache");

/* Which programs are timed together. */
enum {
    REQUEST_TIMER_RECEIVE,
    REQUEST_TIMER_SEND,
    REQUEST_TIMER_RECORD, /* for the flight recorder, of sends and receives */
    REQUEST_TIMER_READY,
    REQUEST_TIMER_FLUSH,
    REQUEST_TIMER_TLS, /* at uprobes */
    REQUEST_TIMERS
};
_Static_assert(REQUEST_TIMERS <= RUN_TIMER_PLACES, "a place a timer");

enum request_loss {
    REQUEST_LOSS_RING_FULL,
    REQUEST_LOSS_MAP_FULL,
    REQUEST_LOSS_UNMATCHED,
    REQUEST_LOSS_NOT_DETAILED,
    REQUEST_LOSS_TLS_UNBOUND,
    REQUEST_LOSS_STREAM_UNREAD,
    REQUEST_LOSS_COUNT,
};
