/* Protobuf encoding for OTLP packets. A message is written in place: its length is a padded varint of four bytes that
 * is filled in at the end. */
#include "protobuf.h"

#include <string.h>

enum wire { VARINT, FIXED64, BYTES };

#define LENGTH_SIZE 4
#define LENGTH_MAX  ((size_t)1 << (7 * LENGTH_SIZE))

static void put_varint(struct trace_text *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        trace_text_putc(out, (char)(value | 0x80));
    trace_text_putc(out, (char)value);
}

static void put_tag(struct trace_text *out, unsigned field, enum wire wire)
{
    put_varint(out, field << 3 | wire);
}

void trace_protobuf_number(struct trace_text *out, unsigned field, uint64_t value)
{
    put_tag(out, field, VARINT);
    put_varint(out, value);
}

void trace_protobuf_packed_fixed64(struct trace_text *out, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        trace_text_putc(out, (char)(value >> (8 * i)));
}

void trace_protobuf_packed_double(struct trace_text *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    trace_protobuf_packed_fixed64(out, bits);
}

void trace_protobuf_fixed64(struct trace_text *out, unsigned field, uint64_t value)
{
    put_tag(out, field, FIXED64);
    trace_protobuf_packed_fixed64(out, value);
}

void trace_protobuf_double(struct trace_text *out, unsigned field, double value)
{
    put_tag(out, field, FIXED64);
    trace_protobuf_packed_double(out, value);
}

void trace_protobuf_bytes(struct trace_text *out, unsigned field, const void *data, size_t size)
{
    put_tag(out, field, BYTES);
    put_varint(out, size);
    trace_text_put(out, data, size);
}

size_t trace_protobuf_open(struct trace_text *out, unsigned field)
{
    put_tag(out, field, BYTES);
    trace_text_put(out, "\0\0\0", LENGTH_SIZE);
    return out->size;
}

void trace_protobuf_close(struct trace_text *out, size_t begin)
{
    if (out->failed)
        return;
    size_t size = out->size - begin;
    if (size >= LENGTH_MAX) {
        out->failed = true;
        return;
    }
    for (int i = 0; i < LENGTH_SIZE; i++, size >>= 7)
        out->data[begin - LENGTH_SIZE + (size_t)i] = (char)((size & 0x7f) | (i + 1 < LENGTH_SIZE ? 0x80 : 0));
}

void trace_protobuf_text(struct trace_text *out, unsigned field, const char *text, size_t size)
{
    size_t begin = trace_protobuf_open(out, field);
    trace_text_put_utf8(out, text, size);
    trace_protobuf_close(out, begin);
}
