/* The agent's export of events, with a simulated receiver and clock: the events that are sent, and the counts of the
 * others by reason; bounds of the queue. The packets themselves: tests/unit/export/test_otlp_logs.c. */
#include "send/event_export.h"
#include "send/event_queue.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../lib/otlp/simulation.h"
#include "export_metrics.h"

static const struct node_event event = {.time_ns = 1, .name = "a.b", .text = "something happened"};

struct fixture {
    struct simulation s; /* first member: callbacks cast to the fixture */
    struct event_export *export;
    struct export_io io;
};

static double metric_of(const struct fixture *f, const char *name, const char *reason)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    char full_name[64];
    snprintf(full_name, sizeof(full_name), "sonde_self_events_export_%s", name);
    assert_int_equal(metric_set_new(&set), 0);
    event_export_metrics(f->export, set);
    return value_of_metric(set, full_name, reason);
}

static void begin_with(struct fixture *f, size_t queue_bytes, const struct simulated_answer *script, size_t count)
{
    struct config config;
    const struct memory_plan memory = {.bytes[MEMORY_EVENT_QUEUE] = queue_bytes};
    *f = (struct fixture){
        .s = {.now_ns = 1000 * SECOND, .attempts_end_early = true, .script = script, .script_count = count}};
    f->io = (struct export_io){&simulation_transport, simulation_now_ns, simulation_pause, &f->s};
    config_defaults(&config);
    simulation_url(&f->s, config.otlp_logs_endpoint);
    assert_int_equal(event_export_new(&config, &memory, &f->io, &f->export), 0);
    assert_non_null(f->export);
}

static void end(struct fixture *f)
{
    event_export_free(f->export);
    assert_int_equal(f->s.connections, 0);
    simulation_fini(&f->s);
}

static void add(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++)
        event_export_add(f->export, &event, 1000);
}

static void test_export_is_off_without_an_endpoint(void **state)
{
    struct config config;
    struct event_export *export = (void *)&config;
    (void)state;
    config_defaults(&config);
    assert_int_equal(event_export_new(&config, &(struct memory_plan){0}, NULL, &export), 0);
    assert_null(export);
    event_export_end(NULL);
    event_export_free(NULL);
}

static void test_events_are_sent(void **state)
{
    struct fixture f;
    (void)state;
    begin_with(&f, 1 << 20, NULL, 0);
    event_export_send(f.export);
    assert_int_equal(f.s.posts, 0);
    add(&f, 10);
    assert_true(metric_of(&f, "queue_bytes", NULL) > 0);
    event_export_send(f.export);
    assert_int_equal(f.s.posts, 1);
    assert_true(metric_of(&f, "events", NULL) == 10 && metric_of(&f, "packets", NULL) == 1);
    assert_true(metric_of(&f, "dropped_events", NULL) == 0 && metric_of(&f, "queue_bytes", NULL) == 0);
    end(&f);
}

/* A receiver that is down costs the oldest events; every one is counted. */
static void test_receiver_that_is_down(void **state)
{
    static const struct simulated_answer down = {.status = -ECONNREFUSED};
    struct fixture f;
    (void)state;
    begin_with(&f, 64 << 10, &down, 1);
    add(&f, 1000);
    const double full = metric_of(&f, "dropped_events", "queue_full");
    assert_true(full > 0 && full < 1000 && metric_of(&f, "queue_bytes", NULL) <= 64 << 10);
    event_export_send(f.export);
    assert_true(full + metric_of(&f, "dropped_events", "unreachable") == 1000);
    f.s.script_count = 0; /* it is back */
    add(&f, 1);
    event_export_send(f.export);
    assert_true(metric_of(&f, "events", NULL) == 1);
    end(&f);
}

static void test_refused_and_rejected_events_are_counted(void **state)
{
    static const char two[] = "\x0a\x06\x08\x02\x12\x02no"; /* ExportLogsPartialSuccess: 2 log records */
    static const struct simulated_answer script[] = {{.status = 400}, {.body = two, .body_size = sizeof(two) - 1}};
    struct fixture f;
    (void)state;
    begin_with(&f, 1 << 20, script, 2);
    add(&f, 1);
    event_export_send(f.export);
    assert_true(metric_of(&f, "dropped_events", "refused") == 1);
    add(&f, 3);
    event_export_send(f.export);
    assert_true(metric_of(&f, "events", NULL) == 3 && metric_of(&f, "rejected_events", NULL) == 2);
    end(&f);
}

static void test_trim_drops_the_older_half(void **state)
{
    struct fixture f;
    (void)state;
    begin_with(&f, 1 << 20, NULL, 0);
    add(&f, 10);
    event_export_trim(f.export);
    assert_true(metric_of(&f, "dropped_events", "queue_full") == 5);
    event_export_send(f.export);
    assert_true(metric_of(&f, "events", NULL) == 5);
    end(&f);
}

static uint64_t push(struct event_queue *q, uint64_t unix_ns)
{
    struct kept_node_event *k;
    assert_int_equal(node_event_keep(&event, unix_ns, &k), 0);
    return event_queue_push(q, k);
}

/* At most EVENT_QUEUE_MAX, the oldest go first; none once the export ends, which leaves the queued ones. */
static void test_queue_is_bounded_and_in_order(void **state)
{
    _cleanup_(event_queue_freep) struct event_queue *q = NULL;
    struct kept_node_event *taken[2];
    (void)state;
    assert_int_equal(event_queue_new(64 << 20, &q), 0);
    for (uint64_t i = 1; i <= EVENT_QUEUE_MAX; i++)
        assert_int_equal(push(q, i), 0);
    assert_int_equal(push(q, EVENT_QUEUE_MAX + 1), 1);
    export_end_begin(event_queue_end(q), 1);
    assert_int_equal(push(q, 1), 1);
    assert_int_equal(event_queue_take(q, 2, taken), 2);
    assert_true(taken[0]->unix_ns == 2 && taken[1]->unix_ns == 3);
    free(taken[0]);
    free(taken[1]);
}

static void test_event_larger_than_the_queue_is_dropped(void **state)
{
    _cleanup_(event_queue_freep) struct event_queue *q = NULL;
    (void)state;
    assert_int_equal(event_queue_new(64, &q), 0);
    assert_int_equal(push(q, 1), 1);
    assert_int_equal(event_queue_bytes(q), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_is_off_without_an_endpoint),
        cmocka_unit_test(test_events_are_sent),
        cmocka_unit_test(test_receiver_that_is_down),
        cmocka_unit_test(test_refused_and_rejected_events_are_counted),
        cmocka_unit_test(test_trim_drops_the_older_half),
        cmocka_unit_test(test_queue_is_bounded_and_in_order),
        cmocka_unit_test(test_event_larger_than_the_queue_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
