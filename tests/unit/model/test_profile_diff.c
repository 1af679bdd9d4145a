/* profile_diff.c: by hand, two small profiles whose sums are known; wholes add up, recursion counts once, equal names of moved code are
 * one, and what samples cannot tell is not told. */
#include "model/profile_diff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

static void add(struct profile *p, const char *command, uint64_t address, uint64_t weight, uint64_t count, const char *const *functions, size_t depth)
{
    struct frame frames[8];
    struct resource resource = fixture_resource(1, command);
    for (size_t i = 0; i < depth; i++) {
        frames[i] = fixture_native(functions[i]);
        frames[i].address += address;
    }
    const struct sample s = {.weight_ns = weight, .resource = &resource, .thread_name = "", .frames = frames, .frame_count = depth, .count = count};
    assert_int_equal(profile_add(p, &s), 0);
}
#define ADD(p, command, address, weight, count, ...)                                                                                                 \
    add(p, command, address, weight, count, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static const struct diff_function *find(const struct profile_diff *d, const char *name)
{
    for (size_t i = 0; i < d->function_count; i++)
        if (strcmp(strings_get(d->names, d->functions[i].name), name) == 0)
            return &d->functions[i];
    fail_msg("there is no %s", name);
    return d->functions;
}

static void sums_are_right(void **state)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    (void)state;
    assert_int_equal(profile_new(0, &before), 0);
    assert_int_equal(profile_new(0, &after), 0);
    ADD(before, "a", 0, 300, 3, "leaf", "again", "again", "main");
    ADD(before, "a", 0, 100, 1, "main");
    ADD(after, "a", 0x5000, 500, 5, "leaf", "again", "again", "main"); /* the same code, elsewhere */
    ADD(after, "a", 0x6000, 300, 3, "leaf", "again", "again", "main");
    ADD(after, "b", 0, 200, 2, "again", "main");
    assert_int_equal(profile_diff_new(before, after, &d), 0);
    assert_true(d->whole[DIFF_BEFORE].weight == 400 && d->whole[DIFF_AFTER].weight == 1000);
    assert_true(d->whole[DIFF_BEFORE].samples == 4 && d->whole[DIFF_AFTER].samples == 10);
    assert_int_equal(d->function_count, 3);
    const struct diff_function *again = find(d, "again"), *leaf = find(d, "leaf"), *top = find(d, "main");
    assert_true(again->self[DIFF_BEFORE].weight == 0 && again->self[DIFF_AFTER].weight == 200);
    assert_true(again->total[DIFF_BEFORE].weight == 300 && again->total[DIFF_AFTER].weight == 1000);
    assert_true(leaf->self[DIFF_BEFORE].weight == 300 && leaf->self[DIFF_AFTER].weight == 800 && leaf->self[DIFF_AFTER].samples == 8);
    assert_true(top->total[DIFF_BEFORE].weight == 400 && top->total[DIFF_AFTER].weight == 1000);
    assert_int_equal(d->stack_count, 3); /* two of process a, one of b */
    uint64_t sums[DIFF_SIDES] = {0};
    for (size_t i = 0; i < d->stack_count; i++)
        for (int side = 0; side < DIFF_SIDES; side++)
            sums[side] += d->stacks[i].amount[side].weight;
    assert_true(sums[DIFF_BEFORE] == 400 && sums[DIFF_AFTER] == 1000);
    const struct diff_change change = profile_diff_change(d, leaf->self);
    assert_true(change.before == 0.75 && change.after == 0.8);
    assert_false(diff_is_told(&change)); /* of 4 and 10 samples */
}

static void what_samples_can_tell(void **state)
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
        const struct diff_change change = profile_diff_change(d, find(d, "f")->self);
        assert_true(change.noise > 0.0125 && change.noise < 0.0160);
        assert_int_equal(diff_is_told(&change), twice);
    }
}

static void an_empty_side_is_one(void **state)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    (void)state;
    assert_int_equal(profile_new(0, &before), 0);
    assert_int_equal(profile_new(0, &after), 0);
    ADD(after, "a", 0, 10, 1, "f");
    assert_int_equal(profile_diff_new(before, after, &d), 0);
    const struct diff_change change = profile_diff_change(d, find(d, "f")->self);
    assert_true(change.before == 0 && change.after == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right),
        cmocka_unit_test(what_samples_can_tell),
        cmocka_unit_test(an_empty_side_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
