/* Conversions of times, and the clock of a process. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void test_timespecs_are_converted_exactly(void **state)
{
    (void)state;
    const struct timespec t = clock_timespec_of(UINT64_C(1785499439123456789));
    assert_int_equal(t.tv_sec, 1785499439);
    assert_int_equal(t.tv_nsec, 123456789);
    assert_int_equal(clock_ns_of(t), UINT64_C(1785499439123456789));
}

static void test_unix_time_of_now_is_the_unix_time(void **state)
{
    (void)state;
    const uint64_t before_ns = clock_unix_ns(), ns = clock_unix_from_monotonic(clock_monotonic_ns());
    assert_in_range(ns, before_ns - 1000000000u, before_ns + 60000000000u);
}

static void test_time_of_day_is_local(void **state)
{
    (void)state;
    char text[CLOCK_TEXT_BYTES];
    setenv("TZ", "UTC-2", 1); /* two hours east */
    tzset();
    assert_string_equal(clock_time_of_day(UINT64_C(1785499439999999999), text), "14:03:59");
}

static void test_cpu_time_of_a_process(void **state)
{
    (void)state;
    assert_true(clock_process_cpu_ns(getpid()) > 0);
    assert_int_equal(clock_process_cpu_ns((1 << 22) + 1), 0); /* above the largest PID of the kernel */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timespecs_are_converted_exactly),
        cmocka_unit_test(test_unix_time_of_now_is_the_unix_time),
        cmocka_unit_test(test_time_of_day_is_local),
        cmocka_unit_test(test_cpu_time_of_a_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
