/* RowBinary; see row_binary.h. */
#include "server/row_binary.h"

#include "base/protobuf.h"
#include "base/utf8.h"

#include <string.h>

void row_put_count(struct buf *row, uint64_t count)
{
    protobuf_varint(row, count); /* the same encoding: LEB128 */
}

void row_put_u8(struct buf *row, uint8_t value)
{
    buf_putc(row, (char)value);
}

void row_put_u16(struct buf *row, uint16_t value)
{
    buf_append(row, &value, sizeof(value));
}

void row_put_u32(struct buf *row, uint32_t value)
{
    buf_append(row, &value, sizeof(value)); /* little-endian, like the machine */
}

void row_put_u64(struct buf *row, uint64_t value)
{
    buf_append(row, &value, sizeof(value));
}

void row_put_double(struct buf *row, double value)
{
    buf_append(row, &value, sizeof(value));
}

size_t row_utf8_length(const uint8_t *text, size_t size)
{
    char end[5] = "";
    if (size >= 4)
        return utf8_length((const char *)text);
    memcpy(end, text, size);
    return size ? utf8_length(end) : 0;
}

/* Bytes at the beginning of `text` that are valid. */
static size_t valid_bytes(const uint8_t *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        const size_t length = text[at] < 0x80 ? 1 : row_utf8_length(text + at, size - at);
        if (!length)
            break;
        at += length;
    }
    return at;
}

static void put_repaired(struct buf *row, const uint8_t *text, size_t size)
{
    _cleanup_buf_ struct buf repaired = {.max_bytes = row->max_bytes};
    while (size) {
        const size_t valid = valid_bytes(text, size);
        buf_append(&repaired, text, valid);
        if (valid == size)
            break;
        buf_puts(&repaired, UTF8_REPLACEMENT);
        text += valid + 1;
        size -= valid + 1;
    }
    if (repaired.error && !row->error)
        row->error = repaired.error;
    row_put_count(row, repaired.size);
    buf_append(row, repaired.data, repaired.size);
}

void row_put_text(struct buf *row, struct cursor text)
{
    if (valid_bytes(text.data, text.size) < text.size) {
        put_repaired(row, text.data, text.size);
        return;
    }
    row_put_count(row, text.size);
    buf_append(row, text.data, text.size);
}

void row_put_name(struct buf *row, const char *name)
{
    row_put_count(row, strlen(name));
    buf_puts(row, name);
}

void row_put_hex(struct buf *row, struct cursor bytes)
{
    static const char digits[] = "0123456789abcdef";
    row_put_count(row, 2 * bytes.size);
    for (size_t i = 0; i < bytes.size; i++) {
        const char pair[2] = {digits[bytes.data[i] >> 4], digits[bytes.data[i] & 15]};
        buf_append(row, pair, sizeof(pair));
    }
}
