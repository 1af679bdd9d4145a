/* A strict JSON parser (RFC 8259) for the bodies of the trace protocol: a flat table of values over one copy of the
 * text. Bounded in size, depth and number of values; duplicate names, lone surrogates, invalid UTF-8 and trailing
 * text are errors. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_TRUE, JSON_FALSE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

#define JSON_SIZE_MAX   ((size_t)64 << 10)
#define JSON_VALUES_MAX 1024
#define JSON_DEPTH_MAX  16

struct json_value {
    enum json_type type;
    const char *name; /* of an object member, else NULL; may contain NULs: see name_size */
    size_t name_size;
    const char *text; /* of a string (unescaped, NUL-terminated, may hold NULs) or a number (as written, no NUL) */
    size_t text_size;
    uint32_t child_count; /* of an array or object; the first child is the next value in the table */
    uint32_t next;        /* index after this value and all inside it: its next sibling */
};

struct json;

/* Parses `text`. The caller frees *ret_json with json_free. -EINVAL: *ret_why (a literal) and *ret_offset describe
 * the error; -E2BIG: a bound is exceeded, likewise; -ENOMEM. */
int json_read(const char *text, size_t size, struct json **ret_json, const char **ret_why, size_t *ret_offset);
void json_free(struct json *json);

/* All values in text order; [0] is the top-level value. */
const struct json_value *json_values(const struct json *json);
