/* Reading OTLP's messages strictly: a field with another wire type than its own makes the message invalid. */
#pragma once

#include "base/protobuf.h"
#include "lib/otlp/fields.h"

/* The contents of a string, bytes, message or packed field of `message`; empty, and the message failed, for another
 * wire type. */
static inline struct cursor otlp_inside(struct cursor *message, const struct protobuf_field *f)
{
    message->failed |= f->wire != PROTOBUF_BYTES;
    return f->inside;
}

static inline uint64_t otlp_number(struct cursor *message, const struct protobuf_field *f, enum protobuf_wire wire)
{
    message->failed |= f->wire != wire;
    return f->value;
}

/* How many fields of a message have a number; each is checked to have contents. The message was checked before. */
static inline uint64_t otlp_count(struct cursor message, uint64_t number)
{
    struct protobuf_field f;
    uint64_t count = 0;
    while (protobuf_next_field(&message, &f))
        count += f.number == number;
    return count;
}

/* The numbers in a repeated field, packed or not. */
struct otlp_numbers {
    struct cursor message; /* failed: it is invalid, and the numbers ended there */
    struct cursor packed;
    uint32_t number;
    enum protobuf_wire wire;
};

static inline struct otlp_numbers otlp_numbers_of(struct cursor message, uint32_t number, enum protobuf_wire wire)
{
    return (struct otlp_numbers){.message = message, .number = number, .wire = wire};
}

/* False at the end. */
static inline bool otlp_next_number(struct otlp_numbers *n, uint64_t *ret)
{
    struct protobuf_field f;
    while (!cursor_left(&n->packed)) {
        if (!protobuf_next_field(&n->message, &f))
            return false;
        if (f.number == n->number && f.wire == PROTOBUF_BYTES) {
            n->packed = f.inside;
        } else if (f.number == n->number) {
            *ret = otlp_number(&n->message, &f, n->wire);
            return !n->message.failed;
        }
    }
    *ret = n->wire == PROTOBUF_VARINT ? cursor_uleb128(&n->packed) : cursor_u64(&n->packed);
    n->message.failed |= n->packed.failed;
    return !n->message.failed;
}
