/* See wire.h. */
#include "wire.h"

static bool read_varint(struct otlp_bytes *b, uint64_t *ret)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        unsigned char byte = *b->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = value;
            return true;
        }
    }
    return false;
}

bool otlp_read_field(struct otlp_bytes *b, struct otlp_field *ret)
{
    uint64_t tag, size;
    *ret = (struct otlp_field){0};
    if (!read_varint(b, &tag))
        return false;
    ret->number = tag >> 3 <= UINT32_MAX ? (unsigned)(tag >> 3) : 0;
    ret->wire = (enum otlp_wire)(tag & 7);
    if (ret->wire == OTLP_VARINT)
        return read_varint(b, &ret->integer);
    if (ret->wire == OTLP_BYTES ? !read_varint(b, &size) : ret->wire != OTLP_FIXED64 && ret->wire != OTLP_FIXED32)
        return false;
    size = ret->wire == OTLP_FIXED64 ? 8 : ret->wire == OTLP_FIXED32 ? 4 : size;
    if (size > (uint64_t)(b->end - b->at))
        return false;
    ret->bytes = (struct otlp_bytes){b->at, b->at + size};
    b->at += size;
    return true;
}
