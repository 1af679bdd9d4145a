/* Spans read from an OpenTelemetry file; see otlp_spans.h. */
#include "trace/model/otlp_spans.h"

#include <errno.h>
#include <string.h>

int otlp_spans_init(struct otlp_spans *s)
{
    *s = (struct otlp_spans){0};
    int r = strings_new(&s->texts);
    if (r == 0)
        strings_set_max_bytes(s->texts, OTLP_NAMES_MAX_BYTES);
    return r;
}

void otlp_spans_clear(struct otlp_spans *s)
{
    strings_free(s->texts);
    free(s->spans);
    free(s->events);
    *s = (struct otlp_spans){0};
}

static int grow(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return 0;
    size_t larger = *capacity ? *capacity * 2 : 256;
    void *grown = realloc(*(void **)array, larger * size);
    if (!grown)
        return -ENOMEM;
    *(void **)array = grown;
    *capacity = larger;
    return 0;
}

struct otlp_span *otlp_spans_add(struct otlp_spans *s)
{
    if (s->count == OTLP_SPANS_MAX || grow(&s->spans, &s->capacity, s->count, sizeof(*s->spans)) < 0)
        return NULL;
    struct otlp_span *span = &s->spans[s->count++];
    *span = (struct otlp_span){.first_event = (uint32_t)s->event_count, .tokens = {-1, -1}};
    return span;
}

int otlp_spans_add_event(struct otlp_spans *s, const char *name, size_t size, uint64_t time_unix_ns, uint64_t tokens)
{
    if (s->event_count == UINT32_MAX || grow(&s->events, &s->event_capacity, s->event_count, sizeof(*s->events)) < 0)
        return -ENOMEM;
    s->events[s->event_count++] = (struct otlp_event){time_unix_ns, strings_add_n(s->texts, name, size),
                                                      tokens <= UINT32_MAX ? (uint32_t)tokens : 0};
    s->spans[s->count - 1].event_count++;
    return 0;
}

static bool key_equals(const char *key, size_t size, const char *other)
{
    return strlen(other) == size && memcmp(key, other, size) == 0;
}

void otlp_spans_set_text(struct otlp_spans *s, const char *key, size_t key_size, const char *text, size_t size)
{
    struct otlp_span *span = &s->spans[s->count - 1];
    if (key_equals(key, key_size, "triton.model_name"))
        span->model_name = strings_add_n(s->texts, text, size);
    else if (key_equals(key, key_size, "triton.request_id"))
        span->request_id = strings_add_n(s->texts, text, size);
    enum triton_fact fact = triton_fact_find_attribute((struct triton_text){key, key_size});
    if (fact == TRITON_FACT_COUNT)
        return;
    span->facts[fact] = strings_add_n(s->texts, text, size);
}

void otlp_spans_set_integer(struct otlp_spans *s, const char *key, size_t key_size, int64_t value)
{
    struct otlp_span *span = &s->spans[s->count - 1];
    if (key_equals(key, key_size, "triton.model_version")) {
        span->model_version = value;
    } else if (key_equals(key, key_size, "triton.trace_id")) {
        span->triton_id = value;
        span->has_triton_id = true;
    } else if (key_equals(key, key_size, "triton.trace_parent_id")) {
        span->triton_parent_id = value;
    }
    enum triton_token_count count = triton_token_count_find_attribute((struct triton_text){key, key_size});
    if (count != TRITON_TOKEN_COUNTS)
        span->tokens[count] = value;
}

void otlp_spans_set_true(struct otlp_spans *s, const char *key, size_t key_size)
{
    if (key_equals(key, key_size, "triton.cancelled"))
        s->spans[s->count - 1].was_cancelled = true;
}

void otlp_spans_set_failed(struct otlp_spans *s, const char *message, size_t size)
{
    struct otlp_span *span = &s->spans[s->count - 1];
    span->has_failed = true;
    span->message = strings_add_n(s->texts, message, size);
}
