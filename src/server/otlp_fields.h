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
