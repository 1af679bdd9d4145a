/* The budget sheds detail in order while over it, restores it when there is headroom, and never flaps on a single bad
 * second. */
#include "agent/budget.h"
#include "config/budget_default.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

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

#define ALL_LEVELS ((1u << (SOURCE_DETAIL_LEAST + 1)) - 1)

static struct load start(void)
{
    struct load l = {.now_ns = 1000 * SECOND};
    budget_init(&l.b, 0.02, 64 << 20, ALL_LEVELS);
    return l;
}

static void test_default_follows_the_machine_within_bounds(void **state)
{
    (void)state;
    assert_true(budget_default_one_cpu_share(1) == 0.05);
    assert_true(budget_default_one_cpu_share(2) == 0.1);
    assert_true(budget_default_one_cpu_share(4) == 0.1);
    assert_true(budget_default_one_cpu_share(16) == 0.16);
    assert_true(budget_default_one_cpu_share(128) == 0.5);
    assert_int_equal(budget_default_memory_bytes(1), 64 << 20);
    assert_int_equal(budget_default_memory_bytes(16), 64 << 20);
    assert_int_equal(budget_default_memory_bytes(64), 112 << 20);
    assert_int_equal(budget_default_memory_bytes(384), 128 << 20);
}

static void test_full_detail_within_budget(void **state)
{
    (void)state;
    struct load l = start();
    assert_int_equal(spend(&l, 0.019, 300), 0);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
    assert_true(l.b.one_cpu_share > 0.018 && l.b.one_cpu_share < 0.020);
}

/* One level after the other, each for half a minute at least. */
static void test_sheds_in_order(void **state)
{
    (void)state;
    struct load l = start();
    enum source_detail last = SOURCE_DETAIL_FULL;
    int lasted = 0;
    for (int i = 0; i < 600; i++) {
        spend(&l, 0.03, 1);
        lasted++;
        if (l.b.detail == last)
            continue;
        assert_int_equal(l.b.detail, last + 1);
        assert_true(lasted >= 30);
        last = l.b.detail;
        lasted = 0;
    }
    assert_int_equal(last, SOURCE_DETAIL_LEAST);
    assert_int_equal(l.b.changes, SOURCE_DETAIL_LEAST);
    assert_true(budget_is_exhausted(&l.b));
}

static void expect_outlook(const struct load *l, const char *expected)
{
    char text[BUDGET_OUTLOOK_BYTES];
    assert_string_equal(budget_outlook(&l->b, l->now_ns, text), expected);
}

/* The outlook says what happens while detail is "full" and the budget is exceeded. */
static void test_outlook_counts_down_to_the_reduction(void **state)
{
    static const char text[] = "above its limit for a while, by CPU time that it left unused before; at this rate it "
                               "reduces detail in about %d s";
    char expected[BUDGET_OUTLOOK_BYTES];
    (void)state;
    struct load l = start();
    spend(&l, 0.02, 100);
    expect_outlook(&l, "");
    spend(&l, 0.04, 20); /* the savings are the allowance of 30 s, and the last ten seconds cost twice that */
    snprintf(expected, sizeof(expected), text, 11);
    expect_outlook(&l, expected);
    assert_int_equal(spend(&l, 0.04, 10), 0);
    assert_int_equal(spend(&l, 0.04, 1), 1);
    budget_init(&l.b, 0.02, 64 << 20, 1u << SOURCE_DETAIL_FULL);
    spend(&l, 0.04, 100);
    expect_outlook(&l, "above its limit, and no detail is left to reduce");
}

/* Far over the budget, one level would not suffice. */
static void test_far_over_budget_sheds_two_levels_at_a_time(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.5, 25);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_HALF_RATE);
    spend(&l, 0.5, 11);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_NO_OFF_CPU);
    spend(&l, 0.5, 11);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_LEAST);
    spend(&l, 0.001, 1000);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
    assert_false(budget_is_exhausted(&l.b));
}

/* Levels that would reduce nothing are left out. */
static void test_sheds_only_what_is_monitored(void **state)
{
    (void)state;
    struct load l = {.now_ns = 1000 * SECOND};
    budget_init(&l.b, 0.02, 64 << 20, 1u << SOURCE_DETAIL_HALF_RATE | 1u << SOURCE_DETAIL_SLOWEST_PATHS);
    while (l.b.detail == SOURCE_DETAIL_FULL)
        spend(&l, 0.03, 1);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_HALF_RATE);
    spend(&l, 0.03, 31);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_SLOWEST_PATHS);
    spend(&l, 0.03, 300);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_SLOWEST_PATHS);
    spend(&l, 0.001, 1000);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
}

/* Startup cost has passed before the budget is judged. */
static void test_startup_cost_does_not_shed(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.2, 19);
    assert_int_equal(spend(&l, 0.01, 60), 0);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
    assert_true(spend(&l, 0.2, 12) > 0); /* later the same cost sheds at once */
}

static void test_detail_returns_when_cost_falls(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.5, 120);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_LEAST);
    spend(&l, 0.001, 300);
    assert_int_equal(l.b.detail, SOURCE_DETAIL_FULL);
}

static void test_detail_does_not_return_without_headroom(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.5, 120);
    assert_int_equal(spend(&l, 0.015, 400), 0); /* within budget, but the next level's cost would not be */
    assert_int_equal(l.b.detail, SOURCE_DETAIL_LEAST);
}

/* The cost is low at a level and too high at the level before it: detail returns less and less often. */
static void test_detail_does_not_flap(void **state)
{
    (void)state;
    struct load l = start();
    uint64_t changes[2] = {0};
    for (int half_hour = 0; half_hour < 2; half_hour++) {
        for (int i = 0; i < 1800; i++)
            spend(&l, l.b.detail == SOURCE_DETAIL_FULL ? 0.03 : 0.01, 1);
        changes[half_hour] = l.b.changes;
    }
    assert_in_range(changes[0], 2, 20);
    assert_true(changes[1] - changes[0] <= 8);
}

static void test_single_spike_does_not_shed(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.005, 40);
    assert_int_equal(spend(&l, 0.1, 1), 0);
    assert_int_equal(spend(&l, 0.005, 20), 0);
}

/* The unused budget pays for a burst, such as the unwind tables of a new program, but not for a steady excess. */
static void test_saved_budget_pays_for_a_burst(void **state)
{
    (void)state;
    struct load l = start();
    spend(&l, 0.005, 40);
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
        assert_true(l.b.one_cpu_share > 0.016 && l.b.one_cpu_share < 0.020);
    }
    for (int i = 0; i < 120; i++) {
        spend(&l, 0.1, 1);
        assert_true(l.b.one_cpu_share > 0.016);
    }
    assert_int_equal(l.b.detail, SOURCE_DETAIL_LEAST);
}

static void test_memory_over_budget_is_reported(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 0.01, 64 << 20, ALL_LEVELS);
    budget_measure(&b, SECOND, 0, 65ull << 20);
    assert_true(b.over_memory);
    budget_measure(&b, 2 * SECOND, 0, 63ull << 20);
    assert_false(b.over_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_follows_the_machine_within_bounds),
        cmocka_unit_test(test_full_detail_within_budget),
        cmocka_unit_test(test_sheds_in_order),
        cmocka_unit_test(test_outlook_counts_down_to_the_reduction),
        cmocka_unit_test(test_far_over_budget_sheds_two_levels_at_a_time),
        cmocka_unit_test(test_sheds_only_what_is_monitored),
        cmocka_unit_test(test_startup_cost_does_not_shed),
        cmocka_unit_test(test_detail_returns_when_cost_falls),
        cmocka_unit_test(test_detail_does_not_return_without_headroom),
        cmocka_unit_test(test_detail_does_not_flap),
        cmocka_unit_test(test_cost_is_known_after_detach),
        cmocka_unit_test(test_single_spike_does_not_shed),
        cmocka_unit_test(test_saved_budget_pays_for_a_burst),
        cmocka_unit_test(test_memory_over_budget_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
