/* Inference request traces for servers written in C or C++, as Triton Inference Server makes them: its
 * settings (--trace-config), its trace protocol (/v2/trace/setting), its files of JSON and its OpenTelemetry
 * spans; and metrics of answers in tokens. docs/traces.md is the guide.
 *
 *     sonde_trace_config_new        what the command line and the environment say
 *     sonde_trace_manager_new       one for a server: settings, the queue, the file
 *     sonde_trace_model_new         one for each version of a model that is loaded
 *     sonde_trace_start ... _end    one for each request that is sampled; NULL otherwise, and NULL is taken
 * by every function of a trace, which then does nothing
 *
 * Threads: every function may be called on any thread at any time; a config and a generation belong to one
 * thread at a time.
 * A trace may be stamped by several threads at once, but by none after sonde_trace_end.
 * No function that is called for a request waits for a disk, a network or another thread's I/O: what is
 * finished goes to a bounded queue, a thread of the library's own writes it, and what does not fit is dropped
 * and counted.
 *
 * Fork: the parent goes on as if nothing had happened. In the child, traces that were started before the fork
 * are the parent's: calls with them do nothing. What the child traces itself goes to a file of its own,
 * FILE.p<PID>, by a thread of its own that is started with its first trace. Ids go on from the parent's.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Errors are negative errno; outputs (`ret_`) are untouched on
 * failure. Text of errors is written to `why` when there is room for it (SONDE_TRACE_WHY_SIZE is enough);
 * NULL, 0 is allowed. */
#ifndef SONDE_TRACE_H
#define SONDE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SONDE_TRACE_WHY_SIZE 512

struct sonde_trace_config;
struct sonde_trace_manager;
struct sonde_trace_model;
struct sonde_trace;

/* --- settings of the command line ------------------------------------------------------------ */

/* The settings without any option: the defaults, and what the environment says (OTEL_RESOURCE_ATTRIBUTES,
 * OTEL_BSP_MAX_QUEUE_SIZE, OTEL_BSP_SCHEDULE_DELAY, OTEL_BSP_MAX_EXPORT_BATCH_SIZE,
 * OTEL_METRIC_EXPORT_INTERVAL, OTEL_METRICS_EXPORTER, OTEL_EXPORTER_OTLP_...). -ENOMEM. */
int sonde_trace_config_new(struct sonde_trace_config **ret_config);

void sonde_trace_config_free(struct sonde_trace_config *config);

/* Takes one option of the command line: `--trace-config` with `[<mode>,]<setting>=<value>`, or one of the
 * deprecated
 * --trace-file, --trace-rate, --trace-level, --trace-count, --trace-log-frequency with its value. Copies
 * both. 0; -ENOENT when the option is none of these; -EINVAL with the reason in `why`, which names the
 * option: Bad option: "--trace-config rate". Invalid option value. Got x */
int sonde_trace_config_set(struct sonde_trace_config *config, const char *option, const char *value, char *why,
                           size_t why_size);

/* Takes all such options out of a command line (`--trace-config X` and `--trace-config=X`, up to a `--`), so
 * that a server's own parser sees the rest: *argc and argv are shortened, argv[0] stays. Errors as above;
 * -EINVAL too for an option without its value. After an error argc and argv are as they were. */
int sonde_trace_config_take(struct sonde_trace_config *config, int *argc, char **argv, char *why, size_t why_size);

/* --- the tracing of a server ----------------------------------------------------------------- */

struct sonde_trace_options {
    size_t size;                /* sizeof(struct sonde_trace_options): later versions add fields at the end */
    uint32_t queue_traces_max;  /* finished requests that wait for the disk; 0: 8192. In opentelemetry mode
                                   bsp_max_queue_size counts instead */
    uint64_t queue_bytes_max;   /* and their memory; 0: 64 MiB */
    uint64_t tensor_bytes_max;  /* a larger tensor is written without its data, with a reason; 0: 1 MiB */
    uint64_t request_bytes_max; /* what one request and its children may record; the rest is dropped; 0: 16 MiB */
    /* Called on a thread of the library's own (or that of sonde_trace_manager_new, sonde_trace_end,
     * sonde_trace_generation_end) when traces or metrics begin to be lost: `error` is an errno (ENOSPC: the
     * disk is full), `message` says what and which file. Again when the error is another one, or the same
     * after it had gone. Traces and metrics have a thread each: two calls may meet. Must not call back into
     * this manager. */
    void (*on_error)(void *argument, int error, const char *message);
    void *argument;
    const char *provider; /* gen_ai.provider.name of generations; NULL: the resource's service.name. Copied */
};

/* Starts nothing yet: file and thread come with the first trace that is written. `config` stays the caller's
 * and may be freed; NULL: the defaults. `options` NULL: all defaults. -EINVAL: the settings contradict each
 * other (one of the mode that is not selected; a batch larger than the queue), or the URL is none.
 * -EOPNOTSUPP: mode=opentelemetry, and libsonde-otlp.so cannot be loaded. -ENOMEM. */
int sonde_trace_manager_new(const struct sonde_trace_config *config, const struct sonde_trace_options *options,
                            struct sonde_trace_manager **ret_manager, char *why, size_t why_size);

/* Writes what is queued, ends the thread and closes the files; waits for the disk, or up to some seconds for
 * a receiver. Requests still in flight may go on and end, unwritten. Models may be freed before or after. */
void sonde_trace_manager_free(struct sonde_trace_manager *manager);

/* Waits until everything that ended before the call is in the file, with the receiver or counted as lost;
 * metrics are sent now, too.
 * -ETIMEDOUT. */
int sonde_trace_manager_flush(struct sonde_trace_manager *manager, unsigned timeout_ms);

/* Counts since sonde_trace_manager_new (in a child: since the fork). A request counts once, with its
 * children. */
struct sonde_trace_stats {
    uint64_t sampled;           /* requests that sonde_trace_start returned a trace for */
    uint64_t written;           /* in a file, or accepted by a receiver */
    uint64_t dropped_queue;     /* lost: the queue was full */
    uint64_t dropped_write;     /* lost: could not be written (disk full, no such directory, no thread, no memory) */
    uint64_t write_errors;      /* failed attempts to write */
    uint64_t records_dropped;   /* timestamps and tensors that were not recorded: request_bytes_max, no memory */
    uint64_t tensors_malformed; /* data that does not fit dtype and shape; written with the reason in place of
                                   data */
    uint64_t tensors_too_large; /* above tensor_bytes_max; likewise */
    uint64_t spans_rejected;    /* by a receiver that accepted the rest of their packet; the requests count as
                                   written */
    uint64_t generations;       /* that ended and are in the metrics */
    uint64_t generations_overflowed; /* of them, those counted without names: more than 1024 combinations of
                                        model, operation, finish reason and error type */
    uint64_t metrics_sent;           /* packets of metrics that a receiver accepted */
    uint64_t metrics_lost;           /* packets that it did not; what they said is in the next one, if there is one */
    uint64_t metric_errors;          /* failed attempts to send one */
    uint64_t points_rejected;        /* by a receiver that accepted the rest of the packet */
};

/* `size`: sizeof(struct sonde_trace_stats) of the caller. */
void sonde_trace_manager_stats(struct sonde_trace_manager *manager, struct sonde_trace_stats *ret_stats, size_t size);

/* --- the trace protocol ---------------------------------------------------------------------- */

/* Answers a request of the trace protocol: GET and POST /v2/trace/setting, /v2/models/M/trace/setting and
 * /v2/models/M/versions/V/trace/setting. `path` without query; `body` may be NULL when body_size is 0.
 * *ret_body is JSON, NUL-terminated, the caller's: free it with sonde_trace_free. 0, also when *ret_status
 * says 400, 405 or 501; -ENOENT: the path is none of these (go on with your own routes); -ENOMEM. */
int sonde_trace_http(struct sonde_trace_manager *manager, const char *method, const char *path, const char *body,
                     size_t body_size, unsigned *ret_status, char **ret_body);

void sonde_trace_free(void *text);

/* One entry of the map that the gRPC call TraceSetting takes and gives. */
struct sonde_trace_setting {
    const char *name;
    const char *const *values;
    size_t value_count; /* 0 clears the setting */
};

struct sonde_trace_reply;

/* The gRPC form: `model` NULL or "" for the global settings. Returns a gRPC status code: 0 with the reply in
 * *ret_reply, or 3 (INVALID_ARGUMENT), 8 (RESOURCE_EXHAUSTED: no memory), 12 (UNIMPLEMENTED) with the message
 * in `why`. */
int sonde_trace_grpc(struct sonde_trace_manager *manager, const char *model, const struct sonde_trace_setting *settings,
                     size_t count, struct sonde_trace_reply **ret_reply, char *why, size_t why_size);

/* The map of a reply; it and its strings belong to the reply. */
const struct sonde_trace_setting *sonde_trace_reply_settings(const struct sonde_trace_reply *reply, size_t *ret_count);

void sonde_trace_reply_free(struct sonde_trace_reply *reply);

/* --- models ---------------------------------------------------------------------------------- */

/* A version of a model that is loaded. Versions of one name share their settings, which outlive an unload and
 * reload. The trace protocol knows a model while it has a handle. -EINVAL: an empty name or one of more than
 * 1024 bytes; -ENOSPC: more than 65536 names; -ENOMEM. */
int sonde_trace_model_new(struct sonde_trace_manager *manager, const char *name, int64_t version,
                          struct sonde_trace_model **ret_model);

/* Traces that were started with it may go on. */
void sonde_trace_model_free(struct sonde_trace_model *model);

/* --- requests -------------------------------------------------------------------------------- */

enum sonde_trace_level {
    SONDE_TRACE_TIMESTAMPS = 1,
    SONDE_TRACE_TENSORS = 2,
};

/* Triton's names, without the prefix. */
enum sonde_trace_activity {
    SONDE_TRACE_REQUEST_START,
    SONDE_TRACE_QUEUE_START,
    SONDE_TRACE_COMPUTE_START,
    SONDE_TRACE_COMPUTE_INPUT_END,
    SONDE_TRACE_COMPUTE_OUTPUT_START,
    SONDE_TRACE_COMPUTE_END,
    SONDE_TRACE_REQUEST_END,
    SONDE_TRACE_HTTP_RECV_START, /* Triton's trace_summary.py leaves out requests without this one ... */
    SONDE_TRACE_HTTP_RECV_END,
    SONDE_TRACE_HTTP_SEND_START,
    SONDE_TRACE_HTTP_SEND_END,
    SONDE_TRACE_GRPC_WAITREAD_START, /* ... or this one */
    SONDE_TRACE_GRPC_WAITREAD_END,
    SONDE_TRACE_GRPC_SEND_START,
    SONDE_TRACE_GRPC_SEND_END,
    SONDE_TRACE_INFER_RESPONSE_COMPLETE,
    SONDE_TRACE_TENSOR_QUEUE_INPUT, /* these three are for sonde_trace_tensor */
    SONDE_TRACE_TENSOR_BACKEND_INPUT,
    SONDE_TRACE_TENSOR_BACKEND_OUTPUT,
};

enum sonde_trace_status {
    SONDE_TRACE_OK,
    SONDE_TRACE_ERROR,     /* the request failed or was refused */
    SONDE_TRACE_CANCELLED, /* the client went away or a deadline passed */
};

struct sonde_trace_request {
    size_t size;            /* sizeof(struct sonde_trace_request) */
    const char *request_id; /* the client's; any bytes, also NUL; NULL: none, or see sonde_trace_request_id */
    size_t request_id_size;
    const char *traceparent; /* the W3C header, NULL: none. Decides in opentelemetry mode only */
    const char *tracestate;  /* its companion, of all lines with commas between them; NULL: none */
};

/* Is this request traced? NULL: no (or no memory). Else its trace, to be ended with sonde_trace_end.
 * `model` NULL: no, so that a server without tracing needs no branches. `request` may be NULL; all in it is
 * copied. Not sampled costs a counter: a few nanoseconds.
 * While somebody is attached to the probes (below) a request that is not traced gets a trace too: one that
 * records nothing, is not written and is not counted, so that begin and end of every request are seen. Its
 * level and its id are 0. */
struct sonde_trace *sonde_trace_start(struct sonde_trace_model *model, const struct sonde_trace_request *request);

/* A step of an ensemble, or a request that a model makes itself (BLS): a trace with an id of its own and its
 * parent's id, of the same file and settings. NULL for a parent that is NULL. May outlive its parent: the
 * request is written when the last one has ended. */
struct sonde_trace *sonde_trace_child(struct sonde_trace *parent, struct sonde_trace_model *model);

/* For servers that know the id only after they have read the body. Any bytes; copied; what is above 4096 is
 * cut. */
void sonde_trace_request_id(struct sonde_trace *trace, const char *id, size_t size);

/* Process-wide, from 1; 0 for NULL, and for a trace that records nothing. */
uint64_t sonde_trace_id(const struct sonde_trace *trace);

#define SONDE_TRACE_PARENT_SIZE 56

/* In opentelemetry mode: the W3C headers that a request of this one to another server carries, so that its
 * spans lie in this span. ret_traceparent has SONDE_TRACE_PARENT_SIZE bytes; *ret_tracestate is the trace's,
 * or NULL. -ENOENT: not traced, or not in this mode; pass on the headers that came, if they are valid. */
int sonde_trace_context(const struct sonde_trace *trace, char *ret_traceparent, const char **ret_tracestate);

/* Whether a header that came may be passed on as it is, by W3C Trace Context Level 2: 1 or 0, which it is for
 * NULL too. The tracestate (all lines, with commas between them) only together with a valid traceparent; one
 * without members is no valid one. No space around a traceparent. */
int sonde_trace_parent_is_valid(const char *traceparent);
int sonde_trace_state_is_valid(const char *tracestate);

/* SONDE_TRACE_TIMESTAMPS | SONDE_TRACE_TENSORS: what is recorded; 0 for NULL. Ask before you
 * gather tensors. */
unsigned sonde_trace_level(const struct sonde_trace *trace);

uint64_t sonde_trace_now_ns(void);

/* A timestamp: now, or of a moment that has passed. A name of the caller's own is copied, cut at 255 bytes; a
 * pair X_START, X_END is what OpenTelemetry shows as a span X. */
void sonde_trace_timestamp(struct sonde_trace *trace, enum sonde_trace_activity activity);
void sonde_trace_timestamp_at(struct sonde_trace *trace, enum sonde_trace_activity activity, uint64_t monotonic_ns);
void sonde_trace_custom(struct sonde_trace *trace, const char *name);
void sonde_trace_custom_at(struct sonde_trace *trace, const char *name, uint64_t monotonic_ns);

struct sonde_trace_tensor {
    const char *name;
    const char *dtype; /* BOOL, [U]INT{8,16,32,64}, FP16, BF16, FP32, FP64, BYTES */
    const int64_t *shape;
    size_t dims;
    const void *data; /* NULL: not in this memory, written without. In the machine's byte order; BYTES: each
                         element after its length in 4 bytes */
    size_t size_bytes;
};

/* Copies the tensor when the level has TENSORS; it is checked and made into text later, on the library's
 * thread. */
void sonde_trace_tensor(struct sonde_trace *trace, enum sonde_trace_activity activity,
                        const struct sonde_trace_tensor *tensor);

/* The end of the request or of a child; takes the trace. `message` says why it did not succeed, or NULL;
 * copied, cut at 1024 bytes. */
void sonde_trace_end(struct sonde_trace *trace, enum sonde_trace_status status, const char *message);

/* --- answers in tokens ----------------------------------------------------------------------- */

/* A generation, of a request that a model answers token by token: for every request, also those that are not
 * traced. The caller's, on its stack or in its request; no memory of its own and nothing to free. Each that
 * has begun is to be ended, before its trace, or dropped. All fields are private. */
struct sonde_trace_generation {
    struct sonde_trace_manager *manager;
    const char *model;
    struct sonde_trace *trace;
    uint64_t begin_ns, first_ns, tokens;
    uint32_t process;
    char operation[36];
    uint64_t reserved[4];
};

/* `model` NULL: nothing is counted. `trace`: the request's, or NULL. `operation`: what OpenTelemetry calls
 * it, "chat", "text_completion" (NULL means this one), "generate_content"; copied, cut at 35 bytes. In a
 * traced request a timestamp GENERATION_START. */
void sonde_trace_generation_begin(struct sonde_trace_generation *generation, struct sonde_trace_model *model,
                                  struct sonde_trace *trace, const char *operation);

/* So many tokens are out now; the first call is the first token, 0 is none. In a traced request a timestamp
 * FIRST_TOKEN or TOKEN with the count. */
void sonde_trace_generation_tokens(struct sonde_trace_generation *generation, uint32_t count);

/* All that is not known is NULL, or -1 of tokens. Texts are copied; cut at 1024 bytes in a trace, at 64 where
 * metrics are told apart by them. */
struct sonde_trace_generation_result {
    size_t size; /* sizeof(struct sonde_trace_generation_result) */
    int64_t input_tokens;
    int64_t output_tokens; /* -1: those that sonde_trace_generation_tokens was told, if it was told of any */
    const char *response_id, *response_model;
    const char *finish_reason; /* "stop", "length", ... */
    const char *error_type;    /* it failed or was cancelled: an error's class, not its text: metrics are told
                                  apart by it, and have no times to tokens for it */
};

/* The end, in a traced request a timestamp GENERATION_END. `result` NULL: nothing is known but what was
 * counted. */
void sonde_trace_generation_end(struct sonde_trace_generation *generation,
                                const struct sonde_trace_generation_result *result);

/* Instead of the end: what became of the answer is not known, and it is in no figure. After the end it does nothing. */
void sonde_trace_generation_drop(struct sonde_trace_generation *generation);

/* What all generations took, as text for Prometheus (version 0.0.4; also OpenMetrics, but for its last line,
 * `# EOF`): gen_ai_server_request_duration_seconds, gen_ai_server_time_to_first_token_seconds,
 * gen_ai_server_time_per_output_token_seconds and gen_ai_client_token_usage, histograms. In either mode.
 * *ret_text is NUL-terminated, the caller's: free it with sonde_trace_free. -ENOMEM. */
int sonde_trace_metrics(struct sonde_trace_manager *manager, char **ret_text);

/* --- who works for which request ------------------------------------------------------------- */

/* A process with a manager has the provider `sonde_trace` (sonde/probe.h), to which anything attaches:
 *
 *     request_start   u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id, str model, str request_id
 *     request_end     u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id, i32 status, str request_id
 *     thread_enter    u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id
 *     thread_leave    u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id
 *
 * request_start and request_end fire for every request and every child, sampled or not, in both modes.
 * The trace's and the span's id read as W3C writes them when printed as %016llx: the caller's trace, or one
 * of our own. The span of a request is that of InferRequest, the span of a child that of its model; it is
 * not 0, and no two of a process are the same. `id` is that of sonde_trace_id: the one in the file, 0 when
 * the request is not recorded. `status` is enum sonde_trace_status. `request_id` is what is known at that
 * moment, up to a NUL in it, or "".
 *
 * From sonde_trace_enter to sonde_trace_leave the calling thread works for that request: thread_enter fires
 * with its ids, and thread_leave with those that hold again, or zeros. In between, the thread's context is
 * published as OpenTelemetry's OTEP 4947 describes it (otel_thread_ctx_v1), for profilers that look from
 * outside.
 *
 * Several threads may work for one trace, and a thread for several, one within the other: the innermost is
 * what is published, and leaving that uncovers the one below. Of more than SONDE_TRACE_NESTING_MAX the
 * outermost are forgotten. To leave in another order is allowed; to leave what was not entered does nothing.
 * sonde_trace_end leaves for the thread that calls it; any other thread leaves by itself, also after the end.
 * A child that was forked off works for no request. */
#define SONDE_TRACE_NESTING_MAX 8

void sonde_trace_enter(struct sonde_trace *trace);
void sonde_trace_leave(struct sonde_trace *trace);

/* --- what a request that is not traced costs ------------------------------------------------- */

/* The test for NULL, without a call: the same functions, looked at before they are entered. */
#if defined(__OPTIMIZE__) && !defined(SONDE_TRACE_NO_INLINE)
#define SONDE_TRACE_INLINE(name, parameters, ...)                                                                      \
    extern void name##_traced parameters __asm__(#name);                                                               \
    extern inline __attribute__((gnu_inline)) void name parameters                                                     \
    {                                                                                                                  \
        if (__builtin_expect(trace != NULL, 0))                                                                        \
            name##_traced(__VA_ARGS__);                                                                                \
    }
SONDE_TRACE_INLINE(sonde_trace_timestamp, (struct sonde_trace * trace, enum sonde_trace_activity activity), trace,
                   activity)
SONDE_TRACE_INLINE(sonde_trace_timestamp_at,
                   (struct sonde_trace * trace, enum sonde_trace_activity activity, uint64_t monotonic_ns), trace,
                   activity, monotonic_ns)
SONDE_TRACE_INLINE(sonde_trace_custom, (struct sonde_trace * trace, const char *name), trace, name)
SONDE_TRACE_INLINE(sonde_trace_tensor,
                   (struct sonde_trace * trace, enum sonde_trace_activity activity,
                    const struct sonde_trace_tensor *tensor),
                   trace, activity, tensor)
SONDE_TRACE_INLINE(sonde_trace_enter, (struct sonde_trace * trace), trace)
SONDE_TRACE_INLINE(sonde_trace_leave, (struct sonde_trace * trace), trace)
SONDE_TRACE_INLINE(sonde_trace_end, (struct sonde_trace * trace, enum sonde_trace_status status, const char *message),
                   trace, status, message)
#undef SONDE_TRACE_INLINE
#endif

#ifdef __cplusplus
}
#endif

#endif
