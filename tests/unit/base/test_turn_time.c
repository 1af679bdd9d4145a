/* The time of a turn limits its own thread, an interruption limits all threads. No assertion depends on how fast the
 * test runs: a turn has no time at all, or an hour. */
#include "base/turn_time.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define HOUR_NS (3600 * 1000000000ull)

static int teardown(void **state)
{
    (void)state;
    turn_time_end();
    turn_time_resume();
    return 0;
}

static void expect_no_limits(void)
{
    assert_false(turn_time_is_over());
    assert_false(turn_time_is_half_over());
    assert_int_equal(turn_time_wait_ms(5000), 5000);
}

static void test_thread_without_turns_has_no_limits(void **state)
{
    (void)state;
    expect_no_limits();
}

static void test_turn_is_over_when_its_time_is(void **state)
{
    (void)state;
    turn_time_begin(0, HOUR_NS);
    assert_true(turn_time_is_half_over());
    assert_true(turn_time_is_over());
    assert_int_equal(turn_time_wait_ms(5000), 5000); /* an item that has begun may still wait */
    turn_time_begin(HOUR_NS, 0);
    assert_false(turn_time_is_half_over());
    assert_false(turn_time_is_over());
    assert_int_equal(turn_time_wait_ms(5000), 0);
    turn_time_begin(0, 0);
    turn_time_end();
    expect_no_limits();
}

static void *expect_no_limits_here(void *arg)
{
    (void)arg;
    expect_no_limits();
    return NULL;
}

static void test_turn_limits_its_own_thread_only(void **state)
{
    (void)state;
    pthread_t thread;
    turn_time_begin(0, 0);
    assert_int_equal(pthread_create(&thread, NULL, expect_no_limits_here, NULL), 0);
    pthread_join(thread, NULL);
}

static void interrupt(int number)
{
    (void)number;
    turn_time_interrupt();
}

static void test_signal_handler_ends_the_time(void **state)
{
    (void)state;
    turn_time_begin(HOUR_NS, HOUR_NS);
    signal(SIGUSR1, interrupt);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    assert_true(turn_time_is_interrupted());
    assert_true(turn_time_is_half_over());
    assert_true(turn_time_is_over());
    assert_int_equal(turn_time_wait_ms(5000), 0);
    turn_time_resume();
    assert_false(turn_time_is_over());
    assert_int_equal(turn_time_wait_ms(5000), 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_thread_without_turns_has_no_limits, teardown),
        cmocka_unit_test_teardown(test_turn_is_over_when_its_time_is, teardown),
        cmocka_unit_test_teardown(test_turn_limits_its_own_thread_only, teardown),
        cmocka_unit_test_teardown(test_signal_handler_ends_the_time, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
