/* Growing text and JSON strings. Numbers are formatted by hand, because printf would dominate the writer's time. */
#include "text.h"

#include <stdlib.h>
#include <string.h>

#define KEEP_BYTES ((size_t)1 << 20)

void trace_text_free(struct trace_text *t)
{
    free(t->data);
    *t = (struct trace_text){0};
}

void trace_text_clear(struct trace_text *t)
{
    if (t->capacity > KEEP_BYTES)
        trace_text_free(t);
    t->size = 0;
    t->failed = false;
}

char *trace_text_take(struct trace_text *t)
{
    trace_text_putc(t, '\0');
    if (t->failed) {
        trace_text_free(t);
        return NULL;
    }
    char *text = t->data;
    *t = (struct trace_text){0};
    return text;
}

static bool grow(struct trace_text *t, size_t size)
{
    size_t capacity = t->capacity ? t->capacity : 256;
    while (capacity - t->size < size) {
        if (capacity > SIZE_MAX / 4)
            return false;
        capacity *= 2;
    }
    char *data = realloc(t->data, capacity);
    if (!data)
        return false;
    t->data = data;
    t->capacity = capacity;
    return true;
}

void trace_text_put(struct trace_text *t, const void *data, size_t size)
{
    if (t->failed || size == 0)
        return;
    if (t->capacity - t->size < size && !grow(t, size)) {
        t->failed = true;
        return;
    }
    memcpy(t->data + t->size, data, size);
    t->size += size;
}

void trace_text_puts(struct trace_text *t, const char *text)
{
    trace_text_put(t, text, strlen(text));
}

void trace_text_putc(struct trace_text *t, char c)
{
    trace_text_put(t, &c, 1);
}

void trace_text_put_u64(struct trace_text *t, uint64_t value)
{
    char digits[20], *p = digits + sizeof(digits);
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    trace_text_put(t, p, (size_t)(digits + sizeof(digits) - p));
}

void trace_text_put_quoted_u64(struct trace_text *t, const char *before, uint64_t value)
{
    trace_text_puts(t, before);
    trace_text_put_u64(t, value);
    trace_text_putc(t, '"');
}

void trace_text_put_i64(struct trace_text *t, int64_t value)
{
    if (value < 0)
        trace_text_putc(t, '-');
    trace_text_put_u64(t, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void trace_text_put_seconds(struct trace_text *t, uint64_t ns)
{
    char digits[9];
    int used = 1;
    uint64_t fraction = ns % 1000000000;
    for (int i = 8; i >= 0; i--, fraction /= 10) {
        digits[i] = (char)('0' + fraction % 10);
        if (used == 1 && digits[i] != '0')
            used = i + 1;
    }
    trace_text_put_u64(t, ns / 1000000000);
    trace_text_putc(t, '.');
    trace_text_put(t, digits, (size_t)used);
}

size_t trace_utf8_length(const unsigned char *p, size_t size)
{
    if (p[0] < 0x80)
        return 1;
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || size < length)
        return 0;
    unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    return length;
}

static void put_escape(struct trace_text *t, const char *prefix, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    trace_text_puts(t, prefix);
    trace_text_putc(t, hex[byte >> 4]);
    trace_text_putc(t, hex[byte & 15]);
}

static void put_string(struct trace_text *t, const char *text, size_t size, bool keep_bytes)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + size, *plain = p;
    trace_text_putc(t, '"');
    while (p < end) {
        size_t length = trace_utf8_length(p, (size_t)(end - p));
        if (length && *p >= 0x20 && *p != '"' && *p != '\\') {
            p += length;
            continue;
        }
        trace_text_put(t, plain, (size_t)(p - plain));
        if (!length && keep_bytes)
            put_escape(t, "\\udc", *p);
        else if (!length)
            trace_text_puts(t, "\xef\xbf\xbd");
        else if (*p < 0x20)
            put_escape(t, "\\u00", *p);
        else {
            trace_text_putc(t, '\\');
            trace_text_putc(t, (char)*p);
        }
        plain = ++p;
    }
    trace_text_put(t, plain, (size_t)(end - plain));
    trace_text_putc(t, '"');
}

void trace_text_put_json(struct trace_text *t, const char *text, size_t size)
{
    put_string(t, text, size, false);
}

void trace_text_put_json_bytes(struct trace_text *t, const char *text, size_t size)
{
    put_string(t, text, size, true);
}

void trace_text_put_utf8(struct trace_text *t, const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + size, *plain = p;
    while (p < end) {
        size_t length = trace_utf8_length(p, (size_t)(end - p));
        if (length > 0) {
            p += length;
            continue;
        }
        trace_text_put(t, plain, (size_t)(p - plain));
        trace_text_puts(t, "\xef\xbf\xbd");
        plain = ++p;
    }
    trace_text_put(t, plain, (size_t)(end - plain));
}
