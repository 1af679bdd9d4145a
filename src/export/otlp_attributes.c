/* Attributes and the scope of OTLP packets; see otlp_attributes.h. */
#include "export/otlp_attributes.h"

#include "base/hex.h"
#include "base/protobuf.h"
#include "lib/otlp/fields.h"
#include "model/attribute_list.h"

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

/* Whether the name is in the list before `end`. */
static bool has_name_before(const char *list, const char *end, const char *name)
{
    char other[ATTRIBUTE_LIST_NAME_BYTES], value[ATTRIBUTE_LIST_VALUE_BYTES];
    while (list < end && attribute_list_next(&list, other, value))
        if (strcmp(other, name) == 0)
            return true;
    return false;
}

void otlp_put_attribute_list(struct buf *out, uint32_t field, const char *list, bool without_service,
                             struct otlp_scratch *scratch)
{
    char name[ATTRIBUTE_LIST_NAME_BYTES], value[ATTRIBUTE_LIST_VALUE_BYTES];
    for (const char *at = list, *pair = at; attribute_list_next(&at, name, value); pair = at)
        if (!has_name_before(list, pair, name) && !(without_service && strncmp(name, "service.", 8) == 0))
            otlp_put_attribute(out, field, name, value, 0, scratch);
}

void otlp_put_resource(struct buf *out, const char *service, const char *host_name, const char *attributes,
                       struct otlp_scratch *scratch)
{
    if (service || !has_name_before(attributes, attributes + strlen(attributes), "service.name"))
        otlp_put_attribute(out, RESOURCE_ATTRIBUTES, "service.name", service ? service : "sonde", 0, scratch);
    if (!service)
        otlp_put_attribute(out, RESOURCE_ATTRIBUTES, "service.version", SONDE_VERSION, 0, scratch);
    otlp_put_attribute(out, RESOURCE_ATTRIBUTES, "service.instance.id", host_name, 0, scratch);
    otlp_put_attribute(out, RESOURCE_ATTRIBUTES, "host.name", host_name, 0, scratch);
    otlp_put_attribute_list(out, RESOURCE_ATTRIBUTES, attributes, service != NULL, scratch);
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
