/* The protobuf wire format; see protobuf.h. */
#include "base/protobuf.h"

void protobuf_varint(struct buf *b, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (value & 0x7F) | 0x80;
    bytes[n++] = value;
    buf_append(b, bytes, n);
}

void protobuf_fixed64(struct buf *b, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    buf_append(b, bytes, sizeof(bytes));
}

void protobuf_put_number(struct buf *b, uint32_t field, uint64_t value)
{
    if (value)
        protobuf_put_oneof_number(b, field, value);
}

void protobuf_put_oneof_number(struct buf *b, uint32_t field, uint64_t value)
{
    protobuf_varint(b, field << 3 | PROTOBUF_VARINT);
    protobuf_varint(b, value);
}

void protobuf_put_fixed64(struct buf *b, uint32_t field, uint64_t value)
{
    protobuf_varint(b, field << 3 | PROTOBUF_FIXED64);
    protobuf_fixed64(b, value);
}

void protobuf_put_fixed32(struct buf *b, uint32_t field, uint32_t value)
{
    uint8_t bytes[4];
    protobuf_varint(b, field << 3 | PROTOBUF_FIXED32);
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    buf_append(b, bytes, sizeof(bytes));
}

void protobuf_put_bytes(struct buf *b, uint32_t field, const void *data, size_t size)
{
    protobuf_varint(b, field << 3 | PROTOBUF_BYTES);
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

bool protobuf_next_field(struct cursor *c, struct protobuf_field *ret)
{
    if (cursor_left(c) == 0)
        return false;
    uint64_t key = cursor_uleb128(c);
    *ret = (struct protobuf_field){.number = key >> 3, .wire = key & 7};
    switch (ret->wire) {
    case PROTOBUF_VARINT:
        ret->value = cursor_uleb128(c);
        break;
    case PROTOBUF_FIXED64:
        ret->value = cursor_u64(c);
        break;
    case PROTOBUF_BYTES:
        ret->inside = cursor_sub(c, cursor_uleb128(c));
        break;
    case PROTOBUF_FIXED32:
        ret->value = cursor_u32(c);
        break;
    default:
        c->failed = true;
    }
    return !c->failed;
}
