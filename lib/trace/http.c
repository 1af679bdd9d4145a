/* The trace protocol over HTTP: (method, path, body) -> (status, JSON). */
#include "../export.h"
#include "json.h"
#include "protocol.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_BYTES_MAX 1024

/* 0: global; 1: the model in `model`; -ENOENT. */
static int parse_path(const char *path, char *model)
{
    static const char models[] = "/v2/models/", versions[] = "/versions/", end[] = "/trace/setting";
    if (strcmp(path, "/v2/trace/setting") == 0)
        return 0;
    if (strncmp(path, models, sizeof(models) - 1) != 0)
        return -ENOENT;
    const char *name = path + sizeof(models) - 1;
    size_t size = strcspn(name, "/");
    const char *rest = name + size;
    if (size == 0 || size > MODEL_BYTES_MAX)
        return -ENOENT;
    if (strncmp(rest, versions, sizeof(versions) - 1) == 0) {
        rest += sizeof(versions) - 1;
        size_t digits = strspn(rest, "0123456789");
        if (digits == 0)
            return -ENOENT;
        rest += digits;
    }
    if (strcmp(rest, end) != 0)
        return -ENOENT;
    memcpy(model, name, size);
    model[size] = '\0';
    return 1;
}

static int refuse(struct trace_reason *reason, const char *text)
{
    reason->grpc_code = 3;
    snprintf(reason->text, sizeof(reason->text), "%s", text);
    return -EINVAL;
}

/* Requires a string without NUL, as numbers and levels are. */
static int as_string(const struct json_value *v, struct trace_reason *reason)
{
    if (v->type != JSON_STRING)
        return refuse(reason, "attempt to access JSON non-string as string");
    return memchr(v->text, '\0', v->text_size) ? refuse(reason, "a string holds a NUL") : 0;
}

static int read_levels(const struct json_value *values, const struct json_value *array, struct trace_update *u,
                       struct trace_reason *reason)
{
    if (array->type != JSON_ARRAY)
        return refuse(reason, "attempt to access JSON non-array as array");
    u->set |= TRACE_LEVEL; /* an empty list is OFF */
    uint32_t at = (uint32_t)(array - values) + 1;
    for (uint32_t i = 0; i < array->child_count; i++, at = values[at].next) {
        int r = as_string(&values[at], reason);
        if (r == 0)
            r = trace_update_level(u, values[at].text, array->child_count, reason);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_member(const struct json_value *values, const struct json_value *member, struct trace_update *u,
                       struct trace_reason *reason)
{
    if (memchr(member->name, '\0', member->name_size))
        return refuse(reason, "a name holds a NUL");
    enum trace_field field = trace_field_named(member->name, reason);
    if (!field)
        return -EINVAL;
    if (member->type == JSON_NULL) {
        u->clear |= field;
        return 0;
    }
    if (field == TRACE_LEVEL)
        return read_levels(values, member, u, reason);
    int r = as_string(member, reason);
    return r < 0 ? r : trace_update_number(u, field, member->text, TRACE_FORM_HTTP, reason);
}

static int read_body(const char *body, size_t size, struct trace_update *u, struct trace_reason *reason)
{
    struct json *json = NULL;
    const char *why = "";
    size_t offset = 0;
    int r = json_read(body, size, &json, &why, &offset);
    if (r == -ENOMEM) {
        refuse(reason, "out of memory");
        reason->grpc_code = 8;
        return r;
    }
    if (r < 0) {
        reason->grpc_code = 3;
        snprintf(reason->text, sizeof(reason->text), "failed to parse the request JSON buffer: %s at %zu", why, offset);
        return -EINVAL;
    }
    const struct json_value *values = json_values(json);
    if (values[0].type != JSON_OBJECT)
        r = refuse(reason, "attempt to access JSON non-object as object");
    uint32_t at = 1;
    for (uint32_t i = 0; r == 0 && i < values[0].child_count; i++, at = values[at].next)
        r = read_member(values, &values[at], u, reason);
    json_free(json);
    return r;
}

static void put_member(void *argument, const char *name, const char *const *texts, size_t count)
{
    struct trace_text *out = argument;
    bool list = strcmp(name, "trace_level") == 0;
    trace_text_puts(out, out->size > 1 ? ",\"" : "\"");
    trace_text_puts(out, name);
    trace_text_puts(out, list ? "\":[" : "\":");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            trace_text_putc(out, ',');
        trace_text_put_json(out, texts[i], strlen(texts[i]));
    }
    if (list)
        trace_text_putc(out, ']');
}

static unsigned status_of(const struct trace_reason *reason)
{
    return reason->grpc_code == 12 ? 501 : reason->grpc_code == 8 ? 500 : 400;
}

static unsigned answer(struct sonde_trace_manager *m, const char *method, const char *model, const char *body,
                       size_t body_size, struct trace_text *out)
{
    struct trace_update update = {0};
    struct trace_values values;
    struct trace_reason reason;
    unsigned status = 200;
    bool get = strcmp(method, "GET") == 0, post = strcmp(method, "POST") == 0;
    bool changes = post && body_size > 0; /* an empty body is allowed and changes nothing */
    if (!get && !post) {
        status = 405;
        snprintf(reason.text, sizeof(reason.text), "Method Not Allowed");
    } else if (trace_apply(m, model, NULL, &values, &reason) < 0 || /* first check that the model exists */
               (changes && (read_body(body, body_size, &update, &reason) < 0 ||
                            trace_apply(m, model, &update, &values, &reason) < 0))) {
        status = status_of(&reason);
    }
    trace_text_putc(out, '{');
    if (status == 200) {
        trace_show(m, &values, put_member, out);
    } else {
        trace_text_puts(out, "\"error\":");
        trace_text_put_json(out, reason.text, strlen(reason.text));
    }
    trace_text_putc(out, '}');
    return status;
}

SONDE_EXPORT int sonde_trace_http(struct sonde_trace_manager *m, const char *method, const char *path, const char *body,
                                  size_t body_size, unsigned *ret_status, char **ret_body)
{
    char model[MODEL_BYTES_MAX + 1];
    int r = parse_path(path, model);
    if (r < 0)
        return r;
    struct trace_text out = {0};
    unsigned status = answer(m, method, r == 1 ? model : NULL, body, body_size, &out);
    char *text = trace_text_take(&out);
    if (!text)
        return -ENOMEM;
    *ret_status = status;
    *ret_body = text;
    return 0;
}

SONDE_EXPORT void sonde_trace_free(void *text)
{
    free(text);
}
