/* OTLP in JSON as the same message in protobuf, which the decoders (otlp_rows.h) take: fields by their lowerCamelCase
 * names, ids in hexadecimal, 64-bit numbers also as strings, enumerations as numbers; fields of other names are
 * ignored. The text is untrusted. */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

#define OTLP_JSON_MEMORY_BYTES ((size_t)96 << 20) /* of the parser, for one text: about 8 MiB of usual text */

enum otlp_json_kind {
    OTLP_JSON_STRING,
    OTLP_JSON_HEX,    /* bytes */
    OTLP_JSON_BASE64, /* bytes */
    OTLP_JSON_BOOL,
    OTLP_JSON_VARINT, /* also enumerations */
    OTLP_JSON_ZIGZAG, /* sint32 */
    OTLP_JSON_FIXED32,
    OTLP_JSON_FIXED64, /* also sfixed64 */
    OTLP_JSON_DOUBLE,
    OTLP_JSON_MESSAGE,
    OTLP_JSON_MESSAGES, /* repeated */
    OTLP_JSON_VARINTS,
    OTLP_JSON_FIXED64S,
    OTLP_JSON_DOUBLES,
};

struct otlp_json_field {
    const char *name; /* NULL: the end of a list */
    uint32_t number;
    enum otlp_json_kind kind;
    const struct otlp_json_field *message; /* its fields */
};

extern const struct otlp_json_field otlp_json_traces[], otlp_json_logs[], otlp_json_metrics[];

/* Has the parser use memory that is counted; to be called once, before other threads parse. */
void otlp_json_init(void);

/* Appends the message. 0; -EBADMSG: the text is not JSON, has a name twice, or a value of another kind than its field;
 * -ELOOP: values in values too deep; -EFBIG: the parser needs more than OTLP_JSON_MEMORY_BYTES; -ENOMEM. */
int otlp_json_to_protobuf(const char *text, size_t size, const struct otlp_json_field *message, struct buf *out);
