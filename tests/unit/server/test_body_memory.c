/* body_memory.c: what one client can hold, and what is left for another. */
#include "server/body_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MAX 1200

static int start(void **state)
{
    return body_memory_new(MAX, (struct body_memory **)state);
}

static int stop(void **state)
{
    const size_t held = body_memory_held(*state);
    body_memory_free(*state);
    return held != 0;
}

/* Takes bytes one by one until the client gets no more. */
static size_t take_all(struct body_memory *m, uint64_t client)
{
    size_t count = 0;
    while (body_memory_take(m, client, 1))
        count++;
    return count;
}

static void test_each_client_holds_as_much_as_is_free(void **state)
{
    struct body_memory *m = *state;
    const size_t expected[] = {MAX / 2, MAX / 4, MAX / 8};
    for (uint64_t client = 0; client < 3; client++)
        assert_int_equal(take_all(m, client), expected[client]);
    body_memory_give(m, 0, MAX / 2);
    assert_true(body_memory_take(m, 1, 1)); /* others may have more again */
    body_memory_give(m, 1, MAX / 4 + 1);
    body_memory_give(m, 2, MAX / 8);
}

static void test_what_is_refused_is_not_held(void **state)
{
    struct body_memory *m = *state;
    assert_false(body_memory_take(m, 1, MAX));
    assert_false(body_memory_allows(m, 1, MAX / 2 + 1));
    assert_true(body_memory_allows(m, 1, MAX / 2));
    assert_false(body_memory_allows(m, 1, SIZE_MAX));
    assert_int_equal(body_memory_held(m), 0);
    assert_true(body_memory_take(m, 1, 0));
}

/* One that has given all back counts no more. */
static void test_number_of_clients_is_bounded(void **state)
{
    struct body_memory *m = *state;
    uint64_t count = 0;
    for (; count < 1100 && body_memory_take(m, count, 0) && body_memory_take(m, count, 1); count++)
        ;
    assert_int_equal(count, 1024);
    body_memory_give(m, 7, 1);
    assert_true(body_memory_take(m, 5000, 1));
    body_memory_give(m, 5000, 1);
    for (uint64_t client = 0; client < count; client++)
        body_memory_give(m, client, client != 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_client_holds_as_much_as_is_free, start, stop),
        cmocka_unit_test_setup_teardown(test_what_is_refused_is_not_held, start, stop),
        cmocka_unit_test_setup_teardown(test_number_of_clients_is_bounded, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
