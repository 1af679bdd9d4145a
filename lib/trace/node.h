/* A request in flight: a tree of traces, each with its own records in the order in which they came. Written
 * by the threads that serve the request, read by the writer's thread when the last trace of the tree has
 * ended. */
#pragma once

#include "context.h"
#include "probes.h"
#include "settings.h"

#include <sonde/trace.h>

#include <pthread.h>
#include <string.h>

#define TRACE_CUSTOM   0xff /* a kind beside enum sonde_trace_activity: the name follows */
#define TRACE_TOKENS   0xfe /* another: a struct trace_tokens_record follows */
#define TRACE_DIMS_MAX 64
#define TRACE_INLINE   384 /* bytes of records before memory is asked for: 24 timestamps */
#define TRACE_ALIGN(n) (((n) + 7) & ~(size_t)7)

/* Followed by size_bytes, padded to 8. */
struct trace_record {
    uint64_t ns;
    uint32_t size_bytes;
    uint16_t kind;
    uint16_t name_size; /* of a custom name, which is what follows */
};

struct trace_tokens_record {
    uint32_t count;
    uint32_t is_first; /* of its generation */
};

/* What is known of a generation when it has ended. Texts lie behind it; NULL: not said. */
struct trace_generation_facts {
    char operation[sizeof(((struct sonde_trace_generation *)0)->operation)];
    const char *response_id, *response_model, *finish_reason, *error_type;
    int64_t input_tokens, output_tokens; /* -1: not said */
};

/* What follows the record of a tensor: this, shape, data, name, dtype. */
struct trace_tensor_record {
    uint64_t size_bytes, copied_bytes; /* of the data */
    uint32_t dims;
    uint16_t name_size, dtype_size;
};

struct sonde_trace {
    struct trace_tree *tree;
    struct sonde_trace *next; /* of the same tree, by id */
    uint64_t id, parent_id;
    const char *model_name; /* the manager's */
    int64_t model_version;
    char *request_id, *message;
    uint32_t request_id_size, message_size;
    enum sonde_trace_status status;
    struct trace_generation_facts *generation; /* the last one that ended, or NULL */
    uint64_t span_id, parent_span_id;          /* of the model's span; the bytes are in the order of sending */
    uint64_t begin_ns, end_ns;                 /* likewise, where spans are made */
    pthread_mutex_t lock;                      /* of the records */
    unsigned char *data;                       /* `inline_data` at first */
    size_t size, capacity;
    _Alignas(8) unsigned char inline_data[TRACE_INLINE];
};

struct trace_tree {
    struct trace_tree *queued; /* the next in the writer's queue */
    struct sonde_trace_manager *manager;
    struct trace_settings *settings; /* trace_settings_none: only for who is attached (probes.h) */
    bool makes_spans;                /* in mode opentelemetry, of what is recorded */
    unsigned generation;             /* of the process that it began in */
    uint32_t weight;                 /* its share of the writer's queue */
    atomic_uint live;                /* traces that have not ended */
    atomic_size_t bytes;             /* of all records, and of the traces themselves */
    pthread_mutex_t lock;            /* of the list */
    struct sonde_trace *last;
    struct trace_context context; /* the trace's id, and the caller's span or none */
    char *tracestate;             /* where spans are made: the caller's, or NULL */
    uint64_t unix_offset_ns;      /* likewise: what makes Unix time of CLOCK_MONOTONIC */
    struct sonde_trace root;      /* its parent_span_id is the span of the request */
};

/* The records of a trace, `r`. */
#define trace_for_each_record(t, r)                                                                                    \
    for (const struct trace_record *r = (const struct trace_record *)(const void *)(t)->data;                          \
         (const unsigned char *)r < (t)->data + (t)->size; r = trace_next_record(r))

static inline const struct trace_record *trace_next_record(const struct trace_record *r)
{
    return (const struct trace_record *)((const unsigned char *)(r + 1) + TRACE_ALIGN(r->size_bytes));
}

static inline bool trace_is_recorded(const struct trace_tree *tree)
{
    return tree->settings != &trace_settings_none;
}

/* By its own span; the request itself by that of the whole request, which is there also when no model was
 * reached. */
static inline struct trace_who trace_who(const struct sonde_trace *t)
{
    struct trace_who who = {.span_id = t == &t->tree->root ? t->parent_span_id : t->span_id, .id = t->id};
    memcpy(who.trace_id, t->tree->context.trace_id, sizeof(who.trace_id));
    return who;
}

/* Drops the references that it holds. */
void trace_tree_free(struct trace_tree *tree);

/* --- of generation.c -------------------------------------------------------------------------- */

/* So many tokens are out: a timestamp. */
void trace_put_tokens(struct sonde_trace *t, bool is_first, uint32_t count, uint64_t ns);

/* Takes the facts of a generation that has ended, which are of `size` bytes; NULL: no memory for them. */
void trace_take_generation(struct sonde_trace *t, struct trace_generation_facts *facts, size_t size);
