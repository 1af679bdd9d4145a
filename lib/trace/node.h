/* A request in flight: a tree of traces, each with its records in order of arrival. Written by request threads, read
 * by the writer thread after the last trace of the tree has ended. */
#pragma once

#include "context.h"
#include "probes.h"
#include "settings.h"

#include <sonde/trace.h>

#include <pthread.h>
#include <string.h>

#define TRACE_CUSTOM   0xff /* additional kind besides enum sonde_trace_activity: followed by the name */
#define TRACE_TOKENS   0xfe /* additional kind: followed by a struct trace_tokens_record */
#define TRACE_DIMS_MAX 64
#define TRACE_INLINE   384 /* bytes of records without an allocation: 24 timestamps */
#define TRACE_ALIGN(n) (((n) + 7) & ~(size_t)7)

/* Followed by size_bytes of data, padded to 8. */
struct trace_record {
    uint64_t ns;
    uint32_t size_bytes;
    uint16_t kind;
    uint16_t name_size; /* of a custom name, which follows */
};

struct trace_tokens_record {
    uint32_t count;
    uint32_t is_first; /* first tokens of the generation */
};

/* Details of a finished generation. The texts follow the struct; NULL: unknown. */
struct trace_generation_facts {
    char operation[sizeof(((struct sonde_trace_generation *)0)->operation)];
    const char *response_id, *response_model, *finish_reason, *error_type;
    int64_t input_tokens, output_tokens; /* -1: unknown */
};

/* Follows the record of a tensor; followed by shape, data, name, dtype. */
struct trace_tensor_record {
    uint64_t size_bytes, copied_bytes; /* of the data */
    uint32_t dims;
    uint16_t name_size, dtype_size;
};

struct sonde_trace {
    struct trace_tree *tree;
    struct sonde_trace *next; /* in the same tree, by id */
    uint64_t id, parent_id;
    const char *model_name; /* owned by the manager */
    int64_t model_version;
    char *request_id, *message;
    uint32_t request_id_size, message_size;
    enum sonde_trace_status status;
    struct trace_generation_facts *generation; /* the last one that ended, or NULL */
    uint64_t span_id, parent_span_id;          /* of the model's span; in network byte order */
    uint64_t begin_ns, end_ns;                 /* of the model's span, if spans are recorded */
    pthread_mutex_t lock;                      /* protects the records */
    unsigned char *data;                       /* initially `inline_data` */
    size_t size, capacity;
    _Alignas(8) unsigned char inline_data[TRACE_INLINE];
};

struct trace_tree {
    struct trace_tree *queued; /* next in the writer's queue */
    struct sonde_trace_manager *manager;
    struct trace_settings *settings; /* trace_settings_none: not recorded, only for attached tracers (probes.h) */
    bool makes_spans;                /* recorded in mode opentelemetry */
    unsigned generation;             /* of the process that started it */
    uint32_t weight;                 /* its share of the writer's queue */
    atomic_uint live;                /* traces that have not ended */
    atomic_size_t bytes;             /* of all records and traces */
    pthread_mutex_t lock;            /* protects the list */
    struct sonde_trace *last;
    struct trace_context context; /* the trace id, and the caller's span or none */
    char *tracestate;             /* if spans are recorded: the caller's, or NULL */
    uint64_t unix_offset_ns;      /* if spans are recorded: converts CLOCK_MONOTONIC to Unix time */
    struct sonde_trace root;      /* its parent_span_id is the span of the request */
};

/* Iterates over the records `r` of trace `t`. */
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

/* The ids of the trace's own span; for the root, of the request's span, which exists even if no model was reached. */
static inline struct trace_identity trace_identity(const struct sonde_trace *t)
{
    struct trace_identity who = {.span_id = t == &t->tree->root ? t->parent_span_id : t->span_id, .id = t->id};
    memcpy(who.trace_id, t->tree->context.trace_id, sizeof(who.trace_id));
    return who;
}

/* --- of generation.c -------------------------------------------------------------------------- */

/* Records a timestamp with a token count. */
void trace_put_tokens(struct sonde_trace *t, bool is_first, uint32_t count, uint64_t ns);

/* Takes ownership of the facts of a finished generation, of `size` bytes; NULL: out of memory. */
void trace_take_generation(struct sonde_trace *t, struct trace_generation_facts *facts, size_t size);
