/* From JSON to protobuf; see otlp_json.h. */
#include "server/otlp_json.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/protobuf.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX       100 /* of messages: more than values may have by OTLP_DEPTH_MAX */
#define OVERHEAD_BYTES  16  /* of malloc, about */
#define INTEGERS_BEYOND 9223372036854775808.0

/* ---- memory: small texts can have very many values, which need a hundred bytes each ---- */

static _Thread_local size_t allocated; /* by the parser of this thread's text, whether freed or not */

static void *allocate(size_t size)
{
    allocated += size + OVERHEAD_BYTES;
    return allocated > OTLP_JSON_MEMORY_BYTES ? NULL : malloc(size);
}

void otlp_json_init(void)
{
    json_set_alloc_funcs(allocate, free);
}

static void json_freep(json_t **j)
{
    json_decref(*j);
}

/* ---- values ---- */

static int read_decimal(const char *text, size_t size, uint64_t *ret)
{
    const bool is_negative = *text == '-';
    char *end;
    errno = 0;
    if (!strchr("0123456789", text[is_negative]) || strlen(text) != size || !size)
        return -EBADMSG;
    *ret = is_negative ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    return errno || *end ? -EBADMSG : 0;
}

static int read_integer(const json_t *value, uint64_t *ret)
{
    if (json_is_string(value))
        return read_decimal(json_string_value(value), json_string_length(value), ret);
    const double real = json_is_real(value) ? json_real_value(value) : 0;
    if (!json_is_number(value) || real != trunc(real) || fabs(real) >= INTEGERS_BEYOND)
        return -EBADMSG;
    *ret = json_is_integer(value) ? (uint64_t)json_integer_value(value) : (uint64_t)(int64_t)real;
    return 0;
}

static int read_double(const json_t *value, uint64_t *ret)
{
    static const struct {
        const char *name;
        double value;
    } names[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    const char *text = json_string_value(value);
    double number = json_number_value(value);
    char *end = NULL;
    if (!text && !json_is_number(value))
        return -EBADMSG;
    for (size_t i = 0; text && i < array_size(names); i++)
        if (strcmp(text, names[i].name) == 0) {
            number = names[i].value;
            text = NULL;
        }
    if (text) {
        number = strtod(text, &end);
        if (end == text || *end || strspn(text, "+-.0123456789eE") != json_string_length(value) || !isfinite(number))
            return -EBADMSG;
    }
    memcpy(ret, &number, sizeof(*ret));
    return 0;
}

static int put_hex(struct buf *out, uint32_t number, const char *text, size_t size)
{
    _cleanup_buf_ struct buf bytes = {0};
    if (size % 2)
        return -EBADMSG;
    for (size_t i = 0; i < size; i += 2) {
        const int high = hex_value(text[i]), low = hex_value(text[i + 1]);
        if (high < 0 || low < 0)
            return -EBADMSG;
        buf_putc(&bytes, (char)(high << 4 | low));
    }
    protobuf_put_bytes(out, number, bytes.data, bytes.size);
    return buf_error(&bytes);
}

static int put_base64(struct buf *out, uint32_t number, const char *text, size_t size)
{
    _cleanup_buf_ struct buf bytes = {0};
    const int r = base64_get(&bytes, text, size);
    protobuf_put_bytes(out, number, bytes.data, bytes.size);
    return r == -EINVAL ? -EBADMSG : r;
}

static int put_text(struct buf *out, const json_t *value, const struct otlp_json_field *field)
{
    const char *text = json_string_value(value);
    const size_t size = json_string_length(value);
    if (!text)
        return -EBADMSG;
    if (field->kind == OTLP_JSON_HEX)
        return put_hex(out, field->number, text, size);
    if (field->kind == OTLP_JSON_BASE64)
        return put_base64(out, field->number, text, size);
    protobuf_put_bytes(out, field->number, text, size);
    return 0;
}

/* ---- messages ---- */

static int put_fields(struct buf *out, const json_t *object, const struct otlp_json_field *fields, unsigned depth);

static int put_message(struct buf *out, const json_t *object, const struct otlp_json_field *field, unsigned depth)
{
    _cleanup_buf_ struct buf message = {0};
    const int r = put_fields(&message, object, field->message, depth + 1) ?: buf_error(&message);
    if (r == 0)
        protobuf_put_message(out, field->number, &message);
    return r;
}

static int put_one(struct buf *out, const json_t *value, const struct otlp_json_field *field, unsigned depth)
{
    uint64_t number = 0;
    int r = 0;
    switch (field->kind) {
    case OTLP_JSON_STRING:
    case OTLP_JSON_HEX:
    case OTLP_JSON_BASE64:
        return put_text(out, value, field);
    case OTLP_JSON_MESSAGE:
    case OTLP_JSON_MESSAGES:
        return put_message(out, value, field, depth);
    case OTLP_JSON_BOOL:
        protobuf_put_oneof_number(out, field->number, json_is_true(value));
        return json_is_boolean(value) ? 0 : -EBADMSG;
    case OTLP_JSON_VARINT:
    case OTLP_JSON_VARINTS:
        r = read_integer(value, &number);
        protobuf_put_oneof_number(out, field->number, number);
        return r;
    case OTLP_JSON_ZIGZAG:
        r = read_integer(value, &number);
        protobuf_put_oneof_number(out, field->number, number << 1 ^ -(number >> 63));
        return r;
    case OTLP_JSON_FIXED32:
        r = read_integer(value, &number);
        protobuf_put_fixed32(out, field->number, (uint32_t)number);
        return r;
    case OTLP_JSON_FIXED64:
    case OTLP_JSON_FIXED64S:
        r = read_integer(value, &number);
        protobuf_put_fixed64(out, field->number, number);
        return r;
    case OTLP_JSON_DOUBLE:
    case OTLP_JSON_DOUBLES:
        r = read_double(value, &number);
        protobuf_put_fixed64(out, field->number, number);
        return r;
    }
    return -EINVAL;
}

static int put_elements(struct buf *out, const json_t *array, const struct otlp_json_field *field, unsigned depth)
{
    int r = json_is_array(array) ? 0 : -EBADMSG;
    for (size_t i = 0; r == 0 && i < json_array_size(array); i++)
        r = put_one(out, json_array_get(array, i), field, depth);
    return r;
}

/* A null is a field that is not there. */
static int put_fields(struct buf *out, const json_t *object, const struct otlp_json_field *fields, unsigned depth)
{
    int r = !json_is_object(object) ? -EBADMSG : depth > DEPTH_MAX ? -ELOOP : 0;
    for (const struct otlp_json_field *field = fields; r == 0 && field->name; field++) {
        const json_t *value = json_object_get(object, field->name);
        if (value && !json_is_null(value))
            r = field->kind >= OTLP_JSON_MESSAGES ? put_elements(out, value, field, depth)
                                                  : put_one(out, value, field, depth);
    }
    return r;
}

int otlp_json_to_protobuf(const char *text, size_t size, const struct otlp_json_field *message, struct buf *out)
{
    allocated = 0;
    json_t *object __attribute__((cleanup(json_freep))) =
        json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (!object)
        return allocated > OTLP_JSON_MEMORY_BYTES ? -EFBIG : -EBADMSG;
    return put_fields(out, object, message, 0) ?: buf_error(out);
}
