/* Token generation. The caller's struct holds the counters, so that an untraced request costs no memory; at the end
 * they are added to the metrics, and the details to the trace. */
#include "../export.h"
#include "manager.h"
#include "process_generation.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 1024
#define WORD_BYTES_MAX 64 /* of metric label values */

static const char start_name[] = "GENERATION_START", end_name[] = "GENERATION_END";

static bool is_ours(const struct sonde_trace_generation *g)
{
    return g->manager && g->process == trace_generation_now();
}

SONDE_EXPORT void sonde_trace_generation_begin(struct sonde_trace_generation *g, struct sonde_trace_model *model,
                                               struct sonde_trace *trace, const char *operation)
{
    *g = (struct sonde_trace_generation){.trace = trace};
    if (!model)
        return;
    g->manager = model->manager;
    g->model = model->entry->name;
    g->process = trace_generation_now();
    atomic_fetch_add_explicit(&g->manager->refs, 1, memory_order_relaxed);
    strncat(g->operation, operation && *operation ? operation : "text_completion", sizeof(g->operation) - 1);
    g->begin_ns = sonde_trace_now_ns();
    sonde_trace_custom_at(trace, start_name, g->begin_ns);
}

/* In a child, generations of the parent are not counted. */
SONDE_EXPORT void sonde_trace_generation_tokens(struct sonde_trace_generation *g, uint32_t count)
{
    bool is_first = g->tokens == 0;
    g->tokens += count;
    if (!is_first && !g->trace)
        return;
    if (count == 0 || !g->manager)
        return;
    uint64_t now_ns = sonde_trace_now_ns();
    if (is_first)
        g->first_ns = now_ns;
    if (g->trace)
        trace_put_tokens(g->trace, is_first, count, now_ns);
}

/* --- the end --------------------------------------------------------------------------------- */

/* Copies the caller's struct, as far as its version goes. */
static struct sonde_trace_generation_result take_result(const struct sonde_trace_generation *g,
                                                        const struct sonde_trace_generation_result *given)
{
    struct sonde_trace_generation_result result = {.input_tokens = -1, .output_tokens = -1};
    if (given)
        memcpy(&result, given, given->size < sizeof(result) ? given->size : sizeof(result));
    if (result.output_tokens < 0)
        result.output_tokens = g->tokens > 0 ? (int64_t)g->tokens : -1;
    return result;
}

struct word {
    char text[WORD_BYTES_MAX + 1];
};

static const char *cut_word(struct word *word, const char *text)
{
    word->text[0] = '\0';
    return text ? strncat(word->text, text, WORD_BYTES_MAX) : word->text;
}

/* Times to tokens count only successful generations, as the metrics' definitions say. */
static void count_generation(const struct sonde_trace_generation *g, const struct sonde_trace_generation_result *result,
                             uint64_t end_ns)
{
    struct word finish_reason, error_type;
    const struct trace_series_key key = {g->model, g->operation, cut_word(&finish_reason, result->finish_reason),
                                         cut_word(&error_type, result->error_type)};
    uint64_t values[TRACE_METRICS] = {[TRACE_REQUEST_DURATION] = end_ns - g->begin_ns,
                                      [TRACE_TIME_TO_FIRST_TOKEN] = TRACE_NO_VALUE,
                                      [TRACE_TIME_PER_OUTPUT_TOKEN] = TRACE_NO_VALUE,
                                      [TRACE_INPUT_TOKENS] = TRACE_NO_VALUE,
                                      [TRACE_OUTPUT_TOKENS] = TRACE_NO_VALUE};
    if (g->tokens > 0 && !*key.error_type) {
        values[TRACE_TIME_TO_FIRST_TOKEN] = g->first_ns - g->begin_ns;
        if (result->output_tokens > 1)
            values[TRACE_TIME_PER_OUTPUT_TOKEN] = (end_ns - g->first_ns) / (uint64_t)(result->output_tokens - 1);
    }
    if (result->input_tokens >= 0)
        values[TRACE_INPUT_TOKENS] = (uint64_t)result->input_tokens;
    if (result->output_tokens >= 0)
        values[TRACE_OUTPUT_TOKENS] = (uint64_t)result->output_tokens;
    trace_metrics_count(&g->manager->metrics, &key, values);
    if (!trace_metrics_exporter_is_started(&g->manager->exporter))
        trace_metrics_exporter_start(&g->manager->exporter);
}

/* Appends a copy of `text` at *at; NULL for NULL or "". */
static const char *copy_text(char **at, const char *text)
{
    if (!text || !*text)
        return NULL;
    char *begin = *at;
    size_t size = strnlen(text, TEXT_BYTES_MAX);
    memcpy(begin, text, size);
    begin[size] = '\0';
    *at += size + 1;
    return begin;
}

static size_t size_of(const char *text)
{
    return text ? strnlen(text, TEXT_BYTES_MAX) + 1 : 0;
}

static void end_in_trace(const struct sonde_trace_generation *g, const struct sonde_trace_generation_result *result,
                         uint64_t end_ns)
{
    struct trace_generation_facts *facts;
    size_t size = sizeof(*facts) + size_of(result->response_id) + size_of(result->response_model) +
                  size_of(result->finish_reason) + size_of(result->error_type);
    sonde_trace_custom_at(g->trace, end_name, end_ns);
    facts = malloc(size);
    if (facts) {
        char *at = (char *)(facts + 1);
        memcpy(facts->operation, g->operation, sizeof(facts->operation));
        facts->response_id = copy_text(&at, result->response_id);
        facts->response_model = copy_text(&at, result->response_model);
        facts->finish_reason = copy_text(&at, result->finish_reason);
        facts->error_type = copy_text(&at, result->error_type);
        facts->input_tokens = result->input_tokens;
        facts->output_tokens = result->output_tokens;
    }
    trace_take_generation(g->trace, facts, size);
}

SONDE_EXPORT void sonde_trace_generation_end(struct sonde_trace_generation *g,
                                             const struct sonde_trace_generation_result *given)
{
    if (!is_ours(g))
        return;
    uint64_t end_ns = sonde_trace_now_ns();
    struct sonde_trace_generation_result result = take_result(g, given);
    count_generation(g, &result, end_ns);
    if (g->trace)
        end_in_trace(g, &result, end_ns);
    struct sonde_trace_manager *m = g->manager;
    g->manager = NULL; /* a second end does nothing */
    trace_manager_unref(m);
}

SONDE_EXPORT void sonde_trace_generation_drop(struct sonde_trace_generation *g)
{
    if (is_ours(g))
        trace_manager_unref(g->manager);
    g->manager = NULL;
    g->trace = NULL;
}
