/* unwind_publisher.c with fake tables that record every call: at each moment the BPF side must hold what the processes
 * map, no number of a removed object, and nothing unused. */
#include "agent/unwind_publisher.h"
#include "base/clock.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/process/processes.h"
#include "resolve/unwind/unwind_cache.h"
#include "sources/tables/unwind_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS     1000000000ull
#define OBJECTS_MAX   64
#define PROCESSES_MAX 16

/* ---- fake tables ---- */

struct unwind_tables {
    bool present[OBJECTS_MAX];
    unsigned puts, removals;
    unsigned max_objects;
    struct {
        uint32_t pid;
        size_t count;
        struct unwind_mapping mappings[4];
        uint64_t runtime;
    } processes[PROCESSES_MAX];
    unsigned process_puts;
};

int unwind_tables_put_object(struct unwind_tables *t, const void *values, size_t value_count, uint32_t *ret_object)
{
    assert_non_null(values);
    assert_true(value_count > 2);
    unsigned held = 0;
    for (uint32_t i = 0; i < OBJECTS_MAX; i++)
        held += t->present[i];
    if (held >= t->max_objects)
        return -ENOSPC;
    uint32_t number = t->puts++ % OBJECTS_MAX;
    assert_false(t->present[number]);
    t->present[number] = true;
    *ret_object = number;
    return 0;
}

void unwind_tables_remove_object(struct unwind_tables *t, uint32_t object)
{
    assert_true(object < OBJECTS_MAX && t->present[object]);
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        for (size_t j = 0; t->processes[i].pid && j < t->processes[i].count; j++)
            assert_int_not_equal(t->processes[i].mappings[j].object, object); /* no process references it any more */
    t->present[object] = false;
    t->removals++;
}

int unwind_tables_put_process(struct unwind_tables *t, uint32_t pid, const struct unwind_mapping *mappings,
                              size_t count, const struct interpreter_layouts *interpreters)
{
    unwind_tables_remove_process(t, pid);
    for (size_t i = 0; i < PROCESSES_MAX; i++) {
        if (t->processes[i].pid)
            continue;
        t->processes[i].pid = pid;
        t->processes[i].count = count;
        t->processes[i].runtime = interpreters->runtime;
        memcpy(t->processes[i].mappings, mappings, count * sizeof(*mappings));
        t->process_puts++;
        return 0;
    }
    return -ENOSPC;
}

void unwind_tables_remove_process(struct unwind_tables *t, uint32_t pid)
{
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (t->processes[i].pid == pid)
            t->processes[i].pid = 0;
}

bool unwind_tables_is_settled(struct unwind_tables *t)
{
    (void)t;
    return true;
}

size_t unwind_tables_bytes(const struct unwind_tables *t)
{
    (void)t;
    return 0;
}

static uint64_t kernel_runtime(const struct unwind_tables *t, uint32_t pid)
{
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (t->processes[i].pid == pid)
            return t->processes[i].runtime;
    return UINT64_MAX;
}

/* What the BPF side would find for a process's mapping; UINT32_MAX - 2: no such process. */
#define NO_PROCESS (UINT32_MAX - 2)
static uint32_t kernel_object(const struct unwind_tables *t, uint32_t pid, size_t mapping)
{
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (t->processes[i].pid == pid)
            return t->processes[i].mappings[mapping].object;
    return NO_PROCESS;
}

/* ---- objects: all of them are this program ---- */

static unsigned references;

struct object *object_ref(struct object *o)
{
    references++;
    o->references++;
    return o;
}

struct object *object_unref(struct object *o)
{
    assert_true(o->references > 0);
    references--;
    o->references--;
    return NULL;
}

int object_open(const struct object *o)
{
    (void)o;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void object_unreadable(const struct object *o)
{
    (void)o;
}

/* ---- fixture, one per test ---- */

struct fixture {
    struct unwind_tables tables;
    struct unwind_cache *cache;
    struct unwind_publisher *publisher;
    struct interpreters *interpreters; /* NULL: none */
    struct object objects[8];
    struct process_mapping mappings[4][2];
    struct process processes[4];
    uint64_t now_ns;
};

static int make_fixture(void **state)
{
    struct fixture *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->tables.max_objects = OBJECTS_MAX;
    w->now_ns = clock_monotonic_ns();
    assert_int_equal(unwind_cache_new(1 << 20, &w->cache), 0);
    assert_int_equal(unwind_publisher_new(&w->tables, w->cache, NULL, &w->publisher), 0);
    for (size_t i = 0; i < 8; i++)
        w->objects[i] = (struct object){.id = i + 1, .path = "/x", .build_id = ""};
    for (size_t i = 0; i < 4; i++) { /* each maps its own program and library 7 */
        w->mappings[i][0] = (struct process_mapping){0x1000, 0x2000, 0, &w->objects[i]};
        w->mappings[i][1] = (struct process_mapping){0x5000, 0x6000, 0, &w->objects[7]};
        w->processes[i] = (struct process){.pid = (uint32_t)(100 + i),
                                           .start_time_ns = 1,
                                           .mapping_version = i + 1,
                                           .mappings = w->mappings[i],
                                           .mapping_count = 2};
    }
    *state = w;
    return 0;
}

static int free_fixture(void **state)
{
    struct fixture *w = *state;
    unwind_publisher_free(w->publisher);
    interpreters_free(w->interpreters);
    assert_int_equal(references, 0);
    for (size_t i = 0; i < OBJECTS_MAX; i++)
        assert_false(w->tables.present[i]);
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        assert_int_equal(w->tables.processes[i].pid, 0);
    unwind_cache_free(w->cache);
    free(w);
    return 0;
}

/* As the resolver does when it walks a copied stack through the object. */
static void walk_by(struct fixture *w, size_t object)
{
    const struct unwind_table *table;
    assert_int_equal(unwind_cache_get(w->cache, &w->objects[object], &table), 0);
}

static void pass_time(struct fixture *w, uint64_t ns)
{
    w->now_ns += ns;
    unwind_publisher_run_at(w->publisher, w->now_ns);
}

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
    unwind_publisher_trim(w->publisher); /* unmapped objects are removed at once */
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
    assert_int_equal(unwind_cache_get(w->cache, &w->objects[0], &table), 0); /* walks in user space use it too */
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
    assert_int_equal(unwind_publisher_new(&w->tables, w->cache, w->interpreters, &w->publisher), 0);
    pass_time(w, 0);
}

/* Also when nothing else about the process changes: its mappings, or what is known of them. */
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
