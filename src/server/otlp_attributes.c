/* Attributes and values; see otlp_attributes.h. */
#include "server/otlp_attributes.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "server/otlp_fields.h"
#include "server/row_binary.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static int read_pair(struct cursor c, struct cursor *ret_key, struct cursor *ret_value)
{
    struct protobuf_field f;
    *ret_key = *ret_value = (struct cursor){0};
    while (protobuf_next_field(&c, &f)) {
        if (f.number == KEY_VALUE_KEY)
            *ret_key = otlp_inside(&c, &f);
        else if (f.number == KEY_VALUE_VALUE)
            *ret_value = otlp_inside(&c, &f);
    }
    return c.failed ? -EBADMSG : 0;
}

/* ---- values as text ---- */

static void put_quoted(struct buf *out, struct cursor text)
{
    const uint8_t *s = text.data;
    buf_putc(out, '"');
    for (size_t left = text.size, length; left; s += length, left -= length) {
        length = row_utf8_length(s, left);
        if (!length) {
            buf_puts(out, UTF8_REPLACEMENT);
            length = 1;
        } else if (*s == '"' || *s == '\\') {
            buf_printf(out, "\\%c", *s);
        } else if (*s < 0x20) {
            buf_printf(out, "\\u%04x", *s);
        } else {
            buf_append(out, s, length);
        }
    }
    buf_putc(out, '"');
}

/* The shortest decimal number that is the same double. */
static void put_double(struct buf *out, uint64_t bits)
{
    char text[32];
    double value, same;
    memcpy(&value, &bits, sizeof(value));
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        same = strtod(text, NULL);
        if (memcmp(&same, &value, sizeof(value)) == 0)
            break;
    }
    buf_puts(out, isnan(value) ? "NaN" : isinf(value) ? (value > 0 ? "Infinity" : "-Infinity") : text);
}

static int put_any(struct buf *out, struct cursor any, bool is_nested, unsigned depth);

static int put_list(struct buf *out, struct cursor list, unsigned depth)
{
    struct protobuf_field f;
    const char *separator = "";
    int r = 0;
    buf_putc(out, '[');
    while (r == 0 && protobuf_next_field(&list, &f))
        if (f.number == ARRAY_VALUES) {
            buf_puts(out, separator);
            separator = ",";
            r = put_any(out, otlp_inside(&list, &f), true, depth + 1);
        }
    buf_putc(out, ']');
    return r == 0 && list.failed ? -EBADMSG : r;
}

static int put_map(struct buf *out, struct cursor map, unsigned depth)
{
    struct protobuf_field f;
    struct cursor key, value;
    const char *separator = "";
    int r = 0;
    buf_putc(out, '{');
    while (r == 0 && protobuf_next_field(&map, &f))
        if (f.number == ARRAY_VALUES) {
            r = read_pair(otlp_inside(&map, &f), &key, &value);
            buf_puts(out, separator);
            separator = ",";
            put_quoted(out, key);
            buf_putc(out, ':');
            r = r < 0 ? r : put_any(out, value, true, depth + 1);
        }
    buf_putc(out, '}');
    return r == 0 && map.failed ? -EBADMSG : r;
}

static void put_bytes(struct buf *out, struct cursor bytes, bool is_nested)
{
    if (is_nested)
        buf_putc(out, '"');
    base64_put(out, bytes.data, bytes.size);
    if (is_nested)
        buf_putc(out, '"');
}

static int put_field(struct buf *out, struct cursor *any, const struct protobuf_field *f, bool is_nested,
                     unsigned depth)
{
    switch (f->number) {
    case ANY_VALUE_STRING: {
        const struct cursor text = otlp_inside(any, f);
        if (is_nested)
            put_quoted(out, text);
        else
            buf_append(out, text.data, text.size);
        return 0;
    }
    case ANY_VALUE_BOOL:
        buf_puts(out, otlp_number(any, f, PROTOBUF_VARINT) ? "true" : "false");
        return 0;
    case ANY_VALUE_INT:
        buf_printf(out, "%" PRId64, (int64_t)otlp_number(any, f, PROTOBUF_VARINT));
        return 0;
    case ANY_VALUE_DOUBLE:
        put_double(out, otlp_number(any, f, PROTOBUF_FIXED64));
        return 0;
    case ANY_VALUE_ARRAY:
        return put_list(out, otlp_inside(any, f), depth);
    case ANY_VALUE_MAP:
        return put_map(out, otlp_inside(any, f), depth);
    case ANY_VALUE_BYTES:
        put_bytes(out, otlp_inside(any, f), is_nested);
        return 0;
    default:
        return 0;
    }
}

/* Of several members of the oneof, the last one counts. */
static int put_any(struct buf *out, struct cursor any, bool is_nested, unsigned depth)
{
    const size_t before = out->size;
    struct protobuf_field f;
    int r = 0;
    if (depth > OTLP_DEPTH_MAX)
        return -ELOOP;
    while (r == 0 && protobuf_next_field(&any, &f)) {
        if (f.number < ANY_VALUE_STRING || f.number > ANY_VALUE_BYTES)
            continue;
        out->size = before;
        r = put_field(out, &any, &f, is_nested, depth);
    }
    if (is_nested && out->size == before)
        buf_puts(out, "null");
    return r == 0 && any.failed ? -EBADMSG : r;
}

/* ---- values and maps as columns ---- */

bool otlp_value_is_text(struct cursor any, struct cursor *ret)
{
    struct protobuf_field f;
    if (!protobuf_next_field(&any, &f) || f.number != ANY_VALUE_STRING || f.wire != PROTOBUF_BYTES || cursor_left(&any))
        return false;
    *ret = f.inside;
    return true;
}

int otlp_put_value(struct buf *row, struct cursor any_value)
{
    _cleanup_buf_ struct buf text = {.max_bytes = row->max_bytes};
    struct cursor one;
    if (otlp_value_is_text(any_value, &one)) { /* the most frequent kind needs no second buffer */
        row_put_text(row, one);
        return 0;
    }
    const int r = put_any(&text, any_value, false, 0);
    if (text.error && !row->error)
        row->error = text.error;
    row_put_text(row, cursor_make(text.data, text.size));
    return r;
}

int otlp_put_attributes(struct buf *row, struct cursor message, uint32_t number, uint64_t *elements)
{
    const uint64_t count = otlp_count(message, number);
    struct protobuf_field f;
    struct cursor key, value;
    int r = 0;
    *elements += count;
    row_put_count(row, count);
    while (r == 0 && protobuf_next_field(&message, &f)) {
        if (f.number != number)
            continue;
        r = read_pair(otlp_inside(&message, &f), &key, &value);
        row_put_text(row, key);
        r = r < 0 ? r : otlp_put_value(row, value);
    }
    return r == 0 && message.failed ? -EBADMSG : r;
}

int otlp_put_maps(struct buf *row, struct cursor message, uint32_t number, uint32_t inner, uint64_t *elements)
{
    struct protobuf_field f;
    int r = 0;
    row_put_count(row, otlp_count(message, number));
    while (r == 0 && protobuf_next_field(&message, &f))
        if (f.number == number)
            r = otlp_put_attributes(row, otlp_inside(&message, &f), inner, elements);
    return r == 0 && message.failed ? -EBADMSG : r;
}

struct cursor otlp_find_text(struct cursor message, uint32_t number, const char *key)
{
    struct protobuf_field f;
    struct cursor name, value, text;
    while (protobuf_next_field(&message, &f))
        if (f.number == number && read_pair(f.inside, &name, &value) == 0 && cursor_is(name, key) &&
            otlp_value_is_text(value, &text))
            return text;
    return (struct cursor){0};
}
