/* Reads a message that an exporter wrote, which has no malformed field. Include after cmocka.h. */
#pragma once

#include "base/protobuf.h"

static inline bool next_field(struct cursor *c, struct protobuf_field *ret)
{
    bool found = protobuf_next_field(c, ret);
    assert_false(c->failed);
    return found;
}
