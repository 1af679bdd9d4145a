/* Inference request tracing for servers written in C or C++, compatible with Triton Inference Server: its settings
 * (--trace-config), its trace protocol (/v2/trace/setting), its JSON trace files and its OpenTelemetry spans; also
 * metrics of token generation. docs/traces.md is the guide.
 *
 *     sonde_trace_config_new        reads command line options and the environment
 *     sonde_trace_manager_new       one per server: settings, queue, output file
 *     sonde_trace_model_new         one per loaded model version
 *     sonde_trace_start ... _end    one per sampled request; NULL for the others. Every function that takes a
 *                                   trace accepts NULL and then does nothing
 *
 * Threads: every function may be called on any thread at any time; a config and a generation belong to one thread at a
 * time. A trace may be stamped by several threads at once, but by none after sonde_trace_end.
 * No function on the request path waits for a disk, a network or another thread's I/O: finished traces go to a bounded
 * queue, a thread of the library writes them, and traces that do not fit are dropped and counted.
 *
 * Fork: the parent is not affected. In the child, traces that were started before the fork belong to the parent:
 * calls with them do nothing. The child writes its own traces to its own file, FILE.p<PID>, with its own thread, which
 * starts with its first trace. Ids continue from the parent's.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Errors are negative errno values; outputs (`ret_`) are untouched on
 * failure. Error text is written to `why` as far as it fits (SONDE_TRACE_WHY_SIZE is enough); NULL, 0 is allowed. */
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

/* Creates settings without any option: the defaults, overridden by the environment (OTEL_RESOURCE_ATTRIBUTES,
 * OTEL_BSP_MAX_QUEUE_SIZE, OTEL_BSP_SCHEDULE_DELAY, OTEL_BSP_MAX_EXPORT_BATCH_SIZE, OTEL_METRIC_EXPORT_INTERVAL,
 * OTEL_METRICS_EXPORTER, OTEL_EXPORTER_OTLP_...). The caller frees it with sonde_trace_config_free. -ENOMEM. */
int sonde_trace_config_new(struct sonde_trace_config **ret_config);

void sonde_trace_config_free(struct sonde_trace_config *config);

/* Applies one command line option: `--trace-config` with `[<mode>,]<setting>=<value>`, or one of the deprecated
 * --trace-file, --trace-rate, --trace-level, --trace-count, --trace-log-frequency with its value. Copies both. 0;
 * -ENOENT: an unknown option; -EINVAL with the reason in `why`, which names the option: Bad option: "--trace-
 * config rate". Invalid option value. Got x */
int sonde_trace_config_set(struct sonde_trace_config *config, const char *option, const char *value, char *why,
                           size_t why_size);

/* Removes all such options from a command line (`--trace-config X` and `--trace-config=X`, up to a `--`), so that a
 * server's own parser sees only the rest: *argc and argv are shortened, argv[0] stays. Errors as above; -EINVAL also
 * for an option without its value. On failure argc and argv are unchanged. */
int sonde_trace_config_take(struct sonde_trace_config *config, int *argc, char **argv, char *why, size_t why_size);

/* --- the tracing of a server ----------------------------------------------------------------- */

struct sonde_trace_options {
    size_t size;                /* sizeof(struct sonde_trace_options): later versions add fields at the end */
    uint32_t queue_traces_max;  /* capacity of the queue in finished requests; 0: 8192. In opentelemetry mode
                                 * bsp_max_queue_size applies instead */
    uint64_t queue_bytes_max;   /* capacity of the queue in bytes; 0: 64 MiB */
    uint64_t tensor_bytes_max;  /* a larger tensor is written with a reason instead of its data; 0: 1 MiB */
    uint64_t request_bytes_max; /* limit of the records of one request and its children; the rest is dropped; 0: 16
                                 * MiB */
    /* Called when traces or metrics begin to be lost, on a thread of the library (or that of sonde_trace_manager_new,
     * sonde_trace_end, sonde_trace_generation_end). `error` is an errno (ENOSPC: the disk is full), `message` names
     * the problem and the file. Called again when the error changes, or recurs after a recovery. Traces and metrics
     * have a thread each, so two calls may run at once. Must not call back into this manager. */
    void (*on_error)(void *argument, int error, const char *message);
    void *argument;
    const char *provider; /* gen_ai.provider.name of generations; NULL: the resource's service.name. Copied */
};

/* Creates a manager without a file or a thread; both are created with the first trace that is written. The caller
 * keeps `config` and may free it; NULL: the defaults. `options` NULL: all defaults. -EINVAL: the settings contradict
 * each other (a setting of the mode that is not selected; a batch larger than the queue), or the URL is invalid.
 * -EOPNOTSUPP: mode=opentelemetry, and libsonde-otlp.so cannot be loaded. -ENOMEM. */
int sonde_trace_manager_new(const struct sonde_trace_config *config, const struct sonde_trace_options *options,
                            struct sonde_trace_manager **ret_manager, char *why, size_t why_size);

/* Writes the queued traces, ends the thread and closes the files; waits for the disk, or up to some seconds for a
 * receiver. Requests in flight may continue and end, but are not written. Models may be freed before or after. */
void sonde_trace_manager_free(struct sonde_trace_manager *manager);

/* Waits until every trace that ended before the call is in the file, accepted by the receiver or counted as lost.
 * Also sends metrics now. -ETIMEDOUT. */
int sonde_trace_manager_flush(struct sonde_trace_manager *manager, unsigned timeout_ms);

/* Counts since sonde_trace_manager_new (in a child: since the fork). A request and its children count as one. */
struct sonde_trace_stats {
    uint64_t sampled;           /* requests that sonde_trace_start returned a trace for */
    uint64_t written;           /* to a file, or accepted by a receiver */
    uint64_t dropped_queue;     /* lost: the queue was full */
    uint64_t dropped_write;     /* lost: could not be written (disk full, no such directory, no thread, no memory) */
    uint64_t write_errors;      /* failed attempts to write */
    uint64_t records_dropped;   /* timestamps and tensors that were not recorded: request_bytes_max, no memory */
    uint64_t tensors_malformed; /* data that does not match dtype and shape; written with the reason instead of the
                                 * data */
    uint64_t tensors_too_large; /* above tensor_bytes_max; likewise */
    uint64_t spans_rejected;    /* by a receiver that accepted the rest of their packet; the requests count as
                                   written */
    uint64_t generations;       /* generations that ended and are in the metrics */
    uint64_t generations_overflowed; /* generations counted without names: more than 1024 combinations of model,
                                      * operation, finish reason and error type */
    uint64_t metrics_sent;           /* metrics packets that a receiver accepted */
    uint64_t metrics_lost;           /* metrics packets that it did not; later packets, if any, include their values */
    uint64_t metric_errors;          /* failed attempts to send metrics */
    uint64_t points_rejected;        /* by a receiver that accepted the rest of the packet */
};

/* `size`: sizeof(struct sonde_trace_stats) of the caller. */
void sonde_trace_manager_stats(struct sonde_trace_manager *manager, struct sonde_trace_stats *ret_stats, size_t size);

/* --- the trace protocol ---------------------------------------------------------------------- */

/* Handles a request of the trace protocol: GET and POST /v2/trace/setting, /v2/models/M/trace/setting and
 * /v2/models/M/versions/V/trace/setting. `path` is without the query; `body` may be NULL when body_size is 0.
 * *ret_body is NUL-terminated JSON that the caller frees with sonde_trace_free. 0, also when *ret_status is 400, 405
 * or 501; -ENOENT: not a path of the trace protocol (continue with your own routes); -ENOMEM. */
int sonde_trace_http(struct sonde_trace_manager *manager, const char *method, const char *path, const char *body,
                     size_t body_size, unsigned *ret_status, char **ret_body);

void sonde_trace_free(void *text);

/* One entry of the map that the gRPC call TraceSetting takes and returns. */
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

/* Registers a loaded model version. Versions of one model share their settings, which survive unloading and
 * reloading. The trace protocol knows a model while a handle to it exists. -EINVAL: an empty name or one of more than
 * 1024 bytes; -ENOSPC: more than 65536 names; -ENOMEM. */
int sonde_trace_model_new(struct sonde_trace_manager *manager, const char *name, int64_t version,
                          struct sonde_trace_model **ret_model);

/* Frees the handle. Traces that were started with it may continue. */
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
    const char *request_id; /* from the client; any bytes, also NUL; NULL: none, or set later by
                             * sonde_trace_request_id */
    size_t request_id_size;
    const char *traceparent; /* the W3C header; NULL: none. Decides on sampling in opentelemetry mode only */
    const char *tracestate;  /* the W3C header, all its lines joined with commas; NULL: none */
};

/* Decides whether to trace this request. NULL: no (or out of memory). Otherwise the trace, which the caller ends with
 * sonde_trace_end. `model` NULL gives NULL, so that a server without tracing needs no branches. `request` may be NULL;
 * its contents are copied. A request that is not sampled costs an increment of a counter, a few nanoseconds. While a
 * tracer is attached to the probes (below), a request that is not sampled gets a trace too, so that the start and end
 * of every request are visible. Such a trace records nothing, is not written and is not counted; its level and its id
 * are 0. */
struct sonde_trace *sonde_trace_start(struct sonde_trace_model *model, const struct sonde_trace_request *request);

/* Starts the trace of an ensemble step, or of a request that a model issues itself (BLS): it has its own id and its
 * parent's id, and shares its parent's file and settings. NULL for a NULL parent. May outlive its parent: the request
 * is written when the last of its traces has ended. */
struct sonde_trace *sonde_trace_child(struct sonde_trace *parent, struct sonde_trace_model *model);

/* Sets the request id, for servers that know it only after reading the body. Any bytes; copied; cut at 4096 bytes. */
void sonde_trace_request_id(struct sonde_trace *trace, const char *id, size_t size);

/* Unique within the process, from 1; 0 for NULL and for a trace that records nothing. */
uint64_t sonde_trace_id(const struct sonde_trace *trace);

#define SONDE_TRACE_PARENT_SIZE 56

/* In opentelemetry mode: the W3C headers for outgoing requests on behalf of this one, so that their spans become
 * children of this span. ret_traceparent has SONDE_TRACE_PARENT_SIZE bytes; *ret_tracestate belongs to the trace, or
 * is NULL. -ENOENT: not traced, or not in this mode; forward the incoming headers instead if they are valid. */
int sonde_trace_context(const struct sonde_trace *trace, char *ret_traceparent, const char **ret_tracestate);

/* Whether an incoming header may be forwarded unchanged, by W3C Trace Context Level 2: 1 or 0; 0 for NULL. Forward
 * the tracestate (all lines joined with commas) only together with a valid traceparent; one without members is not
 * valid. A traceparent must have no surrounding space. */
int sonde_trace_parent_is_valid(const char *traceparent);
int sonde_trace_state_is_valid(const char *tracestate);

/* SONDE_TRACE_TIMESTAMPS | SONDE_TRACE_TENSORS: the recorded data; 0 for NULL. Check it before gathering tensors. */
unsigned sonde_trace_level(const struct sonde_trace *trace);

uint64_t sonde_trace_now_ns(void);

/* Records a timestamp: now, or of a past moment. A custom name is copied and cut at 255 bytes; a pair X_START, X_END
 * becomes an OpenTelemetry span X. */
void sonde_trace_timestamp(struct sonde_trace *trace, enum sonde_trace_activity activity);
void sonde_trace_timestamp_at(struct sonde_trace *trace, enum sonde_trace_activity activity, uint64_t monotonic_ns);
void sonde_trace_custom(struct sonde_trace *trace, const char *name);
void sonde_trace_custom_at(struct sonde_trace *trace, const char *name, uint64_t monotonic_ns);

struct sonde_trace_tensor {
    const char *name;
    const char *dtype; /* BOOL, [U]INT{8,16,32,64}, FP16, BF16, FP32, FP64, BYTES */
    const int64_t *shape;
    size_t dims;
    const void *data; /* NULL: not in host memory, written without data. Host byte order; for BYTES, each element
                       * is preceded by its length in 4 bytes */
    size_t size_bytes;
};

/* Copies the tensor when the level includes TENSORS. Validation and formatting happen later, on the library's thread.
 */
void sonde_trace_tensor(struct sonde_trace *trace, enum sonde_trace_activity activity,
                        const struct sonde_trace_tensor *tensor);

/* Ends a request or a child and takes ownership of the trace. `message` is the reason of a failure, or NULL; copied,
 * cut at 1024 bytes. */
void sonde_trace_end(struct sonde_trace *trace, enum sonde_trace_status status, const char *message);

/* --- token generation ------------------------------------------------------------------------ */

/* A generation: a response that a model produces token by token, for traced and untraced requests alike. The caller
 * provides the storage, on its stack or in its request; it owns no other memory and needs no freeing. Every
 * generation that begins must end or be dropped, before its trace ends. All fields are private. */
struct sonde_trace_generation {
    struct sonde_trace_manager *manager;
    const char *model;
    struct sonde_trace *trace;
    uint64_t begin_ns, first_ns, tokens;
    uint32_t process;
    char operation[36];
    uint64_t reserved[4];
};

/* Begins a generation. `model` NULL: nothing is counted. `trace`: the request's, or NULL. `operation`:
 * gen_ai.operation.name of OpenTelemetry, "chat", "text_completion" (the default for NULL), "generate_content";
 * copied, cut at 35 bytes. In a traced request, records a timestamp GENERATION_START. */
void sonde_trace_generation_begin(struct sonde_trace_generation *generation, struct sonde_trace_model *model,
                                  struct sonde_trace *trace, const char *operation);

/* Reports `count` newly emitted tokens; the first call marks the first token; 0 does nothing. In a traced request,
 * records a timestamp FIRST_TOKEN or TOKEN with the count. */
void sonde_trace_generation_tokens(struct sonde_trace_generation *generation, uint32_t count);

/* Unknown values are NULL, or -1 for token counts. Texts are copied; cut at 1024 bytes in a trace, at 64 bytes in
 * metric labels. */
struct sonde_trace_generation_result {
    size_t size; /* sizeof(struct sonde_trace_generation_result) */
    int64_t input_tokens;
    int64_t output_tokens; /* -1: the sum passed to sonde_trace_generation_tokens, if it was called */
    const char *response_id, *response_model;
    const char *finish_reason; /* "stop", "length", ... */
    const char *error_type;    /* set when the generation failed or was cancelled: an error class, not its message.
                                * It is a metric label; failed generations are not in the metrics of token times */
};

/* Ends the generation; in a traced request, records a timestamp GENERATION_END. `result` NULL: only the counted
 * tokens are known. */
void sonde_trace_generation_end(struct sonde_trace_generation *generation,
                                const struct sonde_trace_generation_result *result);

/* Discards the generation instead of ending it: its outcome is unknown, and no metric counts it. Does nothing after
 * the end. */
void sonde_trace_generation_drop(struct sonde_trace_generation *generation);

/* Metrics of all generations as Prometheus text (version 0.0.4; also valid OpenMetrics except for the final line `#
 * EOF`): the histograms gen_ai_server_request_duration_seconds, gen_ai_server_time_to_first_token_seconds,
 * gen_ai_server_time_per_output_token_seconds and gen_ai_client_token_usage. Available in either mode. *ret_text is
 * NUL-terminated; the caller frees it with sonde_trace_free. -ENOMEM. */
int sonde_trace_metrics(struct sonde_trace_manager *manager, char **ret_text);

/* --- probes and thread contexts -------------------------------------------------------------- */

/* A process with a manager has the USDT provider `sonde_trace` (sonde/probe.h). Any tracer can attach to it:
 *
 *     request_start   u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id, str model, str request_id
 *     request_end     u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id, i32 status, str request_id
 *     thread_enter    u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id
 *     thread_leave    u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id
 *
 * request_start and request_end fire for every request and every child, sampled or not, in both modes.
 * Trace and span ids print with %016llx as W3C writes them; the trace is the caller's, or a generated one. The span
 * of a request is that of InferRequest, the span of a child that of its model; it is not 0, and unique within the
 * process. `id` is that of sonde_trace_id and of the file, 0 when the request is not recorded. `status` is enum
 * sonde_trace_status. `request_id` is the id as known at that moment, up to a NUL in it, or "".
 *
 * Between sonde_trace_enter and sonde_trace_leave the calling thread works for that request: thread_enter fires with
 * the request's ids, and thread_leave with the ids that apply from then on, or zeros. In between, the thread's
 * context is published as OTEP 4947 of OpenTelemetry specifies (otel_thread_ctx_v1), for external profilers.
 *
 * Several threads may work for one trace. A thread may work for several traces, nested: the innermost is published,
 * and leaving it restores the enclosing one. Beyond SONDE_TRACE_NESTING_MAX the outermost are forgotten. Leaving in
 * another order is allowed; leaving a trace that was not entered does nothing. sonde_trace_end leaves on behalf of the
 * calling thread; any other thread must leave itself, also after the end. In a forked child no thread works for a
 * request. */
#define SONDE_TRACE_NESTING_MAX 8

void sonde_trace_enter(struct sonde_trace *trace);
void sonde_trace_leave(struct sonde_trace *trace);

/* --- inline NULL tests for untraced requests ------------------------------------------------- */

/* The same functions with the test for NULL inlined, so that an untraced request costs no call. */
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
