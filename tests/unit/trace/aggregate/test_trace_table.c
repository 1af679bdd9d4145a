/* Joining records by id, and what a bounded table evicts. */
#include "trace/aggregate/trace_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct strings *names;

static int make_names(void **state)
{
    (void)state;
    return strings_new(&names);
}

static int free_names(void **state)
{
    (void)state;
    strings_free(names);
    return 0;
}

#define TEXT(literal) ((struct triton_text){literal, sizeof(literal) - 1})

static void add_stamp(struct trace_table *t, uint64_t id, struct triton_text name, uint64_t ns)
{
    struct triton_stamp stamp = {name, ns};
    struct triton_record r = {.id = id, .stamps = &stamp, .stamp_count = 1};
    assert_int_equal(trace_table_add(t, &r), 0);
}

static void add_child(struct trace_table *t, uint64_t id, uint64_t parent)
{
    struct triton_record r = {.id = id, .has_parent = true, .parent_id = parent, .model_name = TEXT("child")};
    assert_int_equal(trace_table_add(t, &r), 0);
}

static void test_records_of_one_id_are_joined(void **state)
{
    (void)state;
    _cleanup_(trace_table_freep) struct trace_table *t = NULL;
    assert_int_equal(trace_table_new(names, 4, true, &t), 0);
    add_stamp(t, 1, TEXT("HTTP_RECV_START"), 10);
    add_stamp(t, 2, TEXT("GRPC_WAITREAD_START"), 20);
    struct triton_record head = {
        .id = 1, .model_name = TEXT("m"), .model_version = 3, .has_version = true, .request_id = TEXT("r")};
    assert_int_equal(trace_table_add(t, &head), 0);
    struct triton_record tensor = {
        .id = 1, .activity = TEXT("A"), .tensor = {TEXT("x"), TEXT("1,2"), TEXT("2"), TEXT("INT8")}};
    assert_int_equal(trace_table_add(t, &tensor), 0);
    add_stamp(t, 1, TEXT("own"), 30);
    assert_null(trace_table_take(t, false));
    const struct triton_trace *trace = trace_table_take(t, true); /* least recently used */
    assert_int_equal(trace->id, 2);
    assert_int_equal(trace->frontends, TRITON_GRPC);
    trace = trace_table_take(t, true);
    assert_int_equal(trace->id, 1);
    assert_int_equal(trace->frontends, TRITON_HTTP);
    assert_string_equal(strings_get(names, trace->model), "m");
    assert_int_equal(trace->model_version, 3);
    assert_memory_equal(trace->request_id.at, "r", 1);
    assert_int_equal(trace->moment_count, 2);
    assert_int_equal(trace->moments[0].event, TRITON_HTTP_RECV_START);
    assert_string_equal(strings_get(names, trace->moments[1].event - TRITON_EVENT_COUNT), "own");
    assert_memory_equal(trace->activities->tensor.data.at, "1,2", 3);
    assert_null(trace->activities->next);
    assert_null(trace_table_take(t, true));
}

static void test_children_inherit_the_protocol_of_the_root(void **state)
{
    (void)state;
    _cleanup_(trace_table_freep) struct trace_table *t = NULL;
    assert_int_equal(trace_table_new(names, 8, true, &t), 0);
    add_child(t, 3, 2); /* before its parent, as Triton's table may place it */
    add_child(t, 2, 1);
    add_stamp(t, 1, TEXT("MY_HTTP_RECV_START"), 1);
    add_child(t, 4, 99);
    for (unsigned id = 3; id >= 1; id--)
        assert_int_equal(trace_table_take(t, true)->frontends, TRITON_HTTP);
    assert_int_equal(trace_table_take(t, true)->frontends, 0);
    assert_int_equal(trace_table_losses(t)->orphans, 1);
    add_child(t, 5, 1); /* the root has been taken, but is remembered */
    assert_int_equal(trace_table_take(t, true)->frontends, TRITON_HTTP);
    assert_int_equal(trace_table_losses(t)->orphans, 1);
}

static void test_parent_cycle_ends(void **state)
{
    (void)state;
    _cleanup_(trace_table_freep) struct trace_table *t = NULL;
    assert_int_equal(trace_table_new(names, 8, true, &t), 0);
    add_child(t, 1, 2);
    add_child(t, 2, 1);
    add_child(t, 3, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(trace_table_take(t, true)->frontends, 0);
}

static void test_least_recently_used_trace_is_evicted(void **state)
{
    (void)state;
    _cleanup_(trace_table_freep) struct trace_table *t = NULL;
    assert_int_equal(trace_table_new(names, 3, true, &t), 0);
    for (uint64_t id = 1; id <= 3; id++)
        add_stamp(t, id, TEXT("A"), id);
    add_stamp(t, 1, TEXT("B"), 9);
    assert_null(trace_table_take(t, false));
    add_stamp(t, 4, TEXT("A"), 4);
    assert_int_equal(trace_table_take(t, false)->id, 2);
    assert_null(trace_table_take(t, false));
    add_stamp(t, 2, TEXT("B"), 5); /* too late */
    assert_int_equal(trace_table_losses(t)->late, 1);
    for (uint64_t id = 5; id <= 1000; id++) { /* memory stays constant: entries are reused */
        add_stamp(t, id, TEXT("A"), id);
        assert_non_null(trace_table_take(t, false));
        assert_null(trace_table_take(t, false));
    }
    struct triton_record one = {.id = 2000}, two = {.id = 2001};
    assert_int_equal(trace_table_add(t, &one), 0);
    assert_int_equal(trace_table_add(t, &two), -ENOBUFS);
}

static void test_records_of_one_id_are_bounded(void **state)
{
    (void)state;
    _cleanup_(trace_table_freep) struct trace_table *t = NULL;
    assert_int_equal(trace_table_new(names, 3, true, &t), 0);
    for (uint64_t i = 0; i < TRACE_TABLE_MOMENTS_MAX + 5; i++)
        add_stamp(t, 1, TEXT("A"), i);
    assert_int_equal(trace_table_take(t, true)->moment_count, TRACE_TABLE_MOMENTS_MAX);
    assert_int_equal(trace_table_losses(t)->moments, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_of_one_id_are_joined),
        cmocka_unit_test(test_children_inherit_the_protocol_of_the_root),
        cmocka_unit_test(test_parent_cycle_ends),
        cmocka_unit_test(test_least_recently_used_trace_is_evicted),
        cmocka_unit_test(test_records_of_one_id_are_bounded),
    };
    return cmocka_run_group_tests(tests, make_names, free_names);
}
