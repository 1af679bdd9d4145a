/* See partial_success_json.h. Untrusted bytes, parsed strictly (json.h); unknown content is ignored. */
#include "partial_success_json.h"

#include "config.h"
#include "json.h"

#include <string.h>

static const struct json_value *find_member(const struct json_value *all, const struct json_value *object,
                                            const char *name)
{
    uint32_t at = (uint32_t)(object - all) + 1;
    for (uint32_t i = 0; object->type == JSON_OBJECT && i < object->child_count; i++, at = all[at].next)
        if (all[at].name_size == strlen(name) && memcmp(all[at].name, name, strlen(name)) == 0)
            return &all[at];
    return NULL;
}

/* A number, or a string of one, as the JSON mapping of protobuf writes 64-bit integers. */
static uint64_t count_of(const struct json_value *v)
{
    char text[24];
    int64_t number;
    if (!v || (v->type != JSON_NUMBER && v->type != JSON_STRING) || v->text_size >= sizeof(text))
        return 0;
    memcpy(text, v->text, v->text_size);
    text[v->text_size] = '\0';
    return trace_parse_integer(text, 0, INT64_MAX / 20, &number) == 0 ? (uint64_t)number : 0;
}

uint64_t trace_partial_success_json(const char *body, size_t size, char ret_why[OTLP_PARTIAL_WHY_SIZE])
{
    struct json *json;
    const char *reason;
    size_t offset;
    *ret_why = '\0';
    if (!body || size == 0)
        return 0;
    if (json_read(body, size, &json, &reason, &offset) < 0)
        return 0;
    const struct json_value *all = json_values(json), *partial = find_member(all, all, "partialSuccess");
    uint64_t rejected = 0;
    if (partial) {
        const struct json_value *message = find_member(all, partial, "errorMessage");
        rejected = count_of(find_member(all, partial, "rejectedSpans")) +
                   count_of(find_member(all, partial, "rejectedDataPoints"));
        if (message && message->type == JSON_STRING)
            otlp_keep_words(ret_why, message->text, message->text_size);
    }
    json_free(json);
    return rejected;
}
