/* Values of every dtype as text: as Triton writes them where that is correct, and by reading them back where it is
 * not. */
#include "fixture.h"
#include "trace/format.h"

#include <errno.h>
#include <math.h>

/* Formats a tensor record as sonde_trace_tensor lays it out. */
static int format(const char *dtype, const int64_t *shape, uint32_t dims, const void *data, size_t size,
                  struct trace_text *out, char *why)
{
    struct trace_tensor_record head = {
        .size_bytes = size, .copied_bytes = size, .dims = dims, .dtype_size = (uint16_t)strlen(dtype)};
    size_t shape_bytes = dims * sizeof(*shape);
    unsigned char *record = malloc(sizeof(head) + shape_bytes + size + head.dtype_size);
    assert_non_null(record);
    memcpy(record, &head, sizeof(head));
    if (dims)
        memcpy(record + sizeof(head), shape, shape_bytes);
    if (size)
        memcpy(record + sizeof(head) + shape_bytes, data, size);
    memcpy(record + sizeof(head) + shape_bytes + size, dtype, head.dtype_size);
    int r = trace_format_tensor(out, (const struct trace_tensor_record *)(const void *)record, why, 128);
    free(record);
    return r;
}

static void expect(const char *dtype, int64_t count, const void *data, size_t size, const char *expected)
{
    struct trace_text out = {0};
    char why[128] = "";
    if (format(dtype, &count, 1, data, size, &out, why) != 0)
        fail_msg("%s: %s", dtype, why);
    char *text = trace_text_take(&out);
    assert_string_equal(text, expected);
    free(text);
}

#define EXPECT(dtype, type, expected, ...)                                                                             \
    do {                                                                                                               \
        const type values_[] = {__VA_ARGS__};                                                                          \
        expect(dtype, sizeof(values_) / sizeof(type), values_, sizeof(values_), expected);                             \
    } while (0)

static void test_integers(void **state)
{
    (void)state;
    EXPECT("BOOL", uint8_t, "1,0", 1, 0);
    EXPECT("UINT8", uint8_t, "65,200,0", 65, 200, 0);
    EXPECT("INT8", int8_t, "1,-2,-128", 1, -2, -128);
    EXPECT("UINT16", uint16_t, "65535,1", 65535, 1);
    EXPECT("INT16", int16_t, "-32768,32767", INT16_MIN, INT16_MAX);
    EXPECT("UINT32", uint32_t, "4294967295", UINT32_MAX);
    EXPECT("INT32", int32_t, "1,2,-2147483648", 1, 2, INT32_MIN);
    EXPECT("UINT64", uint64_t, "18446744073709551615", UINT64_MAX);
    EXPECT("INT64", int64_t, "-5,4611686018427387904,-9223372036854775808", -5, (int64_t)1 << 62, INT64_MIN);
    expect("INT32", 0, NULL, 0, "");
}

static void test_floats(void **state)
{
    (void)state;
    EXPECT("FP32", float, "1.5,0.1,1e+30,3,-0", 1.5F, 0.1F, 1e30F, 3, -0.0F);
    EXPECT("FP32", float, "0.33333334,16777216,3.4028235e+38,1e-45,1.1754944e-38", 1.0F / 3, 16777216, 3.4028235e38F,
           1e-45F, 1.17549435e-38F);
    EXPECT("FP64", double, "0.1,1e+300,2", 0.1, 1e300, 2);
    EXPECT("FP64", double, "0.3333333333333333,1234567,0.1234567,5e-324", 1.0 / 3, 1234567, 0.1234567, 5e-324);
    EXPECT("FP64", double, "0.30000000000000004,1.7976931348623157e+308", 0.1 + 0.2, 1.7976931348623157e308);
    EXPECT("FP64", double, "nan,inf,-inf", (double)NAN, (double)INFINITY, -(double)INFINITY);
    EXPECT("FP16", uint16_t, "1,-2,0.1,65500,6e-08,6.104e-05,0,-0,inf,nan,100,1024", 0x3c00, 0xc000, 0x2e66, 0x7bff,
           0x0001, 0x0400, 0, 0x8000, 0x7c00, 0x7e00, 0x5640, 0x6400);
    EXPECT("BF16", uint16_t, "1,-2,0.1,3.39e+38,9e-41,inf,nan,100", 0x3f80, 0xc000, 0x3dcd, 0x7f7f, 0x0001, 0x7f80,
           0x7fc0, 0x42c8);
}

/* The value of a 16-bit type nearest to a number, by exhaustive search. */
static uint16_t nearest(double value, double (*decode)(uint16_t))
{
    uint16_t best = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        double candidate = decode((uint16_t)bits);
        if (isfinite(candidate) && fabs(candidate - value) < fabs(decode(best) - value))
            best = (uint16_t)bits;
    }
    return best;
}

static double half(uint16_t bits)
{
    int e = bits >> 10 & 31, m = bits & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return bits & 0x8000 ? -v : v;
}

static double decode_bfloat16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float v;
    memcpy(&v, &wide, sizeof(v));
    return (double)v;
}

static void test_every_value_reads_back(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        double (*decode)(uint16_t);
    } kinds[] = {{"FP16", half}, {"BF16", decode_bfloat16}};
    int64_t one = 1;
    char why[128];
    for (int k = 0; k < 2; k++)
        for (uint32_t bits = 3; bits < 65536; bits += 1009) {
            uint16_t value = (uint16_t)bits;
            struct trace_text out = {0};
            assert_int_equal(format(kinds[k].dtype, &one, 1, &value, 2, &out, why), 0);
            char *text = trace_text_take(&out);
            double read = strtod(text, NULL), exact = kinds[k].decode(value);
            if (isfinite(exact) && kinds[k].decode(nearest(read, kinds[k].decode)) != exact)
                fail_msg("%s %#x is written %s", kinds[k].dtype, bits, text);
            free(text);
        }
    uint64_t random = 88172645463325252;
    for (int i = 0; i < 50000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        struct trace_text out = {0};
        bool single = i & 1;
        assert_int_equal(format(single ? "FP32" : "FP64", &one, 1, &random, single ? 4 : 8, &out, why), 0);
        char *text = trace_text_take(&out);
        float f;
        double d;
        memcpy(&f, &random, sizeof(f));
        memcpy(&d, &random, sizeof(d));
        if (single ? isfinite(f) && strtof(text, NULL) != f : isfinite(d) && strtod(text, NULL) != d)
            fail_msg("%s of %#llx is written %s", single ? "FP32" : "FP64", (unsigned long long)random, text);
        free(text);
    }
}

static void test_bytes_values(void **state)
{
    (void)state;
    static const char two[] = "\2\0\0\0ab\4\0\0\0c\"d\\\0\0\0\0";
    expect("BYTES", 3, two, sizeof(two) - 1, "\"ab\",\"c\\\"d\\\\\",\"\"");
    static const char odd[] = "\6\0\0\0\0\n\xff\xc3\xa9,";
    expect("BYTES", 1, odd, sizeof(odd) - 1, "\"\\u0000\\u000a\\udcff\xc3\xa9,\"");
    expect("BYTES", 0, "", 0, "");
}

static void expect_malformed(const char *dtype, const int64_t *shape, uint32_t dims, const void *data, size_t size,
                             const char *expected)
{
    struct trace_text out = {0};
    char why[128] = "";
    assert_int_equal(format(dtype, shape, dims, data, size, &out, why), -EINVAL);
    assert_string_equal(why, expected);
    trace_text_free(&out);
}

static void test_malformed_tensors_are_refused(void **state)
{
    (void)state;
    const int64_t two = 2, minus = -1, vast[] = {INT64_MAX, INT64_MAX}, wraps[] = {(int64_t)1 << 33, (int64_t)1 << 31},
                  empty[] = {0, INT64_MAX};
    expect_malformed("BYTES", &two, 1, "\3\0\0\0ab", 6, "element 0 is cut off at 6 bytes");
    expect_malformed("BYTES", &two, 1, "\1\0\0\0a\1\0", 7, "element 1 is cut off at 7 bytes");
    expect_malformed("BYTES", &two, 1, "\xff\xff\xff\xff", 4, "element 0 is cut off at 4 bytes");
    expect_malformed("BYTES", &two, 1, "\0\0\0\0", 4, "the shape declares 2 elements, the data has 1");
    expect_malformed("INT32", &two, 1, "abcd", 4, "the shape declares 8 bytes, the data has 4");
    expect_malformed("INT32", &two, 1, NULL, 0, "the shape declares 8 bytes, the data has 0");
    expect_malformed("INT64", wraps, 2, NULL, 0, "no tensor has this shape");
    expect_malformed("INT64", vast, 2, NULL, 0, "no tensor has this shape");
    expect_malformed("INT8", &minus, 1, NULL, 0, "no tensor has this shape");
    expect_malformed("INT31", &two, 1, NULL, 0, "unknown dtype");
    expect_malformed("", &two, 1, NULL, 0, "unknown dtype");
    struct trace_text out = {0};
    char why[128];
    assert_int_equal(format("INT32", empty, 2, NULL, 0, &out, why), 0); /* empty, whatever the other dimensions */
    assert_int_equal(out.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_every_value_reads_back),
        cmocka_unit_test(test_bytes_values),
        cmocka_unit_test(test_malformed_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
