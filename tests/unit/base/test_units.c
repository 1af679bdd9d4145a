/* units.c: numbers as users write them, and refusal of everything else. */
#include "base/units.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

static void test_durations(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int error;
        uint64_t ns;
    } cases[] = {
        {"0", 0, 0},
        {"1", 0, 1000000000},
        {"250ms", 0, 250000000},
        {"60s", 0, 60000000000},
        {"5m", 0, 300000000000},
        {"1h", 0, 3600000000000},
        {"1.5s", 0, 1500000000},
        {"100us", 0, 100000},
        {"7ns", 0, 7},
        {"2 min", 0, 120000000000},
        {"0.29s", 0, 290000000},
        {"1.1s", 0, 1100000000},
        {"0.57ms", 0, 570000},
        {"", -EINVAL, 0},
        {"s", -EINVAL, 0},
        {"-1s", -EINVAL, 0},
        {"+1s", -EINVAL, 0},
        {" 1s", -EINVAL, 0},
        {"1x", -EINVAL, 0},
        {"1ss", -EINVAL, 0},
        {"1s ", -EINVAL, 0},
        {"1.2.3s", -EINVAL, 0},
        {"1e3", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"inf", -EINVAL, 0},
        {"nan", -EINVAL, 0},
        {"1S", -EINVAL, 0},
        {"9999999999999h", -ERANGE, 0},
        {"1,5s", -EINVAL, 0},
        {"00000000000000000000000000000000000000000000000000000000000000000001s", -EINVAL, 0},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        uint64_t ns = 42;
        int r = units_parse_duration_ns(cases[i].text, &ns);
        if (r != cases[i].error || ns != (r == 0 ? cases[i].ns : 42))
            fail_msg("\"%s\": %d, %llu", cases[i].text, r, (unsigned long long)ns);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int error;
        uint64_t bytes;
    } cases[] = {
        {"0", 0, 0},
        {"1000", 0, 1000},
        {"1000B", 0, 1000},
        {"64MiB", 0, 67108864},
        {"512KiB", 0, 524288},
        {"1GiB", 0, 1073741824},
        {"1.5 KiB", 0, 1536},
        {"1kB", 0, 1000},
        {"2MB", 0, 2000000},
        {"3GB", 0, 3000000000},
        {"64M", -EINVAL, 0},
        {"64mib", -EINVAL, 0},
        {"KiB", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"99999999999GiB", -ERANGE, 0},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        uint64_t bytes = 42;
        int r = units_parse_size_bytes(cases[i].text, &bytes);
        if (r != cases[i].error || bytes != (r == 0 ? cases[i].bytes : 42))
            fail_msg("\"%s\": %d, %llu", cases[i].text, r, (unsigned long long)bytes);
    }
}

static void test_percents(void **state)
{
    (void)state;
    double share = 42;
    assert_int_equal(units_parse_percent("1%", &share), 0);
    assert_true(share == 0.01);
    assert_int_equal(units_parse_percent("0.5 %", &share), 0);
    assert_true(share == 0.005);
    assert_int_equal(units_parse_percent("100%", &share), 0);
    assert_true(share == 1);
    share = 42;
    assert_int_equal(units_parse_percent("1", &share), -EINVAL);
    assert_int_equal(units_parse_percent("%", &share), -EINVAL);
    assert_int_equal(units_parse_percent("-1%", &share), -EINVAL);
    assert_int_equal(units_parse_percent("1%%", &share), -EINVAL);
    assert_true(share == 42);
}

static void test_integers(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int error;
        int64_t value;
    } cases[] = {
        {"0", 0, 0},
        {"-5", 0, -5},
        {"10", 0, 10},
        {"11", -ERANGE, 0},
        {"-6", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"-", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"0x1", -EINVAL, 0},
        {"1.0", -EINVAL, 0},
        {"99999999999999999999", -ERANGE, 0},
        {"-99999999999999999999", -ERANGE, 0},
        {"99999999999999999999x", -EINVAL, 0},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        int64_t value = 42;
        int r = units_parse_integer(cases[i].text, -5, 10, &value);
        if (r != cases[i].error || value != (r == 0 ? cases[i].value : 42))
            fail_msg("\"%s\": %d, %lld", cases[i].text, r, (long long)value);
    }
    int64_t value;
    assert_int_equal(units_parse_integer("-9223372036854775808", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == INT64_MIN);
}

static void test_formatted_durations(void **state)
{
    (void)state;
    const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "0 ns"},
        {1, "1 ns"},
        {850, "850 ns"},
        {999, "999 ns"},
        {1000, "1.00 us"},
        {1234, "1.23 us"},
        {9994, "9.99 us"},
        {9996, "10.0 us"},
        {12345, "12.3 us"},
        {99940, "99.9 us"},
        {99960, "100 us"},
        {999499, "999 us"},
        {999500, "1.00 ms"},
        {999990, "1.00 ms"},
        {1500000, "1.50 ms"},
        {999999999, "1.00 s"},
        {12000000000, "12.0 s"},
        {3600000000000, "3600 s"},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        char out[32];
        assert_string_equal(units_format_duration(cases[i].ns, out, sizeof(out)), cases[i].text);
    }
    char tiny[4];
    assert_string_equal(units_format_duration(1500000, tiny, sizeof(tiny)), "1.5"); /* truncated, and still a string */
}

static void test_formatted_sizes(void **state)
{
    (void)state;
    const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {1047552, "1023 KiB"},
        {1048575, "1.00 MiB"},
        {67108864, "64.0 MiB"},
        {1073741823, "1.00 GiB"},
        {UINT64_C(1) << 40, "1024 GiB"},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        char out[32];
        assert_string_equal(units_format_size(cases[i].bytes, out, sizeof(out)), cases[i].text);
    }
}

static void test_formatted_counts(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        const char *text;
    } cases[] = {{0, "0"},
                 {999, "999"},
                 {1000, "1,000"},
                 {123456, "123,456"},
                 {3000000, "3,000,000"},
                 {UINT64_MAX, "18,446,744,073,709,551,615"}};
    for (size_t i = 0; i < array_size(cases); i++) {
        char out[32];
        assert_string_equal(units_format_count(cases[i].count, out, sizeof(out)), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_percents),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_formatted_durations),
        cmocka_unit_test(test_formatted_sizes),
        cmocka_unit_test(test_formatted_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
