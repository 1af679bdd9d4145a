/* profile_diff.c: two small profiles whose sums are computed by hand. Totals add up, recursion counts once, moved code
 * with equal names is one function, and changes that are not significant are not reported, for many samples, few heavy
 * ones, or complete counts. */
#include "model/profile_diff.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

static void add_sample(struct profile *p, const char *command, uint64_t address, uint64_t weight, uint64_t count,
                       const char *const *functions, size_t depth)
{
    struct frame frames[8];
    struct resource resource = fixture_resource(1, command);
    for (size_t i = 0; i < depth; i++) {
        frames[i] = fixture_native(functions[i]);
        frames[i].address += address;
    }
    const struct sample s = {.value = weight,
                             .resource = &resource,
                             .thread_name = "",
                             .frames = frames,
                             .frame_count = depth,
                             .count = count};
    assert_int_equal(profile_add(p, &s), 0);
}
#define ADD(p, command, address, weight, count, ...)                                                                   \
    add_sample(p, command, address, weight, count, (const char *const[]){__VA_ARGS__},                                 \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static const struct diff_function *find_function(const struct profile_diff *d, const char *name)
{
    for (size_t i = 0; i < d->function_count; i++)
        if (strcmp(strings_get(d->names, d->functions[i].name), name) == 0)
            return &d->functions[i];
    fail_msg("there is no %s", name);
    return d->functions;
}

static void test_sums_are_right(void **state)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    (void)state;
    assert_int_equal(profile_new(0, &before), 0);
    assert_int_equal(profile_new(0, &after), 0);
    ADD(before, "a", 0, 300, 3, "leaf", "again", "again", "main");
    ADD(before, "a", 0, 100, 1, "main");
    ADD(after, "a", 0x5000, 500, 5, "leaf", "again", "again", "main"); /* the same code at another address */
    ADD(after, "a", 0x6000, 300, 3, "leaf", "again", "again", "main");
    ADD(after, "b", 0, 200, 2, "again", "main");
    assert_int_equal(profile_diff_new(before, after, &d), 0);
    assert_true(d->whole[DIFF_BEFORE].weight == 400 && d->whole[DIFF_AFTER].weight == 1000);
    assert_true(d->whole[DIFF_BEFORE].samples == 4 && d->whole[DIFF_AFTER].samples == 10);
    assert_int_equal(d->function_count, 3);
    const struct diff_function *again = find_function(d, "again"), *leaf = find_function(d, "leaf"),
                               *top = find_function(d, "main");
    assert_true(again->self[DIFF_BEFORE].weight == 0 && again->self[DIFF_AFTER].weight == 200);
    assert_true(again->total[DIFF_BEFORE].weight == 300 && again->total[DIFF_AFTER].weight == 1000);
    assert_true(leaf->self[DIFF_BEFORE].weight == 300 && leaf->self[DIFF_AFTER].weight == 800 &&
                leaf->self[DIFF_AFTER].samples == 8);
    assert_true(top->total[DIFF_BEFORE].weight == 400 && top->total[DIFF_AFTER].weight == 1000);
    assert_int_equal(d->stack_count, 3); /* two of process a, one of b */
    uint64_t sums[DIFF_SIDES] = {0};
    for (size_t i = 0; i < d->stack_count; i++)
        for (int side = 0; side < DIFF_SIDES; side++)
            sums[side] += d->stacks[i].amount[side].weight;
    assert_true(sums[DIFF_BEFORE] == 400 && sums[DIFF_AFTER] == 1000);
    const struct diff_change change = profile_diff_change(d, leaf->self);
    assert_true(change.before == 0.75 && change.after == 0.8);
    assert_false(diff_is_significant(&change)); /* of 4 and 10 samples */
}

static void test_significance_of_sampled_changes(void **state)
{
    (void)state;
    for (int twice = 0; twice < 2; twice++) {
        _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
        _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
        assert_int_equal(profile_new(0, &before), 0);
        assert_int_equal(profile_new(0, &after), 0);
        ADD(before, "", 0, 10000, 1000, "f", "main");
        ADD(before, "", 0, 90000, 9000, "g", "main");
        const uint64_t n = twice ? 2000 : 1100; /* 10 % and 11 %: within 3 * 0.43 points; 20 %: not */
        ADD(after, "", 0, n * 10, n, "f", "main");
        ADD(after, "", 0, 100000 - n * 10, 10000 - n, "g", "main");
        assert_int_equal(profile_diff_new(before, after, &d), 0);
        const struct diff_change change = profile_diff_change(d, find_function(d, "f")->self);
        const double p = (1000 + n) / 20000.0; /* samples of equal weight: a binomial distribution */
        assert_true(fabs(change.noise - 3 * sqrt(p * (1 - p) * 2 / 10000)) < 1e-12);
        assert_int_equal(diff_is_significant(&change), twice);
    }
}

/* Another rate changes the weight of each sample, and not the bound. */
static void test_sampling_rate_does_not_change_the_bound(void **state)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    (void)state;
    assert_int_equal(profile_new(0, &before), 0);
    assert_int_equal(profile_new(0, &after), 0);
    ADD(before, "", 0, 300 * 1000, 300, "f");
    ADD(before, "", 0, 700 * 1000, 700, "g");
    ADD(after, "", 0, 1200 * 7, 1200, "f");
    ADD(after, "", 0, 2800 * 7, 2800, "g");
    assert_int_equal(profile_diff_new(before, after, &d), 0);
    const struct diff_change change = profile_diff_change(d, find_function(d, "f")->self);
    assert_true(fabs(change.noise - 3 * sqrt(0.3 * 0.7 * (1 / 1000.0 + 1 / 4000.0))) < 1e-12);
}

/* A sleep of 1.1 s, and one of 1.2 s, among a thousand waits of a millisecond: the length of the next one cannot be
 * estimated. */
static void test_single_heavy_sample_is_not_significant(void **state)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    (void)state;
    assert_int_equal(profile_new(0, &before), 0);
    assert_int_equal(profile_new(0, &after), 0);
    ADD(before, "", 0, 1100000000, 1, "sleep", "main");
    ADD(before, "", 0, 1000000000, 1000, "poll", "main");
    ADD(after, "", 0, 1200000000, 1, "sleep", "main");
    ADD(after, "", 0, 1000000000, 1000, "poll", "main");
    assert_int_equal(profile_diff_new(before, after, &d), 0);
    const char *const names[] = {"sleep", "poll"};
    for (size_t i = 0; i < array_size(names); i++) {
        const struct diff_change change = profile_diff_change(d, find_function(d, names[i])->self);
        assert_true(fabs(diff_change_of(&change)) > 0.02 && change.noise > 0.5 && change.noise <= 1);
        assert_false(diff_is_significant(&change));
    }
    const struct diff_change whole = profile_diff_change(d, find_function(d, "main")->total);
    assert_true(whole.noise == 0);
}

/* 300 calls that each took 8 pages, then 10: nothing was sampled at random. If only one side was, only its variance
 * counts. */
static void test_counted_events_are_exact(void **state)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    (void)state;
    assert_int_equal(profile_new(0, &before), 0);
    assert_int_equal(profile_new(0, &after), 0);
    ADD(before, "", 0, 300 * 8 * 4096, 300, "f");
    ADD(before, "", 0, 300 * 8 * 4096, 300, "g");
    ADD(after, "", 0, 300 * 10 * 4096, 300, "f");
    ADD(after, "", 0, 300 * 8 * 4096, 300, "g");
    assert_int_equal(profile_diff_new(before, after, &d), 0);
    const struct diff_amount *f = find_function(d, "f")->self;
    struct diff_change change = profile_diff_change(d, f);
    const double drawn = change.noise;
    assert_false(diff_is_significant(&change));
    d->is_exact[DIFF_BEFORE] = true;
    change = profile_diff_change(d, f);
    assert_true(fabs(change.noise - drawn / sqrt(2)) < 1e-12);
    d->is_exact[DIFF_AFTER] = true;
    change = profile_diff_change(d, f);
    assert_true(change.noise == 0 && diff_is_significant(&change));
    change = profile_diff_change(d, d->whole);
    assert_false(diff_is_significant(&change));
}

/* ---- how often the bounds hold ---- */

static double draw(uint64_t *state) /* 0 to 1, both excluded */
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 33) + 0.5) / (double)(1u << 31);
}

/* Compares two recordings of the same workload: a sample belongs to a function with probability `p`, where it weighs
 * `factor` times as much; weights have the tail of 1 / u^(1/4), and are all equal without one. */
static struct diff_change draw_change(uint64_t *state, double p, double factor, bool has_tail)
{
    struct diff_amount part[DIFF_SIDES] = {0};
    struct profile_diff d = {0};
    for (int side = 0; side < DIFF_SIDES; side++)
        for (int i = 0; i < 1000; i++) {
            const bool is_in = draw(state) < p;
            const uint64_t weight = (uint64_t)(1000 * (is_in ? factor : 1) * (has_tail ? pow(draw(state), -0.25) : 1));
            const struct diff_amount one = {weight, 1, (double)weight * (double)weight};
            struct diff_amount *sums[] = {&d.whole[side], is_in ? &part[side] : NULL};
            for (size_t j = 0; j < array_size(sums) && sums[j]; j++)
                *sums[j] = (struct diff_amount){sums[j]->weight + one.weight, sums[j]->samples + 1,
                                                sums[j]->squares + one.squares};
        }
    return profile_diff_change(&d, part);
}

static void test_bounds_hold_at_their_confidence(void **state)
{
    static const struct {
        double p, factor;
        bool has_tail;
    } cases[] = {{0.3, 1, false}, {0.05, 1, false}, {0.3, 1, true},
                 {0.05, 1, true}, {0.05, 20, true}, {0.3, 0.05, true}};
    uint64_t random = 17;
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        int within_one = 0, reported = 0;
        for (int j = 0; j < 500; j++) {
            const struct diff_change change = draw_change(&random, cases[i].p, cases[i].factor, cases[i].has_tail);
            within_one += fabs(diff_change_of(&change)) < change.noise / 3;
            reported += diff_is_significant(&change);
        }
        if (within_one < 500 * 0.60 || within_one > 500 * 0.77 ||
            reported > 10) /* 68 % of a normal distribution, and 0.3 % */
            fail_msg("case %zu: %d of 500 within a standard deviation, %d beyond three", i, within_one, reported);
    }
}

static void test_empty_profile_can_be_compared(void **state)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    (void)state;
    assert_int_equal(profile_new(0, &before), 0);
    assert_int_equal(profile_new(0, &after), 0);
    ADD(after, "a", 0, 10, 1, "f");
    assert_int_equal(profile_diff_new(before, after, &d), 0);
    const struct diff_change change = profile_diff_change(d, find_function(d, "f")->self);
    assert_true(change.before == 0 && change.after == 1);
    assert_string_equal(profile_diff_why_not(d), "before has no samples: nothing can be compared");
    d->not_observed_ns[DIFF_BEFORE] = 5;
    assert_string_equal(profile_diff_why_not(d), "before was not monitored: nothing can be compared");
}

/* Waiting time is compared over the monitored time; wall-clock time that is partly unmonitored is not comparable. */
static void test_unmonitored_time_is_not_compared(void **state)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *waits = NULL, *wall = NULL;
    (void)state;
    assert_int_equal(profile_new(0, &p), 0);
    ADD(p, "a", 0, 10, 1, "f");
    p->duration_ns = 7;
    p->type = &sample_type_off_cpu;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(profile_diff_new(p, p, &wall), 0);
        assert_null(profile_diff_why_not(wall));
        profile_diff_free(take_ptr(wall));
        p->type = &sample_type_wall;
    }
    p->not_observed_ns = 5;
    assert_int_equal(profile_diff_new(p, p, &wall), 0);
    assert_non_null(strstr(profile_diff_why_not(wall), "off-CPU time was not monitored"));
    p->type = &sample_type_off_cpu;
    assert_int_equal(profile_diff_new(p, p, &waits), 0);
    assert_null(profile_diff_why_not(waits));
    assert_int_equal(waits->not_observed_ns[DIFF_AFTER], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_right),
        cmocka_unit_test(test_significance_of_sampled_changes),
        cmocka_unit_test(test_sampling_rate_does_not_change_the_bound),
        cmocka_unit_test(test_single_heavy_sample_is_not_significant),
        cmocka_unit_test(test_counted_events_are_exact),
        cmocka_unit_test(test_bounds_hold_at_their_confidence),
        cmocka_unit_test(test_empty_profile_can_be_compared),
        cmocka_unit_test(test_unmonitored_time_is_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
