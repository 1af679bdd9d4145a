/* Stacks that wait for their request: found by process and time, truncated at their bound, the oldest evicted. */
#include "resolve/sample/wait_stacks.h"

#include <linux/types.h>

#include "probes/request.h"
#include "probes/unwind/stack.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_found_by_process_and_time(void **state)
{
    (void)state;
    _cleanup_(wait_stacks_freep) struct wait_stacks *w = NULL;
    uint64_t found[REQUEST_USER_FRAMES];
    unsigned end = 99;
    assert_int_equal(wait_stacks_new(&w), 0);
    assert_int_equal(wait_stacks_find(w, 7, 100, found, 8, &end), -ENOENT);
    wait_stacks_put(w, 7, 100, (const uint64_t[]){1, 2, 3}, 3, UNWIND_END_ENTRY);
    wait_stacks_put(w, 8, 100, (const uint64_t[]){4}, 1, UNWIND_END_BAD_READ);
    assert_int_equal(wait_stacks_find(w, 7, 100, found, 8, &end), 3);
    assert_int_equal(found[2], 3);
    assert_int_equal(end, UNWIND_END_ENTRY);
    assert_int_equal(wait_stacks_find(w, 8, 100, found, 8, &end), 1);
    assert_int_equal(end, UNWIND_END_BAD_READ);
    assert_int_equal(wait_stacks_find(w, 7, 101, found, 8, &end), -ENOENT);
    assert_int_equal(wait_stacks_find(w, 7, 100, found, 2, &end), 2);
}

static void test_memory_is_bounded(void **state)
{
    (void)state;
    _cleanup_(wait_stacks_freep) struct wait_stacks *w = NULL;
    uint64_t deep[REQUEST_USER_FRAMES + 1] = {0}, found[REQUEST_USER_FRAMES];
    unsigned end;
    assert_int_equal(wait_stacks_new(&w), 0);
    wait_stacks_put(w, 1, 1, deep, REQUEST_USER_FRAMES + 1, UNWIND_END_ENTRY);
    assert_int_equal(wait_stacks_find(w, 1, 1, found, REQUEST_USER_FRAMES, &end), REQUEST_USER_FRAMES);
    assert_int_equal(end, UNWIND_END_TOO_DEEP);
    for (uint64_t i = 2; i < 5000; i++)
        wait_stacks_put(w, 1, i, &i, 1, UNWIND_END_ENTRY);
    assert_int_equal(wait_stacks_find(w, 1, 1, found, 8, &end), -ENOENT);
    assert_int_equal(wait_stacks_find(w, 1, 4999, found, 8, &end), 1);
    assert_int_equal(found[0], 4999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_by_process_and_time),
        cmocka_unit_test(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
