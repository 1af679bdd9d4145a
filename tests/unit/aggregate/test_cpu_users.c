/* CPU time by command: sums over slots, expiry, more commands than places. */
#include "aggregate/cpu_users.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define START  (1000 * SECOND)

static struct cpu_user users[CPU_USERS_MAX];
static uint64_t all_ns, span_ns;

static int start(void **state)
{
    struct cpu_users *u;
    assert_int_equal(cpu_users_new(&u), 0);
    *state = u;
    return 0;
}

static int end(void **state)
{
    cpu_users_free(*state);
    return 0;
}

static void test_most_time_comes_first(void **state)
{
    cpu_users_add(*state, "uvicorn", SECOND, START + SECOND);
    cpu_users_add(*state, "rustc", 2 * SECOND, START + SECOND);
    cpu_users_add(*state, "uvicorn", 2 * SECOND, START + 7 * SECOND);
    assert_int_equal(cpu_users_list(*state, START, START + 9 * SECOND, users, 1, &all_ns, &span_ns), 1);
    assert_string_equal(users[0].command, "uvicorn");
    assert_int_equal(users[0].ns, 3 * SECOND);
    assert_int_equal(all_ns, 5 * SECOND);
    assert_int_equal(span_ns, 8 * SECOND); /* since the first sample */
    assert_int_equal(cpu_users_list(*state, START + 6 * SECOND, START + 9 * SECOND, users, 4, &all_ns, &span_ns), 1);
    assert_int_equal(users[0].ns, 2 * SECOND); /* the slot from 5 s on */
    assert_int_equal(span_ns, 4 * SECOND);
}

static void test_old_time_expires(void **state)
{
    cpu_users_add(*state, "rustc", SECOND, START);
    assert_int_equal(cpu_users_list(*state, START, START + 299 * SECOND, users, 4, &all_ns, &span_ns), 1);
    assert_int_equal(cpu_users_list(*state, START, START + 306 * SECOND, users, 4, &all_ns, &span_ns), 0);
    assert_int_equal(all_ns, 0);
    assert_int_equal(span_ns, 301 * SECOND); /* without CPU time: no gap in the observation */
}

/* The time of commands without a place is in the sum. */
static void test_more_commands_than_places(void **state)
{
    char command[CPU_COMMAND_BYTES];
    for (int i = 0; i < CPU_USERS_MAX + 8; i++) {
        snprintf(command, sizeof(command), "c%d", i);
        cpu_users_add(*state, command, SECOND, START);
    }
    assert_int_equal(cpu_users_list(*state, START, START, users, CPU_USERS_MAX, &all_ns, &span_ns), CPU_USERS_MAX);
    assert_int_equal(all_ns, (CPU_USERS_MAX + 8) * SECOND);
    cpu_users_add(*state, "new", 9 * SECOND, START + 5 * SECOND); /* in the place of one that is idle now */
    cpu_users_list(*state, START, START + 5 * SECOND, users, 1, &all_ns, &span_ns);
    assert_string_equal(users[0].command, "new");
}

static void test_nothing_before_the_first_sample(void **state)
{
    assert_int_equal(cpu_users_list(*state, START, START + SECOND, users, 4, &all_ns, &span_ns), 0);
    assert_true(all_ns == 0 && span_ns == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_most_time_comes_first, start, end),
        cmocka_unit_test_setup_teardown(test_old_time_expires, start, end),
        cmocka_unit_test_setup_teardown(test_more_commands_than_places, start, end),
        cmocka_unit_test_setup_teardown(test_nothing_before_the_first_sample, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
