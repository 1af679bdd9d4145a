/* Reading protobuf that came from anybody: each length is checked against what is left. */
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
    uint64_t integer;        /* of OTLP_VARINT */
    struct otlp_bytes bytes; /* of the others */
};

/* The next field of a message, which `b` moves past; false at its end, and where it is none. */
bool otlp_read_field(struct otlp_bytes *b, struct otlp_field *ret);
