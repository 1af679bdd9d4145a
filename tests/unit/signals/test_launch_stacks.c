/* Stacks of launches are found by process and number, and take bounded memory whatever numbers a program uses. */
#include "signals/gpu_time/launch_stacks.h"

#include "gpu_time_fixture.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define A 100 /* processes */
#define B 200

static struct launch_stacks *stacks;

static int begin(void **state)
{
    (void)state;
    return launch_stacks_new(64u << 20, &stacks);
}

static int end(void **state)
{
    (void)state;
    launch_stacks_free(stacks);
    return 0;
}

static void put(uint32_t pid, uint32_t number, uint64_t frame)
{
    const struct fake_launch l = fake_launch(pid, number, &frame, 1);
    assert_int_equal(launch_stacks_put(stacks, &l.record), 0);
}

/* The frame of the stack; 0: unknown. */
static uint64_t get(uint32_t pid, uint32_t number)
{
    const struct stack_record *r = launch_stacks_get(stacks, pid, number);
    return r ? r->data[0] : 0;
}

static void test_processes_may_use_the_same_numbers(void **state)
{
    (void)state;
    put(A, 7, 11);
    put(B, 7, 22);
    assert_int_equal(get(A, 7), 11);
    assert_int_equal(get(B, 7), 22);
    assert_int_equal(get(A, 8), 0);
    launch_stacks_forget(stacks, A);
    assert_int_equal(get(A, 7), 0);
    assert_int_equal(get(B, 7), 22);
}

static void test_a_number_that_comes_again_is_the_last_launch(void **state)
{
    (void)state;
    put(A, 7, 11);
    put(A, 8, 12);
    put(A, 7, 13);
    assert_int_equal(get(A, 7), 13);
    assert_int_equal(get(A, 8), 12);
}

static void test_the_oldest_are_dropped_beyond_the_limit(void **state)
{
    const uint32_t more = 10;
    (void)state;
    for (uint32_t i = 1; i <= LAUNCH_STACKS_MAX + more; i++)
        put(A, i, i);
    for (uint32_t i = 1; i <= LAUNCH_STACKS_MAX + more; i++)
        assert_int_equal(get(A, i), i <= more ? 0 : i);
}

static void test_bytes_are_limited(void **state)
{
    const size_t bytes = sizeof(struct stack_record) + sizeof(uint64_t);
    (void)state;
    launch_stacks_free(stacks);
    assert_int_equal(launch_stacks_new(3 * bytes, &stacks), 0);
    for (uint32_t i = 1; i <= 5; i++)
        put(A, i, i);
    for (uint32_t i = 1; i <= 5; i++)
        assert_int_equal(get(A, i), i <= 2 ? 0 : i);
    const uint64_t frames[4] = {9, 9, 9, 9};
    const struct fake_launch large = fake_launch(A, 6, frames, 4);
    assert_int_equal(launch_stacks_put(stacks, &large.record), 0);
    assert_int_equal(get(A, 6), 9);
    assert_int_equal(get(A, 4), 0);
    assert_int_equal(get(A, 5), 5);
}

/* Replaced and forgotten stacks leave places behind, which are used again. */
static void test_memory_stays_flat(void **state)
{
    (void)state;
    size_t before = 0;
    for (uint32_t i = 0; i < 20 * LAUNCH_STACKS_MAX; i++) {
        put(A, i % 3 + 1, i + 1);
        put(B, i % 5 + 1, i + 1);
        if (i % 1000 == 999)
            launch_stacks_forget(stacks, B);
        if (i == 1000)
            before = mallinfo2().uordblks;
    }
    put(B, 5, 5);
    assert_true(mallinfo2().uordblks <= before + 10 * sizeof(struct fake_launch));
    for (uint32_t i = 1; i <= 3; i++)
        assert_true(get(A, i) > 20 * LAUNCH_STACKS_MAX - 3);
    assert_int_equal(get(B, 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_processes_may_use_the_same_numbers, begin, end),
        cmocka_unit_test_setup_teardown(test_a_number_that_comes_again_is_the_last_launch, begin, end),
        cmocka_unit_test_setup_teardown(test_the_oldest_are_dropped_beyond_the_limit, begin, end),
        cmocka_unit_test_setup_teardown(test_bytes_are_limited, begin, end),
        cmocka_unit_test_setup_teardown(test_memory_stays_flat, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
