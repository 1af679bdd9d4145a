/* rate_limit.c: bursts, the rate after them, and clients beyond the space. */
#include "server/rate_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RATE      5
#define BURST     (RATE * RATE_LIMIT_BURST_S)
#define SECOND_NS 1000000000ull

static uint64_t now_ns;

static uint64_t now(void)
{
    return now_ns;
}

static int start(void **state)
{
    now_ns = 1000 * SECOND_NS;
    return rate_limit_new(RATE, now, (struct rate_limit **)state);
}

static int stop(void **state)
{
    rate_limit_free(*state);
    return 0;
}

/* Makes requests until one is refused. */
static unsigned make_all(struct rate_limit *l, uint64_t client)
{
    unsigned count = 0;
    while (rate_limit_allows(l, client))
        count++;
    return count;
}

static void test_a_burst_is_allowed_and_then_the_rate(void **state)
{
    struct rate_limit *l = *state;
    assert_int_equal(make_all(l, 7), BURST);
    for (int i = 0; i < 3; i++) {
        now_ns += SECOND_NS;
        assert_int_equal(make_all(l, 7), RATE);
    }
    now_ns += 1000 * SECOND_NS; /* no more than a burst is saved up */
    assert_int_equal(make_all(l, 7), BURST);
    assert_int_equal(rate_limit_refused(l), 5);
}

static void test_clients_have_limits_of_their_own(void **state)
{
    struct rate_limit *l = *state;
    for (uint64_t client = 0; client < 100; client++)
        assert_int_equal(make_all(l, client), BURST);
    for (uint64_t client = 0; client < 100; client++)
        assert_false(rate_limit_allows(l, client));
}

/* Others that make one request each do not make the server forget a client that makes many. */
static void test_the_busiest_clients_are_remembered(void **state)
{
    struct rate_limit *l = *state;
    assert_int_equal(make_all(l, 7), BURST);
    for (uint64_t client = 100; client < 100100; client++)
        assert_true(rate_limit_allows(l, client));
    assert_false(rate_limit_allows(l, 7));
}

static void test_rate_of_0_allows_any_number(void **state)
{
    struct rate_limit *l;
    (void)state;
    assert_int_equal(rate_limit_new(0, now, &l), 0);
    for (int i = 0; i < 100000; i++)
        assert_true(rate_limit_allows(l, 7));
    rate_limit_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_burst_is_allowed_and_then_the_rate, start, stop),
        cmocka_unit_test_setup_teardown(test_clients_have_limits_of_their_own, start, stop),
        cmocka_unit_test_setup_teardown(test_the_busiest_clients_are_remembered, start, stop),
        cmocka_unit_test(test_rate_of_0_allows_any_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
