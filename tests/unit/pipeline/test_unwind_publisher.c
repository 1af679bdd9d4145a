/* unwind_publisher.c with fake tables that record every call: at each moment the BPF side must hold what the processes
 * map, no number of a removed object, and nothing unused. */
#include "unwind_publisher_fixture.h"

static void test_only_walked_objects_are_published(void **state)
{
    struct fixture *w = *state;
    unwind_publisher_want(w->publisher, &w->processes[0]);
    assert_int_equal(kernel_object(&w->tables, 100, 0), UNWIND_OBJECT_UNKNOWN);
    walk_by(w, 0);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    assert_int_equal(kernel_object(&w->tables, 100, 0), 0);
    assert_int_equal(kernel_object(&w->tables, 100, 1), UNWIND_OBJECT_UNKNOWN);
    assert_int_equal(w->tables.puts, 1);
    unsigned puts = w->tables.process_puts;
    for (int i = 0; i < 100; i++)
        unwind_publisher_want(w->publisher, &w->processes[0]);
    assert_int_equal(w->tables.process_puts, puts); /* nothing has changed */
}

static void test_prepare_publishes_unwalked_objects(void **state)
{
    struct fixture *w = *state;
    for (int i = 0; i < 1000 && !unwind_publisher_prepare(w->publisher, &w->processes[0]);
         i++) { /* the builder thread has it */
        usleep(10000);
        pass_time(w, 0);
    }
    assert_true(unwind_publisher_prepare(w->publisher, &w->processes[0]));
    assert_true(kernel_object(&w->tables, 100, 0) < OBJECTS_MAX);
    assert_true(kernel_object(&w->tables, 100, 1) < OBJECTS_MAX);
    assert_true(unwind_publisher_prepare(w->publisher, NULL)); /* an exited process does not delay it */
}

static void test_objects_are_shared_between_processes(void **state)
{
    struct fixture *w = *state;
    walk_by(w, 7);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    unwind_publisher_want(w->publisher, &w->processes[1]);
    assert_int_equal(w->tables.puts, 1);
    assert_int_equal(kernel_object(&w->tables, 100, 1), kernel_object(&w->tables, 101, 1));
}

static void test_anonymous_code_has_no_unwind_table(void **state)
{
    struct fixture *w = *state;
    w->mappings[0][0].object = NULL;
    w->objects[7].is_anonymous = true;
    unwind_publisher_want(w->publisher, &w->processes[0]);
    assert_int_equal(kernel_object(&w->tables, 100, 0), UNWIND_OBJECT_NO_CODE);
    assert_int_equal(kernel_object(&w->tables, 100, 1), UNWIND_OBJECT_NO_CODE);
}

static void test_memory_is_released(void **state)
{
    struct fixture *w = *state;
    walk_by(w, 0);
    walk_by(w, 7);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    unwind_publisher_want(w->publisher, &w->processes[1]);
    assert_int_equal(w->tables.puts, 2);
    unwind_publisher_forget(w->publisher, 100);
    assert_int_equal(kernel_object(&w->tables, 100, 0), NO_PROCESS);
    pass_time(w, 30 * SECOND_NS);
    assert_int_equal(w->tables.removals, 0); /* the process may come back */
    pass_time(w, 40 * SECOND_NS);
    assert_int_equal(w->tables.removals, 1); /* the program; the library is still mapped */
    assert_true(w->tables.present[kernel_object(&w->tables, 101, 1)]);
    unwind_publisher_forget(w->publisher, 101);
    pass_time(w, 61 * SECOND_NS);
    assert_int_equal(w->tables.removals, 2);
    assert_int_equal(references, 0);
}

static void test_new_mappings_replace_the_old(void **state)
{
    struct fixture *w = *state;
    walk_by(w, 0);
    walk_by(w, 2);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    w->mappings[0][0] = (struct process_mapping){0x9000, 0xa000, 0, &w->objects[2]};
    w->mappings[0][1].object = NULL;
    w->processes[0].mapping_version = 99;
    unwind_publisher_want(w->publisher, &w->processes[0]);
    assert_int_equal(kernel_object(&w->tables, 100, 0), 1);
    assert_int_equal(kernel_object(&w->tables, 100, 1), UNWIND_OBJECT_NO_CODE);
    pass_time(w, 61 * SECOND_NS);
    assert_int_equal(w->tables.removals, 1);
}

static void test_unused_objects_make_room(void **state)
{
    struct fixture *w = *state;
    w->tables.max_objects = 1;
    walk_by(w, 0);
    walk_by(w, 1);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    unwind_publisher_forget(w->publisher, 100);
    unwind_publisher_want(w->publisher, &w->processes[1]); /* full; unused objects are removed */
    assert_int_equal(w->tables.removals, 1);
    pass_time(w, SECOND_NS);
    unwind_publisher_want(w->publisher, &w->processes[1]);
    assert_true(w->tables.present[kernel_object(&w->tables, 101, 0)]);
    struct losses losses = {0};
    unwind_publisher_losses(w->publisher, &losses);
    assert_int_equal(losses.count[LOSS_MAP_FULL], 0);
}

static void test_full_tables_are_counted_and_retried(void **state)
{
    struct fixture *w = *state;
    w->tables.max_objects = 1;
    walk_by(w, 0);
    walk_by(w, 1);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    unwind_publisher_want(w->publisher, &w->processes[1]); /* both were just sampled */
    assert_int_equal(w->tables.removals, 0);
    assert_int_equal(kernel_object(&w->tables, 101, 0), UNWIND_OBJECT_UNKNOWN);
    struct losses losses = {0};
    unwind_publisher_losses(w->publisher, &losses);
    assert_int_equal(losses.count[LOSS_MAP_FULL], 1);

    pass_time(w, 40 * SECOND_NS); /* process 100 was not sampled since */
    unwind_publisher_want(w->publisher, &w->processes[1]);
    assert_int_equal(w->tables.removals, 1);
    assert_int_equal(kernel_object(&w->tables, 100, 0), NO_PROCESS);
    pass_time(w, SECOND_NS);
    unwind_publisher_want(w->publisher, &w->processes[1]);
    assert_true(w->tables.present[kernel_object(&w->tables, 101, 0)]);
    unwind_publisher_want(w->publisher, &w->processes[0]); /* published again, without unwind table */
    assert_int_equal(kernel_object(&w->tables, 100, 0), UNWIND_OBJECT_UNKNOWN);
}

static void test_trim_keeps_recently_sampled_objects(void **state)
{
    struct fixture *w = *state;
    walk_by(w, 0);
    walk_by(w, 1);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    pass_time(w, 40 * SECOND_NS);
    unwind_publisher_want(w->publisher, &w->processes[1]);
    unwind_publisher_trim(w->publisher);
    assert_int_equal(w->tables.removals, 1);
    assert_int_equal(kernel_object(&w->tables, 100, 0), NO_PROCESS);
    assert_true(w->tables.present[kernel_object(&w->tables, 101, 0)]);

    unwind_publisher_forget(w->publisher, 101);
    unwind_publisher_trim(w->publisher); /* a compiler that is started again and again */
    assert_int_equal(w->tables.removals, 1);
    pass_time(w, 30 * SECOND_NS);
    unwind_publisher_trim(w->publisher);
    assert_int_equal(w->tables.removals, 2);
    unwind_publisher_want(w->publisher, &w->processes[0]); /* published again */
    assert_true(w->tables.present[kernel_object(&w->tables, 100, 0)]);
}

static void test_large_tables_are_built_by_the_builder_thread(void **state)
{
    struct fixture *w = *state;
    unwind_cache_defer_above(w->cache, 0);
    const struct unwind_table *table;
    assert_int_equal(unwind_cache_get(w->cache, &w->objects[0], &table), -EAGAIN);
    unwind_publisher_want(w->publisher, &w->processes[0]);
    for (int i = 0; i < 3000 && kernel_object(&w->tables, 100, 0) == UNWIND_OBJECT_UNKNOWN; i++) {
        usleep(10000);
        pass_time(w, 10000000);
        unwind_publisher_want(w->publisher, &w->processes[0]);
    }
    assert_true(w->tables.present[kernel_object(&w->tables, 100, 0)]);
    struct unwind_rule rule; /* walks in user space look up single rules */
    assert_int_equal(unwind_cache_find(w->cache, &w->objects[0], code_offset(), &rule), 0);
    assert_true(unwind_cache_bytes(w->cache) < 128 << 10);
}

/* An interpreter that is not ready at first, and ready later. */
struct late_interpreter {
    unsigned asked, ready_at;
    int until_then;
};

static struct late_interpreter late_interpreter;

static int late_open(size_t max_bytes, void **ret_self)
{
    (void)max_bytes;
    *ret_self = &late_interpreter;
    return 0;
}

static int late_layout(void *self, const struct process *process, struct interpreter_layouts *ret)
{
    struct late_interpreter *b = self;
    (void)process;
    if (++b->asked < b->ready_at)
        return b->until_then;
    ret->runtime = 7;
    return 0;
}

static void late_free(void *self)
{
    (void)self;
}

static const struct interpreter interpreter_beginner = {
    .memory_share = 1, .open = late_open, .layout = late_layout, .free = late_free};

/* Registers this interpreter with the fixture's publisher. */
static void begin_with(struct fixture *w, struct late_interpreter b)
{
    const struct interpreter *known[] = {&interpreter_beginner};
    late_interpreter = b;
    unwind_publisher_free(w->publisher);
    assert_int_equal(interpreters_new(known, 1, 4096, &w->interpreters), 0);
    assert_int_equal(unwind_publisher_new(&w->tables, w->cache, w->interpreters, 0, &w->publisher), 0);
    pass_time(w, 0);
}

/* Also when neither the mappings of the process nor the information about them change. */
static void test_starting_interpreter_is_retried(void **state)
{
    struct fixture *w = *state;
    begin_with(w, (struct late_interpreter){.ready_at = 3, .until_then = -EAGAIN});
    assert_false(unwind_publisher_met_runtime(w->publisher));
    for (int i = 0; i < 5; i++) {
        unwind_publisher_want(w->publisher, &w->processes[0]);
        assert_true(unwind_publisher_met_runtime(w->publisher));
        assert_int_equal(late_interpreter.asked, i < 2 ? i + 1 : 3);
        assert_int_equal(kernel_runtime(&w->tables, 100), i < 2 ? 0 : 7);
        unwind_publisher_want(w->publisher, &w->processes[0]); /* not at each sample */
        assert_int_equal(late_interpreter.asked, i < 2 ? i + 1 : 3);
        pass_time(w, SECOND_NS / 4);
    }
    assert_int_equal(w->tables.process_puts, 2);
}

static void test_interpreter_with_busy_file_is_retried_later(void **state)
{
    struct fixture *w = *state;
    begin_with(w, (struct late_interpreter){.ready_at = 2, .until_then = -EBUSY});
    for (int i = 0; i < 12; i++) {
        unwind_publisher_want(w->publisher, &w->processes[0]);
        assert_int_equal(late_interpreter.asked, i < 10 ? 1 : 2);
        assert_int_equal(unwind_publisher_met_runtime(w->publisher), i >= 10);
        pass_time(w, SECOND_NS);
    }
    assert_int_equal(kernel_runtime(&w->tables, 100), 7);
}

/* Also where it was requested first, and for a later time. */
static void test_later_retry_is_kept_when_an_earlier_one_is_due(void **state)
{
    struct fixture *w = *state;
    begin_with(w, (struct late_interpreter){.ready_at = 2, .until_then = -EAGAIN});
    w->tables.max_objects = 0;
    walk_by(w, 0);
    unwind_publisher_want(w->publisher, &w->processes[0]); /* no space; and the interpreter is not ready */
    w->tables.max_objects = OBJECTS_MAX;
    for (int i = 0; i < 44; i++) { /* 11 s */
        assert_int_equal(kernel_object(&w->tables, 100, 0), UNWIND_OBJECT_UNKNOWN);
        pass_time(w, SECOND_NS / 4);
        unwind_publisher_want(w->publisher, &w->processes[0]);
        if (kernel_object(&w->tables, 100, 0) != UNWIND_OBJECT_UNKNOWN)
            break;
    }
    assert_int_equal(late_interpreter.asked, 3); /* when it was ready, and with the object */
    assert_true(w->tables.present[kernel_object(&w->tables, 100, 0)]);
}

static void test_exited_processes_are_not_published(void **state)
{
    struct fixture *w = *state;
    w->processes[0].exited = true;
    unwind_publisher_want(w->publisher, &w->processes[0]);
    unwind_publisher_want(w->publisher, NULL);
    unwind_publisher_forget(w->publisher, 4711);
    assert_int_equal(w->tables.process_puts, 0);
}

#define with_fixture(f) cmocka_unit_test_setup_teardown(f, make_fixture, free_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(test_only_walked_objects_are_published),
        with_fixture(test_prepare_publishes_unwalked_objects),
        with_fixture(test_objects_are_shared_between_processes),
        with_fixture(test_anonymous_code_has_no_unwind_table),
        with_fixture(test_memory_is_released),
        with_fixture(test_new_mappings_replace_the_old),
        with_fixture(test_unused_objects_make_room),
        with_fixture(test_trim_keeps_recently_sampled_objects),
        with_fixture(test_full_tables_are_counted_and_retried),
        with_fixture(test_large_tables_are_built_by_the_builder_thread),
        with_fixture(test_starting_interpreter_is_retried),
        with_fixture(test_interpreter_with_busy_file_is_retried_later),
        with_fixture(test_later_retry_is_kept_when_an_earlier_one_is_due),
        with_fixture(test_exited_processes_are_not_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
