/* What spans and points of metrics are described with, in OpenTelemetry's names, and how both encodings of
 * OTLP write it: said once here, so that JSON, protobuf and the text for Prometheus cannot disagree. */
#pragma once

#include "text.h"

struct sonde_trace;
struct sonde_trace_config;
struct trace_record;
struct trace_series_stats;

enum trace_attribute_kind {
    TRACE_ATTRIBUTE_TEXT,
    TRACE_ATTRIBUTE_TEXTS, /* a list of one */
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

/* Of a model's span. */
void trace_attributes_of_span(struct trace_attributes *ret, const struct sonde_trace *t);

/* Of a timestamp: how many tokens were out, or none. */
void trace_attributes_of_event(struct trace_attributes *ret, const struct trace_record *r);

/* Of what generations took. `token_type`: of which tokens, or NULL. */
void trace_attributes_of_series(struct trace_attributes *ret, const struct trace_series_stats *f, const char *provider,
                                const char *token_type);

/* `{...},{...}`, and messages KeyValue of the field. */
void trace_attributes_put_json(struct trace_text *out, const struct trace_attributes *a);
void trace_attributes_put_protobuf(struct trace_text *out, unsigned field, const struct trace_attributes *a);

/* What describes the process: Triton's service.name where the settings say none, and the library. `instance`:
 * a service.instance.id where the settings say none, or NULL. */
void trace_resource_put_json(struct trace_text *out, const struct sonde_trace_config *config, const char *instance);
void trace_resource_put_protobuf(struct trace_text *out, unsigned field, const struct sonde_trace_config *config,
                                 const char *instance);

/* Where the settings say nothing. */
#define TRACE_SERVICE_NAME "triton-inference-server"

/* The value of service.name. */
const char *trace_service_name(const struct sonde_trace_config *config);
