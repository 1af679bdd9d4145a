/* Triton's request traces as plain data: one object of a file's JSON array (a record), and one request assembled
 * from all records with its ID (a trace). Read by trace/import/triton_file.h, assembled by
 * trace/aggregate/trace_table.h.
 *
 * Strings are slices, because they may hold any bytes: Triton writes tensors of one-byte integers unescaped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct triton_text {
    const char *at; /* not NUL-terminated; NULL: absent */
    size_t size;
};

struct triton_stamp {
    struct triton_text name;
    uint64_t ns;
    uint32_t tokens; /* libsonde's: number of tokens produced so far; 0: none */
};

struct triton_tensor {
    struct triton_text name, data, shape, dtype;
};

/* Members that libsonde adds to the object with a model's name: how a request without success ended, and facts about
 * a generation. X(name, key in the file, OpenTelemetry attribute, whether it is a list there) */
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
    TRITON_FACT_GENERATION = TRITON_FACT_OPERATION /* this one and the following belong to a generation */
};

enum triton_token_count { TRITON_INPUT_TOKENS, TRITON_OUTPUT_TOKENS, TRITON_TOKEN_COUNTS };

struct triton_facts {
    struct triton_text texts[TRITON_FACT_COUNT];
    int64_t tokens[TRITON_TOKEN_COUNTS]; /* -1: unknown */
    bool has_generation;
};

extern const struct triton_fact_kind {
    const char *key, *attribute;
    bool is_list;
} triton_fact_kinds[TRITON_FACT_COUNT], triton_token_kinds[TRITON_TOKEN_COUNTS];

/* Finds a fact by key (from `first` on) or by attribute, or TRITON_FACT_COUNT; for token counts TRITON_TOKEN_COUNTS. */
enum triton_fact triton_fact_find(struct triton_text key, enum triton_fact first);
enum triton_fact triton_fact_find_attribute(struct triton_text attribute);
enum triton_token_count triton_token_count_find(struct triton_text key);
enum triton_token_count triton_token_count_find_attribute(struct triton_text attribute);

/* A copy with its strings in one allocation, freed by free(). NULL: out of memory. */
struct triton_facts *triton_facts_copy(const struct triton_facts *facts, size_t *ret_bytes);

/* True when it failed or was cancelled; `*ret_message` has the reason, as far as known. */
bool triton_facts_failed(const struct triton_facts *facts, struct triton_text *ret_message);
bool triton_facts_cancelled(const struct triton_facts *facts);

/* One JSON object. Everything in it is borrowed from the reader's buffer until the next one is read. */
struct triton_record {
    uint64_t offset; /* of its first byte in the decompressed file */
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
        TRITON_EVENT_COUNT /* a name of the model's own: this + its index in the table of names */
};

/* The name of one of Triton's own, or NULL. */
const char *triton_event_name(enum triton_event event);
/* The event named `name`, or TRITON_EVENT_COUNT. */
enum triton_event triton_event_find(struct triton_text name);

struct triton_moment {
    uint64_t ns;
    uint32_t event; /* enum triton_event, or TRITON_EVENT_COUNT + index of the name */
    uint32_t tokens;
};

struct triton_activity {
    struct triton_activity *next; /* in the order of the file */
    struct triton_text activity;
    struct triton_tensor tensor;
};

enum { TRITON_HTTP = 1, TRITON_GRPC = 2 }; /* bits: the front end through which the request came */

/* One request, or one part of a request (an ensemble's step, a model called by a model): all records with one ID. */
struct triton_trace {
    uint64_t id, parent_id;
    uint64_t root_id; /* its farthest known ancestor: the request */
    int64_t model_version;
    bool has_parent, has_model;
    uint8_t frontends;      /* TRITON_HTTP, TRITON_GRPC: its own or its ancestors' */
    uint8_t frontends_seen; /* its own */
    uint32_t model;         /* index in the table of names */
    struct triton_text request_id;
    const struct triton_facts *facts; /* NULL: none */
    struct triton_moment *moments;    /* in the order of the file */
    uint32_t moment_count;
    struct triton_activity *activities;
};

/* The time of each of Triton's own moments; of several with one name the last counts, as in trace_summary.py. */
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
