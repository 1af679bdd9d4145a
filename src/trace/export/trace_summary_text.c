/* The summary of a trace file as text; see trace_summary_text.h. */
#include "trace/export/trace_summary_text.h"

#include "export/decimal.h"
#include "trace/export/tensor_text.h"
#include "trace/export/triton_text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define FLOW_DEPTH 64

static void put_name(struct buf *out, const char *name)
{
    triton_text_put_shown(out, (struct triton_text){name, strlen(name)});
}

static void put_us(struct buf *out, __int128 ns, uint64_t divisor)
{
    decimal_put_quotient(out, ns, divisor);
    buf_puts(out, "us\n");
}

/* ---- sums ---- */

/* `label` includes the leading tabs of its line. */
static void put_span(struct buf *out, const struct trace_span_sum *span, const char *label,
                     const struct trace_percentiles *percentiles)
{
    if (span->count == 0)
        return;
    buf_printf(out, "%s (avg): ", label);
    put_us(out, span->sum_ns, span->count * 1000);
    for (size_t i = 0; i < percentiles->count; i++) {
        buf_printf(out, "%s (p%g): ", label, percentiles->values[i]);
        put_us(out, duration_histogram_percentile(span->durations, percentiles->values[i]), 1000);
    }
}

/* Token generations; trace_summary.py has no such lines. */
static void put_generations(struct buf *out, const struct trace_model_sum *m,
                            const struct trace_percentiles *percentiles)
{
    if (m->generations == 0)
        return;
    put_span(out, &m->spans[TRACE_FIRST_TOKEN], "\tFirst token", percentiles);
    put_span(out, &m->spans[TRACE_PER_TOKEN], "\tPer token after it", percentiles);
    buf_printf(out, "\tTokens: %" PRIu64 " in, %" PRIu64 " out, in %" PRIu64 " generations",
               m->tokens[TRITON_INPUT_TOKENS], m->tokens[TRITON_OUTPUT_TOKENS], m->generations);
    if (m->generations_failed)
        buf_printf(out, " (%" PRIu64 " failed)", m->generations_failed);
    buf_putc(out, '\n');
}

static void put_model(struct buf *out, const struct trace_model_sum *m, int frontend,
                      const struct trace_percentiles *percentiles)
{
    static const struct {
        enum trace_span span;
        const char *label;
    } inside[] = {{TRACE_HANDLER, "\tHandler"},
                  {TRACE_OVERHEAD, "\t\tOverhead"},
                  {TRACE_QUEUE, "\t\tQueue"},
                  {TRACE_COMPUTE, "\t\tCompute"},
                  {TRACE_COMPUTE_INPUT, "\t\t\tInput"},
                  {TRACE_COMPUTE_INFER, "\t\t\tInfer"},
                  {TRACE_COMPUTE_OUTPUT, "\t\t\tOutput"}};
    buf_puts(out, "Summary for ");
    put_name(out, m->name);
    buf_printf(out, " (%" PRId64 "): trace count = %" PRIu64, m->version, m->traces);
    if (m->failed)
        buf_printf(out, ", %" PRIu64 " failed", m->failed);
    if (m->cancelled)
        buf_printf(out, ", %" PRIu64 " cancelled", m->cancelled);
    buf_putc(out, '\n');
    if (m->spans[TRACE_INFER].count) {
        put_span(out, &m->spans[TRACE_INFER], frontend == TRACE_HTTP ? "HTTP infer request" : "GRPC infer request",
                 percentiles);
        put_span(out, &m->spans[TRACE_RECEIVE], "\tReceive", percentiles);
        put_span(out, &m->spans[TRACE_SEND], "\tSend", percentiles);
        put_span(out, &m->spans[TRACE_FRONTEND_OVERHEAD], "\tOverhead", percentiles);
        buf_putc(out, '\n');
    }
    for (size_t i = 0; i < array_size(inside); i++)
        put_span(out, &m->spans[inside[i].span], inside[i].label, percentiles);
    put_generations(out, m, percentiles);
}

int trace_summary_text_put_frontend(struct buf *out, const struct trace_sums *sums, int frontend,
                                    const struct trace_percentiles *percentiles)
{
    for (size_t i = 0; i < sums->model_count[frontend]; i++)
        put_model(out, &sums->models[frontend][i], frontend, percentiles);
    return buf_error(out);
}

int trace_summary_text_put_slowest(struct buf *out, const struct trace_sums *sums)
{
    if (sums->slowest_count)
        buf_puts(out, "Slowest requests:\n");
    for (size_t i = 0; i < sums->slowest_count; i++) {
        const struct trace_slow *slow = &sums->slowest[i];
        buf_putc(out, '\t');
        decimal_put_quotient(out, (__int128)slow->duration_ns, 1000);
        buf_printf(out, "us id: %" PRIu64 " ", slow->id);
        put_name(out, slow->name);
        buf_printf(out, " (%" PRId64 ")", slow->version);
        if (slow->queue_ns >= 0) {
            buf_puts(out, ", queue ");
            decimal_put_quotient(out, slow->queue_ns, 1000);
            buf_puts(out, "us");
        }
        if (slow->compute_ns >= 0) {
            buf_puts(out, ", compute ");
            decimal_put_quotient(out, slow->compute_ns, 1000);
            buf_puts(out, "us");
        }
        if (slow->request_id) {
            buf_puts(out, ", request id ");
            triton_text_put_shown(out, (struct triton_text){slow->request_id, slow->request_id_size});
        }
        buf_putc(out, '\n');
    }
    return buf_error(out);
}

/* ---- one trace ---- */

struct ordered {
    uint64_t ns;
    uint32_t place, event, tokens;
};

static int compare_times(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return x->place < y->place ? -1 : 1; /* ties: order in the file */
}

static bool is_wait_for_request(uint32_t event) /* before the request arrives: not part of it */
{
    return event == TRITON_GRPC_WAITREAD_START || event == TRITON_GRPC_WAITREAD_END;
}

int trace_summary_text_put_trace(struct buf *out, const struct triton_trace *trace, const struct strings *names)
{
    _cleanup_free_ struct ordered *ordered = malloc((trace->moment_count + 1) * sizeof(*ordered));
    uint32_t count = 0;
    if (!ordered)
        return -ENOMEM;
    for (uint32_t i = 0; i < trace->moment_count; i++)
        if (!is_wait_for_request(trace->moments[i].event))
            ordered[count++] =
                (struct ordered){trace->moments[i].ns, i, trace->moments[i].event, trace->moments[i].tokens};
    qsort(ordered, count, sizeof(*ordered), compare_times);
    put_name(out, strings_get(names, trace->model));
    buf_printf(out, " (%" PRId64 "):\n\tid: %" PRIu64 "\n", trace->model_version, trace->id);
    if (trace->has_parent)
        buf_printf(out, "\tparent id: %" PRIu64 "\n", trace->parent_id);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t event = ordered[i].event;
        if (i > 0) {
            buf_puts(out, "\t\t");
            put_us(out, (__int128)(ordered[i].ns - ordered[i - 1].ns), 1000);
        }
        buf_putc(out, '\t');
        put_name(out, event < TRITON_EVENT_COUNT ? triton_event_name(event)
                                                 : strings_get(names, event - TRITON_EVENT_COUNT));
        if (ordered[i].tokens)
            buf_printf(out, " (%" PRIu32 " token%s)", ordered[i].tokens, ordered[i].tokens == 1 ? "" : "s");
        buf_putc(out, '\n');
    }
    return buf_error(out);
}

/* ---- data flow ---- */

static void put_tabs(struct buf *out, int count)
{
    while (count-- > 0)
        buf_putc(out, '\t');
}

static void put_edge(struct buf *out, int step, size_t inner)
{
    put_tabs(out, step + 1);
    for (long i = 50 + 8 * ((long)inner - step); i > 0; i--)
        buf_putc(out, '=');
    buf_putc(out, '\n');
}

static int put_activity(struct buf *out, const struct triton_activity *a, int step)
{
    static const char prefix[] = "TENSOR_";
    bool known = TRITON_TEXT_IS(a->activity, "TENSOR_QUEUE_INPUT") ||
                 TRITON_TEXT_IS(a->activity, "TENSOR_BACKEND_INPUT") ||
                 TRITON_TEXT_IS(a->activity, "TENSOR_BACKEND_OUTPUT");
    if (!known)
        return 0;
    put_tabs(out, step + 1);
    buf_printf(out, "%.*s:\n", (int)(a->activity.size - sizeof(prefix) + 1), a->activity.at + sizeof(prefix) - 1);
    put_tabs(out, step + 2);
    triton_text_put_shown(out, a->tensor.name);
    buf_puts(out, ": ");
    int r = tensor_text_put(out, &a->tensor);
    buf_putc(out, '\n');
    return r;
}

/* Draws the box of an ID with the boxes of its children inside. `node` is NULL when only its children are in the file.
 */
static int put_box(struct buf *out, const struct trace_flow *flow, uint64_t id, const struct trace_flow_node *node,
                   int step, size_t inner)
{
    put_edge(out, step, inner);
    if (node && node->name) {
        put_tabs(out, step + 1);
        buf_puts(out, "Name:   ");
        put_name(out, node->name);
        buf_putc(out, '\n');
        put_tabs(out, step + 1);
        buf_printf(out, "Version:%" PRId64 "\n", node->version);
    }
    int r = 0;
    for (const struct triton_activity *a = node ? node->activities : NULL; a && r == 0; a = a->next)
        r = put_activity(out, a, step);
    put_edge(out, step, inner);
    for (size_t i = 0; flow->is_tree && i < flow->count && step < FLOW_DEPTH && r == 0; i++)
        if (flow->nodes[i].parent_id == id && flow->nodes[i].id != flow->root)
            r = put_box(out, flow, flow->nodes[i].id, &flow->nodes[i], step + 1, inner);
    return r;
}

static const struct trace_flow_node *find_node(const struct trace_flow *flow, uint64_t id)
{
    for (size_t i = 0; i < flow->count; i++)
        if (flow->nodes[i].id == id)
            return &flow->nodes[i];
    return NULL;
}

/* Number of boxes that contain boxes: each level widens the outer ones. */
static size_t count_inner(const struct trace_flow *flow)
{
    size_t count = 1; /* the root, which may be missing from the file */
    for (size_t i = 0; i < flow->count; i++) {
        bool is_inner = false;
        for (size_t j = 0; j < flow->count && !is_inner; j++)
            is_inner = flow->nodes[j].parent_id == flow->nodes[i].id;
        count += is_inner && flow->nodes[i].id != flow->root;
    }
    return count;
}

int trace_summary_text_put_flow(struct buf *out, const struct trace_flow *flow)
{
    if (!flow->root)
        return 0;
    buf_puts(out, "Data Flow:\n");
    int r = put_box(out, flow, flow->root, find_node(flow, flow->root), 0, flow->is_tree ? count_inner(flow) : 0);
    return r < 0 ? r : buf_error(out);
}
