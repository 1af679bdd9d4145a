/* Attributes and the scope of OTLP packets; see otlp_attributes.h. */
#include "export/otlp_attributes.h"

#include "base/hex.h"
#include "base/protobuf.h"
#include "lib/otlp/fields.h"

#include <string.h>

void otlp_scratch_clear(struct otlp_scratch *s)
{
    buf_clear(&s->key_value);
    buf_clear(&s->value);
    buf_clear(&s->text);
}

int otlp_scratch_error(const struct otlp_scratch *s)
{
    return buf_error(&s->key_value) ?: buf_error(&s->value) ?: buf_error(&s->text);
}

void otlp_put_text_value(struct buf *out, const char *text, struct buf *scratch)
{
    buf_put_utf8(scratch, text);
    protobuf_put_message(out, ANY_VALUE_STRING, scratch);
}

void otlp_put_attribute(struct buf *out, uint32_t field, const char *key, const char *text, uint64_t number,
                        struct otlp_scratch *scratch)
{
    if (text)
        otlp_put_text_value(&scratch->value, text, &scratch->text);
    else
        protobuf_put_oneof_number(&scratch->value, ANY_VALUE_INT, number);
    protobuf_put_bytes(&scratch->key_value, KEY_VALUE_KEY, key, strlen(key));
    protobuf_put_message(&scratch->key_value, KEY_VALUE_VALUE, &scratch->value);
    protobuf_put_message(out, field, &scratch->key_value);
}

void otlp_put_true(struct buf *out, uint32_t field, const char *key, struct otlp_scratch *scratch)
{
    protobuf_put_oneof_number(&scratch->value, ANY_VALUE_BOOL, true);
    protobuf_put_bytes(&scratch->key_value, KEY_VALUE_KEY, key, strlen(key));
    protobuf_put_message(&scratch->key_value, KEY_VALUE_VALUE, &scratch->value);
    protobuf_put_message(out, field, &scratch->key_value);
}

void otlp_put_text(struct buf *out, uint32_t field, const char *text, struct otlp_scratch *scratch)
{
    buf_put_utf8(&scratch->text, text);
    protobuf_put_message(out, field, &scratch->text);
}

void otlp_put_scope(struct buf *out, uint32_t field, struct otlp_scratch *scratch)
{
    protobuf_put_bytes(&scratch->value, SCOPE_NAME, "sonde", 5);
    protobuf_put_bytes(&scratch->value, SCOPE_VERSION, SONDE_VERSION, strlen(SONDE_VERSION));
    protobuf_put_message(out, field, &scratch->value);
}

void otlp_put_id(struct buf *out, uint32_t field, const char *hex)
{
    unsigned char id[16];
    size_t size = 0;
    for (; size < sizeof(id) && hex[2 * size]; size++)
        id[size] = (unsigned char)(hex_value(hex[2 * size]) << 4 | hex_value(hex[2 * size + 1]));
    protobuf_put_bytes(out, field, id, size);
}
