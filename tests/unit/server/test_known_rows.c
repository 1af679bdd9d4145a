/* The set of rows that are stored: what it has, and what it forgets. */
#include "server/known_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MAX 1000

static void test_a_full_set_forgets_everything(void **state)
{
    (void)state;
    _cleanup_(known_rows_freep) struct known_rows *k = NULL;
    uint64_t keys[MAX + 1];
    assert_int_equal(known_rows_new(MAX, &k), 0);
    for (size_t i = 0; i <= MAX; i++)
        keys[i] = known_rows_key(TABLE_PROFILE_FRAMES, 20000, i);
    known_rows_add(k, keys, MAX);
    known_rows_add(k, keys, MAX); /* again: no more members */
    for (size_t i = 0; i <= MAX; i++)
        assert_int_equal(known_rows_has(k, keys[i]), i < MAX);
    known_rows_add(k, &keys[MAX], 1);
    for (size_t i = 0; i <= MAX; i++)
        assert_int_equal(known_rows_has(k, keys[i]), i == MAX);
    known_rows_forget(k);
    assert_false(known_rows_has(k, keys[MAX]));
    known_rows_add(k, NULL, 0);
}

static void test_tables_and_days_have_keys_of_their_own(void **state)
{
    (void)state;
    const uint64_t key = known_rows_key(TABLE_PROFILE_FRAMES, 20000, 0);
    assert_int_not_equal(key, 0);
    assert_int_equal(key, known_rows_key(TABLE_PROFILE_FRAMES, 20000, 0));
    assert_int_not_equal(key, known_rows_key(TABLE_PROFILE_STACKS, 20000, 0));
    assert_int_not_equal(key, known_rows_key(TABLE_PROFILE_FRAMES, 20001, 0));
    assert_int_not_equal(key, known_rows_key(TABLE_PROFILE_FRAMES, 20000, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_set_forgets_everything),
        cmocka_unit_test(test_tables_and_days_have_keys_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
