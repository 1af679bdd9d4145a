/* The protobuf wire format (protobuf.dev, "Encoding"), without a schema: writes fields into a buffer, and reads the
 * fields of a message through a checked cursor. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"

/* Writers of all that profile.proto and OTLP's messages need. Errors are sticky in the buffer. Without a field: an
 * element of packed numbers. */
void protobuf_varint(struct buf *b, uint64_t value);
void protobuf_fixed64(struct buf *b, uint64_t value);
/* An int64, uint64 or bool field; omitted when 0, as in proto3. */
void protobuf_put_number(struct buf *b, uint32_t field, uint64_t value);
/* The same as a member of a oneof, which is written also when 0. */
void protobuf_put_oneof_number(struct buf *b, uint32_t field, uint64_t value);
/* A fixed64 field; written also when 0. */
void protobuf_put_fixed64(struct buf *b, uint32_t field, uint64_t value);
/* A fixed32 field; written also when 0. */
void protobuf_put_fixed32(struct buf *b, uint32_t field, uint32_t value);
/* bytes, string, an embedded message or packed numbers; written also when empty. */
void protobuf_put_bytes(struct buf *b, uint32_t field, const void *data, size_t size);
/* Writes `message` as an embedded message, and empties it for reuse. */
void protobuf_put_message(struct buf *b, uint32_t field, struct buf *message);

enum protobuf_wire { PROTOBUF_VARINT = 0, PROTOBUF_FIXED64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_FIXED32 = 5 };

struct protobuf_field {
    uint64_t number;
    enum protobuf_wire wire;
    uint64_t value;       /* of a varint, a fixed64 or a fixed32 */
    struct cursor inside; /* of a length-delimited field: an embedded message, a string, packed numbers */
};

/* Reads the next field of the message in `c`. False at the end, or when `c` failed. */
bool protobuf_next_field(struct cursor *c, struct protobuf_field *ret);
