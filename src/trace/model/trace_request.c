/* One whole request, as spans; see trace_request.h. */
#include "trace/model/trace_request.h"

#include <errno.h>
#include <string.h>

#define DEPTH_MAX 64

int trace_request_add(struct trace_request *r, const struct triton_trace *trace)
{
    size_t moments = trace->moment_count * sizeof(*trace->moments), bytes = moments + trace->request_id.size + 1;
    if (r->count == TRACE_REQUEST_PARTS_MAX || r->bytes > TRACE_REQUEST_BYTES_MAX ||
        bytes > TRACE_REQUEST_BYTES_MAX - r->bytes) {
        r->dropped++;
        return 0;
    }
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? r->capacity * 2 : 8;
        struct triton_trace *traces = realloc(r->traces, capacity * sizeof(*traces));
        if (!traces)
            return -ENOMEM;
        r->traces = traces;
        r->capacity = capacity;
    }
    _cleanup_free_ char *copy = malloc(bytes); /* moments and request ID in one allocation */
    if (!copy)
        return -ENOMEM;
    if (moments)
        memcpy(copy, trace->moments, moments);
    if (trace->request_id.size)
        memcpy(copy + moments, trace->request_id.at, trace->request_id.size);
    size_t fact_bytes = 0;
    struct triton_facts *facts = trace->facts ? triton_facts_copy(trace->facts, &fact_bytes) : NULL;
    if (trace->facts && !facts)
        return -ENOMEM;
    r->bytes += bytes + fact_bytes;
    struct triton_trace *to = &r->traces[r->count++];
    *to = *trace;
    to->activities = NULL;
    to->facts = facts;
    to->request_id.at = copy + moments;
    to->moments = (struct triton_moment *)(void *)take_ptr(copy);
    return 0;
}

void trace_request_clear(struct trace_request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->traces[i].moments);
        free((void *)(uintptr_t)r->traces[i].facts);
    }
    free(r->traces);
    *r = (struct trace_request){0};
}

void trace_items_clear(struct trace_items *items)
{
    free(items->items);
    *items = (struct trace_items){0};
}

static int add_item(struct trace_items *items, const struct trace_item *item)
{
    if (items->count == items->capacity) {
        size_t capacity = items->capacity ? items->capacity * 2 : 64;
        struct trace_item *grown = realloc(items->items, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        items->items = grown;
        items->capacity = capacity;
    }
    items->items[items->count++] = *item;
    return 0;
}

/* ---- one trace ---- */

struct walk {
    const struct trace_request *request;
    const struct strings *names;
    const struct triton_trace *trace;
    struct triton_times times;
    uint32_t used; /* 1 << event: the begin or end of a span */
    struct trace_items *items;
    int r;
};

static const char *name_of(const struct strings *names, uint32_t event)
{
    return event < TRITON_EVENT_COUNT ? triton_event_name(event) : strings_get(names, event - TRITON_EVENT_COUNT);
}

/* Adds a span between two of Triton's own moments, when both exist and are in order. */
static bool add_triton_span(struct walk *w, enum triton_event from, enum triton_event to, const char *name, int depth)
{
    if (w->r < 0 || !triton_times_has(&w->times, from, to) || w->times.ns[to] < w->times.ns[from])
        return false;
    struct trace_item item = {.start_ns = w->times.ns[from],
                              .end_ns = w->times.ns[to],
                              .id = w->trace->id,
                              .name = name,
                              .name_size = strlen(name),
                              .depth = depth,
                              .is_front_end = from <= TRITON_GRPC_SEND_END,
                              .is_handler = from == TRITON_REQUEST_START};
    w->used |= 1u << from | 1u << to;
    w->r = add_item(w->items, &item);
    return true;
}

static bool has_suffix(const char *name, const char *suffix, size_t *ret_size)
{
    size_t size = strlen(name), end = strlen(suffix);
    *ret_size = size - end;
    return size > end && strcmp(name + size - end, suffix) == 0;
}

void trace_pairs_find(const struct triton_trace *t, const struct strings *names, uint32_t *ret_ends)
{
    uint32_t open[TRACE_PAIRS_OPEN], count = 0;
    for (uint32_t i = 0; i < t->moment_count; i++) {
        size_t size, other;
        if (t->moments[i].event < TRITON_EVENT_COUNT)
            continue;
        const char *name = name_of(names, t->moments[i].event);
        if (has_suffix(name, "_START", &size)) {
            if (count < TRACE_PAIRS_OPEN)
                open[count++] = i;
        } else if (has_suffix(name, "_END", &size)) {
            for (uint32_t at = count; at-- > 0;) {
                const char *begin = name_of(names, t->moments[open[at]].event);
                if (!has_suffix(begin, "_START", &other) || other != size || memcmp(begin, name, size) != 0)
                    continue;
                if (t->moments[i].ns >= t->moments[open[at]].ns) {
                    ret_ends[open[at]] = i + 1;
                    ret_ends[i] = TRACE_PAIR_END;
                }
                memmove(&open[at], &open[at + 1], (--count - at) * sizeof(*open));
                break;
            }
        }
    }
}

/* The number of open pairs around moment `i`, or around the pair that begins there, which is then added to them. */
static int count_around(uint32_t *open, int *count, const uint32_t *ends, uint32_t i)
{
    int kept = 0, around = 0;
    for (int at = 0; at < *count; at++)
        if (open[at] > i)
            open[kept++] = open[at];
    for (int at = 0; at < kept; at++)
        around += !ends[i] || open[at] > ends[i] - 1;
    if (ends[i] && kept < TRACE_PAIRS_OPEN)
        open[kept++] = ends[i] - 1;
    *count = kept;
    return around;
}

/* Adds the model's own spans and moments, and Triton's moments that no span has used. */
static int add_remaining(struct walk *w, int depth)
{
    const struct triton_trace *t = w->trace;
    _cleanup_free_ uint32_t *ends = calloc(t->moment_count + 1, sizeof(*ends));
    if (!ends)
        return -ENOMEM;
    trace_pairs_find(t, w->names, ends);
    uint32_t open[TRACE_PAIRS_OPEN];
    int r = 0, open_count = 0;
    for (uint32_t i = 0; i < t->moment_count && r == 0; i++) {
        const struct triton_moment *m = &t->moments[i];
        const char *name = name_of(w->names, m->event);
        size_t size = strlen(name);
        bool is_used = m->event < TRITON_EVENT_COUNT && w->used & 1u << m->event && w->times.ns[m->event] == m->ns;
        if (is_used || ends[i] == TRACE_PAIR_END)
            continue;
        struct trace_item item = {.start_ns = m->ns,
                                  .end_ns = m->ns,
                                  .id = t->id,
                                  .name = name,
                                  .name_size = size,
                                  .is_moment = !ends[i],
                                  .tokens = m->tokens};
        item.depth = depth + count_around(open, &open_count, ends, i);
        if (ends[i]) {
            item.end_ns = t->moments[ends[i] - 1].ns;
            has_suffix(name, "_START", &item.name_size);
        }
        r = add_item(w->items, &item);
    }
    return r;
}

static int add_trace(const struct walk *parent_walk, const struct triton_trace *trace, int depth);

struct child {
    const struct triton_trace *trace;
    uint64_t start_ns;
};

static int by_start(const void *a, const void *b)
{
    const struct child *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->trace->id < y->trace->id ? -1 : x->trace->id > y->trace->id;
}

static int add_children(const struct walk *w, uint64_t parent, int depth)
{
    const struct trace_request *request = w->request;
    _cleanup_free_ struct child *children = calloc(request->count + 1, sizeof(*children));
    size_t count = 0;
    if (!children)
        return -ENOMEM;
    for (size_t i = 0; i < request->count; i++) {
        const struct triton_trace *trace = &request->traces[i];
        struct triton_times times;
        if (!trace->has_parent || trace->parent_id != parent || trace->id == trace->root_id)
            continue;
        triton_times_get(trace, &times);
        children[count++] =
            (struct child){trace, times.known & 1u << TRITON_REQUEST_START ? times.ns[TRITON_REQUEST_START] : 0};
    }
    qsort(children, count, sizeof(*children), by_start);
    int r = 0;
    for (size_t i = 0; i < count && r == 0 && depth < DEPTH_MAX; i++)
        r = add_trace(w, children[i].trace, depth);
    return r;
}

static int add_trace(const struct walk *parent_walk, const struct triton_trace *trace, int depth)
{
    struct walk mine = *parent_walk, *w = &mine;
    w->trace = trace;
    w->used = 0;
    triton_times_get(trace, &w->times);
    int inner = depth;
    if (add_triton_span(w, TRITON_HTTP_RECV_START, TRITON_HTTP_SEND_END, "HTTP request", depth) ||
        add_triton_span(w, TRITON_GRPC_WAITREAD_END, TRITON_GRPC_SEND_END, "gRPC request", depth))
        inner = depth + 1;
    add_triton_span(w, TRITON_HTTP_RECV_START, TRITON_HTTP_RECV_END, "receive", inner);
    int within = add_triton_span(w, TRITON_REQUEST_START, TRITON_REQUEST_END,
                                 trace->has_model ? strings_get(w->names, trace->model) : "?", inner)
                     ? inner + 1
                     : inner;
    add_triton_span(w, TRITON_QUEUE_START, TRITON_COMPUTE_START, "queue", within);
    int computing =
        add_triton_span(w, TRITON_COMPUTE_START, TRITON_COMPUTE_END, "compute", within) ? within + 1 : within;
    add_triton_span(w, TRITON_COMPUTE_START, TRITON_COMPUTE_INPUT_END, "input", computing);
    add_triton_span(w, TRITON_COMPUTE_INPUT_END, TRITON_COMPUTE_OUTPUT_START, "infer", computing);
    add_triton_span(w, TRITON_COMPUTE_OUTPUT_START, TRITON_COMPUTE_END, "output", computing);
    struct trace_items sends = {0},
                       *items = w->items; /* listed last, but collected first so that their moments count as used */
    w->items = &sends;
    add_triton_span(w, TRITON_HTTP_SEND_START, TRITON_HTTP_SEND_END, "send", inner);
    add_triton_span(w, TRITON_GRPC_SEND_START, TRITON_GRPC_SEND_END, "send", inner);
    w->items = items;
    int r = w->r < 0 ? w->r : add_remaining(w, within);
    if (r == 0)
        r = add_children(w, trace->id, within);
    for (size_t i = 0; i < sends.count && r == 0; i++)
        r = add_item(items, &sends.items[i]);
    trace_items_clear(&sends);
    return r;
}

int trace_request_items(const struct trace_request *r, const struct strings *names, struct trace_items *ret)
{
    _cleanup_(trace_items_clear) struct trace_items items = {0};
    struct walk w = {.request = r, .names = names, .items = &items};
    int result = 0;
    bool has_root = false;
    for (size_t i = 0; i < r->count && !has_root; i++)
        has_root = r->traces[i].id == r->traces[i].root_id;
    for (size_t i = 0; i < r->count && has_root && result == 0; i++)
        if (r->traces[i].id == r->traces[i].root_id)
            result = add_trace(&w, &r->traces[i], 0);
    if (r->count && !has_root) /* the request itself is not in the file, only its parts */
        result = add_children(&w, r->traces[0].root_id, 0);
    if (result < 0)
        return result;
    *ret = items;
    items = (struct trace_items){0};
    return 0;
}
