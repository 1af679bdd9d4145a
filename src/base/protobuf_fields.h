/* Iterates over the fields of a protobuf message without a schema (protobuf.dev, "Encoding"). */
#pragma once

#include "base/cursor.h"

struct protobuf_field {
    uint64_t number;
    uint64_t value;       /* of a varint or a fixed64 */
    struct cursor inside; /* of a length-delimited field: an embedded message, a string, packed numbers */
};

/* False at the end, or when `c` failed. */
bool protobuf_next_field(struct cursor *c, struct protobuf_field *ret);
