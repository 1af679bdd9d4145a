/* One served request with its latency breakdown: created by diagnose, shown by `sonde why`, the API and the web
 * page. Strings are owned by the request (one allocation; request_free). The durations of the parts (the components
 * of the latency) sum to duration_ns exactly. */
#pragma once

#include "base/cleanup.h"
#include "model/request_span.h"
#include "model/request_stream.h"
#include "model/trace_link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The documented list of kinds (docs/why.md). A part is time of the request's own wall clock; parts never overlap. */
#define REQUEST_PART_KINDS(X)                                                                                          \
    X(CPU, "cpu")                   /* on a CPU, working for this request */                                           \
    X(RUN_QUEUE, "run_queue")       /* ready to run, waiting for a CPU */                                              \
    X(DISK, "disk")                 /* waiting for a file system or block device */                                    \
    X(LOCK, "lock")                 /* waiting for a lock or another thread */                                         \
    X(SLEEP, "sleep")               /* asleep because the program asked to sleep */                                    \
    X(NETWORK, "network")           /* waiting for the client or for network buffers */                                \
    X(DOWNSTREAM, "downstream")     /* waiting for another service that this request called */                         \
    X(UNREAD, "unread")             /* its bytes had arrived and the server had not read them */                       \
    X(LOOP_BUSY, "loop_busy")       /* ready, while the event loop worked for others */                                \
    X(QUEUE_BEHIND, "queue_behind") /* in a queue, behind other work of the thread that took it */                     \
    X(OTHER, "other")               /* waiting in a system call or fault of another kind */                            \
    X(STEAL, "steal")               /* the hypervisor ran something else on its CPU */                                 \
    X(UNATTRIBUTED, "unattributed") /* not known */

enum request_part_kind {
#define X(id, name) REQUEST_PART_##id,
    REQUEST_PART_KINDS(X)
#undef X
        REQUEST_PART_COUNT
};

/* The name of a kind, which must be below REQUEST_PART_COUNT. A static string. */
const char *request_part_name(enum request_part_kind kind);

enum request_protocol_kind { REQUEST_PROTOCOL_HTTP1, REQUEST_PROTOCOL_HTTP2, REQUEST_PROTOCOL_GRPC, REQUEST_PROTOCOLS };

/* The name of a protocol, which must be below REQUEST_PROTOCOLS: "http/1", "http/2", "grpc". A static string. */
const char *request_protocol_name(enum request_protocol_kind protocol);

/* Statuses of HTTP are below this. The statuses of gRPC calls follow it: 0 (OK) to 16, and one for calls whose status
 * is not known. */
#define REQUEST_STATUS_GRPC         1000
#define REQUEST_STATUS_GRPC_UNKNOWN 1099

#define REQUEST_STATUS_BYTES        24

/* "503", "UNAVAILABLE"; of a gRPC call without a known status "unknown". Returns `out`. */
const char *request_status_text(uint16_t status, char out[REQUEST_STATUS_BYTES]);

/* A gRPC call's method as the conventions name it, of its route: "package.Service/Method". Points into `route`. */
const char *request_rpc_method(const char *route);

struct request_part {
    enum request_part_kind kind;
    uint64_t duration_ns;
    const char *detail; /* "futex in pthread_mutex_lock < handle_request: futex_wait_queue", "" */
    const char *stack; /* where the thread waited (longest, if it waited there more than once): one frame per line, leaf
                          first, kernel frames marked by REQUEST_KERNEL_FRAME; "": unknown, or no wait */
};

/* In the detail of CPU time (diagnose/code/code_place.h), before what the function ran; and what that is called where
 * it is a garbage collection. */
#define REQUEST_CODE_RUNNING    ", running "
#define REQUEST_CODE_COLLECTION "garbage collection"

#define REQUEST_KERNEL_FRAME    "_[k]" /* suffix of its name, as in folded stacks */
#define REQUEST_FRAME_BYTES     256    /* maximum per line: longer names are cut and end in "..." */

#define REQUEST_PARTS_MAX       40

/* Whose work was done in a segment. */
enum request_owner {
    REQUEST_OWNER_THIS,    /* this request's */
    REQUEST_OWNER_OTHER,   /* another request's or thread's */
    REQUEST_OWNER_SEVERAL, /* that of one of several, and which one is not known */
    REQUEST_OWNER_UNKNOWN,
    REQUEST_OWNER_COUNT,
};

/* The name of an owner, which must be below REQUEST_OWNER_COUNT: "this". Static string. */
const char *request_owner_name(enum request_owner owner);

struct request_kind_time {
    enum request_part_kind kind;
    uint64_t ns;
};

/* One stretch of the critical path: what the request waited for, or was worked on by, at that time. */
struct request_segment {
    uint64_t start_ns; /* after the request's start */
    uint64_t duration_ns;
    enum request_part_kind kind; /* with the most time */
    enum request_owner owner;
    bool is_inferred;   /* it rests on an inference; otherwise it is measured */
    uint32_t tid, pid;  /* the thread that ran, waited or held the lock; 0: not known */
    const char *thread; /* its name; "": not known */
    const char *detail;
    const char *notes;   /* its evidence in words, one line each: file and rate of a disk, who ran instead; "": none */
    const char *process; /* the name of its process, if that is not the request's: "uvicorn :8100"; "": not known */
    const struct request_kind_time *times; /* where it stands for short steps of several kinds: the time of each, which
                                              add up to its duration */
    size_t time_count;                     /* at most REQUEST_PART_COUNT; 0: all of it is of `kind` */
};

#define REQUEST_SEGMENTS_MAX  64

#define REQUEST_MEDIAN_MIN    5   /* a smaller sample's median is not shown; */
#define REQUEST_USUAL_MIN     20  /* a smaller sample makes no baseline, */
#define REQUEST_USUAL_MIN_P99 100 /* and has no 99th percentile */

/* Durations of requests, as medians and 99th percentiles. The values of the components need not add up. */
struct request_usual {
    uint32_t requests;       /* that the durations rest on; 0: too few, and nothing is known */
    uint64_t p50_ns, p99_ns; /* p99_ns, also of the components: 0 where there are too few for it */
    uint64_t first_p50_ns;   /* until the first token; 0: fewer than REQUEST_MEDIAN_MIN of them are streams with one */
    uint32_t explained;      /* requests that the components rest on; 0: too few */
    uint32_t known;          /* sampled requests, weighted; REQUEST_USUAL_MIN are needed for `requests` */
    uint64_t part_p50_ns[REQUEST_PART_COUNT], part_p99_ns[REQUEST_PART_COUNT];
};

/* Requests of one route with one cause: the abnormal ones, or all of a route without abnormal requests. */
struct request_group {
    double requests;  /* in the period; 0: the request is not the example of a group */
    uint64_t lost_ns; /* time beyond the usual of all slow ones */
    uint64_t time_ns; /* that all of them took */
    bool is_estimate; /* not every request of the group was recorded */
};

/* What each request of a group spends about the same time in, however long it waits for other things. */
struct request_constant {
    uint8_t part;     /* number of the component of the group's example, from 1; 0: none, or not known */
    bool is_upstream; /* the answer of `upstream`; `part`, if it is set, is most of that */
};

struct request {
    uint64_t id;            /* 0: none. A later request with the same ID is an update that replaces this one */
    uint64_t start_ns;      /* CLOCK_MONOTONIC: the key for ordering and lookup */
    uint64_t start_unix_ns; /* the same as wall-clock time, which may be stepped at any time: for display only */
    uint64_t duration_ns;
    uint32_t pid, tid;
    const char *service;
    const char *unit; /* systemd unit of its process: "nginx.service"; "": none */
    uint16_t port;    /* that the server listens on; 0: not known */
    const char *container_id;
    const char *method; /* "GET" */
    const char *route;  /* path without its query, identifiers replaced: "/users/{id}" */
    const char *peer;   /* "127.0.0.1:4711" or "" */
    uint16_t status;    /* of HTTP, or REQUEST_STATUS_GRPC and more; 0: no reply seen */
    uint8_t protocol;   /* enum request_protocol_kind */
    bool is_tls;        /* it came in over TLS */
    bool lacks_path;    /* `route`, or the end of it, is not known: "*". HTTP/2 */
    uint64_t bytes_in, bytes_out;
    struct request_stream stream;
    uint64_t
        first_part_ns[REQUEST_PART_COUNT]; /* of a stream: the components of stream.first_ns, which they add up to */
    const char *model;                     /* that the request names, in OpenAI's API; "": none, or not known */
    struct trace_link link;    /* the trace that its thread worked for meanwhile, if it was exactly one; zeros: none */
    struct request_span span;  /* its own; zeros: spans are not exported */
    uint32_t weight;           /* of a random sample: how many requests of its process it stands for; 0: not in it */
    bool is_notable;           /* it has a record for another reason than the sample: it is slow or failed */
    const char *upstream;      /* the service that it waited for longest: "10.0.0.7:5432", "127.0.0.1:8199 (python)";
                                  "": none, or not known */
    const char *upstream_call; /* the call there that it waited for longest: "PostgreSQL SELECT"; "": not known */
    uint64_t upstream_longest_ns;     /* how long it waited for that, */
    uint64_t upstream_ns;             /* and for others in all */
    struct request_usual usual;       /* of its service, method and route, when it was queried */
    struct request_group group;       /* that it is the example of */
    struct request_constant constant; /* of that group, if none of its requests failed or is slow */
    const char *group_cause;          /* what its requests have in common: one phrase, without times; "": none */
    const char *cause;                /* one sentence: what differs most from the usual, or else took most, in words */
    struct request_part parts[REQUEST_PARTS_MAX];
    size_t part_count;
    bool is_over_budget; /* its path was not computed, to keep to budget.one_cpu */
    const struct request_segment
        *segments;        /* by time; exclusive, and they sum to the duration. None: no path is known */
    size_t segment_count; /* at most REQUEST_SEGMENTS_MAX */
    size_t bytes;         /* memory, set by request_copy */
};

/* Which requests of a period are asked for. */
enum request_choice {
    REQUEST_CHOICE_ALL,      /* slowest first */
    REQUEST_CHOICE_ABNORMAL, /* only requests that failed or are slow for their route, slowest first */
    REQUEST_CHOICE_GROUPS,   /* an example for each cause of each route, with `group` set; most time lost first */
    REQUEST_CHOICE_ABNORMAL_GROUPS, /* the same for requests that failed or are slow for their route */
    REQUEST_CHOICE_COUNT,
};

/* The name of a choice, which must be below REQUEST_CHOICE_COUNT: "groups". Static string. */
const char *request_choice_name(enum request_choice choice);

/* Copies a request whose strings may be anywhere into one allocation, freed by request_free. -EINVAL: more than
 * REQUEST_PARTS_MAX parts or REQUEST_SEGMENTS_MAX segments, or a segment of too many kinds; -ENOMEM. */
int request_copy(const struct request *r, struct request **ret);
void request_free(struct request *r);

/* Returns how many requests the list represents: the example of a group (group.requests > 0) represents all of it. */
uint64_t request_list_total(struct request *const *list, size_t count);

#define REQUEST_SERVICE_BYTES 224

/* The name that distinguishes the services of a program: "uvicorn :8100", "nginx.service :80"; the unit where the
 * service is named after it. Returns `out`. */
const char *request_service_text(const char *service, const char *unit, uint16_t port, char out[REQUEST_SERVICE_BYTES]);

/* Whether `wanted` names this service: by its name, its unit, or as request_service_text shows it. */
bool request_service_matches(const char *wanted, const char *service, const char *unit, uint16_t port);

/* Adds the time of each kind in the segment to `sums_ns`. Over all segments of a request, these are the sums of its
 * components. */
void request_segment_sum(const struct request_segment *s, uint64_t sums_ns[REQUEST_PART_COUNT]);

/* The sum of the components of a kind. */
uint64_t request_kind_ns(const struct request *r, enum request_part_kind kind);

/* Whether a request of `duration_ns` is slow in its route: at least three times the median, and 1 ms more. False if the
 * route has no baseline. */
bool request_is_slow(uint64_t duration_ns, const struct request_usual *usual);
/* The kind of component that differs most from the usual, for a slow request of a route with a baseline; otherwise the
 * kind that took most. `kind_ns`: the sum for each kind. */
enum request_part_kind request_top_kind(const uint64_t kind_ns[REQUEST_PART_COUNT], uint64_t duration_ns,
                                        const struct request_usual *usual);

/* A request is abnormal if it failed (status 5xx, a gRPC status that is not OK, no reply) or is slow. */
bool request_is_failed(uint16_t status);
/* The first digit of HTTP's status; of a gRPC call 5 if it failed, else 2. */
uint16_t request_status_class(uint16_t status);
static inline bool request_is_abnormal(const struct request *r)
{
    return request_is_failed(r->status) || request_is_slow(r->duration_ns, &r->usual);
}

/* The span that represents the request where its durations are counted: its own if spans are exported, else the one
 * that its program made; NULL: none. Borrowed. */
const struct trace_link *request_exemplar(const struct request *r);

/* Copies the next line of a part's stack or a segment's notes into `line` and advances `at`. False at the end. */
bool request_next_frame(const char **at, char line[REQUEST_FRAME_BYTES]);
DEFINE_FREEP(request)
