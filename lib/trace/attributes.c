/* See attributes.h. The encoded bytes are compared with the bytes of a real Triton (tests/e2e/test_traces_otel.py) and
 * checked with the official protobuf messages. */
#include "attributes.h"

#include "../otlp/fields.h"
#include "config.h"
#include "manager.h"
#include "metrics.h"
#include "protobuf.h"

#include <string.h>

/* --- lists ----------------------------------------------------------------------------------- */

static void add_attribute(struct trace_attributes *a, struct trace_attribute one)
{
    if (a->count < TRACE_ATTRIBUTES_MAX)
        a->list[a->count++] = one;
}

/* NULL: unknown, omitted. */
static void add_text(struct trace_attributes *a, const char *key, const char *text)
{
    if (text)
        add_attribute(a, (struct trace_attribute){.key = key, .text = text, .size = strlen(text)});
}

static void add_list(struct trace_attributes *a, const char *key, const char *text)
{
    if (text)
        add_attribute(
            a, (struct trace_attribute){.key = key, .kind = TRACE_ATTRIBUTE_TEXTS, .text = text, .size = strlen(text)});
}

static void add_integer(struct trace_attributes *a, const char *key, int64_t integer)
{
    add_attribute(a, (struct trace_attribute){.key = key, .kind = TRACE_ATTRIBUTE_INTEGER, .integer = integer});
}

static void add_generation(struct trace_attributes *a, const struct sonde_trace *t)
{
    const struct trace_generation_facts *g = t->generation;
    add_text(a, "gen_ai.operation.name", g->operation);
    add_text(a, "gen_ai.provider.name", t->tree->manager->provider);
    add_text(a, "gen_ai.request.model", t->model_name);
    add_text(a, "gen_ai.response.id", g->response_id);
    add_text(a, "gen_ai.response.model", g->response_model);
    add_list(a, "gen_ai.response.finish_reasons", g->finish_reason);
    if (g->input_tokens >= 0)
        add_integer(a, "gen_ai.usage.input_tokens", g->input_tokens);
    if (g->output_tokens >= 0)
        add_integer(a, "gen_ai.usage.output_tokens", g->output_tokens);
    add_text(a, "error.type", g->error_type);
}

void trace_attributes_of_span(struct trace_attributes *ret, const struct sonde_trace *t)
{
    ret->count = 0;
    add_text(ret, "triton.model_name", t->model_name);
    add_integer(ret, "triton.model_version", t->model_version);
    add_integer(ret, "triton.trace_id", (int64_t)t->id);
    add_integer(ret, "triton.trace_parent_id", (int64_t)t->parent_id);
    if (t->request_id_size > 0)
        add_attribute(ret, (struct trace_attribute){
                               .key = "triton.request_id", .text = t->request_id, .size = t->request_id_size});
    if (t->status == SONDE_TRACE_CANCELLED)
        add_attribute(ret, (struct trace_attribute){.key = "triton.cancelled", .kind = TRACE_ATTRIBUTE_TRUE});
    if (t->generation)
        add_generation(ret, t);
}

void trace_attributes_of_event(struct trace_attributes *ret, const struct trace_record *r)
{
    ret->count = 0;
    if (r->kind == TRACE_TOKENS)
        add_integer(ret, "tokens", ((const struct trace_tokens_record *)(r + 1))->count);
}

void trace_attributes_of_series(struct trace_attributes *ret, const struct trace_series_stats *f, const char *provider,
                                const char *token_type)
{
    ret->count = 0;
    add_text(ret, "gen_ai.token.type", token_type); /* also for the overflow series: one per type */
    if (f->overflow) {
        add_attribute(ret, (struct trace_attribute){.key = "otel.metric.overflow", .kind = TRACE_ATTRIBUTE_TRUE});
        return;
    }
    add_text(ret, "gen_ai.operation.name", f->operation);
    add_text(ret, "gen_ai.provider.name", provider);
    add_text(ret, "gen_ai.request.model", f->model);
    add_list(ret, "gen_ai.response.finish_reasons", *f->finish_reason ? f->finish_reason : NULL);
    add_text(ret, "error.type", *f->error_type ? f->error_type : NULL);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void put_json_value(struct trace_text *out, const struct trace_attribute *a)
{
    switch (a->kind) {
    case TRACE_ATTRIBUTE_TEXT:
        trace_text_puts(out, "{\"stringValue\":");
        trace_text_put_json(out, a->text, a->size);
        break;
    case TRACE_ATTRIBUTE_TEXTS:
        trace_text_puts(out, "{\"arrayValue\":{\"values\":[{\"stringValue\":");
        trace_text_put_json(out, a->text, a->size);
        trace_text_puts(out, "}]}");
        break;
    case TRACE_ATTRIBUTE_INTEGER:
        trace_text_puts(out, "{\"intValue\":\"");
        trace_text_put_i64(out, a->integer);
        trace_text_putc(out, '"');
        break;
    case TRACE_ATTRIBUTE_TRUE:
        trace_text_puts(out, "{\"boolValue\":true");
        break;
    }
    trace_text_putc(out, '}');
}

static void put_json(struct trace_text *out, const char *key, size_t key_size, const struct trace_attribute *a)
{
    if (out->size > 0 && out->data[out->size - 1] != '[')
        trace_text_putc(out, ',');
    trace_text_puts(out, "{\"key\":");
    trace_text_put_json(out, key, key_size);
    trace_text_puts(out, ",\"value\":");
    put_json_value(out, a);
    trace_text_putc(out, '}');
}

void trace_attributes_put_json(struct trace_text *out, const struct trace_attributes *a)
{
    for (size_t i = 0; i < a->count; i++)
        put_json(out, a->list[i].key, strlen(a->list[i].key), &a->list[i]);
}

/* --- protobuf -------------------------------------------------------------------------------- */

static void put_protobuf_value(struct trace_text *out, unsigned field, const struct trace_attribute *a)
{
    size_t value = trace_protobuf_open(out, field);
    size_t array = 0;
    switch (a->kind) {
    case TRACE_ATTRIBUTE_TEXT:
        trace_protobuf_text(out, ANY_VALUE_STRING, a->text, a->size);
        break;
    case TRACE_ATTRIBUTE_TEXTS:
        array = trace_protobuf_open(out, ANY_VALUE_ARRAY);
        put_protobuf_value(out, ARRAY_VALUES, &(struct trace_attribute){.text = a->text, .size = a->size});
        trace_protobuf_close(out, array);
        break;
    case TRACE_ATTRIBUTE_INTEGER: /* also 0: a oneof member is always encoded */
        trace_protobuf_number(out, ANY_VALUE_INT, (uint64_t)a->integer);
        break;
    case TRACE_ATTRIBUTE_TRUE:
        trace_protobuf_number(out, ANY_VALUE_BOOL, 1);
        break;
    }
    trace_protobuf_close(out, value);
}

static void put_protobuf(struct trace_text *out, unsigned field, const char *key, size_t key_size,
                         const struct trace_attribute *a)
{
    size_t pair = trace_protobuf_open(out, field);
    trace_protobuf_text(out, KEY_VALUE_KEY, key, key_size);
    put_protobuf_value(out, KEY_VALUE_VALUE, a);
    trace_protobuf_close(out, pair);
}

void trace_attributes_put_protobuf(struct trace_text *out, unsigned field, const struct trace_attributes *a)
{
    for (size_t i = 0; i < a->count; i++)
        put_protobuf(out, field, a->list[i].key, strlen(a->list[i].key), &a->list[i]);
}

/* --- the resource ---------------------------------------------------------------------------- */

static const char own_service_name[] = "service.name=" TRACE_SERVICE_NAME;

/* `key` includes the '='; NULL: not configured. */
static const char *find_resource(const struct sonde_trace_config *config, const char *key, size_t size)
{
    for (unsigned i = 0; i < config->resource_count; i++)
        if (strncmp(config->resources[i], key, size) == 0)
            return config->resources[i] + size;
    return NULL;
}

const char *trace_service_name(const struct sonde_trace_config *config)
{
    static const char key[] = "service.name=";
    const char *name = find_resource(config, key, strlen(key));
    return name ? name : own_service_name + strlen(key);
}

struct attribute_output {
    struct trace_text *out;
    unsigned field; /* 0: JSON */
};

static void put_pair(struct attribute_output p, const char *key, size_t key_size, const char *value)
{
    const struct trace_attribute a = {.text = value, .size = strlen(value)};
    if (p.field)
        put_protobuf(p.out, p.field, key, key_size, &a);
    else
        put_json(p.out, key, key_size, &a);
}

static void put_resource(struct attribute_output p, const struct sonde_trace_config *config, const char *instance)
{
    static const char *const own[] = {"telemetry.sdk.name=libsonde", "telemetry.sdk.language=c",
                                      "telemetry.sdk.version=" SONDE_VERSION, own_service_name};
    static const char instance_key[] = "service.instance.id=";
    const size_t own_count = sizeof(own) / sizeof(own[0]);
    for (size_t i = 0; i < own_count + config->resource_count; i++) {
        const char *pair = i < own_count ? own[i] : config->resources[i - own_count];
        size_t key_size = strcspn(pair, "=");
        if (i >= own_count || !find_resource(config, pair, key_size + 1))
            put_pair(p, pair, key_size, pair + key_size + 1);
    }
    if (instance && !find_resource(config, instance_key, strlen(instance_key)))
        put_pair(p, instance_key, strlen(instance_key) - 1, instance);
}

void trace_resource_put_json(struct trace_text *out, const struct sonde_trace_config *config, const char *instance)
{
    put_resource((struct attribute_output){out, 0}, config, instance);
}

void trace_resource_put_protobuf(struct trace_text *out, unsigned field, const struct sonde_trace_config *config,
                                 const char *instance)
{
    put_resource((struct attribute_output){out, field}, config, instance);
}
