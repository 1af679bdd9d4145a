/* Fields of protobuf messages; see protobuf_fields.h. */
#include "base/protobuf_fields.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

bool protobuf_next_field(struct cursor *c, struct protobuf_field *ret)
{
    if (cursor_left(c) == 0)
        return false;
    uint64_t key = cursor_uleb128(c);
    *ret = (struct protobuf_field){.number = key >> 3};
    switch (key & 7) {
    case WIRE_VARINT:
        ret->value = cursor_uleb128(c);
        break;
    case WIRE_FIXED64:
        ret->value = cursor_u64(c);
        break;
    case WIRE_BYTES:
        ret->inside = cursor_sub(c, cursor_uleb128(c));
        break;
    case WIRE_FIXED32:
        cursor_skip(c, 4);
        break;
    default:
        c->failed = true;
    }
    return !c->failed;
}
