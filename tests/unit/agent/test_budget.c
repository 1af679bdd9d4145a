/* The budget sheds detail in order while over it, restores it when there is headroom, and never flaps on a single bad
 * second. */
#include "agent/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND 1000000000ull

struct load {
    struct budget b;
    uint64_t now_ns, cpu_ns;
};

/* Spends `share` of one CPU for `seconds`; returns how often detail changed. */
static int spend(struct load *l, double share, int seconds)
{
    int changes = 0;
    for (int i = 0; i < seconds; i++) {
        l->now_ns += SECOND;
        l->cpu_ns += (uint64_t)(share * SECOND);
        changes += budget_measure(&l->b, l->now_ns, l->cpu_ns, 1000);
    }
    return changes;
}

static struct load start(void)
{
    struct load l = {.now_ns = 1000 * SECOND};
    budget_init(&l.b, 0.01, 64 << 20, 2); /* 1 % of two CPUs: 0.02 of one */
    return l;
}

static void test_full_detail_within_budget(void **state)
{
    (void)state;
    struct load l = start();
    assert_int_equal(spend(&l, 0.019, 100), 0);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
    assert_true(l.b.cpu_share > 0.009 && l.b.cpu_share < 0.010);
}

static void test_sheds_in_order(void **state)
{
    (void)state;
    struct load l = start();
    enum source_detail last = SOURCE_DETAIL_FULL;
    for (int i = 0; i < 60; i++) {
        spend(&l, 0.5, 1);
        assert_true(l.b.detail == last || l.b.detail == last + 1);
        last = l.b.detail;
    }
    assert_int_equal(last, SOURCE_DETAIL_LEAST);
    assert_int_equal(l.b.changes, 3);
}

/* Startup cost has passed before the budget is judged. */
static void test_startup_cost_does_not_shed(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.2, 9);
    assert_int_equal(spend(&l, 0.01, 60), 0);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
    assert_true(spend(&l, 0.2, 12) > 0); /* later the same cost sheds at once */
}

static void test_detail_returns_when_cost_falls(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.5, 60);
    spend(&l, 0.001, 200);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
}

static void test_detail_does_not_return_without_headroom(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.5, 60);
    assert_int_equal(spend(&l, 0.015, 200), 0); /* within budget, but twice that would not be */
    assert_int_equal(l.b.detail, SOURCE_DETAIL_LEAST);
}

static void test_single_spike_does_not_shed(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.005, 20);
    assert_int_equal(spend(&l, 0.1, 1), 0);
    assert_int_equal(spend(&l, 0.005, 20), 0);
}

/* What was not used pays for a burst, such as the unwind tables of a new program, but not for a steady excess. */
static void test_saved_budget_pays_for_a_burst(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.005, 30);
    assert_int_equal(spend(&l, 0.25, 2), 0); /* of 0.6 s */
    assert_int_equal(spend(&l, 0.01, 60), 0);
    spend(&l, 0.04, 10);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
    assert_true(spend(&l, 0.04, 60) > 0);
}

/* Neither a change of detail nor detached programs, whose counted run time disappears, make the cost look like zero. */
static void test_cost_is_known_after_detach(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.018, 30);
    for (int i = 0; i < 30; i++) {
        l.cpu_ns = i == 10 ? SECOND / 100 : l.cpu_ns;
        spend(&l, 0.018, 1);
        assert_true(l.b.cpu_share > 0.008 && l.b.cpu_share < 0.010);
    }
    for (int i = 0; i < 60; i++) {
        spend(&l, 0.1, 1);
        assert_true(l.b.cpu_share > 0.008);
    }
    assert_int_equal(l.b.detail, SOURCE_DETAIL_LEAST);
}

static void test_memory_over_budget_is_reported(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 0.01, 64 << 20, 2);
    budget_measure(&b, SECOND, 0, 65ull << 20);
    assert_true(b.over_memory);
    budget_measure(&b, 2 * SECOND, 0, 63ull << 20);
    assert_false(b.over_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_detail_within_budget),
        cmocka_unit_test(test_sheds_in_order),
        cmocka_unit_test(test_startup_cost_does_not_shed),
        cmocka_unit_test(test_detail_returns_when_cost_falls),
        cmocka_unit_test(test_detail_does_not_return_without_headroom),
        cmocka_unit_test(test_cost_is_known_after_detach),
        cmocka_unit_test(test_single_spike_does_not_shed),
        cmocka_unit_test(test_saved_budget_pays_for_a_burst),
        cmocka_unit_test(test_memory_over_budget_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
