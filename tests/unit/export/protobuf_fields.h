/* Reads a protobuf message field by field, for tests of exporters. Include after cmocka.h. */
#pragma once

#include "base/cursor.h"

struct field {
    uint32_t number;
    uint64_t value;     /* of a varint or fixed64 */
    struct cursor body; /* of all others */
};

static inline bool next_field(struct cursor *c, struct field *ret)
{
    if (!cursor_left(c))
        return false;
    uint64_t tag = cursor_uleb128(c);
    *ret = (struct field){.number = tag >> 3};
    if ((tag & 7) == 0) {
        ret->value = cursor_uleb128(c);
    } else if ((tag & 7) == 1) {
        ret->value = cursor_u64(c);
    } else {
        assert_int_equal(tag & 7, 2);
        ret->body = cursor_sub(c, cursor_uleb128(c));
        assert_false(ret->body.failed);
    }
    assert_false(c->failed);
    return true;
}
