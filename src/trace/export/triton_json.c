/* Converts OpenTelemetry spans to Triton's trace JSON; see triton_json.h. */
#include "trace/export/triton_json.h"

#include "trace/export/trace_format.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define DEPTH_MAX 256 /* nesting of spans */

struct moment {
    uint64_t time_unix_ns;
    const char *name, *suffix; /* borrowed */
    size_t place;
    uint32_t tokens;
};

struct triton_writer {
    struct buf *out;
    const struct otlp_spans *spans;
    uint32_t *by_id, *by_parent; /* span indices sorted by own ID and by parent ID */
    bool *used;
    uint64_t zero_ns;
    bool any, failed;
    struct moment *moments; /* of the current trace */
    size_t moment_count, moment_capacity;
    struct triton_json_losses losses;
};

/* ---- parents and children ---- */

static int compare_ids(const uint8_t *trace_a, const uint8_t *span_a, const uint8_t *trace_b, const uint8_t *span_b)
{
    int r = memcmp(trace_a, trace_b, 16);
    return r ? r : memcmp(span_a, span_b, 8);
}

static int by_id(const void *a, const void *b, void *spans)
{
    const struct otlp_span *x = (const struct otlp_span *)spans + *(const uint32_t *)a,
                           *y = (const struct otlp_span *)spans + *(const uint32_t *)b;
    return compare_ids(x->trace_id, x->span_id, y->trace_id, y->span_id);
}

static int by_parent(const void *a, const void *b, void *spans)
{
    const struct otlp_span *x = (const struct otlp_span *)spans + *(const uint32_t *)a,
                           *y = (const struct otlp_span *)spans + *(const uint32_t *)b;
    int r = compare_ids(x->trace_id, x->parent_span_id, y->trace_id, y->parent_span_id);
    return r ? r : x < y ? -1 : x > y; /* ties: order in the file */
}

static const struct otlp_span *find_parent(const struct triton_writer *w, const struct otlp_span *span)
{
    size_t low = 0, high = w->spans->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct otlp_span *other = &w->spans->spans[w->by_id[middle]];
        int r = compare_ids(other->trace_id, other->span_id, span->trace_id, span->parent_span_id);
        if (r == 0)
            return other == span ? NULL : other;
        *(r < 0 ? &low : &high) = r < 0 ? middle + 1 : middle;
    }
    return NULL;
}

/* Index of the first child in by_parent. */
static size_t first_child(const struct triton_writer *w, const struct otlp_span *span)
{
    size_t low = 0, high = w->spans->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct otlp_span *other = &w->spans->spans[w->by_parent[middle]];
        bool before = compare_ids(other->trace_id, other->parent_span_id, span->trace_id, span->span_id) < 0;
        *(before ? &low : &high) = before ? middle + 1 : middle;
    }
    return low;
}

/* The parent of a model's span is the span of the request, or an inner span of the calling model. */
static bool is_request(const struct triton_writer *w, const struct otlp_span *span)
{
    return strcmp(strings_get(w->spans->texts, span->name), "InferRequest") == 0;
}

/* ---- timestamps of one trace ---- */

static void add_moment(struct triton_writer *w, const char *name, const char *suffix, uint64_t time_unix_ns,
                       uint32_t tokens)
{
    if (w->moment_count == w->moment_capacity) {
        size_t capacity = w->moment_capacity ? w->moment_capacity * 2 : 64;
        struct moment *moments = realloc(w->moments, capacity * sizeof(*moments));
        if (!moments) {
            w->failed = true;
            return;
        }
        w->moments = moments;
        w->moment_capacity = capacity;
    }
    w->moments[w->moment_count] = (struct moment){time_unix_ns, name, suffix, w->moment_count, tokens};
    w->moment_count++;
}

static void add_events(struct triton_writer *w, const struct otlp_span *span)
{
    for (uint32_t i = 0; i < span->event_count; i++) {
        const struct otlp_event *event = &w->spans->events[span->first_event + i];
        add_moment(w, strings_get(w->spans->texts, event->name), "", event->time_unix_ns, event->tokens);
    }
    w->losses.events += span->dropped_events;
    w->used[span - w->spans->spans] = true;
}

static void add_inner(struct triton_writer *w, const struct otlp_span *span, int depth)
{
    for (size_t i = first_child(w, span); i < w->spans->count && depth < DEPTH_MAX; i++) {
        const struct otlp_span *inner = &w->spans->spans[w->by_parent[i]];
        const char *name = strings_get(w->spans->texts, inner->name);
        bool has_events = strcmp(name, "compute") == 0; /* with events for its start and end */
        if (compare_ids(inner->trace_id, inner->parent_span_id, span->trace_id, span->span_id) != 0)
            break;
        if (inner->has_triton_id || w->used[inner - w->spans->spans])
            continue;
        if (!has_events)
            add_moment(w, name, "_START", inner->start_unix_ns, 0);
        add_events(w, inner);
        add_inner(w, inner, depth + 1);
        if (!has_events)
            add_moment(w, name, "_END", inner->end_unix_ns, 0);
    }
}

static int compare_moments(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->time_unix_ns != y->time_unix_ns)
        return x->time_unix_ns < y->time_unix_ns ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* ---- records ---- */

static void begin_record(struct triton_writer *w, int64_t id)
{
    buf_printf(w->out, "%s{\"id\":%" PRIu64, w->any ? "," : "", (uint64_t)id);
    w->any = true;
}

static void put_stamp(struct triton_writer *w, int64_t id, const struct moment *m)
{
    bool early = m->time_unix_ns < w->zero_ns;
    w->losses.too_early += early;
    begin_record(w, id);
    buf_puts(w->out, ",\"timestamps\":[{\"name\":");
    buf_put_json_string(w->out, m->name);
    if (*m->suffix) {
        w->out->size--; /* the quote */
        buf_printf(w->out, "%s\"", m->suffix);
    }
    buf_printf(w->out, ",\"ns\":%" PRIu64, early ? 0 : m->time_unix_ns - w->zero_ns);
    if (m->tokens)
        buf_printf(w->out, ",\"tokens\":%" PRIu32, m->tokens);
    buf_puts(w->out, "}]}");
}

/* Writes the string with index `number`, or nothing if it is 0. */
static void put_text(struct triton_writer *w, const char *before, const char *key, uint32_t number)
{
    if (!number)
        return;
    buf_printf(w->out, "%s\"%s\":", before, key);
    buf_put_json_string(w->out, strings_get(w->spans->texts, number));
}

/* libsonde sets the provider on every span; Triton's files have it only if it differs from the default. */
static bool is_default_provider(const struct triton_writer *w, int fact, uint32_t number)
{
    return fact == TRITON_FACT_PROVIDER && strcmp(strings_get(w->spans->texts, number), TRACE_SERVICE_NAME) == 0;
}

static void put_generation(struct triton_writer *w, const struct otlp_span *span)
{
    put_text(w, ",\"generation\":{", triton_fact_kinds[TRITON_FACT_OPERATION].key, span->facts[TRITON_FACT_OPERATION]);
    for (int i = 0; i < TRITON_TOKEN_COUNTS; i++)
        if (span->tokens[i] >= 0)
            buf_printf(w->out, ",\"%s\":%" PRId64, triton_token_kinds[i].key, span->tokens[i]);
    for (int i = TRITON_FACT_OPERATION + 1; i < TRITON_FACT_COUNT; i++)
        if (!is_default_provider(w, i, span->facts[i]))
            put_text(w, ",", triton_fact_kinds[i].key, span->facts[i]);
    buf_putc(w->out, '}');
}

/* A cancelled request without an error text has the message "cancelled". */
static void put_outcome(struct triton_writer *w, const struct otlp_span *span)
{
    const char *message = strings_get(w->spans->texts, span->message);
    bool is_only_cancelled = strcmp(message, "cancelled") == 0;
    buf_printf(w->out, ",\"status\":\"%s\"", span->was_cancelled || is_only_cancelled ? "cancelled" : "error");
    if (!is_only_cancelled)
        put_text(w, ",", "error", span->message);
}

static void put_header(struct triton_writer *w, const struct otlp_span *span)
{
    begin_record(w, span->triton_id);
    buf_puts(w->out, ",\"model_name\":");
    buf_put_json_string(w->out, strings_get(w->spans->texts, span->model_name));
    buf_printf(w->out, ",\"model_version\":%" PRId64, span->model_version);
    put_text(w, ",", "request_id", span->request_id);
    if (span->triton_parent_id)
        buf_printf(w->out, ",\"parent_id\":%" PRIu64, (uint64_t)span->triton_parent_id);
    if (span->has_failed)
        put_outcome(w, span);
    if (span->facts[TRITON_FACT_OPERATION])
        put_generation(w, span);
    buf_putc(w->out, '}');
}

/* Timestamps in time order, as a server writes them: nesting follows from the order. */
static void put_model(struct triton_writer *w, const struct otlp_span *span)
{
    const struct otlp_span *request = find_parent(w, span);
    w->moment_count = 0;
    put_header(w, span);
    if (request && !request->has_triton_id && !w->used[request - w->spans->spans] && is_request(w, request))
        add_events(w, request);
    add_events(w, span);
    add_inner(w, span, 0);
    if (w->moment_count)
        qsort(w->moments, w->moment_count, sizeof(*w->moments), compare_moments);
    for (size_t i = 0; i < w->moment_count; i++)
        put_stamp(w, span->triton_id, &w->moments[i]);
}

int triton_json_write(struct buf *out, struct otlp_spans *spans, uint64_t zero_ns,
                      struct triton_json_losses *ret_losses)
{
    _cleanup_free_ uint32_t *ids = calloc(spans->count + 1, sizeof(*ids)),
                            *parents = calloc(spans->count + 1, sizeof(*parents));
    _cleanup_free_ bool *used = calloc(spans->count + 1, sizeof(*used));
    struct triton_writer w = {
        .out = out, .spans = spans, .by_id = ids, .by_parent = parents, .used = used, .zero_ns = zero_ns};
    if (!ids || !parents || !used)
        return -ENOMEM;
    for (size_t i = 0; i < spans->count; i++)
        ids[i] = parents[i] = (uint32_t)i;
    qsort_r(ids, spans->count, sizeof(*ids), by_id, spans->spans);
    qsort_r(parents, spans->count, sizeof(*parents), by_parent, spans->spans);
    buf_putc(out, '[');
    for (size_t i = 0; i < spans->count; i++)
        if (spans->spans[i].has_triton_id)
            put_model(&w, &spans->spans[i]);
    buf_puts(out, "]\n");
    for (size_t i = 0; i < spans->count; i++)
        w.losses.spans += !used[i];
    free(w.moments);
    *ret_losses = w.losses;
    return w.failed ? -ENOMEM : buf_error(out);
}
