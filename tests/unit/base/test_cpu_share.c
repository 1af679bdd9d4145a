/* A token bucket of CPU time. */
#include "base/cpu_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static void test_work_waits_until_its_cost_is_earned(void **state)
{
    (void)state;
    struct cpu_share s;
    cpu_share_init(&s, 0.01, SECOND_NS / 10, 5 * SECOND_NS);
    assert_true(cpu_share_allows(&s, 5 * SECOND_NS)); /* the burst */
    assert_true(cpu_share_is_plentiful(&s));
    cpu_share_spend(&s, SECOND_NS / 5); /* more than that: 0.1 s in advance, earned in 10 s */
    assert_false(cpu_share_allows(&s, 6 * SECOND_NS));
    assert_false(cpu_share_allows(&s, 14 * SECOND_NS));
    assert_true(cpu_share_allows(&s, 16 * SECOND_NS));
    assert_false(cpu_share_is_plentiful(&s));
    assert_true(cpu_share_allows(&s, 21 * SECOND_NS)); /* 0.06 s of 0.1 s are saved up */
    assert_true(cpu_share_is_plentiful(&s));
}

static void test_savings_are_bounded(void **state)
{
    (void)state;
    struct cpu_share s;
    cpu_share_init(&s, 0.01, SECOND_NS / 10, 0);
    assert_true(cpu_share_allows(&s, 3600 * SECOND_NS));
    cpu_share_spend(&s, SECOND_NS / 10 + 1);
    assert_false(cpu_share_allows(&s, 3600 * SECOND_NS));
}

static void test_unlimited_share_always_allows(void **state)
{
    (void)state;
    struct cpu_share s;
    cpu_share_init(&s, 0, 0, 0);
    cpu_share_spend(&s, 3600 * SECOND_NS);
    assert_true(cpu_share_allows(&s, 1));
}

static void test_rest_makes_a_share(void **state)
{
    (void)state;
    assert_int_equal(cpu_share_rest_ns(SECOND_NS / 100, 1000, SECOND_NS), 10 * SECOND_NS);
    assert_int_equal(cpu_share_rest_ns(SECOND_NS / 100, 10, SECOND_NS), SECOND_NS); /* at least */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_waits_until_its_cost_is_earned),
        cmocka_unit_test(test_savings_are_bounded),
        cmocka_unit_test(test_unlimited_share_always_allows),
        cmocka_unit_test(test_rest_makes_a_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
