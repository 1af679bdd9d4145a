/* Formats tensor values. Integers are decimal (Triton writes INT8 and UINT8 as raw characters), floats the shortest
 * decimal that reads back as the same value, BYTES elements are JSON strings, so that `[` + data + `]` is JSON. A
 * byte that is not UTF-8 becomes \udcXX, which Python's "surrogateescape" restores. Runs on the writer thread, whose
 * locale is "C" (writer.c), for the decimal point. */
#include "format.h"

#include "node.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lengths of BYTES elements are read as they lie");

enum kind { SIGNED, UNSIGNED, FLOAT, BYTES };

static const struct dtype {
    const char *name;
    enum kind kind;
    unsigned size;
    bool brain;
} dtypes[] = {
    {"BOOL", UNSIGNED, 1},   {"UINT8", UNSIGNED, 1}, {"UINT16", UNSIGNED, 2},  {"UINT32", UNSIGNED, 4},
    {"UINT64", UNSIGNED, 8}, {"INT8", SIGNED, 1},    {"INT16", SIGNED, 2},     {"INT32", SIGNED, 4},
    {"INT64", SIGNED, 8},    {"FP16", FLOAT, 2},     {"BF16", FLOAT, 2, true}, {"FP32", FLOAT, 4},
    {"FP64", FLOAT, 8},      {"BYTES", BYTES, 0},
};

static const struct dtype *find_dtype(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strlen(dtypes[i].name) == size && memcmp(dtypes[i].name, name, size) == 0)
            return &dtypes[i];
    return NULL;
}

static double from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                   : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                  : ldexp(mantissa, -24);
    return bits & 0x8000 ? -value : value;
}

static double from_brain(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return (double)value;
}

/* Whether `text` is nearer to `value` than to its neighbours in a type with `digits` binary digits and least exponent
 * `least`, so that it reads back as `value`. */
static bool reads_back(const char *text, double value, int digits, int least)
{
    int exponent;
    double read = strtod(text, NULL), unit;
    if (digits == 53)
        return read == value;
    frexp(value, &exponent);
    unit = ldexp(1, (exponent < least ? least : exponent) - digits);
    /* Below a power of two the neighbour is half as far away. */
    double below = fabs(value) == ldexp(1, exponent - 1) && exponent > least ? unit / 2 : unit;
    double gap = fabs(read) < fabs(value) ? below : unit;
    return fabs(read - value) < gap / 2;
}

static void put_float(struct trace_text *out, double value, int digits, int least)
{
    char text[40];
    if (isnan(value)) {
        trace_text_puts(out, "nan");
        return;
    }
    if (isinf(value)) {
        trace_text_puts(out, value < 0 ? "-inf" : "inf");
        return;
    }
    /* Try six digits first, as Triton always writes; enough for most human-made values. */
    int sure = digits == 53 ? 15 : digits == 24 ? 6 : 1, most = digits == 53 ? 17 : digits == 24 ? 9 : 5;
    bool subnormal = value != 0 && fabs(value) < ldexp(1, least - 1);
    int start = subnormal ? 1 : sure;
    if (digits == 53 && !subnormal) {
        snprintf(text, sizeof(text), "%.6g", value);
        if (reads_back(text, value, digits, least)) {
            trace_text_puts(out, text);
            return;
        }
    }
    for (int precision = start; precision <= most; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, value);
        if (precision == most || reads_back(text, value, digits, least))
            break;
    }
    if (start < 6 && strchr(text, 'e')) { /* 100, not 1e+02 */
        char plain[40];
        double short_value = strtod(text, NULL);
        snprintf(plain, sizeof(plain), "%.6g", short_value);
        if (strlen(plain) < strlen(text) && strtod(plain, NULL) == short_value)
            memcpy(text, plain, sizeof(text));
    }
    trace_text_puts(out, text);
}

static void put_value(struct trace_text *out, const struct dtype *d, const unsigned char *p)
{
    uint64_t bits = 0;
    memcpy(&bits, p, d->size);
    if (d->kind == UNSIGNED) {
        trace_text_put_u64(out, bits);
    } else if (d->kind == SIGNED) {
        unsigned shift = 64 - 8 * d->size;
        trace_text_put_i64(out, (int64_t)(bits << shift) >> shift);
    } else if (d->size == 8) {
        double value;
        memcpy(&value, p, sizeof(value));
        put_float(out, value, DBL_MANT_DIG, DBL_MIN_EXP);
    } else if (d->size == 4) {
        float value;
        memcpy(&value, p, sizeof(value));
        put_float(out, (double)value, FLT_MANT_DIG, FLT_MIN_EXP);
    } else if (d->brain) {
        put_float(out, from_brain((uint16_t)bits), 8, FLT_MIN_EXP);
    } else {
        put_float(out, from_half((uint16_t)bits), 11, -13);
    }
}

static int put_bytes(struct trace_text *out, const unsigned char *data, uint64_t size, uint64_t count, char *why,
                     size_t why_size)
{
    uint64_t at = 0, elements = 0;
    for (; at < size; elements++) {
        uint32_t length;
        if (size - at < sizeof(length))
            break;
        memcpy(&length, data + at, sizeof(length));
        if (length > size - at - sizeof(length))
            break;
        if (elements > 0)
            trace_text_putc(out, ',');
        trace_text_put_json_bytes(out, (const char *)data + at + sizeof(length), length);
        at += sizeof(length) + length;
    }
    if (at != size)
        snprintf(why, why_size, "element %llu is cut off at %llu bytes", (unsigned long long)elements,
                 (unsigned long long)size);
    else if (elements != count)
        snprintf(why, why_size, "the shape declares %llu elements, the data has %llu", (unsigned long long)count,
                 (unsigned long long)elements);
    return at != size || elements != count ? -EINVAL : 0;
}

/* Computes the number of elements; -EINVAL: a negative dimension, or more than fit into memory. */
static int count_elements(const int64_t *shape, uint32_t dims, uint64_t *ret_count)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < dims; i++)
        if (shape[i] < 0)
            return -EINVAL;
        else if (shape[i] == 0) {
            *ret_count = 0;
            return 0;
        }
    for (uint32_t i = 0; i < dims; i++)
        if (__builtin_mul_overflow(count, (uint64_t)shape[i], &count) || count > (uint64_t)INT64_MAX / 8)
            return -EINVAL;
    *ret_count = count;
    return 0;
}

int trace_format_tensor(struct trace_text *out, const struct trace_tensor_record *tensor, char *why, size_t why_size)
{
    const int64_t *shape = (const int64_t *)(tensor + 1);
    const unsigned char *data = (const unsigned char *)(shape + tensor->dims);
    const struct dtype *d =
        find_dtype((const char *)data + tensor->copied_bytes + tensor->name_size, tensor->dtype_size);
    uint64_t count;
    if (!d) {
        snprintf(why, why_size, "unknown dtype");
        return -EINVAL;
    }
    if (count_elements(shape, tensor->dims, &count) < 0) {
        snprintf(why, why_size, "no tensor has this shape");
        return -EINVAL;
    }
    if (d->kind != BYTES && count * d->size != tensor->size_bytes) {
        snprintf(why, why_size, "the shape declares %llu bytes, the data has %llu",
                 (unsigned long long)(count * d->size), (unsigned long long)tensor->size_bytes);
        return -EINVAL;
    }
    if (tensor->copied_bytes != tensor->size_bytes) {
        snprintf(why, why_size, "its %llu bytes were not kept", (unsigned long long)tensor->size_bytes);
        return -EFBIG;
    }
    if (d->kind == BYTES)
        return put_bytes(out, data, tensor->size_bytes, count, why, why_size);
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0)
            trace_text_putc(out, ',');
        put_value(out, d, data + i * d->size);
    }
    return 0;
}
