/* The set of rows that are stored: what it has, and what it forgets. */
#include "server/known_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

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

/* Senders choose the hashes of rows. Keys that differ only in their upper bits must not share one long run of slots:
 * MANY of them would take MANY * MANY / 2 comparisons, which is seconds. */
static void test_chosen_keys_make_no_long_run_of_slots(void **state)
{
    enum { MANY = 1 << 18 };
    (void)state;
    _cleanup_(known_rows_freep) struct known_rows *k = NULL;
    _cleanup_free_ uint64_t *keys = calloc(MANY, sizeof(*keys));
    assert_int_equal(known_rows_new(MANY, &k), 0);
    for (uint64_t i = 0; i < MANY; i++)
        keys[i] = i << 32 | 1;
    const clock_t before = clock();
    known_rows_add(k, keys, MANY);
    assert_true(clock() - before < CLOCKS_PER_SEC);
    for (size_t i = 0; i < MANY; i++)
        assert_true(known_rows_has(k, keys[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_set_forgets_everything),
        cmocka_unit_test(test_tables_and_days_have_keys_of_their_own),
        cmocka_unit_test(test_chosen_keys_make_no_long_run_of_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
