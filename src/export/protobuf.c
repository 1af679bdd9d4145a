/* Encoder of the protobuf wire format; see protobuf.h. */
#include "export/protobuf.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

void protobuf_varint(struct buf *b, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (value & 0x7F) | 0x80;
    bytes[n++] = value;
    buf_append(b, bytes, n);
}

void protobuf_put_number(struct buf *b, uint32_t field, uint64_t value)
{
    if (!value)
        return;
    protobuf_varint(b, field << 3 | WIRE_VARINT);
    protobuf_varint(b, value);
}

void protobuf_put_fixed64(struct buf *b, uint32_t field, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    protobuf_varint(b, field << 3 | WIRE_FIXED64);
    buf_append(b, bytes, sizeof(bytes));
}

void protobuf_put_bytes(struct buf *b, uint32_t field, const void *data, size_t size)
{
    protobuf_varint(b, field << 3 | WIRE_BYTES);
    protobuf_varint(b, size);
    buf_append(b, data, size);
}

void protobuf_put_message(struct buf *b, uint32_t field, struct buf *message)
{
    if (message->error && !b->error)
        b->error = message->error;
    protobuf_put_bytes(b, field, message->data, message->size);
    message->size = 0;
}
