/* One request as a text waterfall; see trace_waterfall.h. */
#include "trace/export/trace_waterfall.h"

#include "trace/export/triton_text.h"
#include "trace/model/trace_generation.h"

#include <inttypes.h>
#include <string.h>

#define BAR_WIDTH  40
#define TOKENS_MAX 8 /* consecutive tokens with a line each; more are combined into one line */

static const struct triton_trace *find_trace(const struct trace_request *request, uint64_t id)
{
    for (size_t i = 0; i < request->count; i++)
        if (request->traces[i].id == id)
            return &request->traces[i];
    return NULL;
}

static void put_fact(struct buf *out, const char *before, struct triton_text text)
{
    if (!text.size)
        return;
    buf_puts(out, before);
    triton_text_put_shown(out, text);
}

static void put_duration(struct buf *out, uint64_t ns)
{
    buf_printf(out, "%" PRIu64 ".%03uus", ns / 1000, (unsigned)(ns % 1000));
}

/* Times of the last generation; the facts belong to it. */
static void put_times(struct buf *out, const struct triton_trace *trace, const struct strings *names)
{
    struct trace_generation g = {0};
    uint64_t count = 0, ns;
    for (uint32_t at = 0; trace_generation_next(trace, names, &at, &g);)
        count++;
    if (trace_generation_first_token(&g, &ns)) {
        buf_puts(out, ", first token after ");
        put_duration(out, ns);
    }
    if (trace_generation_per_token(&g, trace_generation_tokens(trace, &g, count == 1), &ns)) {
        buf_puts(out, ", then ");
        put_duration(out, ns);
        buf_puts(out, " for each");
    }
}

/* Outcome of a trace if it failed, and the tokens that it generated. */
static void put_facts(struct buf *out, const struct triton_trace *trace, const struct strings *names)
{
    const struct triton_facts *facts = trace->facts;
    struct triton_text message;
    if (triton_facts_failed(facts, &message)) {
        buf_printf(out, "Of id %" PRIu64 ": %s", trace->id, triton_facts_cancelled(facts) ? "cancelled" : "failed");
        put_fact(out, ", ", facts->texts[TRITON_FACT_ERROR]);
        buf_putc(out, '\n');
    }
    if (!facts || !facts->has_generation)
        return;
    buf_printf(out, "Of id %" PRIu64 ": ", trace->id);
    put_fact(out, "", facts->texts[TRITON_FACT_OPERATION]);
    put_fact(out, " by ", facts->texts[TRITON_FACT_RESPONSE_MODEL]);
    put_fact(out, ", response ", facts->texts[TRITON_FACT_RESPONSE_ID]);
    if (facts->tokens[TRITON_INPUT_TOKENS] >= 0)
        buf_printf(out, ", %" PRId64 " tokens in", facts->tokens[TRITON_INPUT_TOKENS]);
    if (facts->tokens[TRITON_OUTPUT_TOKENS] >= 0)
        buf_printf(out, ", %" PRId64 " tokens out", facts->tokens[TRITON_OUTPUT_TOKENS]);
    put_times(out, trace, names);
    put_fact(out, ", finished by ", facts->texts[TRITON_FACT_FINISH_REASON]);
    put_fact(out, ", error ", facts->texts[TRITON_FACT_ERROR_TYPE]);
    buf_putc(out, '\n');
}

static void put_heading(struct buf *out, const struct trace_request *request, const struct strings *names)
{
    uint64_t id = request->traces[0].root_id;
    const struct triton_trace *root = find_trace(request, id);
    buf_printf(out, "Request %" PRIu64, id);
    if (!root) {
        buf_puts(out, " (incomplete: only parts of it are in the file)\n");
        return;
    }
    if (root->has_model) {
        const char *name = strings_get(names, root->model);
        buf_puts(out, ": ");
        triton_text_put_shown(out, (struct triton_text){name, strlen(name)});
        buf_printf(out, " (%" PRId64 ")", root->model_version);
    }
    if (root->request_id.size) {
        buf_puts(out, ", request id ");
        triton_text_put_shown(out, root->request_id);
    }
    buf_putc(out, '\n');
    for (size_t i = 0; i < request->count; i++)
        put_facts(out, &request->traces[i], names);
}

static void put_us(struct buf *out, uint64_t ns)
{
    buf_printf(out, "%10" PRIu64 ".%03uus", ns / 1000, (unsigned)(ns % 1000));
}

static void put_bar(struct buf *out, const struct trace_item *item, uint64_t from_ns, uint64_t length_ns)
{
    char bar[BAR_WIDTH + 1];
    memset(bar, ' ', BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    unsigned __int128 scale = length_ns ? length_ns : 1;
    unsigned first = (unsigned)((unsigned __int128)(item->start_ns - from_ns) * BAR_WIDTH / scale);
    unsigned last = (unsigned)((unsigned __int128)(item->end_ns - from_ns) * BAR_WIDTH / scale);
    first = first < BAR_WIDTH ? first : BAR_WIDTH - 1;
    if (item->is_moment)
        bar[first] = '|';
    else /* even the shortest span is visible */
        memset(bar + first, '#', last > first ? last - first : 1);
    buf_printf(out, "  [%s]  ", bar);
}

static void put_tokens(struct buf *out, uint64_t tokens)
{
    buf_printf(out, ", %" PRIu64 " token%s", tokens, tokens == 1 ? "" : "s");
}

/* Returns the number of consecutive token items from `first` on; combines them in `*ret`. */
static size_t gather_tokens(const struct trace_items *items, size_t first, struct trace_item *ret, uint64_t *ret_tokens,
                            uint64_t *ret_gap_ns)
{
    const struct trace_item *from = &items->items[first];
    size_t at = first;
    *ret = *from;
    *ret_tokens = *ret_gap_ns = 0;
    for (; at < items->count; at++) {
        const struct trace_item *item = &items->items[at];
        if (!item->tokens || !item->is_moment || item->id != from->id || item->depth != from->depth ||
            item->name != from->name || item->start_ns < ret->end_ns)
            break;
        uint64_t gap_ns = at > first ? item->start_ns - ret->end_ns : 0;
        *ret_gap_ns = gap_ns > *ret_gap_ns ? gap_ns : *ret_gap_ns;
        *ret_tokens += item->tokens;
        ret->end_ns = item->start_ns;
    }
    ret->is_moment = false;
    return at - first;
}

static void put_item(struct buf *out, const struct trace_item *item, const struct trace_request *request,
                     uint64_t from_ns, uint64_t length_ns)
{
    put_us(out, item->start_ns - from_ns);
    if (item->is_moment)
        buf_printf(out, "%16s", "");
    else
        put_us(out, item->end_ns - item->start_ns);
    put_bar(out, item, from_ns, length_ns);
    buf_printf(out, "%*s", item->depth * 2, "");
    triton_text_put_shown(out, (struct triton_text){item->name, item->name_size});
    if (item->tokens && item->is_moment)
        put_tokens(out, item->tokens);
    const struct triton_trace *trace = find_trace(request, item->id);
    if (item->is_handler && trace)
        buf_printf(out, " (%" PRId64 ") id %" PRIu64, trace->model_version, trace->id);
}

/* Returns the number of items consumed. */
static size_t put_items(struct buf *out, const struct trace_items *items, size_t at,
                        const struct trace_request *request, uint64_t from_ns, uint64_t length_ns)
{
    struct trace_item all;
    uint64_t tokens, gap_ns;
    const struct trace_item *item = &items->items[at];
    size_t count = item->tokens && item->is_moment ? gather_tokens(items, at, &all, &tokens, &gap_ns) : 1;
    if (count > TOKENS_MAX) {
        put_item(out, &all, request, from_ns, length_ns);
        buf_printf(out, " %zu times", count);
        put_tokens(out, tokens);
        buf_puts(out, ", the longest gap ");
        put_duration(out, gap_ns);
        buf_putc(out, '\n');
        return count;
    }
    for (size_t i = at; i < at + count; i++) {
        put_item(out, &items->items[i], request, from_ns, length_ns);
        buf_putc(out, '\n');
    }
    return count;
}

int trace_waterfall_write(struct buf *out, const struct trace_request *request, const struct strings *names)
{
    _cleanup_(trace_items_clear) struct trace_items items = {0};
    uint64_t from_ns = UINT64_MAX, to_ns = 0;
    int r = trace_request_items(request, names, &items);
    if (r < 0)
        return r;
    for (size_t i = 0; i < items.count; i++) {
        const struct trace_item *item = &items.items[i];
        bool waits =
            item->is_moment && TRITON_TEXT_IS(((struct triton_text){item->name, item->name_size}),
                                              "GRPC_WAITREAD_START"); /* waiting for the request, not part of it */
        from_ns = !waits && item->start_ns < from_ns ? item->start_ns : from_ns;
        to_ns = item->end_ns > to_ns ? item->end_ns : to_ns;
    }
    if (request->count)
        put_heading(out, request, names);
    if (items.count)
        buf_printf(out, "%16s%16s\n", "begins", "takes");
    for (size_t i = 0; i < items.count;)
        i += items.items[i].start_ns >= from_ns ? put_items(out, &items, i, request, from_ns, to_ns - from_ns) : 1;
    return buf_error(out);
}
