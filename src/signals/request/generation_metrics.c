/* See generation_metrics.h. */
#include "signals/request/generation_metrics.h"

#include "base/utf8.h"
#include "diagnose/route.h"
#include "model/request_stream.h"

#include <linux/types.h>

#include "probes/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER      "other"
#define BOUNDS_MAX 16

/* The bounds of the conventions. */
static const double duration_bounds[] = {0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                         1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
static const double first_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                      0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10};
static const double step_bounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5};

struct histogram {
    uint64_t counts[BOUNDS_MAX + 1];
    uint64_t count, sum_ns;
};

struct series {
    char service[64], model[REQUEST_MODEL_BYTES], route[ROUTE_MAX];
    const char *operation, *provider;
    uint16_t error; /* status; 0: none */
    struct histogram duration, first, step;
};

struct generation_metrics {
    struct series *series[GENERATION_SERIES_MAX + 1]; /* the last one: all others */
    size_t count;
};

int generation_metrics_new(struct generation_metrics **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

void generation_metrics_free(struct generation_metrics *m)
{
    for (size_t i = 0; m && i < m->count; i++)
        free(m->series[i]);
    free(m);
}

/* ---- what a record is of ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

/* The operation in the conventions; NULL: no generation. */
static const char *operation_of(const struct route *route, const struct request_stream_record *record)
{
    static const struct {
        const char *route, *operation;
    } known[] = {{"/chat/completions", "chat"},
                 {"/completions", "text_completion"},
                 {"/responses", "chat"},
                 {"/messages", "chat"},
                 {"/embeddings", "embeddings"}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && strcmp(route->method, "POST") == 0; i++)
        if (strncmp(route->path, "/v1/", 4) == 0 && ends_with(route->path, known[i].route))
            return known[i].operation;
    return record->tokens ? "text_completion" : NULL;
}

/* The engine, by the name of its service or program. */
static const char *provider_of(const char *service, const char *comm)
{
    static const char *const known[][2] = {{"vllm", "vllm"},           {"sglang", "sglang"},   {"triton", "triton"},
                                           {"text-generation", "tgi"}, {"llama", "llama.cpp"}, {"ollama", "ollama"}};
    const char *found = "_OTHER";
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcasestr(service, known[i][0]) || strcasestr(comm, known[i][0]))
            found = known[i][1];
    return found;
}

/* ---- series ---- */

static bool is_same(const struct series *a, const struct series *b)
{
    return a->error == b->error && strcmp(a->service, b->service) == 0 && strcmp(a->model, b->model) == 0 &&
           strcmp(a->operation, b->operation) == 0 && strcmp(a->route, b->route) == 0;
}

static struct series *find_series(const struct generation_metrics *m, const struct series *wanted)
{
    for (size_t i = 0; i < m->count; i++)
        if (is_same(m->series[i], wanted))
            return m->series[i];
    return NULL;
}

static bool is_known_model(const struct generation_metrics *m, const struct series *wanted)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->series[i]->service, wanted->service) == 0 && strcmp(m->series[i]->model, wanted->model) == 0)
            return true;
    return false;
}

static struct series *find_or_add_series(struct generation_metrics *m, struct series *wanted)
{
    if (wanted->error && !is_known_model(m, wanted))
        wanted->model[0] = '\0';
    struct series *found = find_series(m, wanted);
    if (found)
        return found;
    if (m->count >= GENERATION_SERIES_MAX) {
        *wanted = (struct series){
            .service = OTHER, .model = OTHER, .route = OTHER, .operation = "text_completion", .provider = "_OTHER"};
        found = find_series(m, wanted);
        if (found)
            return found;
    }
    found = malloc(sizeof(*found));
    if (!found)
        return NULL;
    *found = *wanted;
    m->series[m->count++] = found;
    return found;
}

static void observe(struct histogram *h, const double *bounds, size_t bound_count, uint64_t ns)
{
    size_t bucket = 0;
    while (bucket < bound_count && (double)ns / 1e9 > bounds[bucket])
        bucket++;
    h->counts[bucket]++;
    h->count++;
    h->sum_ns += ns;
}

static struct request_stream stream_of(const struct request_stream_record *r)
{
    return (struct request_stream){.is_stream = r->flags & REQUEST_STREAM_EVENTS,
                                   .is_late = r->flags & REQUEST_STREAM_LATE,
                                   .is_incomplete = r->flags & REQUEST_STREAM_UNREAD,
                                   .first_ns = r->first_ns,
                                   .last_ns = r->last_ns,
                                   .chunks = r->chunks,
                                   .tokens = r->tokens,
                                   .usage = r->usage};
}

/* As far as it is a printable text: it may be cut within a character. */
static void copy_name(const char *name, char out[REQUEST_MODEL_BYTES])
{
    size_t used = 0;
    for (size_t bytes; name[used] && (bytes = utf8_length(name + used)) && !utf8_at_control(name + used); used += bytes)
        memcpy(out + used, name + used, bytes);
    out[used] = '\0';
}

void generation_metrics_record(struct generation_metrics *m, const char *service,
                               const struct request_stream_record *record)
{
    struct route route = {0};
    if (!(record->flags & REQUEST_STREAM_ENDED) || !route_parse(record->line, record->line_bytes, true, &route))
        return;
    struct series wanted = {.operation = operation_of(&route, record),
                            .provider = provider_of(service, record->comm),
                            .error = record->status >= 400 ? record->status : 0};
    if (!wanted.operation)
        return;
    snprintf(wanted.service, sizeof(wanted.service), "%s", service);
    snprintf(wanted.route, sizeof(wanted.route), "%s", route.path);
    copy_name(record->model, wanted.model);
    struct series *series = find_or_add_series(m, &wanted);
    if (!series)
        return;
    const struct request_stream stream = stream_of(record);
    const uint64_t step_ns = request_stream_step_ns(&stream);
    observe(&series->duration, duration_bounds, array_size(duration_bounds), record->duration_ns);
    if (!stream.tokens || stream.is_late)
        return;
    observe(&series->first, first_bounds, array_size(first_bounds), stream.first_ns);
    if (step_ns && (!stream.is_incomplete || stream.usage))
        observe(&series->step, step_bounds, array_size(step_bounds), step_ns);
}

/* ---- output ---- */

static void write_histogram(struct metric_set *set, const char *name, const char *help, const struct series *s,
                            const struct histogram *h, const double *bounds, size_t bound_count)
{
    struct metric_label labels[6] = {{"service_name", s->service},
                                     {"gen_ai_operation_name", s->operation},
                                     {"gen_ai_provider_name", s->provider},
                                     {"http_route", s->route}};
    size_t count = 4;
    char error[8];
    if (!h->count)
        return;
    if (s->model[0])
        labels[count++] = (struct metric_label){"gen_ai_request_model", s->model};
    if (s->error) {
        snprintf(error, sizeof(error), "%u", s->error);
        labels[count++] = (struct metric_label){"error_type", error};
    }
    metric_add_histogram(set, name, "seconds", help, bounds, h->counts, bound_count, (double)h->sum_ns / 1e9, labels,
                         count);
}

void generation_metrics_write(const struct generation_metrics *m, struct metric_set *set)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct series *s = m->series[i];
        write_histogram(set, "gen_ai_server_request_duration_seconds",
                        "Generations by model servers, from the first byte of the request to the last of the reply.", s,
                        &s->duration, duration_bounds, array_size(duration_bounds));
        write_histogram(set, "gen_ai_server_time_to_first_token_seconds",
                        "From the first byte of a request, at the socket, to the event with the first token.", s,
                        &s->first, first_bounds, array_size(first_bounds));
        write_histogram(set, "gen_ai_server_time_per_output_token_seconds",
                        "Mean time between the tokens of a stream, after the first one.", s, &s->step, step_bounds,
                        array_size(step_bounds));
    }
}
