/* The attributes of spans and metric points, by OpenTelemetry's names, and their two OTLP encodings. Defined once, so
 * that JSON, protobuf and Prometheus text agree. */
#pragma once

#include "text.h"

struct sonde_trace;
struct sonde_trace_config;
struct trace_record;
struct trace_series_stats;

enum trace_attribute_kind {
    TRACE_ATTRIBUTE_TEXT,
    TRACE_ATTRIBUTE_TEXTS, /* an array of one text */
    TRACE_ATTRIBUTE_INTEGER,
    TRACE_ATTRIBUTE_TRUE,
};

struct trace_attribute {
    const char *key;
    enum trace_attribute_kind kind;
    const char *text;
    size_t size;
    int64_t integer;
};

#define TRACE_ATTRIBUTES_MAX 16

struct trace_attributes {
    struct trace_attribute list[TRACE_ATTRIBUTES_MAX];
    size_t count;
};

/* Sets the attributes of a model's span. */
void trace_attributes_of_span(struct trace_attributes *ret, const struct sonde_trace *t);

/* Sets the attributes of a timestamp: the token count, or none. */
void trace_attributes_of_event(struct trace_attributes *ret, const struct trace_record *r);

/* Sets the attributes of a generation metric. `token_type`: gen_ai.token.type, or NULL. */
void trace_attributes_of_series(struct trace_attributes *ret, const struct trace_series_stats *f, const char *provider,
                                const char *token_type);

/* Appends `{...},{...}`, or KeyValue messages as field `field`. */
void trace_attributes_put_json(struct trace_text *out, const struct trace_attributes *a);
void trace_attributes_put_protobuf(struct trace_text *out, unsigned field, const struct trace_attributes *a);

/* Appends the resource attributes: the configured ones, the library, and defaults for missing ones: Triton's
 * service.name, and service.instance.id from `instance`, or NULL. */
void trace_resource_put_json(struct trace_text *out, const struct sonde_trace_config *config, const char *instance);
void trace_resource_put_protobuf(struct trace_text *out, unsigned field, const struct sonde_trace_config *config,
                                 const char *instance);

/* default service.name */
#define TRACE_SERVICE_NAME "triton-inference-server"

/* The configured service.name, or the default. */
const char *trace_service_name(const struct sonde_trace_config *config);
