/* Reads untrusted protobuf: every length is checked against the remaining size. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum otlp_wire { OTLP_VARINT = 0, OTLP_FIXED64 = 1, OTLP_BYTES = 2, OTLP_FIXED32 = 5 };

struct otlp_bytes {
    const unsigned char *at, *end;
};

struct otlp_field {
    unsigned number;
    enum otlp_wire wire;
    uint64_t integer;        /* for OTLP_VARINT */
    struct otlp_bytes bytes; /* for the other types */
};

/* Reads the next field of a message and advances `b`; false at the end or if invalid. */
bool otlp_read_field(struct otlp_bytes *b, struct otlp_field *ret);
