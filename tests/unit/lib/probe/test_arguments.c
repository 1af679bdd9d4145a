/* Declarations of arguments: valid ones, the position of the error in invalid ones, and the description for consumers.
 */
#include "probe/arguments.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LONGEST "a23456789012345678901234567890123456789012345678901234567890123" /* 63 bytes */

static void test_argument_names(void **state)
{
    (void)state;
    const char *const good[] = {"a", "_", "request__start", "A9", LONGEST};
    const char *const bad[] = {"",          "9a",     "a-b", "a.b", "a b", " a", "a:b", "a\n", "\xc3\xa9t\xc3\xa9",
                               LONGEST "4", "a/../b", "%s"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_true(probe_name_is_good(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(probe_name_is_good(bad[i]));
}

static void test_declarations(void **state)
{
    (void)state;
    const struct {
        const char *text, *declaration;
        unsigned count;
    } cases[] = {
        {NULL, "", 0},
        {"", "", 0},
        {" \t\n", "", 0},
        {"i8 a", "i8 a", 1},
        {"  str   model ,u32\tqueue_len  ", "str model, u32 queue_len", 2},
        {"u8 a,u8 ab", "u8 a, u8 ab", 2},
        {"ptr ptr, f64 f64", "ptr ptr, f64 f64", 2},
        {"i64 " LONGEST, "i64 " LONGEST, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct probe_arguments arguments;
        const char *bad;
        assert_int_equal(probe_arguments_parse(cases[i].text, &arguments, &bad), 0);
        assert_string_equal(arguments.declaration, cases[i].declaration);
        assert_int_equal(arguments.count, cases[i].count);
    }
}

static void test_errors_name_the_position(void **state)
{
    (void)state;
    const struct {
        const char *text, *bad;
    } cases[] = {
        {"i8", ""},
        {"i7 a", "i7 a"},
        {"I8 a", "I8 a"},
        {"str a b", "b"},
        {"str a,", ""},
        {",", ","},
        {"str a,,str b", ",str b"},
        {"str a; str b", "; str b"},
        {"str a, string b", "string b"},
        {"str 9a", "9a"},
        {"str-a", "-a"},
        {"str " LONGEST "4", LONGEST "4"},
        {"char *a", "char *a"},
        {"str \xff", "\xff"},
        {"a: str", "a: str"},
        {"str a, u8 a", "a"},
        {"str aa, u8 a, i64 aa", "aa"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct probe_arguments arguments = {.count = 42};
        const char *bad = NULL;
        assert_int_equal(probe_arguments_parse(cases[i].text, &arguments, &bad), -EINVAL);
        assert_string_equal(bad, cases[i].bad);
        assert_int_equal(arguments.count, 42);
    }
}

static void test_at_most_twelve_arguments(void **state)
{
    (void)state;
    const char *twelve = "u8 a,u8 b,u8 c,u8 d,u8 e,u8 f,u8 g,u8 h,u8 i,u8 j,u8 k,u8 l";
    struct probe_arguments arguments;
    const char *bad;
    char more[128], longest[PROBE_DECLARATION_MAX + 16] = "";
    assert_int_equal(probe_arguments_parse(twelve, &arguments, &bad), 0);
    assert_int_equal(arguments.count, 12);
    snprintf(more, sizeof(more), "%s, u8 m", twelve);
    assert_int_equal(probe_arguments_parse(more, &arguments, &bad), -E2BIG);
    assert_string_equal(bad, "u8 m");
    for (int i = 0; i < 12; i++)
        snprintf(longest + strlen(longest), sizeof(longest) - strlen(longest), "%su64 %c%s", i ? ", " : "", 'a' + i,
                 LONGEST + 1);
    assert_int_equal(probe_arguments_parse(longest, &arguments, &bad), 0);
    assert_string_equal(arguments.declaration, longest);
}

static void test_usdt_argument_description(void **state)
{
    (void)state;
    struct probe_arguments arguments;
    const char *bad;
    char out[256];
    assert_int_equal(
        probe_arguments_parse("i8 a, u8 b, i16 c, u16 d, i32 e, u32 f, i64 g, u64 h, ptr i, str j, f64 k, i32 l",
                              &arguments, &bad),
        0);
    size_t length = probe_arguments_describe(&arguments, out, sizeof(out));
#if defined(__x86_64__)
    assert_string_equal(
        out, "-1@%rdi 1@%rsi -2@%rdx 2@%rcx -4@%r8 4@%r9 -8@8(%rsp) 8@16(%rsp) 8@24(%rsp) 8@32(%rsp) 8@40(%rsp) "
             "-4@48(%rsp)");
#elif defined(__aarch64__)
    assert_string_equal(out, "-1@x0 1@x1 -2@x2 2@x3 -4@x4 4@x5 -8@x6 8@x7 8@[sp, 0] 8@[sp, 8] 8@[sp, 16] -4@[sp, 24]");
#endif
    assert_int_equal(length, strlen(out));
    memset(out, 'x', sizeof(out));
    assert_int_equal(probe_arguments_describe(&arguments, out, 10), length);
    assert_int_equal(strlen(out), 9);
    assert_int_equal(probe_arguments_describe(&arguments, NULL, 0), length);
}

/* Each value converted to each type: as in C's assignment, and a defined result where C has none. */
static void test_value_conversions(void **state)
{
    (void)state;
    struct probe_arguments arguments;
    const char *bad;
    enum { I64, U64, F64 };
    assert_int_equal(probe_arguments_parse("i64 i, u64 u, f64 f", &arguments, &bad), 0);
    const struct {
        struct sonde_value value;
        unsigned type;
        uint64_t bits;
    } cases[] = {
        {SONDE_VALUE_(-1), I64, UINT64_MAX},
        {SONDE_VALUE_(-1), U64, UINT64_MAX},
        {SONDE_VALUE_(UINT64_MAX), I64, UINT64_MAX},
        {SONDE_VALUE_(2.9), I64, 2},
        {SONDE_VALUE_(-2.9), I64, (uint64_t)-2},
        {SONDE_VALUE_(2.9f), U64, 2},
        {SONDE_VALUE_(-0.5), U64, 0},
        {SONDE_VALUE_(-1e300), U64, 0},
        {SONDE_VALUE_(1e300), U64, UINT64_MAX},
        {SONDE_VALUE_(1e300), I64, INT64_MAX},
        {SONDE_VALUE_(-1e300), I64, (uint64_t)INT64_MIN},
        {SONDE_VALUE_(0x1p63), I64, INT64_MAX},
        {SONDE_VALUE_(-0x1p63), I64, (uint64_t)INT64_MIN},
        {SONDE_VALUE_(0x1p63), U64, UINT64_C(1) << 63},
        {SONDE_VALUE_(0x1p64), U64, UINT64_MAX},
        {SONDE_VALUE_((double)NAN), I64, 0},
        {SONDE_VALUE_((double)NAN), U64, 0},
        {SONDE_VALUE_(INFINITY), U64, UINT64_MAX},
        {SONDE_VALUE_(-3), F64, SONDE_VALUE_(-3.0).bits},
        {SONDE_VALUE_(UINT64_MAX), F64, SONDE_VALUE_(0x1p64).bits},
        {SONDE_VALUE_(DBL_MIN), F64, SONDE_VALUE_(DBL_MIN).bits},
        {SONDE_VALUE_((_Bool)1), I64, 1},
        {SONDE_VALUE_((void *)8), U64, 8},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (probe_arguments_bits(&arguments, cases[i].type, &cases[i].value) != cases[i].bits)
            fail_msg("case %zu: %llx", i,
                     (unsigned long long)probe_arguments_bits(&arguments, cases[i].type, &cases[i].value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_argument_names),
        cmocka_unit_test(test_declarations),
        cmocka_unit_test(test_errors_name_the_position),
        cmocka_unit_test(test_at_most_twelve_arguments),
        cmocka_unit_test(test_usdt_argument_description),
        cmocka_unit_test(test_value_conversions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
