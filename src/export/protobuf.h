/* Writing protobuf's wire format into a buffer: varints, fixed64 and length-delimited fields, which is all that
 * profile.proto and trace.proto have. Zero values are left out, as proto3 does. Errors stick to the buffer. */
#pragma once

#include "base/buf.h"

#include <stdint.h>

void protobuf_varint(struct buf *b, uint64_t value);
/* An int64, uint64 or bool field; nothing when it is 0. */
void protobuf_put_number(struct buf *b, uint32_t field, uint64_t value);
/* A fixed64 field, also when it is 0. */
void protobuf_put_fixed64(struct buf *b, uint32_t field, uint64_t value);
/* bytes, string, an embedded message or packed numbers; written also when empty. */
void protobuf_put_bytes(struct buf *b, uint32_t field, const void *data, size_t size);
/* `message` as an embedded message, and empties it for the next one. */
void protobuf_put_message(struct buf *b, uint32_t field, struct buf *message);
