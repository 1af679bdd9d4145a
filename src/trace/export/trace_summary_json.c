/* The summary of a trace file as one JSON object; see trace_summary_json.h. */
#include "trace/export/trace_summary_json.h"

#include "export/decimal.h"
#include "trace/export/triton_text.h"

#include <inttypes.h>

static const char *const span_names[] = {
    [TRACE_INFER] = "infer",
    [TRACE_RECEIVE] = "receive",
    [TRACE_SEND] = "send",
    [TRACE_FRONTEND_OVERHEAD] = "frontend_overhead",
    [TRACE_HANDLER] = "handler",
    [TRACE_OVERHEAD] = "overhead",
    [TRACE_QUEUE] = "queue",
    [TRACE_COMPUTE] = "compute",
    [TRACE_COMPUTE_INPUT] = "compute_input",
    [TRACE_COMPUTE_INFER] = "compute_infer",
    [TRACE_COMPUTE_OUTPUT] = "compute_output",
    [TRACE_FIRST_TOKEN] = "first_token",
    [TRACE_PER_TOKEN] = "per_token",
};

static void put_integer(struct buf *out, __int128 value)
{
    char digits[48], *at = digits + sizeof(digits);
    unsigned __int128 distance = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
    *--at = '\0';
    do
        *--at = (char)('0' + (int)(distance % 10));
    while (distance /= 10);
    if (value < 0)
        *--at = '-';
    buf_puts(out, at);
}

static void put_span(struct buf *out, const struct trace_span_sum *span, const char *name,
                     const struct trace_percentiles *percentiles)
{
    buf_printf(out, "\"%s\":{\"count\":%" PRIu64 ",\"sum_ns\":", name, span->count);
    put_integer(out, span->sum_ns);
    buf_puts(out, ",\"avg_us\":");
    decimal_put_quotient(out, span->sum_ns, span->count * 1000);
    for (size_t i = 0; i < percentiles->count; i++)
        buf_printf(out, ",\"p%g_ns\":%" PRId64, percentiles->values[i],
                   duration_histogram_percentile(span->durations, percentiles->values[i]));
    buf_putc(out, '}');
}

static void put_model(struct buf *out, const struct trace_model_sum *m, int frontend,
                      const struct trace_percentiles *percentiles)
{
    const char *comma = "";
    buf_printf(out, "{\"frontend\":\"%s\",\"model_name\":", frontend == TRACE_HTTP ? "http" : "grpc");
    buf_put_json_string(out, m->name);
    buf_printf(out,
               ",\"model_version\":%" PRId64 ",\"trace_count\":%" PRIu64 ",\"failed\":%" PRIu64
               ",\"cancelled\":%" PRIu64 ",\"spans\":{",
               m->version, m->traces, m->failed, m->cancelled);
    for (int span = 0; span < TRACE_SPAN_COUNT; span++) {
        if (m->spans[span].count == 0)
            continue;
        buf_puts(out, comma);
        put_span(out, &m->spans[span], span_names[span], percentiles);
        comma = ",";
    }
    buf_putc(out, '}');
    if (m->generations)
        buf_printf(out,
                   ",\"generations\":{\"count\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"input_tokens\":%" PRIu64
                   ",\"output_tokens\":%" PRIu64 "}",
                   m->generations, m->generations_failed, m->tokens[TRITON_INPUT_TOKENS],
                   m->tokens[TRITON_OUTPUT_TOKENS]);
    buf_putc(out, '}');
}

static void put_slow(struct buf *out, const struct trace_slow *slow)
{
    buf_printf(out, "{\"id\":%" PRIu64 ",\"model_name\":", slow->id);
    buf_put_json_string(out, slow->name);
    buf_printf(out, ",\"model_version\":%" PRId64 ",\"start_ns\":%" PRIu64 ",\"duration_ns\":%" PRIu64, slow->version,
               slow->start_ns, slow->duration_ns);
    if (slow->queue_ns >= 0)
        buf_printf(out, ",\"queue_ns\":%" PRId64, slow->queue_ns);
    if (slow->compute_ns >= 0)
        buf_printf(out, ",\"compute_ns\":%" PRId64, slow->compute_ns);
    if (slow->request_id) {
        buf_puts(out, ",\"request_id\":");
        triton_text_put_json(out, (struct triton_text){slow->request_id, slow->request_id_size});
    }
    buf_putc(out, '}');
}

static void put_node(struct buf *out, const struct trace_flow_node *node)
{
    buf_printf(out, "{\"id\":%" PRIu64, node->id);
    if (node->parent_id)
        buf_printf(out, ",\"parent_id\":%" PRIu64, node->parent_id);
    if (node->name) {
        buf_puts(out, ",\"model_name\":");
        buf_put_json_string(out, node->name);
        buf_printf(out, ",\"model_version\":%" PRId64, node->version);
    }
    buf_puts(out, ",\"tensors\":[");
    for (const struct triton_activity *a = node->activities; a; a = a->next) {
        buf_puts(out, a == node->activities ? "{\"activity\":" : ",{\"activity\":");
        triton_text_put_json(out, a->activity);
        buf_puts(out, ",\"name\":");
        triton_text_put_json(out, a->tensor.name);
        buf_puts(out, ",\"dtype\":");
        triton_text_put_json(out, a->tensor.dtype);
        buf_puts(out, ",\"shape\":");
        triton_text_put_json(out, a->tensor.shape);
        buf_puts(out, ",\"data\":");
        triton_text_put_json(out, a->tensor.data);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}");
}

int trace_summary_json_write(struct buf *out, const char *file, const struct trace_sums *sums,
                             const struct trace_percentiles *percentiles)
{
    const struct trace_summary_losses *losses = &sums->losses;
    const char *comma = "";
    buf_puts(out, "{\"file\":");
    buf_put_json_string(out, file);
    buf_puts(out, ",\"models\":[");
    for (int frontend = 0; frontend < TRACE_FRONTENDS; frontend++)
        for (size_t i = 0; i < sums->model_count[frontend]; i++) {
            buf_puts(out, comma);
            put_model(out, &sums->models[frontend][i], frontend, percentiles);
            comma = ",\n";
        }
    buf_puts(out, "],\"slowest\":[");
    for (size_t i = 0; i < sums->slowest_count; i++) {
        buf_puts(out, i ? ",\n" : "");
        put_slow(out, &sums->slowest[i]);
    }
    buf_puts(out, "],\"data_flow\":[");
    for (size_t i = 0; i < sums->flow.count; i++) {
        buf_puts(out, i ? ",\n" : "");
        put_node(out, &sums->flow.nodes[i]);
    }
    buf_printf(out,
               "],\"left_out\":{\"no_frontend\":%" PRIu64 ",\"unfinished\":%" PRIu64 ",\"no_model\":%" PRIu64
               ",\"backwards_spans\":%" PRIu64 ",\"too_many_models\":%" PRIu64 ",\"data_flow\":%" PRIu64 "}}",
               losses->no_frontend, losses->unfinished, losses->unnamed, losses->backwards, losses->models,
               losses->flow_nodes);
    return buf_error(out);
}
