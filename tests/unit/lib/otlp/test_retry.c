/* When a packet is sent again: back-off, Retry-After, give-up and the deadline at shutdown, on a simulated clock. */
#include "otlp/retry.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS    1000000ull
#define START (77 * 1000 * MS)

static const struct otlp_retry_limits traces = {.attempts_max = 5, .pause_max_ms = 4000},
                                      profiles = {
                                          .attempts_max = UINT_MAX, .pause_max_ms = 10000, .give_up_ns = 300000 * MS};

/* The pause after the next failure, with minimum (0) or maximum (1) jitter. */
static unsigned pause_after(struct otlp_retry *retry, uint64_t now_ns, uint32_t retry_after_ms, bool most)
{
    /* The jitter is a remainder modulo half the pause + 1: search for the random number that gives the largest one. */
    struct otlp_retry probe = *retry;
    unsigned least = 0, ms = 0;
    assert_true(otlp_retry_next(&probe, now_ns, 0, 0, 0, &least));
    assert_true(otlp_retry_next(retry, now_ns, 0, retry_after_ms, most ? least : 0, &ms));
    return ms;
}

static void test_backoff_doubles_up_to_the_cap(void **state)
{
    (void)state;
    static const unsigned expected_ms[] = {500, 1000, 2000, 4000, 8000, 10000, 10000, 10000};
    struct otlp_retry least, most;
    otlp_retry_begin(&least, &profiles, START);
    otlp_retry_begin(&most, &profiles, START);
    for (size_t i = 0; i < sizeof(expected_ms) / sizeof(expected_ms[0]); i++) {
        assert_int_equal(pause_after(&least, START, 0, false), expected_ms[i] / 2);
        assert_int_equal(pause_after(&most, START, 0, true), expected_ms[i]);
    }
    for (int i = 0; i < 100; i++) /* past the width of the shift */
        assert_int_equal(pause_after(&most, START, 0, true), 10000);
}

static void test_jitter_stays_in_the_upper_half(void **state)
{
    (void)state;
    bool differs = false;
    for (uint64_t random = 1; random != 0; random <<= 1) {
        struct otlp_retry retry;
        unsigned ms;
        otlp_retry_begin(&retry, &profiles, START);
        assert_true(otlp_retry_next(&retry, START, 0, 0, random, &ms));
        assert_in_range(ms, 250, 500);
        differs |= ms != 250;
    }
    assert_true(differs);
}

static void test_attempts_are_limited(void **state)
{
    (void)state;
    static const unsigned expected_ms[] = {500, 1000, 2000, 4000};
    struct otlp_retry retry;
    unsigned ms = 4711;
    otlp_retry_begin(&retry, &traces, START);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pause_after(&retry, START, 0, true), expected_ms[i]);
    assert_false(otlp_retry_next(&retry, START, 0, 0, 0, &ms)); /* the fifth attempt failed */
    assert_int_equal(ms, 4711);
}

static void test_retry_after_lengthens_the_pause(void **state)
{
    (void)state;
    static const struct {
        uint32_t asked_ms;
        unsigned pause_ms;
    } all[] = {{1, 250},     {249, 250},     {251, 251},     {1000, 1000},
               {2500, 2500}, {30000, 30000}, {30001, 30000}, {UINT32_MAX, 30000}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct otlp_retry retry;
        otlp_retry_begin(&retry, &traces, START);
        assert_int_equal(pause_after(&retry, START, all[i].asked_ms, false), all[i].pause_ms);
    }
}

/* It counts as any other pause: the next one is the back-off of the next attempt. */
static void test_retry_after_does_not_reset_the_backoff(void **state)
{
    (void)state;
    struct otlp_retry retry;
    otlp_retry_begin(&retry, &profiles, START);
    assert_int_equal(pause_after(&retry, START, 20000, true), 20000);
    assert_int_equal(pause_after(&retry, START, 0, true), 1000);
    assert_int_equal(pause_after(&retry, START, 0, true), 2000);
}

static void test_retry_after_header_is_parsed(void **state)
{
    (void)state;
    assert_int_equal(otlp_retry_after_ms(-1), 0);
    assert_int_equal(otlp_retry_after_ms(0), 0);
    assert_int_equal(otlp_retry_after_ms(1), 1000);
    assert_int_equal(otlp_retry_after_ms(4294966), 4294966000u);
    assert_int_equal(otlp_retry_after_ms(4294967), UINT32_MAX);
    assert_int_equal(otlp_retry_after_ms(INT64_MAX), UINT32_MAX);
}

static void test_time_is_limited(void **state)
{
    (void)state;
    const uint64_t end = START + profiles.give_up_ns;
    struct otlp_retry retry;
    unsigned ms;
    otlp_retry_begin(&retry, &profiles, START);
    assert_true(otlp_retry_next(&retry, end - 250 * MS - 1, 0, 0, 0, &ms)); /* the next attempt begins in time */
    assert_int_equal(ms, 250);
    otlp_retry_begin(&retry, &profiles, START);
    assert_false(otlp_retry_next(&retry, end - 250 * MS, 0, 0, 0, &ms));
    otlp_retry_begin(&retry, &profiles, START);
    assert_false(otlp_retry_next(&retry, end - 25000 * MS, 0, 25000, 0, &ms)); /* the receiver asks for too much */
    otlp_retry_begin(&retry, &traces, START);
    assert_true(otlp_retry_next(&retry, START + 3600000 * MS, 0, 0, 0, &ms)); /* no limit */
}

/* A packet whose receiver is dead: number of attempts, and the start of the last one. */
static void test_dead_receiver_is_given_up_after_five_minutes(void **state)
{
    (void)state;
    const uint64_t end = START + profiles.give_up_ns;
    struct otlp_retry retry;
    uint64_t now_ns = START;
    unsigned ms, attempts = 1;
    otlp_retry_begin(&retry, &profiles, now_ns);
    while (otlp_retry_next(&retry, now_ns, 0, 0, 0, &ms)) {
        now_ns += ms * MS;
        attempts++;
        assert_true(now_ns < end);
    }
    assert_true(now_ns + 5000 * MS >= end); /* the least pause at the cap */
    assert_int_equal(attempts, 1 + 5 + 58); /* 0.25 + 0.5 + 1 + 2 + 4 s, then 5 s each */
}

static void test_shutdown_allows_five_seconds(void **state)
{
    (void)state;
    assert_int_equal(otlp_retry_left_ms(0, START), UINT_MAX);
    assert_int_equal(otlp_retry_left_ms(START, START), 4999);
    assert_int_equal(otlp_retry_left_ms(START, START - 1), 4999); /* another thread read the clock earlier */
    assert_int_equal(otlp_retry_left_ms(START, START + 1000 * MS), 3999);
    assert_int_equal(otlp_retry_left_ms(START, START + 4998 * MS), 1);
    assert_int_equal(otlp_retry_left_ms(START, START + 4999 * MS), 0);
    assert_int_equal(otlp_retry_left_ms(START, START + 3600000 * MS), 0);
}

static void test_pause_does_not_outlast_the_shutdown(void **state)
{
    (void)state;
    struct otlp_retry retry;
    unsigned ms;
    otlp_retry_begin(&retry, &traces, START);
    assert_true(otlp_retry_next(&retry, START, START, 0, 0, &ms));
    assert_int_equal(ms, 250);
    assert_true(otlp_retry_next(&retry, START + 1000 * MS, START, 30000, 0, &ms));
    assert_int_equal(ms, 3999);
    assert_true(otlp_retry_next(&retry, START + 4999 * MS, START, 30000, 0, &ms));
    assert_int_equal(ms, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backoff_doubles_up_to_the_cap),
        cmocka_unit_test(test_jitter_stays_in_the_upper_half),
        cmocka_unit_test(test_attempts_are_limited),
        cmocka_unit_test(test_retry_after_lengthens_the_pause),
        cmocka_unit_test(test_retry_after_does_not_reset_the_backoff),
        cmocka_unit_test(test_retry_after_header_is_parsed),
        cmocka_unit_test(test_time_is_limited),
        cmocka_unit_test(test_dead_receiver_is_given_up_after_five_minutes),
        cmocka_unit_test(test_shutdown_allows_five_seconds),
        cmocka_unit_test(test_pause_does_not_outlast_the_shutdown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
