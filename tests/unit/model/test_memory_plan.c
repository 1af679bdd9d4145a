/* The parts of the memory sum to at most the whole, whatever is in use. */
#include "model/memory_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MIB  (1ull << 20)
#define LAST MEMORY_PART_BIT(MEMORY_PART_COUNT)

static uint64_t sum_of(const struct memory_plan *p)
{
    uint64_t sum = p->fixed_bytes;
    for (int part = 0; part < MEMORY_PART_COUNT; part++)
        sum += p->bytes[part];
    return sum;
}

static void test_every_set_of_parts_fits(void **state)
{
    static const uint64_t wholes[] = {48 * MIB, 64 * MIB, 1024 * MIB};
    (void)state;
    for (unsigned parts = 2; parts < LAST; parts += 2) /* without MEMORY_NONE */
        for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
            struct memory_plan plan;
            memory_plan_divide(wholes[i], 24 * MIB, parts, 16 * MIB, &plan);
            assert_int_equal(plan.missing_bytes, 0);
            assert_true(sum_of(&plan) <= wholes[i]);
            for (int part = 0; part < MEMORY_PART_COUNT; part++)
                assert_true(!plan.bytes[part] == !(parts & MEMORY_PART_BIT(part)));
        }
}

static void test_rest_of_the_recorder_is_divided(void **state)
{
    struct memory_plan small, large;
    (void)state;
    memory_plan_divide(1024 * MIB, 24 * MIB, LAST - 2, 1 * MIB, &small);
    memory_plan_divide(1024 * MIB, 24 * MIB, LAST - 2, 1024 * MIB, &large);
    assert_int_equal(small.bytes[MEMORY_RECORDER], 1 * MIB);
    assert_true(large.bytes[MEMORY_RECORDER] > 100 * MIB);
    assert_true(small.bytes[MEMORY_WINDOWS] > large.bytes[MEMORY_WINDOWS]);
    assert_true(sum_of(&small) > 1023 * MIB && sum_of(&small) <= 1024 * MIB);
}

static void test_too_little_is_reported(void **state)
{
    struct memory_plan plan;
    (void)state;
    memory_plan_divide(48 * MIB, 60 * MIB, LAST - 2, 16 * MIB, &plan);
    assert_int_equal(plan.missing_bytes, 60 * MIB + MEMORY_PLAN_LEAST - 48 * MIB);
    assert_true(plan.bytes[MEMORY_SYMBOLS] > 0);
    assert_true(sum_of(&plan) <= 60 * MIB + MEMORY_PLAN_LEAST);
}

static void test_resizing_keeps_tables_and_fits(void **state)
{
    struct memory_plan plan;
    (void)state;
    memory_plan_divide(64 * MIB, 24 * MIB, LAST - 2, 16 * MIB, &plan);
    const struct memory_plan before = plan;
    static const uint64_t wholes[] = {96 * MIB, 62 * MIB, 64 * MIB};
    for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
        assert_true(memory_plan_resize(&plan, wholes[i]) <= wholes[i]);
        assert_in_range(sum_of(&plan), wholes[i] - MIB, wholes[i]);
        for (int part = 0; part < MEMORY_PART_COUNT; part++)
            if (!(MEMORY_RESIZABLE & MEMORY_PART_BIT(part)))
                assert_int_equal(plan.bytes[part], before.bytes[part]);
            else
                assert_true(plan.bytes[part] > 0);
    }
    const struct memory_plan unchanged = plan;
    const uint64_t needed = memory_plan_resize(&plan, 1);
    assert_memory_equal(&plan, &unchanged, sizeof(plan));
    assert_int_equal(memory_plan_resize(&plan, needed), needed);
    assert_in_range(sum_of(&plan), needed - MIB, needed);
}

static void test_resizing_does_not_give_memory_to_unused_parts(void **state)
{
    struct memory_plan plan;
    (void)state;
    memory_plan_divide(64 * MIB, 24 * MIB, MEMORY_PART_BIT(MEMORY_WINDOWS) | MEMORY_PART_BIT(MEMORY_SYMBOLS), 0, &plan);
    memory_plan_resize(&plan, 96 * MIB);
    assert_int_equal(plan.bytes[MEMORY_REQUESTS], 0);
    assert_in_range(sum_of(&plan), 95 * MIB, 96 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_set_of_parts_fits),
        cmocka_unit_test(test_rest_of_the_recorder_is_divided),
        cmocka_unit_test(test_too_little_is_reported),
        cmocka_unit_test(test_resizing_keeps_tables_and_fits),
        cmocka_unit_test(test_resizing_does_not_give_memory_to_unused_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
