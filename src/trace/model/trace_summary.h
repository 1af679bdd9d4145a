/* The summary of many traces, as plain data: sums by front end (HTTP, gRPC), model and version; the slowest
 * requests; the data flow of the first request that has one. Created by trace/aggregate/trace_summary.h, written by
 * trace/export/trace_summary_text.h and trace_summary_json.h. */
#pragma once

#include "model/duration_histogram.h"
#include "trace/model/triton_trace.h"

/* The lines of trace_summary.py, in its order; trace/aggregate/trace_summary.c defines the begin and end of each. */
enum trace_span {
    TRACE_INFER, /* the whole request, as seen by its front end */
    TRACE_RECEIVE,
    TRACE_SEND,
    TRACE_FRONTEND_OVERHEAD,
    TRACE_HANDLER,
    TRACE_OVERHEAD,
    TRACE_QUEUE,
    TRACE_COMPUTE,
    TRACE_COMPUTE_INPUT,
    TRACE_COMPUTE_INFER,
    TRACE_COMPUTE_OUTPUT,
    TRACE_FIRST_TOKEN, /* of generations: to the first token, and for each of the following ones */
    TRACE_PER_TOKEN,
    TRACE_SPAN_COUNT
};

struct trace_span_sum {
    uint64_t count; /* successful traces that have it: others do not dilute the average */
    __int128 sum_ns;
    struct duration_histogram *durations; /* owned; NULL: no percentiles were requested */
};

struct trace_model_sum {
    const char *name; /* borrowed from the table of names */
    uint32_t name_number;
    int64_t version;
    uint64_t traces;
    uint64_t failed, cancelled;    /* of the traces, by libsonde's files: not in any span's sum, because their times are
                                      not comparable */
    uint64_t first_file, first_id; /* lines are sorted by ID */
    struct trace_span_sum spans[TRACE_SPAN_COUNT];
    uint64_t generations, generations_failed; /* generations that ended; failed ones have no token times */
    uint64_t tokens[TRITON_TOKEN_COUNTS];
};

enum { TRACE_HTTP, TRACE_GRPC, TRACE_FRONTENDS };

#define TRACE_MODELS_MAX  1024 /* per front end */
#define TRACE_SLOWEST_MAX 1000

struct trace_slow {
    uint64_t id,
        duration_ns; /* as seen by its front end, or by its handler where moments of the front end are missing */
    uint64_t start_ns;
    int64_t version;
    const char *name; /* borrowed from the table of names */
    char *request_id; /* owned; NULL: none */
    size_t request_id_size;
    uint8_t frontends;
    int64_t queue_ns, compute_ns; /* -1: missing */
};

/* One node of the data flow. */
struct trace_flow_node {
    uint64_t id, parent_id;
    int64_t version;
    const char *name;                   /* borrowed; NULL: missing, or it came through no front end */
    struct triton_activity *activities; /* owned */
};

struct trace_flow {
    bool is_tree;
    uint64_t root;                 /* ID; 0: there is no data flow */
    struct trace_flow_node *nodes; /* owned; sorted by ID */
    size_t count;
};

struct trace_summary_losses {
    uint64_t no_frontend; /* traces that came through no front end: not in the sums */
    uint64_t unfinished;  /* without begin or end of the handler: not in the sums */
    uint64_t unnamed;     /* without the model's name: not in the sums */
    uint64_t backwards;   /* spans that end before they begin: not in their sum */
    uint64_t models;      /* traces of models beyond TRACE_MODELS_MAX */
    uint64_t flow_nodes;  /* nodes of the data flow past the limit */
};

struct trace_sums {
    struct trace_model_sum *models[TRACE_FRONTENDS]; /* owned; sorted by first ID */
    size_t model_count[TRACE_FRONTENDS];
    struct trace_slow *slowest; /* owned; the slowest first */
    size_t slowest_count;
    struct trace_flow flow;
    struct trace_summary_losses losses;
};
