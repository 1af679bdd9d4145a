/* Percentiles from buckets: within 0.4 % of the nearest rank, also below zero. */
#include "model/duration_histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_empty_and_single_value(void **state)
{
    (void)state;
    _cleanup_(duration_histogram_freep) struct duration_histogram *h = NULL;
    assert_int_equal(duration_histogram_new(&h), 0);
    assert_int_equal(duration_histogram_percentile(h, 50), 0);
    assert_int_equal(duration_histogram_add(h, 123456789), 0);
    for (int p = 0; p <= 100; p += 50)
        assert_int_equal(duration_histogram_percentile(h, p), 123456789);
}

static void test_small_values_are_exact(void **state)
{
    (void)state;
    _cleanup_(duration_histogram_freep) struct duration_histogram *h = NULL;
    assert_int_equal(duration_histogram_new(&h), 0);
    for (int i = 1; i <= 100; i++)
        assert_int_equal(duration_histogram_add(h, i), 0);
    for (int p = 1; p <= 100; p++)
        assert_int_equal(duration_histogram_percentile(h, p), p);
}

static void test_relative_error_is_bounded(void **state)
{
    (void)state;
    _cleanup_(duration_histogram_freep) struct duration_histogram *h = NULL;
    assert_int_equal(duration_histogram_new(&h), 0);
    for (int64_t i = -2000; i <= 2000; i++) /* from far below zero to far above */
        assert_int_equal(duration_histogram_add(h, i * i * i * 1000003), 0);
    for (int64_t rank = 1; rank <= 4001; rank += 40) {
        int64_t i = rank - 2001, exact = i * i * i * 1000003;
        int64_t value = duration_histogram_percentile(h, (double)rank * 100 / 4001 - 0.001);
        int64_t off = value > exact ? value - exact : exact - value, allowed = (exact < 0 ? -exact : exact) / 250;
        assert_true(off <= allowed);
    }
}

static void test_extreme_values(void **state)
{
    (void)state;
    _cleanup_(duration_histogram_freep) struct duration_histogram *h = NULL;
    assert_int_equal(duration_histogram_new(&h), 0);
    assert_int_equal(duration_histogram_add(h, INT64_MAX), 0);
    assert_int_equal(duration_histogram_add(h, INT64_MIN), 0);
    assert_int_equal(duration_histogram_percentile(h, 0), INT64_MIN);
    assert_int_equal(duration_histogram_percentile(h, 100), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_and_single_value),
        cmocka_unit_test(test_small_values_are_exact),
        cmocka_unit_test(test_relative_error_is_bounded),
        cmocka_unit_test(test_extreme_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
