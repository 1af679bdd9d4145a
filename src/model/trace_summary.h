/* What many traces add up to, as plain data: sums by door (HTTP, gRPC), model and version; the slowest requests; the
 * data flow of the first request that carries one. Made by aggregate/trace_summary.h, written by
 * export/trace_summary_text.h and trace_summary_json.h. */
#pragma once

#include "model/duration_histogram.h"
#include "model/triton_trace.h"

/* The lines of trace_summary.py, in its order; what each is the time between stands in aggregate/trace_summary.c. */
enum trace_span {
    TRACE_INFER, /* the whole request, as its door saw it */
    TRACE_RECEIVE,
    TRACE_SEND,
    TRACE_DOOR_OVERHEAD,
    TRACE_HANDLER,
    TRACE_OVERHEAD,
    TRACE_QUEUE,
    TRACE_COMPUTE,
    TRACE_COMPUTE_INPUT,
    TRACE_COMPUTE_INFER,
    TRACE_COMPUTE_OUTPUT,
    TRACE_FIRST_TOKEN, /* of answers in tokens: to the first one, and from there on for each of the others */
    TRACE_PER_TOKEN,
    TRACE_SPAN_COUNT
};

struct trace_span_sum {
    uint64_t count; /* traces that succeeded and have it: the others do not dilute the average */
    __int128 sum_ns;
    struct duration_histogram *durations; /* owned; NULL: no percentiles were asked for */
};

struct trace_model_sum {
    const char *name; /* borrowed from the table of names */
    uint32_t name_number;
    int64_t version;
    uint64_t traces;
    uint64_t failed,
        cancelled; /* of them, as libsonde's files say: in no span's sum, for they have not what the others took */
    uint64_t first_file, first_id; /* the order of the lines is that of the ids */
    struct trace_span_sum spans[TRACE_SPAN_COUNT];
    uint64_t generations,
        generations_failed; /* answers in tokens that ended; those that failed have no times to tokens */
    uint64_t tokens[TRITON_TOKEN_COUNTS];
};

enum { TRACE_HTTP, TRACE_GRPC, TRACE_DOORS };

#define TRACE_MODELS_MAX  1024 /* of each door */
#define TRACE_SLOWEST_MAX 1000

struct trace_slow {
    uint64_t id, duration_ns; /* as its door saw it, or its handler where the door's moments are not all there */
    uint64_t start_ns;
    int64_t version;
    const char *name; /* borrowed from the table of names */
    char *request_id; /* owned; NULL: none */
    size_t request_id_size;
    uint8_t doors;
    int64_t queue_ns, compute_ns; /* -1: not there */
};

/* One box of the data flow. */
struct trace_flow_node {
    uint64_t id, parent_id;
    int64_t version;
    const char *name;                   /* borrowed; NULL: not there, or came through no door */
    struct triton_activity *activities; /* owned */
};

struct trace_flow {
    bool is_tree;
    uint64_t root;                 /* id; 0: there is no data flow */
    struct trace_flow_node *nodes; /* owned; by id */
    size_t count;
};

struct trace_summary_losses {
    uint64_t doorless;   /* traces that came through no door: nowhere in the sums */
    uint64_t unfinished; /* without begin or end of the handler: nowhere in the sums */
    uint64_t unnamed;    /* without the model's name: nowhere in the sums */
    uint64_t backwards;  /* spans that end before they begin: not in their sum */
    uint64_t models;     /* traces of models beyond TRACE_MODELS_MAX */
    uint64_t flow_nodes; /* parts of the data flow that found no room */
};

struct trace_sums {
    struct trace_model_sum *models[TRACE_DOORS]; /* owned; by first id */
    size_t model_count[TRACE_DOORS];
    struct trace_slow *slowest; /* owned; the slowest first */
    size_t slowest_count;
    struct trace_flow flow;
    struct trace_summary_losses losses;
};
