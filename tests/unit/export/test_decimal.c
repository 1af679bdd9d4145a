/* Decimals as Python prints them, and quotients rounded once. */
#include "export/decimal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_decimals_match_python(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0.0"},
                 {-0.0, "-0.0"},
                 {1, "1.0"},
                 {0.1, "0.1"},
                 {1.0 / 3, "0.3333333333333333"},
                 {2.0 / 3, "0.6666666666666666"},
                 {5e-324, "5e-324"},
                 {1e-4, "0.0001"},
                 {1e-5, "1e-05"},
                 {123456789012345680.0, "1.2345678901234568e+17"},
                 {1e15, "1000000000000000.0"},
                 {1e16, "1e+16"},
                 {1e100, "1e+100"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"},
                 {-12.5, "-12.5"},
                 {9007199254740993.0, "9007199254740992.0"},
                 {INFINITY, "inf"}};
    for (size_t i = 0; i < array_size(cases); i++) {
        _cleanup_buf_ struct buf out = {0};
        decimal_put(&out, cases[i].value);
        assert_string_equal(out.data, cases[i].text);
    }
}

static void test_quotients_are_rounded_once(void **state)
{
    (void)state;
    static const struct {
        __int128 n;
        uint64_t d;
        const char *text;
    } cases[] = {{0, 1000, "0.0"},
                 {1, 1000, "0.001"},
                 {-1500, 1000, "-1.5"},
                 {12340, 1000, "12.34"},
                 {1000, 3000, "0.3333333333333333"},
                 {1, 100000000, "1e-08"},
                 {(__int128)UINT64_MAX, 1000, "1.844674407370955e+16"},
                 {((__int128)1 << 53) + 1, 1, "9007199254740992.0"},
                 {((__int128)1 << 54) + 6, 2, "9007199254740996.0"},
                 {((__int128)1 << 100) + 1, 1000, "1.2676506002282294e+27"},
                 {-((__int128)1 << 64), 3, "-6.148914691236517e+18"}};
    for (size_t i = 0; i < array_size(cases); i++) {
        _cleanup_buf_ struct buf out = {0};
        decimal_put_quotient(&out, cases[i].n, cases[i].d);
        assert_string_equal(out.data, cases[i].text);
    }
}

static void test_rounding_to_value_types(void **state)
{
    (void)state;
    assert_true(decimal_round(65504, DECIMAL_HALF) == 65504 && isinf(decimal_round(65520, DECIMAL_HALF)));
    assert_true(decimal_round(0.1, DECIMAL_HALF) == 0.0999755859375);
    assert_true(decimal_round(0x1p-25, DECIMAL_HALF) == 0 && decimal_round(0x1.8p-25, DECIMAL_HALF) == 0x1p-24);
    assert_true(decimal_round(0.1, DECIMAL_BFLOAT) == 0.10009765625);
    struct decimal d;
    decimal_shortest(0.1f, DECIMAL_FLOAT, &d);
    assert_string_equal(d.digits, "1");
    assert_int_equal(d.exponent, -1);
    decimal_shortest(16777216, DECIMAL_FLOAT, &d);
    assert_string_equal(d.digits, "16777216");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimals_match_python),
        cmocka_unit_test(test_quotients_are_rounded_once),
        cmocka_unit_test(test_rounding_to_value_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
