/* One request is found among the records of a file by the ID of any of its traces. */
#include "trace/aggregate/trace_search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(literal) ((struct triton_text){literal, sizeof(literal) - 1})

/* A request 1 with a child 2 and its child 3, and another request 10 between their records. */
static int add_file(struct trace_search *s)
{
    struct triton_stamp stamp = {TEXT("REQUEST_START"), 10};
    const struct triton_record records[] = {
        {.id = 1, .model_name = TEXT("ensemble")},
        {.id = 10, .model_name = TEXT("other")},
        {.id = 2, .has_parent = true, .parent_id = 1, .model_name = TEXT("step")},
        {.id = 3, .has_parent = true, .parent_id = 2, .model_name = TEXT("part")},
        {.id = 10, .stamps = &stamp, .stamp_count = 1},
        {.id = 3, .stamps = &stamp, .stamp_count = 1},
    };
    int r = 0;
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]) && r == 0; i++)
        r = trace_search_add(s, &records[i]);
    return r < 0 ? r : trace_search_end(s);
}

static void assert_request_of(uint64_t id)
{
    struct trace_search s = {0};
    bool found[4] = {false};
    assert_int_equal(trace_search_begin(&s, id), 0);
    assert_int_equal(add_file(&s), 0);
    assert_int_equal(s.request.count, 3);
    for (size_t i = 0; i < s.request.count; i++) {
        assert_true(s.request.traces[i].id <= 3);
        found[s.request.traces[i].id] = true;
    }
    assert_true(found[1] && found[2] && found[3]);
    trace_search_clear(&s);
}

static void test_a_request_is_found_by_the_id_of_any_of_its_traces(void **state)
{
    (void)state;
    assert_request_of(1);
    assert_request_of(2);
    assert_request_of(3);
}

static void test_an_id_that_the_file_lacks_finds_nothing(void **state)
{
    (void)state;
    struct trace_search s = {0};
    assert_int_equal(trace_search_begin(&s, 4), 0);
    assert_int_equal(add_file(&s), 0);
    assert_int_equal(s.request.count, 0);
    trace_search_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_is_found_by_the_id_of_any_of_its_traces),
        cmocka_unit_test(test_an_id_that_the_file_lacks_finds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
