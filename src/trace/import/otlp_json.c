/* Reads spans from OTLP/JSON; see otlp_file.h. */
#include "trace/import/otlp_file.h"

#include "base/hex.h"
#include "lib/otlp/fields.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static void json_freep(json_t **j)
{
    json_decref(*j);
}

/* OTLP writes 64-bit numbers as strings, and accepts both. */
static uint64_t number_of(const json_t *j)
{
    if (json_is_integer(j))
        return (uint64_t)json_integer_value(j);
    const char *text = json_string_value(j);
    return !text ? 0 : *text == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
}

static void take_id(const json_t *j, uint8_t *to, size_t size)
{
    const char *text = json_string_value(j);
    if (!text || strlen(text) != 2 * size)
        return;
    for (size_t i = 0; i < size; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        to[i] = high < 0 || low < 0 ? 0 : (uint8_t)(high << 4 | low);
    }
}

static void read_attribute(const json_t *attribute, struct otlp_spans *spans)
{
    const json_t *key = json_object_get(attribute, "key"), *value = json_object_get(attribute, "value");
    const json_t *text = json_object_get(value, "stringValue"), *integer = json_object_get(value, "intValue");
    if (!text)
        text = json_object_get(json_array_get(json_object_get(json_object_get(value, "arrayValue"), "values"), 0),
                               "stringValue");
    if (json_is_string(key) && json_is_string(text))
        otlp_spans_set_text(spans, json_string_value(key), json_string_length(key), json_string_value(text),
                            json_string_length(text));
    else if (json_is_string(key) && integer)
        otlp_spans_set_integer(spans, json_string_value(key), json_string_length(key), (int64_t)number_of(integer));
    else if (json_is_string(key) && json_is_true(json_object_get(value, "boolValue")))
        otlp_spans_set_true(spans, json_string_value(key), json_string_length(key));
}

static uint64_t tokens_of(const json_t *event)
{
    const json_t *attribute;
    uint64_t tokens = 0;
    size_t i;
    json_array_foreach(json_object_get(event, "attributes"), i, attribute)
    {
        const char *key = json_string_value(json_object_get(attribute, "key"));
        if (key && strcmp(key, "tokens") == 0)
            tokens = number_of(json_object_get(json_object_get(attribute, "value"), "intValue"));
    }
    return tokens;
}

/* A code is a number, or the enum name of the protobuf JSON mapping. */
static void read_status(const json_t *status, struct otlp_spans *spans)
{
    const json_t *code = json_object_get(status, "code"), *message = json_object_get(status, "message");
    const char *name = json_string_value(code), *text = json_string_value(message);
    if ((json_is_integer(code) && json_integer_value(code) == STATUS_CODE_ERROR) ||
        (name && strcmp(name, "STATUS_CODE_ERROR") == 0))
        otlp_spans_set_failed(spans, text ? text : "", json_string_length(message));
}

static int read_span(const json_t *from, struct otlp_spans *spans)
{
    struct otlp_span *span = otlp_spans_add(spans);
    const json_t *name = json_object_get(from, "name"), *item;
    size_t i;
    if (!span)
        return -ENOMEM;
    take_id(json_object_get(from, "traceId"), span->trace_id, sizeof(span->trace_id));
    take_id(json_object_get(from, "spanId"), span->span_id, sizeof(span->span_id));
    take_id(json_object_get(from, "parentSpanId"), span->parent_span_id, sizeof(span->parent_span_id));
    if (json_is_string(name))
        span->name = strings_add_n(spans->texts, json_string_value(name), json_string_length(name));
    span->start_unix_ns = number_of(json_object_get(from, "startTimeUnixNano"));
    span->end_unix_ns = number_of(json_object_get(from, "endTimeUnixNano"));
    span->dropped_events = (uint32_t)number_of(json_object_get(from, "droppedEventsCount"));
    read_status(json_object_get(from, "status"), spans);
    json_array_foreach(json_object_get(from, "attributes"), i, item) read_attribute(item, spans);
    json_array_foreach(json_object_get(from, "events"), i, item)
    {
        const json_t *event = json_object_get(item, "name");
        if (json_is_string(event) &&
            otlp_spans_add_event(spans, json_string_value(event), json_string_length(event),
                                 number_of(json_object_get(item, "timeUnixNano")), tokens_of(item)) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int read_object(const json_t *object, struct otlp_spans *spans)
{
    const json_t *resource, *scope, *span;
    size_t i, j, k;
    int r = 0;
    json_array_foreach(json_object_get(object, "resourceSpans"), i, resource)
        json_array_foreach(json_object_get(resource, "scopeSpans"), j, scope)
            json_array_foreach(json_object_get(scope, "spans"), k, span) if (r == 0) r = read_span(span, spans);
    return r;
}

int otlp_json_read(const char *data, size_t size, struct otlp_spans *spans, size_t *ret_offset)
{
    for (size_t at = 0;;) {
        json_error_t error;
        while (at < size && strchr(" \t\r\n", data[at]) && data[at])
            at++;
        *ret_offset = at;
        if (at == size)
            return 0;
        _cleanup_(json_freep) json_t *object =
            json_loadb(data + at, size - at, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);
        if (!object || !json_is_object(object))
            return -EBADMSG;
        int r = read_object(object, spans);
        if (r < 0)
            return r;
        at += (size_t)error.position; /* length of the parsed object, on success */
    }
}
