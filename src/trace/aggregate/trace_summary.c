/* Sums up traces by frontend, model and version; see trace_summary.h. */
#include "trace/aggregate/trace_summary.h"

#include "trace/model/trace_generation.h"

#include <errno.h>
#include <string.h>

struct trace_summary {
    struct trace_summary_options options;
    uint64_t file;
    size_t model_capacity[TRACE_FRONTENDS],
        last[TRACE_FRONTENDS]; /* `last`: index of the last model, because consecutive traces often share it */
    struct trace_sums sums;    /* slowest is a heap with the fastest on top */
};

int trace_summary_new(const struct trace_summary_options *options, struct trace_summary **ret)
{
    _cleanup_(trace_summary_freep) struct trace_summary *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->options = *options;
    if (options->slowest && !(s->sums.slowest = calloc(options->slowest, sizeof(*s->sums.slowest))))
        return -ENOMEM;
    *ret = take_ptr(s);
    return 0;
}

void trace_summary_free(struct trace_summary *s)
{
    if (!s)
        return;
    for (int frontend = 0; frontend < TRACE_FRONTENDS; frontend++) {
        for (size_t i = 0; i < s->sums.model_count[frontend]; i++)
            for (int span = 0; span < TRACE_SPAN_COUNT; span++)
                duration_histogram_free(s->sums.models[frontend][i].spans[span].durations);
        free(s->sums.models[frontend]);
    }
    for (size_t i = 0; i < s->sums.slowest_count; i++)
        free(s->sums.slowest[i].request_id);
    free(s->sums.slowest);
    free(s);
}

void trace_summary_next_file(struct trace_summary *s)
{
    s->file++;
}

/* ---- durations of one trace ---- */

struct durations {
    int64_t ns[TRACE_SPAN_COUNT];
    uint32_t known; /* 1 << span */
};

static void set(struct durations *d, enum trace_span span, int64_t ns)
{
    d->ns[span] = ns;
    d->known |= 1u << span;
}

static bool has(const struct durations *d, uint32_t spans)
{
    return (d->known & spans) == spans;
}

static void measure(struct trace_summary *s, const struct triton_times *t, enum triton_event from, enum triton_event to,
                    enum trace_span span, struct durations *d)
{
    if (!triton_times_has(t, from, to))
        return;
    if (t->ns[to] < t->ns[from] || t->ns[to] - t->ns[from] > INT64_MAX)
        s->sums.losses.backwards++;
    else
        set(d, span, (int64_t)(t->ns[to] - t->ns[from]));
}

static void measure_model(struct trace_summary *s, const struct triton_times *t, struct durations *d)
{
    measure(s, t, TRITON_REQUEST_START, TRITON_REQUEST_END, TRACE_HANDLER, d);
    measure(s, t, TRITON_QUEUE_START, TRITON_COMPUTE_START, TRACE_QUEUE, d);
    measure(s, t, TRITON_COMPUTE_START, TRITON_COMPUTE_END, TRACE_COMPUTE, d);
    measure(s, t, TRITON_COMPUTE_START, TRITON_COMPUTE_INPUT_END, TRACE_COMPUTE_INPUT, d);
    measure(s, t, TRITON_COMPUTE_INPUT_END, TRITON_COMPUTE_OUTPUT_START, TRACE_COMPUTE_INFER, d);
    measure(s, t, TRITON_COMPUTE_OUTPUT_START, TRITON_COMPUTE_END, TRACE_COMPUTE_OUTPUT, d);
    if (has(d, 1u << TRACE_HANDLER | 1u << TRACE_QUEUE | 1u << TRACE_COMPUTE))
        set(d, TRACE_OVERHEAD, d->ns[TRACE_HANDLER] - d->ns[TRACE_QUEUE] - d->ns[TRACE_COMPUTE]);
}

/* Triton's gRPC frontend waits for the request and reads it in one step, so the request begins after that step, and
 * its receive time is unknown. */
static void measure_frontend(struct trace_summary *s, const struct triton_times *t, int frontend, struct durations *d)
{
    uint32_t needed = 1u << TRACE_INFER | 1u << TRACE_SEND | 1u << TRACE_HANDLER;
    int64_t receive_ns = 0;
    if (frontend == TRACE_HTTP) {
        measure(s, t, TRITON_HTTP_RECV_START, TRITON_HTTP_SEND_END, TRACE_INFER, d);
        measure(s, t, TRITON_HTTP_RECV_START, TRITON_HTTP_RECV_END, TRACE_RECEIVE, d);
        measure(s, t, TRITON_HTTP_SEND_START, TRITON_HTTP_SEND_END, TRACE_SEND, d);
        needed |= 1u << TRACE_RECEIVE;
        receive_ns = has(d, 1u << TRACE_RECEIVE) ? d->ns[TRACE_RECEIVE] : 0;
    } else {
        measure(s, t, TRITON_GRPC_WAITREAD_END, TRITON_GRPC_SEND_END, TRACE_INFER, d);
        measure(s, t, TRITON_GRPC_SEND_START, TRITON_GRPC_SEND_END, TRACE_SEND, d);
    }
    if (has(d, needed))
        set(d, TRACE_FRONTEND_OVERHEAD, d->ns[TRACE_INFER] - d->ns[TRACE_HANDLER] - receive_ns - d->ns[TRACE_SEND]);
}

/* ---- models ---- */

static int add_model(struct trace_summary *s, int frontend, const struct triton_trace *trace,
                     struct trace_model_sum **ret)
{
    struct trace_sums *sums = &s->sums;
    size_t count = sums->model_count[frontend];
    if (count == TRACE_MODELS_MAX)
        return 0;
    if (count == s->model_capacity[frontend]) {
        size_t capacity = count ? count * 2 : 8;
        struct trace_model_sum *models = realloc(sums->models[frontend], capacity * sizeof(*models));
        if (!models)
            return -ENOMEM;
        sums->models[frontend] = models;
        s->model_capacity[frontend] = capacity;
    }
    struct trace_model_sum *m = &sums->models[frontend][count];
    *m = (struct trace_model_sum){.name_number = trace->model,
                                  .name = strings_get(s->options.names, trace->model),
                                  .version = trace->model_version,
                                  .first_file = UINT64_MAX};
    for (int span = 0; s->options.percentiles && span < TRACE_SPAN_COUNT; span++)
        if (duration_histogram_new(&m->spans[span].durations) < 0) {
            while (span-- > 0)
                duration_histogram_free(m->spans[span].durations);
            return -ENOMEM;
        }
    sums->model_count[frontend]++;
    *ret = m;
    return 1;
}

/* Returns 1; 0 if there are too many models; -ENOMEM. */
static int find_model(struct trace_summary *s, int frontend, const struct triton_trace *trace,
                      struct trace_model_sum **ret)
{
    size_t count = s->sums.model_count[frontend];
    for (size_t i = 0, at = s->last[frontend]; i < count; i++, at = at + 1 < count ? at + 1 : 0) {
        struct trace_model_sum *m = &s->sums.models[frontend][at];
        if (m->name_number == trace->model && m->version == trace->model_version) {
            s->last[frontend] = at;
            *ret = m;
            return 1;
        }
    }
    return add_model(s, frontend, trace, ret);
}

static int add_duration(struct trace_span_sum *sum, int64_t ns)
{
    sum->count++;
    sum->sum_ns += ns;
    return sum->durations ? duration_histogram_add(sum->durations, ns) : 0;
}

/* The metrics of libsonde, derived from the file. If a trace has several generations, failure and unstamped tokens
 * can be attributed to the last one only. */
static int add_generations(struct trace_summary *s, struct trace_model_sum *m, const struct triton_trace *trace)
{
    const struct triton_facts *facts = trace->facts;
    uint64_t count = trace_generation_count(trace, s->options.names), n = 0, ns;
    struct trace_generation g;
    int r = 0;
    for (uint32_t at = 0; r == 0 && trace_generation_next(trace, s->options.names, &at, &g);) {
        uint64_t tokens = trace_generation_tokens(trace, &g, count == 1);
        bool failed = ++n == count && facts->texts[TRITON_FACT_ERROR_TYPE].size > 0;
        m->generations++;
        m->generations_failed += failed;
        m->tokens[TRITON_OUTPUT_TOKENS] += tokens;
        if (!failed && trace_generation_first_token(&g, &ns) && ns <= INT64_MAX)
            r = add_duration(&m->spans[TRACE_FIRST_TOKEN], (int64_t)ns);
        if (r == 0 && !failed && trace_generation_per_token(&g, tokens, &ns) && ns <= INT64_MAX)
            r = add_duration(&m->spans[TRACE_PER_TOKEN], (int64_t)ns);
    }
    if (facts->tokens[TRITON_INPUT_TOKENS] >= 0)
        m->tokens[TRITON_INPUT_TOKENS] += (uint64_t)facts->tokens[TRITON_INPUT_TOKENS];
    return r;
}

static int add_to_model(struct trace_summary *s, int frontend, const struct triton_trace *trace,
                        const struct durations *d)
{
    struct trace_model_sum *m;
    int r = find_model(s, frontend, trace, &m);
    if (r <= 0) {
        s->sums.losses.models += r == 0;
        return r;
    }
    struct triton_text why;
    const bool cancelled = triton_facts_cancelled(trace->facts),
               failed = !cancelled && triton_facts_failed(trace->facts, &why);
    m->traces++;
    m->cancelled += cancelled;
    m->failed += failed;
    if (s->file < m->first_file || (s->file == m->first_file && trace->id < m->first_id)) {
        m->first_file = s->file;
        m->first_id = trace->id;
    }
    for (int span = 0; !cancelled && !failed && span < TRACE_SPAN_COUNT; span++) {
        if (has(d, 1u << span) && add_duration(&m->spans[span], d->ns[span]) < 0)
            return -ENOMEM;
    }
    r = trace->facts && trace->facts->has_generation ? add_generations(s, m, trace) : 0;
    return r < 0 ? r : 1;
}

/* ---- the slowest ---- */

static void swap(struct trace_slow *a, struct trace_slow *b)
{
    struct trace_slow t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(struct trace_slow *heap, size_t count)
{
    for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1].duration_ns < heap[child].duration_ns)
            child++;
        if (heap[at].duration_ns <= heap[child].duration_ns)
            return;
        swap(&heap[at], &heap[child]);
    }
}

static int keep_slow(struct trace_summary *s, const struct triton_trace *trace, const struct triton_times *t,
                     const struct durations *d)
{
    struct trace_sums *sums = &s->sums;
    struct trace_slow slow = {
        .id = trace->id,
        .duration_ns = (uint64_t)d->ns[has(d, 1u << TRACE_INFER) ? TRACE_INFER : TRACE_HANDLER],
        .start_ns = t->ns[TRITON_REQUEST_START],
        .version = trace->model_version,
        .name = strings_get(s->options.names, trace->model),
        .frontends = trace->frontends,
        .queue_ns = has(d, 1u << TRACE_QUEUE) ? d->ns[TRACE_QUEUE] : -1,
        .compute_ns = has(d, 1u << TRACE_COMPUTE) ? d->ns[TRACE_COMPUTE] : -1,
    };
    bool full = sums->slowest_count == s->options.slowest;
    if (s->options.slowest == 0 || trace->has_parent || (full && slow.duration_ns <= sums->slowest[0].duration_ns))
        return 0;
    if (trace->request_id.size) {
        slow.request_id = malloc(trace->request_id.size);
        if (!slow.request_id)
            return -ENOMEM;
        slow.request_id_size = trace->request_id.size;
        memcpy(slow.request_id, trace->request_id.at, trace->request_id.size);
    }
    if (full) {
        free(sums->slowest[0].request_id);
        sums->slowest[0] = slow;
        sift_down(sums->slowest, sums->slowest_count);
        return 0;
    }
    size_t at = sums->slowest_count++;
    sums->slowest[at] = slow;
    for (; at > 0 && sums->slowest[at].duration_ns < sums->slowest[(at - 1) / 2].duration_ns; at = (at - 1) / 2)
        swap(&sums->slowest[at], &sums->slowest[(at - 1) / 2]);
    return 0;
}

/* ---- */

int trace_summary_add(struct trace_summary *s, const struct triton_trace *trace)
{
    struct trace_summary_losses *losses = &s->sums.losses;
    struct triton_times times;
    triton_times_get(trace, &times);
    bool whole = triton_times_has(&times, TRITON_REQUEST_START, TRITON_REQUEST_END);
    if (!trace->frontends || !whole || !trace->has_model) {
        losses->no_frontend += !trace->frontends;
        losses->unfinished += trace->frontends && !whole;
        losses->unnamed += trace->frontends && whole;
        return 0;
    }
    struct durations of_model = {0}, d = {0};
    measure_model(s, &times, &of_model);
    int r = 0;
    for (int frontend = 0; frontend < TRACE_FRONTENDS && r >= 0; frontend++) {
        if (!(trace->frontends & (frontend == TRACE_HTTP ? TRITON_HTTP : TRITON_GRPC)))
            continue;
        d = of_model;
        measure_frontend(s, &times, frontend, &d);
        r = add_to_model(s, frontend, trace, &d);
    }
    if (r > 0 && has(&d, 1u << TRACE_HANDLER) && keep_slow(s, trace, &times, &d) < 0)
        return -ENOMEM;
    return r;
}

static int by_first_id(const void *a, const void *b)
{
    const struct trace_model_sum *x = a, *y = b;
    if (x->first_file != y->first_file)
        return x->first_file < y->first_file ? -1 : 1;
    return x->first_id < y->first_id ? -1 : x->first_id > y->first_id;
}

static int by_duration(const void *a, const void *b)
{
    const struct trace_slow *x = a, *y = b;
    if (x->duration_ns != y->duration_ns)
        return x->duration_ns > y->duration_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

struct trace_sums *trace_summary_finish(struct trace_summary *s)
{
    for (int frontend = 0; frontend < TRACE_FRONTENDS; frontend++)
        if (s->sums.model_count[frontend])
            qsort(s->sums.models[frontend], s->sums.model_count[frontend], sizeof(*s->sums.models[frontend]),
                  by_first_id);
    if (s->sums.slowest_count)
        qsort(s->sums.slowest, s->sums.slowest_count, sizeof(*s->sums.slowest), by_duration);
    return &s->sums;
}
