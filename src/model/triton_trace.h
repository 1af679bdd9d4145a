/* Triton's request traces as plain data: one object of a file's JSON array (a record), and one request put together
 * from all records of its id (a trace). Read by import/triton_file.h, put together by aggregate/trace_table.h.
 *
 * Texts are slices, for they may hold any bytes: Triton writes tensors of one-byte integers as they are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct triton_text {
    const char *at; /* not NUL-terminated; NULL: not there */
    size_t size;
};

struct triton_stamp {
    struct triton_text name;
    uint64_t ns;
    uint32_t tokens; /* libsonde's: so many were out now; 0: none */
};

struct triton_tensor {
    struct triton_text name, data, shape, dtype;
};

/* What libsonde adds to the object with a model's name, and Triton has not: how a request ended that did not succeed,
 * and what is known of an answer in tokens. X(name, key in the file, attribute of OpenTelemetry, it is a list there) */
#define TRITON_FACTS(X)                                                                                                \
    X(STATUS, "status", NULL, false)                                                                                   \
    X(ERROR, "error", NULL, false)                                                                                     \
    X(OPERATION, "operation", "gen_ai.operation.name", false)                                                          \
    X(PROVIDER, "provider", "gen_ai.provider.name", false)                                                             \
    X(RESPONSE_ID, "response_id", "gen_ai.response.id", false)                                                         \
    X(RESPONSE_MODEL, "response_model", "gen_ai.response.model", false)                                                \
    X(FINISH_REASON, "finish_reason", "gen_ai.response.finish_reasons", true)                                          \
    X(ERROR_TYPE, "error_type", "error.type", false)

enum triton_fact {
#define X(name, key, attribute, is_list) TRITON_FACT_##name,
    TRITON_FACTS(X)
#undef X
        TRITON_FACT_COUNT,
    TRITON_FACT_GENERATION = TRITON_FACT_OPERATION /* this one and the next are of a generation */
};

enum triton_token_count { TRITON_INPUT_TOKENS, TRITON_OUTPUT_TOKENS, TRITON_TOKEN_COUNTS };

struct triton_facts {
    struct triton_text texts[TRITON_FACT_COUNT];
    int64_t tokens[TRITON_TOKEN_COUNTS]; /* -1: not known */
    bool has_generation;
};

extern const struct triton_fact_kind {
    const char *key, *attribute;
    bool is_list;
} triton_fact_kinds[TRITON_FACT_COUNT], triton_token_kinds[TRITON_TOKEN_COUNTS];

/* The one of that key or attribute from `first` on, or TRITON_FACT_COUNT; of counts likewise TRITON_TOKEN_COUNTS. */
enum triton_fact triton_fact_find(struct triton_text key, enum triton_fact first);
enum triton_fact triton_fact_find_attribute(struct triton_text attribute);
enum triton_token_count triton_token_count_find(struct triton_text key);
enum triton_token_count triton_token_count_find_attribute(struct triton_text attribute);

/* With its texts in one piece of memory, to be freed by free. NULL: no memory. */
struct triton_facts *triton_facts_copy(const struct triton_facts *facts, size_t *ret_bytes);

/* It failed or was cancelled; `*ret_message` says why, as far as anything does. */
bool triton_facts_failed(const struct triton_facts *facts, struct triton_text *ret_message);
bool triton_facts_cancelled(const struct triton_facts *facts);

/* One JSON object. Everything in it is borrowed from the reader's buffer until the next one is asked for. */
struct triton_record {
    uint64_t offset; /* of its first byte in what the file holds unpacked */
    uint64_t id, parent_id;
    int64_t model_version;
    bool has_parent, has_version;
    struct triton_text model_name, request_id, activity;
    struct triton_tensor tensor;
    const struct triton_facts *facts; /* NULL: none */
    const struct triton_stamp *stamps;
    size_t stamp_count;
};

/* The names that Triton gives to moments; others are the models' own. */
/* clang-format off */
#define TRITON_EVENTS(X)                                                                                               \
    X(HTTP_RECV_START)                                                                                                 \
    X(HTTP_RECV_END)                                                                                                   \
    X(HTTP_SEND_START)                                                                                                 \
    X(HTTP_SEND_END)                                                                                                   \
    X(GRPC_WAITREAD_START)                                                                                             \
    X(GRPC_WAITREAD_END)                                                                                               \
    X(GRPC_SEND_START)                                                                                                 \
    X(GRPC_SEND_END)                                                                                                   \
    X(REQUEST_START)                                                                                                   \
    X(REQUEST_END)                                                                                                     \
    X(QUEUE_START)                                                                                                     \
    X(COMPUTE_START)                                                                                                   \
    X(COMPUTE_INPUT_END)                                                                                               \
    X(COMPUTE_OUTPUT_START)                                                                                            \
    X(COMPUTE_END)                                                                                                     \
    X(INFER_RESPONSE_COMPLETE)
/* clang-format on */

enum triton_event {
#define X(name) TRITON_##name,
    TRITON_EVENTS(X)
#undef X
        TRITON_EVENT_COUNT /* a name of the model's own: this + its number in the table of names */
};

/* The name of one of Triton's own, or NULL. */
const char *triton_event_name(enum triton_event event);
/* The one that `name` is, or TRITON_EVENT_COUNT. */
enum triton_event triton_event_find(struct triton_text name);

struct triton_moment {
    uint64_t ns;
    uint32_t event; /* enum triton_event, or TRITON_EVENT_COUNT + number of the name */
    uint32_t tokens;
};

struct triton_activity {
    struct triton_activity *next; /* in the order of the file */
    struct triton_text activity;
    struct triton_tensor tensor;
};

enum { TRITON_HTTP = 1, TRITON_GRPC = 2 }; /* through which door the request came */

/* One request, or one part of a request (an ensemble's step, a model called by a model): all records of one id. */
struct triton_trace {
    uint64_t id, parent_id;
    uint64_t root_id; /* its farthest ancestor that is known: the request */
    int64_t model_version;
    bool has_parent, has_model;
    uint8_t doors;      /* TRITON_HTTP, TRITON_GRPC: its own or its ancestors' */
    uint8_t doors_seen; /* its own */
    uint32_t model;     /* number in the table of names */
    struct triton_text request_id;
    const struct triton_facts *facts; /* NULL: none */
    struct triton_moment *moments;    /* in the order of the file */
    uint32_t moment_count;
    struct triton_activity *activities;
};

/* When each of Triton's own moments was; where a name stands twice the last one holds, as in trace_summary.py. */
struct triton_times {
    uint64_t ns[TRITON_EVENT_COUNT];
    uint32_t known; /* 1 << event */
};

void triton_times_get(const struct triton_trace *trace, struct triton_times *ret);

static inline bool triton_times_has(const struct triton_times *t, enum triton_event a, enum triton_event b)
{
    uint32_t both = 1u << a | 1u << b;
    return (t->known & both) == both;
}

static inline bool triton_text_is(struct triton_text text, const char *other, size_t size)
{
    return text.size == size && __builtin_memcmp(text.at, other, size) == 0;
}

#define TRITON_TEXT_IS(text, literal) triton_text_is(text, literal, sizeof(literal) - 1)
