/* The strict JSON parser. It works on a copy of the text and unescapes strings in place, because the result
 * is never longer. Recursion is bounded by the depth limit. */
#include "json.h"

#include "text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct json {
    struct json_value values[JSON_VALUES_MAX];
    uint32_t count;
    unsigned depth;
    char *p, *end; /* the unread part */
    const char *why;
    char text[];
};

static int read_value(struct json *j);

static int fail(struct json *j, const char *why)
{
    j->why = why;
    return -EINVAL;
}

static void skip_space(struct json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r'))
        j->p++;
}

static bool take(struct json *j, char c)
{
    skip_space(j);
    if (j->p == j->end || *j->p != c)
        return false;
    j->p++;
    return true;
}

static int hex4(struct json *j, uint32_t *ret)
{
    uint32_t value = 0;
    if (j->end - j->p < 4)
        return fail(j, "Incorrect hex digit after \\u escape in string.");
    for (int i = 0; i < 4; i++) {
        char c = *j->p++;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return fail(j, "Incorrect hex digit after \\u escape in string.");
        value = value << 4 | digit;
    }
    *ret = value;
    return 0;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c >= 0x10000) {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
    } else if (c >= 0x800) {
        *out++ = (char)(0xe0 | c >> 12);
    }
    *out++ = c < 0x800 ? (char)(0xc0 | c >> 6) : (char)(0x80 | (c >> 6 & 0x3f));
    *out++ = (char)(0x80 | (c & 0x3f));
    return out;
}

/* Parses an escape sequence after its backslash. */
static int read_escape(struct json *j, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (j->p == j->end)
        return fail(j, "Missing a closing quotation mark in string.");
    char c = *j->p++;
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        *(*out)++ = to[found - from];
        return 0;
    }
    if (c != 'u')
        return fail(j, "Invalid escape character in string.");
    uint32_t high, low = 0;
    int r = hex4(j, &high);
    if (r < 0)
        return r;
    if (high >= 0xd800 && high < 0xe000) {
        if (high >= 0xdc00 || j->end - j->p < 2 || j->p[0] != '\\' || j->p[1] != 'u')
            return fail(j, "The surrogate pair in string is invalid.");
        j->p += 2;
        r = hex4(j, &low);
        if (r < 0)
            return r;
        if (low < 0xdc00 || low > 0xdfff)
            return fail(j, "The surrogate pair in string is invalid.");
        high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    *out = put_utf8(*out, high);
    return 0;
}

/* Copies one unescaped character; rejects invalid UTF-8. */
static int read_plain(struct json *j, char **out)
{
    if ((unsigned char)*j->p < 0x20)
        return fail(j, "Control characters must be escaped in string.");
    size_t length = trace_utf8_length((const unsigned char *)j->p, (size_t)(j->end - j->p));
    if (length == 0)
        return fail(j, "Invalid encoding in string.");
    memmove(*out, j->p, length);
    *out += length;
    j->p += length;
    return 0;
}

/* Parses a string after its opening quote. The terminating NUL replaces the closing quote or an earlier byte. */
static int read_string(struct json *j, const char **ret_text, size_t *ret_size)
{
    char *start = j->p, *out = j->p;
    for (;;) {
        if (j->p == j->end)
            return fail(j, "Missing a closing quotation mark in string.");
        if (*j->p == '"')
            break;
        int r;
        if (*j->p == '\\') {
            j->p++;
            r = read_escape(j, &out);
        } else {
            r = read_plain(j, &out);
        }
        if (r < 0)
            return r;
    }
    j->p++;
    *out = '\0';
    *ret_text = start;
    *ret_size = (size_t)(out - start);
    return 0;
}

static size_t digits(struct json *j)
{
    char *start = j->p;
    while (j->p < j->end && *j->p >= '0' && *j->p <= '9')
        j->p++;
    return (size_t)(j->p - start);
}

/* A number's text stays in place without a NUL, which would overwrite the next byte. */
static int read_number(struct json *j, struct json_value *v)
{
    char *start = j->p;
    if (*j->p == '-')
        j->p++;
    char *first = j->p;
    size_t whole = digits(j);
    if (whole == 0)
        return fail(j, "Invalid value.");
    if (whole > 1 && *first == '0')
        return fail(j, "Invalid value.");
    if (j->p < j->end && *j->p == '.') {
        j->p++;
        if (digits(j) == 0)
            return fail(j, "Miss fraction part in number.");
    }
    if (j->p < j->end && (*j->p == 'e' || *j->p == 'E')) {
        j->p++;
        if (j->p < j->end && (*j->p == '+' || *j->p == '-'))
            j->p++;
        if (digits(j) == 0)
            return fail(j, "Miss exponent in number.");
    }
    v->type = JSON_NUMBER;
    v->text = start;
    v->text_size = (size_t)(j->p - start);
    return 0;
}

static int read_word(struct json *j, struct json_value *v)
{
    static const struct {
        const char *word;
        enum json_type type;
    } words[] = {{"null", JSON_NULL}, {"true", JSON_TRUE}, {"false", JSON_FALSE}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t length = strlen(words[i].word);
        if ((size_t)(j->end - j->p) >= length && memcmp(j->p, words[i].word, length) == 0) {
            j->p += length;
            v->type = words[i].type;
            return 0;
        }
    }
    return fail(j, "Invalid value.");
}

static bool has_member(const struct json *j, uint32_t object, const char *name, size_t size)
{
    uint32_t member = object + 1;
    for (uint32_t i = 0; i < j->values[object].child_count; i++, member = j->values[member].next)
        if (j->values[member].name_size == size && memcmp(j->values[member].name, name, size) == 0)
            return true;
    return false;
}

static int read_member(struct json *j, uint32_t object)
{
    const char *name;
    size_t size;
    if (!take(j, '"'))
        return fail(j, "Missing a name for object member.");
    int r = read_string(j, &name, &size);
    if (r < 0)
        return r;
    if (has_member(j, object, name, size))
        return fail(j, "Duplicate name of object member.");
    if (!take(j, ':'))
        return fail(j, "Missing a colon after a name of object member.");
    uint32_t index = j->count;
    r = read_value(j);
    if (r < 0)
        return r;
    j->values[index].name = name;
    j->values[index].name_size = size;
    return 0;
}

static int read_container(struct json *j, uint32_t index, char close)
{
    bool object = close == '}';
    j->values[index].type = object ? JSON_OBJECT : JSON_ARRAY;
    if (take(j, close))
        return 0;
    do {
        int r = object ? read_member(j, index) : read_value(j);
        if (r < 0)
            return r;
        j->values[index].child_count++;
    } while (take(j, ','));
    if (!take(j, close))
        return fail(j, object ? "Missing a comma or } after an object member."
                              : "Missing a comma or ] after an array element.");
    return 0;
}

static int read_value(struct json *j)
{
    skip_space(j);
    if (j->p == j->end)
        return fail(j, j->count == 0 ? "The document is empty." : "Invalid value.");
    if (j->count == JSON_VALUES_MAX || j->depth == JSON_DEPTH_MAX) {
        j->why = "Too many or too deep values.";
        return -E2BIG;
    }
    uint32_t index = j->count++;
    struct json_value *v = &j->values[index];
    *v = (struct json_value){0};
    int r;
    j->depth++;
    switch (*j->p) {
    case '{':
    case '[':
        r = read_container(j, index, *j->p++ == '{' ? '}' : ']');
        break;
    case '"':
        j->p++;
        v->type = JSON_STRING;
        r = read_string(j, &v->text, &v->text_size);
        break;
    case '-':
    case '0' ... '9':
        r = read_number(j, v);
        break;
    default:
        r = read_word(j, v);
    }
    j->depth--;
    v->next = j->count;
    return r;
}

int json_read(const char *text, size_t size, struct json **ret_json, const char **ret_why, size_t *ret_offset)
{
    if (size > JSON_SIZE_MAX) {
        *ret_why = "The document is too large.";
        *ret_offset = JSON_SIZE_MAX;
        return -E2BIG;
    }
    struct json *j = malloc(sizeof(*j) + size + 1);
    if (!j)
        return -ENOMEM;
    j->count = 0;
    j->depth = 0;
    j->why = NULL;
    if (size > 0)
        memcpy(j->text, text, size);
    j->text[size] = '\0';
    j->p = j->text;
    j->end = j->text + size;
    int r = read_value(j);
    skip_space(j);
    if (r == 0 && j->p != j->end)
        r = fail(j, "The document root must not be followed by other values.");
    if (r < 0) {
        *ret_why = j->why;
        *ret_offset = (size_t)(j->p - j->text);
        free(j);
        return r;
    }
    *ret_json = j;
    return 0;
}

void json_free(struct json *json)
{
    free(json);
}

const struct json_value *json_values(const struct json *json)
{
    return json->values;
}
