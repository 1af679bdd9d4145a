/* traceparent and tracestate, by Level 2 of the standard. Surrounding space is expected to be removed by the server's
 * HTTP parser. */
#include "context.h"

#include <errno.h>
#include <string.h>

#include <sonde/trace.h>

#include "../export.h"

/* Two hexadecimal digits, lower case as the standard requires. */
static int read_byte(const char *p, uint8_t *ret)
{
    uint8_t value = 0;
    for (int i = 0; i < 2; i++) {
        if (p[i] >= '0' && p[i] <= '9')
            value = (uint8_t)(value << 4 | (p[i] - '0'));
        else if (p[i] >= 'a' && p[i] <= 'f')
            value = (uint8_t)(value << 4 | (p[i] - 'a' + 10));
        else
            return -EINVAL;
    }
    *ret = value;
    return 0;
}

static int read_id(const char *p, uint8_t *ret, size_t size)
{
    bool zero = true;
    for (size_t i = 0; i < size; i++) {
        if (read_byte(p + 2 * i, &ret[i]) < 0)
            return -EINVAL;
        zero &= ret[i] == 0;
    }
    return zero ? -EINVAL : 0;
}

int trace_context_parse(const char *text, struct trace_context *ret_context)
{
    struct trace_context c;
    uint8_t version;
    size_t size = strnlen(text, 512);
    if (size < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return -EINVAL;
    if (read_byte(text, &version) < 0 || version == 0xff || read_id(text + 3, c.trace_id, 16) < 0 ||
        read_id(text + 36, c.parent_id, 8) < 0 || read_byte(text + 53, &c.flags) < 0)
        return -EINVAL;
    if (version == 0 ? size != 55 : size > 55 && text[55] != '-')
        return -EINVAL;
    *ret_context = c;
    return 0;
}

static char *put_hex(char *p, const void *data, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *p++ = hex[((const uint8_t *)data)[i] >> 4];
        *p++ = hex[((const uint8_t *)data)[i] & 15];
    }
    return p;
}

void trace_context_format(const struct trace_context *c, uint64_t span_id, char ret[TRACE_PARENT_SIZE])
{
    const uint8_t version = 0, flags = c->flags & (TRACE_CONTEXT_SAMPLED | TRACE_CONTEXT_RANDOM);
    char *p = put_hex(ret, &version, 1);
    *p++ = '-';
    p = put_hex(p, c->trace_id, sizeof(c->trace_id));
    *p++ = '-';
    p = put_hex(p, &span_id, sizeof(span_id));
    *p++ = '-';
    *put_hex(p, &flags, 1) = '\0';
}

/* --- tracestate ------------------------------------------------------------------------------ */

#define MEMBERS_MAX 32

struct member {
    const char *key;
    size_t size;
};

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Level 1 required a letter first, and for `tenant@vendor` at most 241 and 14 bytes; Level 2 treats @ like other
 * characters. */
static bool is_key(const char *key, size_t size)
{
    static const char others[] = {'_', '-', '*', '/', '@'};
    if (size == 0 || size > 256 || !is_lower_or_digit(*key))
        return false;
    for (const char *p = key; p < key + size; p++)
        if (!is_lower_or_digit(*p) && !memchr(others, *p, sizeof(others)))
            return false;
    return true;
}

static bool is_value(const char *value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (value[i] < 0x20 || value[i] > 0x7e || value[i] == ',' || value[i] == '=')
            return false;
    return size > 0 && size <= 256 && value[size - 1] != ' ';
}

/* Parses a list member without surrounding space; true for an empty one, which is allowed. */
static bool take_member(const char *p, size_t size, struct member *members, size_t *count)
{
    while (size > 0 && (*p == ' ' || *p == '\t'))
        p++, size--;
    while (size > 0 && (p[size - 1] == ' ' || p[size - 1] == '\t'))
        size--;
    if (size == 0)
        return true;
    const char *equals = memchr(p, '=', size);
    size_t key = equals ? (size_t)(equals - p) : 0;
    if (!equals || *count == MEMBERS_MAX || !is_key(p, key) || !is_value(equals + 1, size - key - 1))
        return false;
    for (size_t i = 0; i < *count; i++)
        if (members[i].size == key && memcmp(members[i].key, p, key) == 0)
            return false;
    members[(*count)++] = (struct member){p, key};
    return true;
}

bool trace_state_is_valid(const char *tracestate, size_t size)
{
    struct member members[MEMBERS_MAX];
    size_t count = 0;
    for (const char *p = tracestate, *end = p + size; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *next = comma ? comma : end;
        if (!take_member(p, (size_t)(next - p), members, &count))
            return false;
        p = next + 1;
    }
    return count > 0;
}

/* --- validation of headers to be forwarded --------------------------------------------------- */

SONDE_EXPORT int sonde_trace_parent_is_valid(const char *traceparent)
{
    struct trace_context unused;
    return traceparent && trace_context_parse(traceparent, &unused) == 0;
}

SONDE_EXPORT int sonde_trace_state_is_valid(const char *tracestate)
{
    return tracestate && trace_state_is_valid(tracestate, strlen(tracestate));
}
