/* The unwind tables that an agent builds within its share of a CPU, and their order. */
#include "pipeline/published.h"
#include "unwind_publisher_fixture.h"

/* A publisher with a share of a CPU, as in an agent, and a cache that defers every table. */
static void begin_with_share(struct fixture *w, double share)
{
    unwind_publisher_free(w->publisher);
    assert_int_equal(unwind_publisher_new(&w->tables, w->cache, NULL, share, &w->publisher), 0);
    unwind_cache_defer_above(w->cache, 0);
    pass_time(w, 0);
}

static void look_up_rules(struct fixture *w, size_t object, size_t count)
{
    struct unwind_rule rule;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(unwind_cache_find(w->cache, &w->objects[object], code_offset(), &rule), 0);
}

/* True once the first object of this process is in the kernel; false if it is not after `tries` hundredths of a second.
 * Time does not pass for the publisher. */
static bool is_built_in(struct fixture *w, const struct process *process, int tries)
{
    for (int i = 0; i < tries; i++) {
        unwind_publisher_run_at(w->publisher, w->now_ns);
        unwind_publisher_want(w->publisher, process);
        if (kernel_object(&w->tables, process->pid, 0) != UNWIND_OBJECT_UNKNOWN)
            return true;
        usleep(10000);
    }
    return false;
}

static void assert_built(struct fixture *w, const struct process *process)
{
    assert_true(is_built_in(w, process, 6000)); /* a safety net only */
}

static void assert_not_built(struct fixture *w, const struct process *process)
{
    assert_false(is_built_in(w, process, 30));
}

/* A program that runs once, for a moment, is sampled once, or exits before it has run for long. */
static void test_share_builds_new_programs_that_run_on_with_their_second_walk(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 0.001);
    look_up_rules(w, 0, 2);
    assert_not_built(w, &w->processes[0]);
    pass_time(w, SECOND_NS / 2);
    assert_not_built(w, &w->processes[0]); /* sampled once */
    look_up_rules(w, 1, 2);
    assert_not_built(w, &w->processes[1]);
    look_up_rules(w, 1, 2);
    assert_not_built(w, &w->processes[1]); /* just started */
    look_up_rules(w, 0, 2);
    assert_built(w, &w->processes[0]);
}

static void test_scarce_share_builds_what_is_sampled_again(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 0.001);
    cpu_share_spend(&w->publisher->share, UNWIND_SHARE_BURST_NS / 4 * 3);
    look_up_rules(w, 0, 2);
    assert_not_built(w, &w->processes[0]); /* wanted just now */
    pass_time(w, 2 * SECOND_NS);
    assert_not_built(w, &w->processes[0]); /* two rules: an eighth of the cost of building is more */
    look_up_rules(w, 0, 20000);
    assert_built(w, &w->processes[0]);
}

static void test_used_up_share_builds_nothing(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 0.001);
    cpu_share_spend(&w->publisher->share, UNWIND_SHARE_BURST_NS * 2);
    look_up_rules(w, 0, 20000);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    pass_time(w, 2 * SECOND_NS);
    assert_not_built(w, &w->processes[0]);
    pass_time(w, 300 * SECOND_NS); /* the share earns the time used in advance */
    assert_built(w, &w->processes[0]);
}

static void test_share_does_not_build_for_exited_programs(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 0.5);
    look_up_rules(w, 0, 20000);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    unwind_publisher_forget(w->publisher, 100);
    pass_time(w, 2 * SECOND_NS);
    usleep(100000);
    pass_time(w, SECOND_NS);
    assert_int_equal(w->tables.puts, 0);
    assert_built(w, &w->processes[0]); /* it runs again */
}

static void test_share_begins_with_the_most_wanted_table(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 0.5);
    for (size_t i = 0; i < 3; i++) {
        look_up_rules(w, i, i == 1 ? 40000 : 20000);
        unwind_publisher_want(w->publisher, &w->processes[i]);
    }
    pass_time(w, 2 * SECOND_NS);
    for (int i = 0; i < 6000 && w->tables.puts == 0; i++) {
        usleep(10000);
        unwind_publisher_run_at(w->publisher, w->now_ns);
    }
    assert_int_equal(w->tables.puts, 1); /* one at a time */
    unwind_publisher_want(w->publisher, &w->processes[1]);
    assert_int_not_equal(kernel_object(&w->tables, 101, 0), UNWIND_OBJECT_UNKNOWN);
}

/* sonde record -p: what the user names is not delayed. */
static void test_prepare_does_not_wait_for_the_share(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 1e-9);
    bool is_ready = false;
    for (int i = 0; i < 6000 && !is_ready; i++) {
        is_ready = unwind_publisher_prepare(w->publisher, &w->processes[0]);
        usleep(is_ready ? 0 : 10000);
        pass_time(w, 0);
    }
    assert_true(is_ready);
    assert_true(w->tables.present[kernel_object(&w->tables, 100, 0)]);
}

static void test_prepare_is_not_charged_to_the_share(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 1e-9);
    look_up_rules(w, 0, 2);
    unwind_publisher_want(w->publisher, &w->processes[0]); /* it waits for the share */
    const double saved_ns = w->publisher->share.saved_ns;
    for (int i = 0; i < 6000 && !unwind_publisher_prepare(w->publisher, &w->processes[0]); i++) {
        usleep(10000);
        pass_time(w, 0);
    }
    assert_true(w->tables.puts > 0);
    assert_true(w->publisher->share.saved_ns == saved_ns);
}

/* How much call frame information this program has. */
static uint64_t input_bytes(struct fixture *w)
{
    struct unwind_demand demand;
    assert_true(unwind_cache_demand(w->cache, w->objects[0].id, &demand));
    return demand.input_bytes;
}

static uint64_t tables_built(const struct fixture *w)
{
    struct unwind_builder_stats stats;
    unwind_builder_stats(w->publisher->builder, &stats);
    return stats.built;
}

/* A file that was made for it could otherwise take any amount of memory. */
static void test_table_that_cannot_fit_is_not_built(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 0.5);
    look_up_rules(w, 0, 20000);
    w->tables.max_bytes = input_bytes(w) / 4;
    unwind_publisher_want(w->publisher, &w->processes[0]);
    pass_time(w, 2 * SECOND_NS);
    assert_not_built(w, &w->processes[0]);
    assert_int_equal(tables_built(w), 0);
    w->tables.max_bytes = SIZE_MAX;
    assert_built(w, &w->processes[0]);
}

static void test_table_that_does_not_fit_is_built_once(void **state)
{
    struct fixture *w = *state;
    begin_with_share(w, 0.5);
    look_up_rules(w, 0, 20000);
    w->tables.max_bytes = input_bytes(w) / 3;
    unwind_publisher_want(w->publisher, &w->processes[0]);
    pass_time(w, 2 * SECOND_NS);
    assert_not_built(w, &w->processes[0]);
    for (int i = 0; i < 3; i++) {
        look_up_rules(w, 0, 20000);
        pass_time(w, 1000 * SECOND_NS);
        assert_not_built(w, &w->processes[0]);
    }
    assert_int_equal(tables_built(w), 1);
    assert_int_equal(w->tables.puts, 0);
}

#define with_fixture(f) cmocka_unit_test_setup_teardown(f, make_fixture, free_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(test_share_builds_new_programs_that_run_on_with_their_second_walk),
        with_fixture(test_scarce_share_builds_what_is_sampled_again),
        with_fixture(test_used_up_share_builds_nothing),
        with_fixture(test_share_does_not_build_for_exited_programs),
        with_fixture(test_share_begins_with_the_most_wanted_table),
        with_fixture(test_prepare_does_not_wait_for_the_share),
        with_fixture(test_prepare_is_not_charged_to_the_share),
        with_fixture(test_table_that_cannot_fit_is_not_built),
        with_fixture(test_table_that_does_not_fit_is_built_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
