/* Traces in Chrome's Trace Event Format, for ui.perfetto.dev and chrome://tracing: one process per request, with one
 * thread for the front end and one per model (a response may be sent before its model has ended, so spans do not nest).
 * Times are times of the file's clock: viewers store microseconds as floating point, which cannot hold Unix time in
 * nanoseconds. Generated tokens are a counter of the tokens produced so far. */
#include "trace/export/trace_format.h"
#include "trace/export/triton_text.h"
#include "trace/model/trace_request.h"

#include <inttypes.h>
#include <string.h>

#define ROW_FRONT_END 0

/* Viewers store process and thread IDs as 32-bit numbers; the names have the full IDs. */
static unsigned viewer_id(uint64_t id)
{
    return (unsigned)(id & INT32_MAX);
}

static void put_us(struct buf *out, const char *key, uint64_t ns)
{
    buf_printf(out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void put_head(struct buf *out, const char *kind, struct triton_text name, const struct triton_trace *trace,
                     unsigned row)
{
    buf_puts(out, "{\"name\":");
    triton_text_put_json(out, name);
    buf_printf(out, ",\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", kind, viewer_id(trace->root_id), row);
}

/* Metadata event: name of a process or thread. */
static void put_name(struct buf *out, const char *what, const struct triton_trace *trace, unsigned row,
                     struct triton_text name)
{
    put_head(out, "M", (struct triton_text){what, strlen(what)}, trace, row);
    buf_puts(out, ",\"args\":{\"name\":");
    triton_text_put_json(out, name);
    buf_puts(out, "}},\n");
}

static void put_names(struct buf *out, const struct triton_trace *trace, const char *model)
{
    _cleanup_buf_ struct buf text = {0};
    if (trace->id == trace->root_id) {
        buf_printf(&text, "request %" PRIu64 ": %s", trace->id, model);
        put_name(out, "process_name", trace, ROW_FRONT_END, (struct triton_text){text.data, text.size});
        put_name(out, "thread_name", trace, ROW_FRONT_END, (struct triton_text){"front end", strlen("front end")});
        text.size = 0;
    }
    buf_printf(&text, "%s (%" PRId64 ") id %" PRIu64, model, trace->model_version, trace->id);
    put_name(out, "thread_name", trace, viewer_id(trace->id), (struct triton_text){text.data, text.size});
}

static void put_fact(struct buf *out, const char *key, struct triton_text text)
{
    if (!text.at)
        return;
    buf_printf(out, ",\"%s\":", key);
    triton_text_put_json(out, text);
}

static void put_facts(struct buf *out, const struct triton_facts *facts)
{
    for (int i = 0; facts && i < TRITON_FACT_COUNT; i++)
        put_fact(out, triton_fact_kinds[i].key, facts->texts[i]);
    for (int i = 0; facts && i < TRITON_TOKEN_COUNTS; i++)
        if (facts->tokens[i] >= 0)
            buf_printf(out, ",\"%s\":%" PRId64, triton_token_kinds[i].key, facts->tokens[i]);
}

/* Counter event: tokens produced so far. */
static void put_count(struct buf *out, const struct trace_item *item, const struct triton_trace *trace, uint64_t tokens)
{
    char name[64];
    int size = snprintf(name, sizeof(name), "tokens of id %" PRIu64, trace->id);
    buf_puts(out, ",\n");
    put_head(out, "C", (struct triton_text){name, (size_t)size}, trace, ROW_FRONT_END);
    put_us(out, "ts", item->start_ns);
    buf_printf(out, ",\"args\":{\"tokens\":%" PRIu64 "}}", tokens);
}

static void put_item(struct buf *out, const struct trace_item *item, const struct triton_trace *trace)
{
    put_head(out, item->is_moment ? "i" : "X", (struct triton_text){item->name, item->name_size}, trace,
             item->is_front_end ? ROW_FRONT_END : viewer_id(trace->id));
    put_us(out, "ts", item->start_ns);
    if (item->is_moment)
        buf_puts(out, ",\"s\":\"t\"");
    else
        put_us(out, "dur", item->end_ns - item->start_ns);
    if (item->tokens)
        buf_printf(out, ",\"args\":{\"tokens\":%" PRIu32 "}", item->tokens);
    if (item->is_handler) {
        buf_printf(out,
                   ",\"args\":{\"id\":\"%" PRIu64 "\",\"parent_id\":\"%" PRIu64 "\",\"model_version\":%" PRId64
                   ",\"request_id\":",
                   trace->id, trace->parent_id, trace->model_version);
        triton_text_put_json(out, trace->request_id);
        put_facts(out, trace->facts);
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
}

static void begin_events(struct buf *out)
{
    buf_puts(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
}

static int put_trace(struct buf *out, const struct triton_trace *trace, const struct trace_spans_options *options,
                     bool first)
{
    struct triton_trace alone = *trace;
    alone.root_id = alone.id;
    const struct trace_request one = {.traces = &alone, .count = 1};
    _cleanup_(trace_items_clear) struct trace_items items = {0};
    int r = trace_request_items(&one, options->names, &items);
    if (r < 0 || items.count == 0)
        return r;
    buf_puts(out, first ? "\n" : ",\n");
    put_names(out, trace, trace->has_model ? strings_get(options->names, trace->model) : "?");
    uint64_t tokens = 0;
    for (size_t i = 0; i < items.count; i++) {
        const struct trace_item *item = &items.items[i];
        buf_puts(out, i ? ",\n" : "");
        put_item(out, item, trace);
        tokens += item->tokens;
        if (item->tokens)
            put_count(out, item, trace, tokens);
    }
    return buf_error(out);
}

static void end_events(struct buf *out)
{
    buf_puts(out, "\n]}\n");
}

const struct trace_format trace_format_chrome = {"chrome", "Chrome's trace events, for ui.perfetto.dev", begin_events,
                                                 put_trace, end_events};
