/* series_starts.c: starts of series that begin, fall and come back. */
#include "export/series_starts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BEGIN 1000 /* of the agent */

static struct series_starts *new_starts(void)
{
    struct series_starts *s = NULL;
    assert_int_equal(series_starts_new(BEGIN, &s), 0);
    return s;
}

static void test_first_collection_starts_with_the_agent(void **state)
{
    (void)state;
    _cleanup_(series_starts_freep) struct series_starts *s = new_starts();
    for (uint64_t time = 2000; time <= 5000; time += 1000) {
        series_starts_begin(s, time, time);
        assert_int_equal(series_starts_find(s, 7, (double)time), BEGIN);
        assert_int_equal(series_starts_find(s, 8, 3), BEGIN); /* stands still */
        assert_int_equal(series_starts_end(s), 0);
    }
}

static void test_new_series_starts_where_the_last_values_were_read(void **state)
{
    (void)state;
    _cleanup_(series_starts_freep) struct series_starts *s = new_starts();
    series_starts_begin(s, 2000, 1900);
    series_starts_find(s, 7, 1);
    assert_int_equal(series_starts_end(s), 0);
    for (uint64_t time = 3000; time <= 4000; time += 1000) {
        series_starts_begin(s, time, time);
        assert_int_equal(series_starts_find(s, 7, 1), BEGIN);
        assert_int_equal(series_starts_find(s, 9, 5), 1900);
        assert_int_equal(series_starts_end(s), 0);
    }
}

/* A job that was forgotten and comes back, with a value below or above its last one. */
static void test_series_that_comes_back_starts_again(void **state)
{
    (void)state;
    _cleanup_(series_starts_freep) struct series_starts *s = new_starts();
    series_starts_begin(s, 2000, 1900);
    series_starts_find(s, 7, 100);
    series_starts_end(s);
    series_starts_begin(s, 3000, 2900);
    series_starts_end(s);
    series_starts_begin(s, 4000, 3900);
    assert_int_equal(series_starts_find(s, 7, 500), 2900);
    series_starts_end(s);
    series_starts_begin(s, 5000, 4900);
    assert_int_equal(series_starts_find(s, 7, 600), 2900);
    series_starts_end(s);
}

/* Between two collections: not before its last point. */
static void test_lower_value_starts_after_the_last_point(void **state)
{
    (void)state;
    _cleanup_(series_starts_freep) struct series_starts *s = new_starts();
    series_starts_begin(s, 2000, 1900);
    series_starts_find(s, 7, 100);
    series_starts_end(s);
    series_starts_begin(s, 3000, 2900);
    assert_int_equal(series_starts_find(s, 7, 99), 2000);
    series_starts_end(s);
    series_starts_begin(s, 4000, 3900);
    assert_int_equal(series_starts_find(s, 7, 100), 2000);
    series_starts_end(s);
}

/* In any order, with neighbours that come and go. */
static void test_many_series_keep_their_starts(void **state)
{
    (void)state;
    enum { SERIES = 5000 };
    _cleanup_(series_starts_freep) struct series_starts *s = new_starts();
    for (uint64_t round = 1; round <= 4; round++) {
        series_starts_begin(s, round * 10000, round * 10000);
        for (uint64_t i = 0; i < SERIES; i++) {
            const uint64_t series = (round % 2 ? i : SERIES - 1 - i) * 0x9e3779b97f4a7c15;
            const uint64_t number = round % 2 ? i : SERIES - 1 - i;
            if (number % 3 == 0 && round < 3) /* begins with the third round */
                continue;
            const uint64_t start = series_starts_find(s, series, (double)round);
            assert_int_equal(start, number % 3 == 0 ? 20000 : BEGIN);
        }
        assert_int_equal(series_starts_end(s), 0);
    }
    series_starts_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_collection_starts_with_the_agent),
        cmocka_unit_test(test_new_series_starts_where_the_last_values_were_read),
        cmocka_unit_test(test_series_that_comes_back_starts_again),
        cmocka_unit_test(test_lower_value_starts_after_the_last_point),
        cmocka_unit_test(test_many_series_keep_their_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
