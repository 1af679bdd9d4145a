/* Records of kills become events and counts by service; the processes that grow fastest are found, and the functions in
 * which they had most page faults. */
#include "model/metric.h"
#include "signal_events_fixture.h"
#include "signals/oom/grown_places.h"
#include "sources/oom/oom.h"
#include "sources/oom/oom_growth.h"

#include "probes/oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static char emitted[32768];
static const struct signal *oom;
static void *self;

static void keep_event(void *pipeline, const struct node_event *event)
{
    size_t used = strlen(emitted);
    (void)pipeline;
    used += event_text(event, emitted + used, sizeof(emitted) - used);
    snprintf(emitted + used, sizeof(emitted) - used, "\n");
}

static struct signal_services services = {.emit_event = keep_event};

static int begin(void **state)
{
    (void)state;
    emitted[0] = '\0';
    oom = signal_named("oom");
    return oom->create(&services, oom->defaults, NULL, &self);
}

static int end(void **state)
{
    (void)state;
    oom->destroy(self);
    return 0;
}

static struct oom_kill kill_record(void)
{
    return (struct oom_kill){
        .h = {.size_bytes = sizeof(struct oom_kill),
              .kind = RECORD_OOM_KILL,
              .time_ns = 90 * SECOND_NS,
              .pid = 4242,
              .tid = 4242},
        .limit_cgroup_id = 7,
        .limit_pages = 131072,
        .memory = {.file = 256, .anonymous = 122880},
        .by_pid = 4242,
        .by_tid = 4243,
        .comm = "python3",
        .by_comm = "python3",
    };
}

static void take(const struct oom_kill *r)
{
    assert_true(signals_check_record(&r->h));
    oom->records[0].take(self, &r->h);
}

static void test_a_kill_at_a_limit_is_an_event_with_the_limit(void **state)
{
    const struct oom_kill r = kill_record();
    (void)state;
    take(&r);
    assert_string_equal(
        emitted, "oom.killed: The kernel killed python3 (pid 4242): memory.max of 512 MiB of its cgroup was reached. "
                 "It had 480 MiB of anonymous memory.; process.pid=4242; process.command=python3; "
                 "service.name=python3; memory.anonymous=503316480; memory.file=1048576; memory.shared=0; "
                 "trigger.pid=4242; trigger.command=python3; limit=536870912\n");
}

static void test_a_kill_of_the_node_names_the_trigger(void **state)
{
    struct oom_kill r = kill_record();
    (void)state;
    r.limit_cgroup_id = r.limit_pages = 0;
    r.memory.shared = 256;
    r.by_pid = 9;
    snprintf(r.by_comm, sizeof(r.by_comm), "nginx");
    take(&r);
    assert_non_null(strstr(emitted, "(pid 4242): the node had no memory left. It had 480 MiB of anonymous memory and "
                                    "1.00 MiB of shared memory. nginx (pid 9) asked for memory.; "));
    assert_null(strstr(emitted, "limit="));
}

static void test_a_group_says_so(void **state)
{
    struct oom_kill r = kill_record();
    (void)state;
    r.is_group = 1;
    take(&r);
    assert_non_null(strstr(emitted, " memory.oom.group kills all processes of the cgroup.;"));
}

static double metric_of(const char *service, const char *limit)
{
    struct metric_set *set;
    double value = 0;
    assert_int_equal(metric_set_new(&set), 0);
    oom->metrics(self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t k = 0; k < f.point_count; k++)
            if (strcmp(f.points[k].labels[0].value, service) == 0 && strcmp(f.points[k].labels[1].value, limit) == 0)
                value += f.points[k].value;
    }
    metric_set_free(set);
    return value;
}

static void test_all_kills_count_also_beyond_the_rate_of_events(void **state)
{
    struct oom_kill r = kill_record();
    (void)state;
    for (unsigned i = 0; i < 30; i++)
        take(&r);
    r.limit_cgroup_id = 0;
    take(&r);
    assert_true(metric_of("python3", "cgroup") == 30);
    assert_true(metric_of("python3", "node") == 1);
    unsigned events = 0;
    for (const char *at = emitted; (at = strstr(at, "oom.killed")); at++)
        events++;
    assert_true(events < 30);
}

static void test_records_with_impossible_values_are_rejected(void **state)
{
    struct oom_kill r = kill_record();
    (void)state;
    memset(r.comm, 'x', sizeof(r.comm));
    assert_false(signals_check_record(&r.h));
    r = kill_record();
    r.h.size_bytes -= 8;
    assert_false(signals_check_record(&r.h));
}

/* ---- growth ---- */

#define NODE_LEFT 1000 /* pages: less than those that grow here need in two minutes */

static struct oom_growth growth;

static void add_process_with_limit(uint32_t pid, uint64_t pages, uint64_t left_pages)
{
    oom_growth_add(&growth, &(struct oom_process){
                                .pid = pid, .start_ns = pid, .memory = {.anonymous = pages}, .left_pages = left_pages});
}

static void add_process(uint32_t pid, uint64_t pages)
{
    add_process_with_limit(pid, pages, UINT64_MAX);
}

static bool is_fastest(uint32_t pid)
{
    uint32_t pids[OOM_FASTEST_MAX];
    size_t count = oom_growth_fastest(&growth, pids);
    while (count && pids[count - 1] != pid)
        count--;
    return count;
}

static int clear_growth(void **state)
{
    (void)state;
    growth = (struct oom_growth){0};
    return 0;
}

static void test_processes_that_grow_are_found_from_the_second_walk_on(void **state)
{
    (void)state;
    oom_growth_begin(&growth, 10 * SECOND_NS, NODE_LEFT);
    add_process(1, 100000);
    add_process(2, 100000);
    assert_false(is_fastest(1) || is_fastest(2));
    oom_growth_begin(&growth, 20 * SECOND_NS, NODE_LEFT);
    add_process(1, 100000);
    add_process(2, 101000);
    add_process(3, OOM_LEAST_PAGES - 1);
    add_process(4, OOM_LEAST_PAGES);
    assert_false(is_fastest(1) || is_fastest(3));
    assert_true(is_fastest(2) && is_fastest(4));
}

static void test_the_fastest_ones_are_kept(void **state)
{
    (void)state;
    oom_growth_begin(&growth, 10 * SECOND_NS, NODE_LEFT);
    oom_growth_begin(&growth, 20 * SECOND_NS, NODE_LEFT);
    for (uint32_t pid = 1; pid <= OOM_FASTEST_MAX + 2; pid++)
        add_process(pid, 10000 + 1000 * pid);
    assert_false(is_fastest(1) || is_fastest(2));
    for (uint32_t pid = 3; pid <= OOM_FASTEST_MAX + 2; pid++)
        assert_true(is_fastest(pid));
}

static void test_what_is_given_back_and_what_is_long_ago_is_no_growth(void **state)
{
    (void)state;
    oom_growth_begin(&growth, 10 * SECOND_NS, NODE_LEFT);
    add_process(1, 10000);
    add_process(2, 10000);
    oom_growth_begin(&growth, 20 * SECOND_NS, NODE_LEFT);
    add_process(1, 20000);
    add_process(2, 20000);
    oom_growth_begin(&growth, 30 * SECOND_NS, NODE_LEFT);
    add_process(1, 10000);
    add_process(2, 20000);
    assert_false(is_fastest(1));
    assert_true(is_fastest(2));
    oom_growth_begin(&growth, 91 * SECOND_NS, NODE_LEFT);
    add_process(2, 20000);
    assert_false(is_fastest(2));
}

static void test_processes_grow_for_nothing_where_no_limit_is_near(void **state)
{
    (void)state;
    oom_growth_begin(&growth, 10 * SECOND_NS, 100000);
    add_process(1, 10000);
    add_process_with_limit(2, 10000, 5000);
    oom_growth_begin(&growth, 20 * SECOND_NS, 100000);
    add_process(1, 12000);
    add_process_with_limit(2, 12000, 5000);
    assert_false(is_fastest(1));
    assert_true(is_fastest(2));
    oom_growth_begin(&growth, 30 * SECOND_NS, 100000);
    add_process(1, 15000); /* both grow towards the node's limit */
    add_process(2, 60000);
    assert_true(is_fastest(1) && is_fastest(2));
}

/* ---- places ---- */

static struct grown_places places;

static void add_faults(uint64_t time_s, uint32_t pid, uint64_t faults, const char *function, uint32_t line)
{
    struct code_place place = {.file = "app.py", .line = line, .runs = "memset"};
    snprintf(place.function, sizeof(place.function), "%s", function);
    grown_places_add(&places, time_s * SECOND_NS, pid, faults, &place);
}

static int clear_places(void **state)
{
    (void)state;
    places = (struct grown_places){0};
    return 0;
}

static void test_the_function_with_most_page_faults_of_a_process_is_found(void **state)
{
    struct code_place most;
    (void)state;
    add_faults(5, 1, 900, "before()", 1);
    add_faults(20, 1, 10, "load()", 31);
    add_faults(30, 1, 5, "load()", 32);
    add_faults(30, 1, 5, "parse()", 7);
    add_faults(30, 2, 900, "other()", 3);
    assert_int_equal(grown_places_most(&places, 1, 10 * SECOND_NS, &most), 75);
    assert_string_equal(most.function, "load()");
    assert_int_equal(most.line, 31);
    assert_int_equal(grown_places_most(&places, 3, 10 * SECOND_NS, &most), 0);
}

static void test_own_code_comes_before_that_of_the_runtime(void **state)
{
    struct code_place most;
    (void)state;
    add_faults(20, 1, 60, "", 0);
    assert_int_equal(grown_places_most(&places, 1, 0, &most), 100);
    assert_string_equal(most.runs, "memset");
    add_faults(20, 1, 20, "load()", 31);
    assert_int_equal(grown_places_most(&places, 1, 0, &most), 25);
    assert_string_equal(most.function, "load()");
}

static void test_places_have_a_bound_and_are_used_again(void **state)
{
    struct code_place most;
    (void)state;
    for (uint32_t line = 0; line < 2 * GROWN_PLACES; line++)
        add_faults(20, 1, 1, "many()", line);
    add_faults(20, 1, GROWN_PLACES, "late()", 1); /* there is no room for it, but it counts for the whole */
    assert_int_equal(grown_places_most(&places, 1, 0, &most), 33);
    for (unsigned i = 0; i < 2 * GROWN_SAMPLES; i++)
        add_faults(30, 1, 1, "late()", 1);
    assert_int_equal(grown_places_most(&places, 1, 0, &most), 100);
    assert_string_equal(most.function, "late()");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_kill_at_a_limit_is_an_event_with_the_limit, begin, end),
        cmocka_unit_test_setup_teardown(test_a_kill_of_the_node_names_the_trigger, begin, end),
        cmocka_unit_test_setup_teardown(test_a_group_says_so, begin, end),
        cmocka_unit_test_setup_teardown(test_all_kills_count_also_beyond_the_rate_of_events, begin, end),
        cmocka_unit_test_setup_teardown(test_records_with_impossible_values_are_rejected, begin, end),
        cmocka_unit_test_setup(test_processes_that_grow_are_found_from_the_second_walk_on, clear_growth),
        cmocka_unit_test_setup(test_the_fastest_ones_are_kept, clear_growth),
        cmocka_unit_test_setup(test_processes_grow_for_nothing_where_no_limit_is_near, clear_growth),
        cmocka_unit_test_setup(test_what_is_given_back_and_what_is_long_ago_is_no_growth, clear_growth),
        cmocka_unit_test_setup(test_the_function_with_most_page_faults_of_a_process_is_found, clear_places),
        cmocka_unit_test_setup(test_own_code_comes_before_that_of_the_runtime, clear_places),
        cmocka_unit_test_setup(test_places_have_a_bound_and_are_used_again, clear_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
