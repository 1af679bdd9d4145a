/* Encodes the protobuf wire format into a buffer: varint, fixed64 and length-delimited fields, all that profile.proto
 * and trace.proto use. Zero values are omitted, as in proto3, unless stated. Errors are sticky in the buffer. */
#pragma once

#include "base/buf.h"

#include <stdint.h>

void protobuf_varint(struct buf *b, uint64_t value);
/* An int64, uint64 or bool field; omitted when 0. */
void protobuf_put_number(struct buf *b, uint32_t field, uint64_t value);
/* A fixed64 field; written also when 0. */
void protobuf_put_fixed64(struct buf *b, uint32_t field, uint64_t value);
/* bytes, string, an embedded message or packed numbers; written also when empty. */
void protobuf_put_bytes(struct buf *b, uint32_t field, const void *data, size_t size);
/* Writes `message` as an embedded message, and empties it for reuse. */
void protobuf_put_message(struct buf *b, uint32_t field, struct buf *message);
