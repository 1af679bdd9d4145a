/* Triton's trace JSON: a flat list, one object per timestamp or tensor, grouped by id. Receive timestamps come before
 * the object with the model name. Extensions are placed where Triton's readers ignore them: "status" and "error" of a
 * failed request, "error" of a tensor without data, "generation" and "tokens" of a generation. */
#include "format.h"

#include "attributes.h"
#include "manager.h"
#include "node.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char *const names[] = {
    [SONDE_TRACE_REQUEST_START] = "REQUEST_START",
    [SONDE_TRACE_QUEUE_START] = "QUEUE_START",
    [SONDE_TRACE_COMPUTE_START] = "COMPUTE_START",
    [SONDE_TRACE_COMPUTE_INPUT_END] = "COMPUTE_INPUT_END",
    [SONDE_TRACE_COMPUTE_OUTPUT_START] = "COMPUTE_OUTPUT_START",
    [SONDE_TRACE_COMPUTE_END] = "COMPUTE_END",
    [SONDE_TRACE_REQUEST_END] = "REQUEST_END",
    [SONDE_TRACE_HTTP_RECV_START] = "HTTP_RECV_START",
    [SONDE_TRACE_HTTP_RECV_END] = "HTTP_RECV_END",
    [SONDE_TRACE_HTTP_SEND_START] = "HTTP_SEND_START",
    [SONDE_TRACE_HTTP_SEND_END] = "HTTP_SEND_END",
    [SONDE_TRACE_GRPC_WAITREAD_START] = "GRPC_WAITREAD_START",
    [SONDE_TRACE_GRPC_WAITREAD_END] = "GRPC_WAITREAD_END",
    [SONDE_TRACE_GRPC_SEND_START] = "GRPC_SEND_START",
    [SONDE_TRACE_GRPC_SEND_END] = "GRPC_SEND_END",
    [SONDE_TRACE_INFER_RESPONSE_COMPLETE] = "INFER_RESPONSE_COMPLETE",
    [SONDE_TRACE_TENSOR_QUEUE_INPUT] = "TENSOR_QUEUE_INPUT",
    [SONDE_TRACE_TENSOR_BACKEND_INPUT] = "TENSOR_BACKEND_INPUT",
    [SONDE_TRACE_TENSOR_BACKEND_OUTPUT] = "TENSOR_BACKEND_OUTPUT",
};

const char *trace_record_name(const struct trace_record *r, size_t *ret_size)
{
    if (r->kind == TRACE_CUSTOM) {
        *ret_size = r->name_size;
        return (const char *)(r + 1);
    }
    const struct trace_tokens_record *tokens = (const struct trace_tokens_record *)(r + 1);
    const char *name = r->kind != TRACE_TOKENS ? names[r->kind] : tokens->is_first ? "FIRST_TOKEN" : "TOKEN";
    *ret_size = strlen(name);
    return name;
}

static bool is_receiving(unsigned kind)
{
    return kind == SONDE_TRACE_HTTP_RECV_START || kind == SONDE_TRACE_HTTP_RECV_END ||
           kind == SONDE_TRACE_GRPC_WAITREAD_START || kind == SONDE_TRACE_GRPC_WAITREAD_END;
}

static void put_id(struct trace_text *out, uint64_t id)
{
    trace_text_puts(out, "{\"id\":");
    trace_text_put_u64(out, id);
}

static void put_fact(struct trace_text *out, const char *key, const char *value)
{
    if (!value)
        return;
    trace_text_puts(out, key);
    trace_text_put_json(out, value, strlen(value));
}

static void put_count(struct trace_text *out, const char *key, int64_t count)
{
    if (count < 0)
        return;
    trace_text_puts(out, key);
    trace_text_put_i64(out, count);
}

/* The provider is written only if it differs from the default. */
static void put_generation(struct trace_text *out, const struct trace_generation_facts *g, const char *provider)
{
    put_fact(out, ",\"generation\":{\"operation\":", g->operation);
    put_fact(out, ",\"provider\":", strcmp(provider, TRACE_SERVICE_NAME) != 0 ? provider : NULL);
    put_count(out, ",\"input_tokens\":", g->input_tokens);
    put_count(out, ",\"output_tokens\":", g->output_tokens);
    put_fact(out, ",\"response_id\":", g->response_id);
    put_fact(out, ",\"response_model\":", g->response_model);
    put_fact(out, ",\"finish_reason\":", g->finish_reason);
    put_fact(out, ",\"error_type\":", g->error_type);
    trace_text_putc(out, '}');
}

static void put_header(struct trace_text *out, const struct sonde_trace *t)
{
    put_id(out, t->id);
    trace_text_puts(out, ",\"model_name\":");
    trace_text_put_json(out, t->model_name, strlen(t->model_name));
    trace_text_puts(out, ",\"model_version\":");
    trace_text_put_i64(out, t->model_version);
    if (t->request_id_size > 0) {
        trace_text_puts(out, ",\"request_id\":");
        trace_text_put_json(out, t->request_id, t->request_id_size);
    }
    if (t->parent_id) {
        trace_text_puts(out, ",\"parent_id\":");
        trace_text_put_u64(out, t->parent_id);
    }
    if (t->status != SONDE_TRACE_OK)
        trace_text_puts(out,
                        t->status == SONDE_TRACE_CANCELLED ? ",\"status\":\"cancelled\"" : ",\"status\":\"error\"");
    if (t->message_size > 0) {
        trace_text_puts(out, ",\"error\":");
        trace_text_put_json(out, t->message, t->message_size);
    }
    if (t->generation)
        put_generation(out, t->generation, t->tree->manager->provider);
    trace_text_putc(out, '}');
}

static void put_timestamp(struct trace_text *out, uint64_t id, const struct trace_record *r)
{
    size_t size;
    const char *name = trace_record_name(r, &size);
    put_id(out, id);
    trace_text_puts(out, ",\"timestamps\":[{\"name\":");
    if (r->kind == TRACE_CUSTOM) {
        trace_text_put_json(out, name, size);
    } else {
        trace_text_putc(out, '"');
        trace_text_put(out, name, size);
        trace_text_putc(out, '"');
    }
    trace_text_puts(out, ",\"ns\":");
    trace_text_put_u64(out, r->ns);
    if (r->kind == TRACE_TOKENS) {
        trace_text_puts(out, ",\"tokens\":");
        trace_text_put_u64(out, ((const struct trace_tokens_record *)(r + 1))->count);
    }
    trace_text_puts(out, "}]}");
}

static void put_tensor(struct trace_text *out, struct trace_text *scratch, uint64_t id, const struct trace_record *r,
                       struct trace_format_counts *counts)
{
    const struct trace_tensor_record *tensor = (const struct trace_tensor_record *)(r + 1);
    const int64_t *shape = (const int64_t *)(tensor + 1);
    const char *name = (const char *)(shape + tensor->dims) + tensor->copied_bytes;
    char why[128];
    put_id(out, id);
    trace_text_puts(out, ",\"activity\":\"");
    trace_text_puts(out, names[r->kind]);
    trace_text_puts(out, "\",\"tensor\":{\"name\":");
    trace_text_put_json(out, name, tensor->name_size);
    trace_text_puts(out, ",\"data\":");
    trace_text_clear(scratch);
    int error = trace_format_tensor(scratch, tensor, why, sizeof(why));
    if (error == 0 && scratch->failed)
        out->failed = true;
    trace_text_put_json(out, scratch->data ? scratch->data : "", error < 0 ? 0 : scratch->size);
    trace_text_puts(out, ",\"shape\":\"");
    for (uint32_t i = 0; i < tensor->dims; i++) {
        if (i > 0)
            trace_text_putc(out, ',');
        trace_text_put_i64(out, shape[i]);
    }
    trace_text_puts(out, "\",\"dtype\":");
    trace_text_put_json(out, name + tensor->name_size, tensor->dtype_size);
    if (error < 0) {
        counts->malformed += error != -EFBIG;
        counts->too_large += error == -EFBIG;
        trace_text_puts(out, ",\"error\":");
        trace_text_put_json(out, why, strlen(why));
    }
    trace_text_puts(out, "}}");
}

static void put_record(struct trace_text *out, struct trace_text *scratch, uint64_t id, const struct trace_record *r,
                       struct trace_format_counts *counts)
{
    bool tensor = r->kind >= SONDE_TRACE_TENSOR_QUEUE_INPUT && r->kind <= SONDE_TRACE_TENSOR_BACKEND_OUTPUT;
    if (tensor)
        put_tensor(out, scratch, id, r, counts);
    else
        put_timestamp(out, id, r);
}

static void put_trace(struct trace_text *out, struct trace_text *scratch, const struct sonde_trace *t,
                      struct trace_format_counts *counts)
{
    const struct trace_record *r = (const struct trace_record *)(const void *)t->data;
    const struct trace_record *end = (const struct trace_record *)(const void *)(t->data + t->size);
    for (; r < end && is_receiving(r->kind); r = trace_next_record(r)) {
        put_record(out, scratch, t->id, r, counts);
        trace_text_putc(out, ',');
    }
    put_header(out, t);
    for (; r < end; r = trace_next_record(r)) {
        trace_text_putc(out, ',');
        put_record(out, scratch, t->id, r, counts);
    }
}

void trace_format_tree(struct trace_text *out, struct trace_text *scratch, const struct trace_tree *tree,
                       struct trace_format_counts *counts)
{
    for (const struct sonde_trace *t = &tree->root; t; t = t->next) {
        if (t != &tree->root)
            trace_text_putc(out, ',');
        put_trace(out, scratch, t, counts);
    }
}
