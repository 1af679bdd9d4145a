/* Converts records to spans. A record is assigned to a span by its name: receiving and sending to the root, COMPUTE_*
 * to `compute`, the request's own to the model's span, and custom names to the innermost open span. A span without an
 * end record ends with its model. */
#include "spans.h"

#include "ids.h"
#include "manager.h"

#include <stdlib.h>
#include <string.h>

#define TOKEN_EVENTS_MAX 128

static const char start_suffix[] = "_START", end_suffix[] = "_END";

static bool is_front_end(unsigned kind)
{
    return kind >= SONDE_TRACE_HTTP_RECV_START && kind <= SONDE_TRACE_INFER_RESPONSE_COMPLETE;
}

static bool is_compute(unsigned kind)
{
    return kind >= SONDE_TRACE_COMPUTE_START && kind <= SONDE_TRACE_COMPUTE_END;
}

static bool is_tensor(unsigned kind)
{
    return kind >= SONDE_TRACE_TENSOR_QUEUE_INPUT && kind <= SONDE_TRACE_TENSOR_BACKEND_OUTPUT;
}

/* The length of X in X_START (or X_END); 0: the name has another form. */
static size_t size_before(const struct trace_record *r, const char *suffix)
{
    size_t size = strlen(suffix);
    if (r->kind != TRACE_CUSTOM || r->name_size <= size ||
        memcmp((const char *)(r + 1) + r->name_size - size, suffix, size) != 0)
        return 0;
    return r->name_size - size;
}

/* A request that was refused before it reached a model has no model span. */
static bool has_model_span(const struct sonde_trace *t)
{
    if (t->parent_id || t->next)
        return true;
    trace_for_each_record (t, r)
        if (!is_front_end(r->kind))
            return true;
    return false;
}

uint32_t trace_spans_count(const struct trace_tree *tree)
{
    uint32_t n = 1;
    for (const struct sonde_trace *t = &tree->root; t; t = t->next) {
        bool compute = false;
        trace_for_each_record (t, r) {
            compute |= is_compute(r->kind);
            n += size_before(r, start_suffix) > 0;
        }
        n += has_model_span(t) + compute;
    }
    return n;
}

/* --- growing arrays -------------------------------------------------------------------------- */

/* Makes room for one more element. */
static bool grow(void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    uint32_t wanted = *capacity ? *capacity * 2 : 16;
    void *old, *grown;
    memcpy(&old, array, sizeof(old));
    grown = realloc(old, wanted * size);
    if (!grown)
        return false;
    memcpy(array, &grown, sizeof(grown));
    *capacity = wanted;
    return true;
}

void trace_spans_free(struct trace_spans *s)
{
    free(s->spans);
    free(s->events);
    free(s->open);
    *s = (struct trace_spans){0};
}

/* Returns the index; UINT32_MAX: out of memory, which other functions treat as no span. */
static uint32_t add_span(struct trace_spans *s, const char *name, size_t name_size, uint64_t id, uint64_t parent_id)
{
    if (!grow(&s->spans, s->count, &s->capacity, sizeof(*s->spans))) {
        s->failed = true;
        return UINT32_MAX;
    }
    s->spans[s->count] = (struct trace_span){.name = name,
                                             .name_size = name_size,
                                             .id = id,
                                             .parent_id = parent_id,
                                             .start_ns = UINT64_MAX,
                                             .first_event = TRACE_NO_EVENT,
                                             .last_event = TRACE_NO_EVENT};
    return s->count++;
}

/* Extends the span to include `ns`. */
static void extend_span(struct trace_spans *s, uint32_t span, uint64_t ns)
{
    if (span >= s->count)
        return;
    struct trace_span *p = &s->spans[span];
    p->start_ns = ns < p->start_ns ? ns : p->start_ns;
    p->end_ns = ns > p->end_ns ? ns : p->end_ns;
}

static void add_event(struct trace_spans *s, uint32_t span, const struct trace_record *r)
{
    if (span >= s->count || !grow(&s->events, s->event_count, &s->event_capacity, sizeof(*s->events))) {
        s->failed = true;
        return;
    }
    struct trace_span *p = &s->spans[span];
    s->events[s->event_count] = (struct trace_span_event){r, TRACE_NO_EVENT};
    *(p->last_event == TRACE_NO_EVENT ? &p->first_event : &s->events[p->last_event].next) = s->event_count;
    p->last_event = s->event_count++;
    p->event_count++;
    extend_span(s, span, r->ns);
}

/* --- one model ------------------------------------------------------------------------------- */

struct span_builder {
    struct trace_spans *s;
    struct trace_ids *ids;
    const struct sonde_trace *trace;
    uint32_t model, compute; /* UINT32_MAX: none */
};

static uint32_t innermost(const struct span_builder *m)
{
    return m->s->open_count > 0 ? m->s->open[m->s->open_count - 1] : m->model;
}

static uint32_t open_span(struct span_builder *m, const char *name, size_t name_size)
{
    struct trace_spans *s = m->s;
    uint32_t above = innermost(m);
    uint64_t parent_id = above < s->count ? s->spans[above].id : 0;
    uint32_t span = add_span(s, name, name_size, trace_ids_span(m->ids), parent_id);
    if (!grow(&s->open, s->open_count, &s->open_capacity, sizeof(*s->open)))
        s->failed = true;
    else
        s->open[s->open_count++] = span;
    return span;
}

/* Spans opened later stay open: threads of one request need not close in order. */
static void close_span(struct trace_spans *s, uint32_t at)
{
    memmove(&s->open[at], &s->open[at + 1], (s->open_count - at - 1) * sizeof(*s->open));
    s->open_count--;
}

static void take_compute(struct span_builder *m, const struct trace_record *r)
{
    if (m->compute == UINT32_MAX)
        m->compute = open_span(m, "compute", strlen("compute"));
    add_event(m->s, m->compute, r);
    if (r->kind != SONDE_TRACE_COMPUTE_END)
        return;
    for (uint32_t i = m->s->open_count; i-- > 0;)
        if (m->s->open[i] == m->compute)
            close_span(m->s, i);
}

/* Closes span X if the record is X_END of an open span. */
static bool take_end(struct span_builder *m, const struct trace_record *r)
{
    struct trace_spans *s = m->s;
    size_t size = size_before(r, end_suffix);
    for (uint32_t i = size > 0 ? s->open_count : 0; i-- > 0;) {
        uint32_t span = s->open[i];
        if (span >= s->count || span == m->compute || s->spans[span].name_size != size ||
            memcmp(s->spans[span].name, r + 1, size) != 0)
            continue;
        extend_span(s, span, r->ns);
        close_span(s, i);
        return true;
    }
    return false;
}

static void take_custom(struct span_builder *m, const struct trace_record *r)
{
    size_t size = size_before(r, start_suffix);
    if (size > 0)
        extend_span(m->s, open_span(m, (const char *)(r + 1), size), r->ns);
    else if (!take_end(m, r))
        add_event(m->s, innermost(m), r);
}

/* A generation may have thousands of tokens. OpenTelemetry's event limit per span is applied to them, and the span
 * counts the dropped ones. */
static void take_tokens(struct span_builder *m, const struct trace_record *r)
{
    uint32_t span = innermost(m);
    if (span >= m->s->count || m->s->spans[span].event_count < TOKEN_EVENTS_MAX) {
        add_event(m->s, span, r);
        return;
    }
    m->s->spans[span].dropped_events++;
    extend_span(m->s, span, r->ns);
}

/* Unclosed spans end with their model. */
static void close_all(struct span_builder *m, bool ended)
{
    struct trace_spans *s = m->s;
    if (m->model >= s->count)
        return;
    struct trace_span *model = &s->spans[m->model];
    for (uint32_t i = m->model + 1; i < s->count; i++) {
        extend_span(s, m->model, s->spans[i].start_ns);
        extend_span(s, m->model, s->spans[i].end_ns);
    }
    if (!ended)
        extend_span(s, m->model, m->trace->end_ns);
    for (uint32_t i = 0; i < s->open_count; i++)
        extend_span(s, s->open[i], model->end_ns);
}

static void take_model(struct trace_spans *s, const struct sonde_trace *t)
{
    struct span_builder m = {s, &t->tree->manager->ids, t, UINT32_MAX, UINT32_MAX};
    bool started = false, ended = false;
    s->open_count = 0;
    if (has_model_span(t)) {
        m.model = add_span(s, t->model_name, strlen(t->model_name), t->span_id, t->parent_span_id);
        if (m.model < s->count)
            s->spans[m.model].model = s->spans[m.model].outcome = t;
    }
    trace_for_each_record (t, r) {
        started |= r->kind == SONDE_TRACE_REQUEST_START;
        ended |= r->kind == SONDE_TRACE_REQUEST_END;
        if (is_tensor(r->kind))
            continue;
        if (is_compute(r->kind))
            take_compute(&m, r);
        else if (r->kind == TRACE_CUSTOM)
            take_custom(&m, r);
        else if (r->kind == TRACE_TOKENS)
            take_tokens(&m, r);
        else
            add_event(s, is_front_end(r->kind) && t->parent_id == 0 ? 0 : m.model, r);
    }
    if (!started)
        extend_span(s, m.model, t->begin_ns);
    close_all(&m, ended);
}

void trace_spans_make(struct trace_spans *s, const struct trace_tree *tree)
{
    const struct sonde_trace *root = &tree->root;
    uint64_t caller;
    s->count = s->event_count = 0;
    s->failed = false;
    memcpy(&caller, tree->context.parent_id, sizeof(caller));
    if (add_span(s, "InferRequest", strlen("InferRequest"), root->parent_span_id, caller) != 0)
        return;
    s->spans[0].outcome = root;
    extend_span(s, 0, root->begin_ns);
    extend_span(s, 0, root->end_ns);
    for (const struct sonde_trace *t = root; t; t = t->next)
        take_model(s, t);
    for (uint32_t i = 1; i < s->count; i++) {
        extend_span(s, 0, s->spans[i].start_ns);
        extend_span(s, 0, s->spans[i].end_ns);
    }
}
