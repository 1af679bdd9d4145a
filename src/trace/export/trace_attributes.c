/* OpenTelemetry attributes of a model's span; see trace_attributes.h. */
#include "trace/export/trace_attributes.h"

#include "trace/export/trace_format.h"

#include <string.h>

struct list {
    struct trace_attribute *at;
    size_t count;
};

static void add_attribute(struct list *list, const char *key, enum trace_attribute_kind kind, struct triton_text text,
                          int64_t integer)
{
    list->at[list->count++] = (struct trace_attribute){key, kind, text, integer};
}

static void add_text(struct list *list, const char *key, const char *text)
{
    add_attribute(list, key, TRACE_ATTRIBUTE_TEXT, (struct triton_text){text, strlen(text)}, 0);
}

static void add_integer(struct list *list, const char *key, int64_t integer)
{
    add_attribute(list, key, TRACE_ATTRIBUTE_INTEGER, (struct triton_text){0}, integer);
}

/* A file has a provider only if it differs from the service assumed for every file (TRACE_SERVICE_NAME). */
static void add_generation(struct list *list, const struct triton_facts *facts, const char *model)
{
    for (int i = TRITON_FACT_GENERATION; i < TRITON_FACT_COUNT; i++) {
        const struct triton_fact_kind *kind = &triton_fact_kinds[i];
        if (facts->texts[i].at)
            add_attribute(list, kind->attribute, kind->is_list ? TRACE_ATTRIBUTE_TEXTS : TRACE_ATTRIBUTE_TEXT,
                          facts->texts[i], 0);
        else if (i == TRITON_FACT_PROVIDER)
            add_text(list, kind->attribute, TRACE_SERVICE_NAME);
    }
    add_text(list, "gen_ai.request.model", model);
    for (int i = 0; i < TRITON_TOKEN_COUNTS; i++)
        if (facts->tokens[i] >= 0)
            add_integer(list, triton_token_kinds[i].attribute, facts->tokens[i]);
}

size_t trace_attributes_of_span(const struct trace_span_record *span, struct trace_attribute ret[TRACE_ATTRIBUTES_MAX])
{
    const struct triton_trace *t = span->trace;
    struct list list = {ret, 0};
    if (!t)
        return 0;
    add_text(&list, "triton.model_name", span->model);
    add_integer(&list, "triton.model_version", t->model_version);
    add_integer(&list, "triton.trace_id", (int64_t)t->id); /* OTLP has no unsigned integers; Triton casts, too */
    add_integer(&list, "triton.trace_parent_id", (int64_t)t->parent_id);
    if (t->request_id.size)
        add_attribute(&list, "triton.request_id", TRACE_ATTRIBUTE_TEXT, t->request_id, 0);
    if (triton_facts_cancelled(t->facts))
        add_attribute(&list, "triton.cancelled", TRACE_ATTRIBUTE_TRUE, (struct triton_text){0}, 0);
    if (t->facts && t->facts->has_generation)
        add_generation(&list, t->facts, span->model);
    return list.count;
}

struct trace_attribute trace_attribute_of_event(const struct span_event *event)
{
    return (struct trace_attribute){"tokens", TRACE_ATTRIBUTE_INTEGER, {0}, event->tokens};
}
