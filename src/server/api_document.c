/* The OpenAPI document; see api_document.h. */
#include "server/api_document.h"

#include <inttypes.h>
#include <string.h>

#define MOMENT_SCHEMA "{\"type\":\"string\",\"format\":\"date-time\"}"

/* Appends `,"name":"text"`. */
static void put_text(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    buf_put_json_string(out, text);
}

/* ---- parameters ---- */

static void put_choices(struct buf *out, const char *choices)
{
    const char *separator = "\"enum\":[";
    for (const char *at = choices;; at++) {
        const size_t size = strcspn(at, "|");
        buf_printf(out, "%s\"%.*s\"", separator, (int)size, at);
        separator = ",";
        at += size;
        if (!*at)
            break;
    }
    buf_putc(out, ']');
}

static void put_parameter_schema(struct buf *out, const struct api_parameter *p)
{
    switch (p->type) {
    case API_TEXT:
        buf_printf(out, "{\"type\":\"string\",\"minLength\":1,\"maxLength\":%d", API_TEXT_BYTES - 1);
        break;
    case API_CHOICE:
        buf_puts(out, "{\"type\":\"string\",");
        put_choices(out, p->choices);
        break;
    case API_TRACE_ID:
        buf_puts(out, "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{32}$\"");
        break;
    case API_LIMIT:
        buf_printf(out, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":%" PRIu64, p->max);
        break;
    case API_DURATION:
        buf_puts(out, "{\"type\":\"string\",\"pattern\":\"^[0-9][0-9.]* *(ns|us|ms|s|m|min|h)?$\"");
        break;
    case API_TIME:
        buf_puts(out, "{\"type\":\"string\",\"format\":\"date-time\"");
        break;
    }
    if (p->initial)
        buf_printf(out, p->type == API_LIMIT ? ",\"default\":%s" : ",\"default\":\"%s\"", p->initial);
    buf_putc(out, '}');
}

static void put_parameters(struct buf *out, const struct api_endpoint *e)
{
    buf_puts(out, ",\"parameters\":[");
    for (const struct api_parameter *p = e->parameters; p && p->name; p++) {
        const bool is_in_path = p->type == API_TRACE_ID;
        buf_printf(out, "%s{\"name\":\"%s\",\"in\":\"%s\",\"required\":%s", p == e->parameters ? "" : ",", p->name,
                   is_in_path ? "path" : "query", is_in_path ? "true" : "false");
        put_text(out, "description", p->description);
        buf_puts(out, ",\"schema\":");
        put_parameter_schema(out, p);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

/* ---- answers ---- */

static const char *schema_of(const struct api_column *c)
{
    switch (c->type) {
    case API_STRING:
        return "\"type\":\"string\"";
    case API_MOMENT:
        return "\"type\":\"string\",\"format\":\"date-time\"";
    case API_INTEGER:
        return "\"type\":\"integer\"";
    case API_NUMBER:
        return "\"type\":[\"number\",\"null\"]";
    case API_BOOLEAN:
        return c->is_nullable ? "\"type\":[\"boolean\",\"null\"]" : "\"type\":\"boolean\"";
    case API_STRINGS:
        return "\"type\":\"array\",\"items\":{\"type\":\"string\"}";
    case API_NUMBER_MAP:
        return "\"type\":\"object\",\"additionalProperties\":{\"type\":\"number\"}";
    case API_STRING_MAP:
        return "\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}";
    }
    return "";
}

static void put_result_schema(struct buf *out, const struct api_result *result)
{
    buf_printf(
        out, ",\"%s\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"additionalProperties\":false,\"required\":[",
        result->name);
    for (const struct api_column *c = result->columns; c->name; c++)
        buf_printf(out, "%s\"%s\"", c == result->columns ? "" : ",", c->name);
    buf_puts(out, "],\"properties\":{");
    for (const struct api_column *c = result->columns; c->name; c++) {
        buf_printf(out, "%s\"%s\":{%s", c == result->columns ? "" : ",", c->name, schema_of(c));
        if (c->description)
            put_text(out, "description", c->description);
        buf_putc(out, '}');
    }
    buf_puts(out, "}}}");
}

static void put_answer_schema(struct buf *out, const struct api_endpoint *e)
{
    static const char *const times[] = {"from", "to", "baseline_from", "baseline_to"};
    buf_puts(out, "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"version\",\"truncated\"");
    for (size_t i = 0; i < API_RESULTS_MAX && e->results[i].name; i++)
        buf_printf(out, ",\"%s\"", e->results[i].name);
    for (size_t i = 0; i < array_size(times); i++)
        if (api_parameter_find(e, times[i], strlen(times[i])) >= 0)
            buf_printf(out, ",\"%s\"", times[i]);
    buf_printf(out, "],\"properties\":{\"version\":{\"const\":%d}", API_VERSION);
    for (size_t i = 0; i < array_size(times); i++)
        if (api_parameter_find(e, times[i], strlen(times[i])) >= 0)
            buf_printf(out, ",\"%s\":" MOMENT_SCHEMA, times[i]);
    for (size_t i = 0; i < API_RESULTS_MAX && e->results[i].name; i++)
        put_result_schema(out, &e->results[i]);
    buf_puts(out,
             ",\"truncated\":{\"type\":\"boolean\",\"description\":\"Whether a list has more rows than the limit.\"},"
             "\"empty\":{\"type\":\"string\",\"description\":\"Why there are no rows.\"}}}");
}

/* ---- the whole ---- */

/* "requests_trace_id" for "requests/{trace_id}" */
static void put_operation_id(struct buf *out, const char *path)
{
    buf_puts(out, "\"operationId\":\"");
    for (; *path; path++)
        if (*path != '{' && *path != '}')
            buf_putc(out, *path == '/' ? '_' : *path);
    buf_putc(out, '"');
}

static void put_endpoint(struct buf *out, const struct api_endpoint *e)
{
    buf_printf(out, "\"" API_PATH "%s\":{\"get\":{", e->path);
    put_operation_id(out, e->path);
    put_text(out, "summary", e->summary);
    put_text(out, "description", e->description);
    put_parameters(out, e);
    buf_puts(out,
             ",\"responses\":{\"200\":{\"description\":\"The rows\",\"content\":{\"application/json\":{\"schema\":");
    put_answer_schema(out, e);
    buf_puts(out, "}}},\"default\":{\"$ref\":\"#/components/responses/failure\"}}}}");
}

int api_document_put(struct buf *out)
{
    buf_printf(out,
               "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"sonde server\",\"version\":\"%d\",\"description\":"
               "\"What many nodes sent, of sonde " SONDE_VERSION "\"},\"servers\":[{\"url\":\"/\"}],"
               "\"security\":[{\"token\":[]},{}],\"paths\":{",
               API_VERSION);
    for (size_t i = 0; i < api_endpoints_count(); i++) {
        buf_puts(out, i ? "," : "");
        put_endpoint(out, api_endpoint(i));
    }
    buf_puts(
        out,
        "},\"components\":{\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"
        "\"A token with the scope read, where the server needs tokens\"}},\"responses\":{\"failure\":{"
        "\"description\":\"A line that says why: 400 for parameters, 401 without a valid token, 404 for what "
        "is not there, 429 and 503 (with Retry-After) and 504 for too much at once\",\"content\":{\"text/plain\":{\"schema\":"
        "{\"type\":\"string\"}}}}}}}\n");
    return buf_error(out);
}
