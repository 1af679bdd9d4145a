/* Which request's data flow is shown, and that the flow is complete, in whatever order its records arrive. */
#include "trace/aggregate/trace_flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(literal) ((struct triton_text){literal, sizeof(literal) - 1})

struct fixture {
    struct strings *names;
    struct trace_table *table;
    struct trace_flow_finder *finder;
};

static struct fixture make_fixture(void)
{
    struct fixture f;
    assert_int_equal(strings_new(&f.names), 0);
    assert_int_equal(trace_table_new(f.names, 100, true, &f.table), 0);
    assert_int_equal(trace_flow_finder_new(f.names, &f.finder), 0);
    return f;
}

static void clear(struct fixture *f)
{
    trace_flow_finder_free(f->finder);
    trace_table_free(f->table);
    strings_free(f->names);
}

static void add_record(struct fixture *f, const struct triton_record *record)
{
    trace_flow_see(f->finder, record);
    assert_int_equal(trace_table_add(f->table, record), 0);
}

static void add_tensor(struct fixture *f, uint64_t id)
{
    add_record(f, &(struct triton_record){.id = id,
                                          .activity = TEXT("TENSOR_QUEUE_INPUT"),
                                          .tensor = {TEXT("x"), TEXT("1,2"), TEXT("2"), TEXT("INT8")}});
}

static void add_child(struct fixture *f, uint64_t id, uint64_t parent)
{
    add_record(f, &(struct triton_record){.id = id, .has_parent = true, .parent_id = parent, .model_name = TEXT("m")});
}

static struct trace_flow finish(struct fixture *f)
{
    const struct triton_trace *trace;
    uint64_t dropped;
    while ((trace = trace_table_take(f->table, true)))
        assert_int_equal(trace_flow_take(f->finder, f->table, trace), 0);
    return trace_flow_finish(f->finder, &dropped);
}

static void test_no_tensors_no_flow(void **state)
{
    (void)state;
    _cleanup_(clear) struct fixture f = make_fixture();
    add_record(&f, &(struct triton_record){.id = 1, .model_name = TEXT("m")});
    assert_int_equal(finish(&f).root, 0);
}

static void test_lowest_id_with_a_tensor_is_selected(void **state)
{
    (void)state;
    _cleanup_(clear) struct fixture f = make_fixture();
    add_record(&f, &(struct triton_record){.id = 1, .model_name = TEXT("m")});
    add_tensor(&f, 7);
    add_tensor(&f, 3);
    add_tensor(&f, 5);
    struct trace_flow flow = finish(&f);
    assert_false(flow.is_tree);
    assert_int_equal(flow.root, 3);
    assert_int_equal(flow.count, 1);
    assert_memory_equal(flow.nodes[0].activities->tensor.data.at, "1,2", 3);
    assert_null(flow.nodes[0].name); /* it has no protocol of its own */
}

static void test_parent_of_the_lowest_child_is_selected_with_its_tree(void **state)
{
    (void)state;
    _cleanup_(clear) struct fixture f = make_fixture();
    add_tensor(&f, 1); /* a separate request */
    add_child(&f, 25, 21);
    add_child(&f, 24, 21);
    add_tensor(&f, 21);
    add_child(&f, 13, 12); /* a child's child, before both of them */
    add_child(&f, 12, 10);
    add_child(&f, 11, 10);
    add_tensor(&f, 12);
    add_tensor(&f, 10);
    struct trace_flow flow = finish(&f);
    assert_true(flow.is_tree);
    assert_int_equal(flow.root, 10);
    assert_int_equal(flow.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(flow.nodes[i].id, 10 + i);
    assert_non_null(flow.nodes[0].activities);
    assert_null(flow.nodes[1].activities);
    assert_non_null(flow.nodes[2].activities);
}

static void test_parent_cycle_ends(void **state)
{
    (void)state;
    _cleanup_(clear) struct fixture f = make_fixture();
    add_child(&f, 1, 2);
    add_child(&f, 2, 3);
    add_child(&f, 3, 2);
    struct trace_flow flow = finish(&f);
    assert_int_equal(flow.root, 2);
    assert_int_equal(flow.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_tensors_no_flow),
        cmocka_unit_test(test_lowest_id_with_a_tensor_is_selected),
        cmocka_unit_test(test_parent_of_the_lowest_child_is_selected_with_its_tree),
        cmocka_unit_test(test_parent_cycle_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
