/* Converts a trace to OpenTelemetry spans; see trace_spans.h. */
#include "trace/model/trace_spans.h"

#include "trace/model/trace_request.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

/* The kind of a span; part of its ID. The model's own pairs count up from the last. */
enum span_kind { SPAN_REQUEST, SPAN_MODEL, SPAN_COMPUTE, SPAN_OWN };

#define IN(event) (1u << TRITON_##event)
static const uint32_t request_events = IN(HTTP_RECV_START) | IN(HTTP_RECV_END) | IN(HTTP_SEND_START) |
                                       IN(HTTP_SEND_END) | IN(GRPC_WAITREAD_START) | IN(GRPC_WAITREAD_END) |
                                       IN(GRPC_SEND_START) | IN(GRPC_SEND_END) | IN(INFER_RESPONSE_COMPLETE);
static const uint32_t compute_events =
    IN(COMPUTE_START) | IN(COMPUTE_INPUT_END) | IN(COMPUTE_OUTPUT_START) | IN(COMPUTE_END);

void trace_spans_reset(struct trace_spans *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->spans[i].events);
    s->count = 0;
}

void trace_spans_clear(struct trace_spans *s)
{
    trace_spans_reset(s);
    free(s->spans);
    *s = (struct trace_spans){0};
}

/* ---- identifiers ---- */

static void make_trace_id(uint64_t salt, uint64_t root, uint8_t ret[16])
{
    XXH128_hash_t h = XXH3_128bits_withSeed(&root, sizeof(root), salt);
    memcpy(ret, &h.high64, 8);
    memcpy(ret + 8, &h.low64, 8);
}

static void make_span_id(uint64_t salt, uint64_t id, uint64_t kind, uint8_t ret[8])
{
    const uint64_t of[2] = {id, kind};
    uint64_t h = XXH3_64bits_withSeed(of, sizeof(of), salt);
    h += !h; /* zeros are not a valid ID */
    memcpy(ret, &h, 8);
}

/* ---- spans ---- */

struct conversion {
    struct trace_spans *spans;
    const struct triton_trace *trace;
    const struct trace_spans_options *options;
    struct triton_times times;
    bool has_request;
};

static int add_event(struct trace_span_record *span, const char *name, uint64_t time_unix_ns, uint32_t tokens)
{
    if ((span->event_count & (span->event_count - 1)) == 0) { /* capacity grows to the next power of two */
        struct span_event *events =
            realloc(span->events, (span->event_count ? span->event_count * 2 : 1) * sizeof(*events));
        if (!events)
            return -ENOMEM;
        span->events = events;
    }
    span->events[span->event_count++] = (struct span_event){name, time_unix_ns, tokens};
    return 0;
}

static int add_span(struct conversion *m, uint64_t kind, const char *name, size_t name_size, uint64_t start_ns,
                    uint64_t end_ns, struct trace_span_record **ret)
{
    struct trace_spans *s = m->spans;
    uint64_t salt = m->options->salt, zero_ns = m->options->zero_ns;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 64;
        struct trace_span_record *spans = realloc(s->spans, capacity * sizeof(*spans));
        if (!spans)
            return -ENOMEM;
        s->spans = spans;
        s->capacity = capacity;
    }
    struct trace_span_record *span = &s->spans[s->count++];
    *span = (struct trace_span_record){
        .name = name, .name_size = name_size, .start_unix_ns = start_ns + zero_ns, .end_unix_ns = end_ns + zero_ns};
    make_trace_id(salt, m->trace->root_id, span->trace_id);
    make_span_id(salt, m->trace->id, kind, span->span_id);
    if (kind == SPAN_MODEL && m->has_request)
        make_span_id(salt, m->trace->id, SPAN_REQUEST, span->parent_span_id);
    else if (kind == SPAN_MODEL && m->trace->has_parent)
        make_span_id(salt, m->trace->parent_id, SPAN_MODEL, span->parent_span_id);
    else if (kind > SPAN_MODEL)
        make_span_id(salt, m->trace->id, SPAN_MODEL, span->parent_span_id);
    *ret = span;
    return 0;
}

/* Adds the moments of the file that are in `wanted`. */
static int add_events(struct conversion *m, struct trace_span_record *span, uint32_t wanted)
{
    const struct triton_trace *t = m->trace;
    for (uint32_t i = 0; i < t->moment_count; i++) {
        uint32_t event = t->moments[i].event;
        if (event < TRITON_EVENT_COUNT && wanted & 1u << event &&
            add_event(span, triton_event_name(event), t->moments[i].ns + m->options->zero_ns, 0) < 0)
            return -ENOMEM;
    }
    return 0;
}

static bool is_span(const struct conversion *m, enum triton_event from, enum triton_event to)
{
    return triton_times_has(&m->times, from, to) && m->times.ns[to] >= m->times.ns[from];
}

static int add_between(struct conversion *m, enum span_kind kind, const char *name, enum triton_event from,
                       enum triton_event to, uint32_t events)
{
    struct trace_span_record *span;
    int r = add_span(m, kind, name, strlen(name), m->times.ns[from], m->times.ns[to], &span);
    if (r == 0)
        r = add_events(m, span, events);
    return r;
}

/* Adds the root span: from the first of the front end's events to the last, whichever front end it is, also for a
 * request that was refused before it began. */
static int add_request(struct conversion *m, uint32_t events)
{
    uint64_t start_ns = UINT64_MAX, end_ns = 0;
    struct trace_span_record *span;
    for (int event = 0; event < TRITON_EVENT_COUNT; event++) {
        if (!(m->times.known & request_events & 1u << event) || event == TRITON_GRPC_WAITREAD_START ||
            event == TRITON_INFER_RESPONSE_COMPLETE)
            continue;
        start_ns = m->times.ns[event] < start_ns ? m->times.ns[event] : start_ns;
        end_ns = m->times.ns[event] > end_ns ? m->times.ns[event] : end_ns;
    }
    if (m->trace->has_parent || start_ns > end_ns)
        return 0;
    if (triton_times_has(&m->times, TRITON_REQUEST_END, TRITON_REQUEST_END) && m->times.ns[TRITON_REQUEST_END] > end_ns)
        end_ns = m->times.ns[TRITON_REQUEST_END]; /* it may outlast the reply */
    int r = add_span(m, SPAN_REQUEST, "InferRequest", strlen("InferRequest"), start_ns, end_ns, &span);
    if (r < 0)
        return r;
    span->outcome = m->trace->facts;
    r = add_events(m, span, events);
    m->has_request = r == 0;
    return r;
}

/* The open spans that contain the current moment: the model's span, `compute` or a pair, innermost last. */
struct open_span {
    size_t span;
    uint32_t begun; /* index of the moment */
};

struct open_spans {
    struct open_span list[TRACE_PAIRS_OPEN + 2];
    size_t count;
};

static void open_span(struct open_spans *o, size_t span, uint32_t begun)
{
    if (o->count < array_size(o->list))
        o->list[o->count++] = (struct open_span){span, begun};
}

/* Spans opened after it stay open. */
static void close_span(struct open_spans *o, size_t at)
{
    memmove(&o->list[at], &o->list[at + 1], (--o->count - at) * sizeof(*o->list));
}

static void handle_compute(struct conversion *m, struct open_spans *o, uint32_t event, size_t compute)
{
    struct trace_span_record *spans = m->spans->spans;
    size_t at = o->count;
    while (at > 1 && o->list[at - 1].span != compute)
        at--;
    if (event == TRITON_COMPUTE_END && at > 1)
        close_span(o, at - 1);
    if (event != TRITON_COMPUTE_START || at > 1)
        return;
    memcpy(spans[compute].parent_span_id, spans[o->list[o->count - 1].span].span_id, sizeof(spans->span_id));
    open_span(o, compute, UINT32_MAX);
}

/* Handles a name of the model's own: pairs become spans, others become events of the innermost open span. */
static int handle_own(struct conversion *m, struct open_spans *o, const uint32_t *ends, uint32_t i)
{
    const struct triton_moment *moment = &m->trace->moments[i];
    const char *name = strings_get(m->options->names, moment->event - TRITON_EVENT_COUNT);
    size_t above = o->list[o->count - 1].span;
    struct trace_span_record *span;
    if (ends[i] == TRACE_PAIR_END) {
        for (size_t at = o->count; at-- > 1;)
            if (o->list[at].begun != UINT32_MAX && ends[o->list[at].begun] == i + 1)
                close_span(o, at);
        return 0;
    }
    if (!ends[i])
        return add_event(&m->spans->spans[above], name, moment->ns + m->options->zero_ns, moment->tokens);
    size_t at = m->spans->count;
    int r = add_span(m, SPAN_OWN + i, name, strlen(name) - strlen("_START"), moment->ns,
                     m->trace->moments[ends[i] - 1].ns, &span);
    if (r < 0)
        return r;
    memcpy(span->parent_span_id, m->spans->spans[above].span_id, sizeof(span->parent_span_id));
    open_span(o, at, i);
    return 0;
}

static int add_own(struct conversion *m, size_t model, bool has_compute)
{
    const struct triton_trace *t = m->trace;
    _cleanup_free_ uint32_t *ends = calloc(t->moment_count + 1, sizeof(*ends));
    struct open_spans open = {0};
    int r = ends ? 0 : -ENOMEM;
    if (r == 0)
        trace_pairs_find(t, m->options->names, ends);
    open_span(&open, model, UINT32_MAX);
    for (uint32_t i = 0; i < t->moment_count && r == 0; i++) {
        uint32_t event = t->moments[i].event;
        if (event >= TRITON_EVENT_COUNT)
            r = handle_own(m, &open, ends, i);
        else if (has_compute)
            handle_compute(m, &open, event, model + 1);
    }
    return r;
}

static bool has_own(const struct triton_trace *trace)
{
    for (uint32_t i = 0; i < trace->moment_count; i++)
        if (trace->moments[i].event >= TRITON_EVENT_COUNT)
            return true;
    return false;
}

/* A trace without both begin and end of the model: its span reaches from the first to the last moment that is not
 * the front end's. */
static int add_unfinished(struct conversion *m, const char *model, uint32_t events)
{
    const struct triton_trace *t = m->trace;
    uint64_t start_ns = UINT64_MAX, end_ns = 0;
    struct trace_span_record *span;
    for (uint32_t i = 0; i < t->moment_count; i++) {
        const struct triton_moment *moment = &t->moments[i];
        if (moment->event < TRITON_EVENT_COUNT && request_events & 1u << moment->event)
            continue;
        start_ns = moment->ns < start_ns ? moment->ns : start_ns;
        end_ns = moment->ns > end_ns ? moment->ns : end_ns;
    }
    int r = add_span(m, SPAN_MODEL, model, strlen(model), start_ns, end_ns, &span);
    return r == 0 ? add_events(m, span, events) : r;
}

int trace_spans_add(struct trace_spans *s, const struct triton_trace *trace, const struct trace_spans_options *options)
{
    struct conversion m = {.spans = s, .trace = trace, .options = options};
    const char *model = trace->has_model ? strings_get(options->names, trace->model) : "";
    triton_times_get(trace, &m.times);
    bool is_whole = is_span(&m, TRITON_REQUEST_START, TRITON_REQUEST_END), has_model = is_whole || has_own(trace);
    bool has_compute = is_span(&m, TRITON_COMPUTE_START, TRITON_COMPUTE_END);
    int r = add_request(&m, has_model ? request_events
                                      : UINT32_MAX); /* an unfinished trace's moments are events of the request */
    size_t at = s->count;
    if (r < 0 || !has_model)
        return r;
    uint32_t events = UINT32_MAX & ~(m.has_request ? request_events : 0) & ~(has_compute ? compute_events : 0);
    r = is_whole ? add_between(&m, SPAN_MODEL, model, TRITON_REQUEST_START, TRITON_REQUEST_END, events)
                 : add_unfinished(&m, model, events);
    if (r < 0)
        return r;
    s->spans[at].trace = trace;
    s->spans[at].model = model;
    s->spans[at].outcome = trace->facts;
    if (has_compute)
        r = add_between(&m, SPAN_COMPUTE, "compute", TRITON_COMPUTE_START, TRITON_COMPUTE_END, compute_events);
    return r == 0 && has_own(trace) ? add_own(&m, at, has_compute) : r;
}
