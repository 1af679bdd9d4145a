/* The agent's export of metrics, with a simulated receiver and clock: packets that are sent, packets that are given up
 * and counted, and that nothing is queued. The packets themselves: tests/unit/export/test_otlp_metrics.c. */
#include "send/metrics_export.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../lib/otlp/simulation.h"
#include "export_metrics.h"

#define POINTS_PER_PACKET 8192 /* at most */

struct fixture {
    struct simulation s; /* first member: callbacks cast to the fixture */
    struct metrics_export *export;
    struct export_io io;
    int points;        /* that each collection has */
    size_t text_bytes; /* of a label of each */
    int error;         /* that collecting returns */
    unsigned collections;
};

static int collect(void *context, struct metric_set *set, uint64_t *ret_read_ns)
{
    struct fixture *f = context;
    char text[256] = {0};
    f->collections++;
    memset(text, 'x', f->text_bytes);
    for (int i = 0; i < f->points; i++) {
        char number[16];
        snprintf(number, sizeof(number), "%d", i);
        metric_add(set, "a", METRIC_COUNTER, "", "", f->collections, METRIC_LABELS({"i", number}, {"t", text}));
    }
    *ret_read_ns = f->s.now_ns - SECOND;
    return f->error;
}

static double metric_of(const struct fixture *f, const char *name, const char *reason)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    char full_name[64];
    snprintf(full_name, sizeof(full_name), "sonde_self_metrics_export_%s", name);
    assert_int_equal(metric_set_new(&set), 0);
    metrics_export_metrics(f->export, set);
    return value_of_metric(set, full_name, reason);
}

static void expect(const struct fixture *f, unsigned points, const char *reason, unsigned dropped)
{
    assert_true(metric_of(f, "points", NULL) == points);
    assert_true(metric_of(f, "dropped_points", reason) == dropped);
    assert_true(metric_of(f, "dropped_points", NULL) == dropped);
}

static void begin_with(struct fixture *f, int points, const struct simulated_answer *script, size_t count)
{
    struct config config;
    *f = (struct fixture){
        .s = {.now_ns = 1000 * SECOND, .attempts_end_early = true, .script = script, .script_count = count},
        .points = points};
    f->io = (struct export_io){&simulation_transport, simulation_now_ns, simulation_pause, &f->s};
    const struct metrics_source source = {collect, f, f->s.now_ns};
    config_defaults(&config);
    config.otlp_metrics_interval_s = 60;
    simulation_url(&f->s, config.otlp_metrics_endpoint);
    assert_int_equal(metrics_export_new(&config, &source, &f->io, &f->export), 0);
    assert_non_null(f->export);
}

#define begin(f, points, ...)                                                                                          \
    begin_with((f), (points), (const struct simulated_answer[]){__VA_ARGS__},                                          \
               sizeof((const struct simulated_answer[]){__VA_ARGS__}) / sizeof(struct simulated_answer))

static void end(struct fixture *f)
{
    metrics_export_free(f->export);
    assert_int_equal(f->s.connections, 0);
    simulation_fini(&f->s);
}

static void test_export_is_off_without_an_endpoint(void **state)
{
    (void)state;
    struct config config;
    struct metrics_export *export = (void *)&config;
    config_defaults(&config);
    assert_int_equal(metrics_export_new(&config, &(struct metrics_source){0}, NULL, &export), 0);
    assert_null(export);
    metrics_export_end(NULL);
    metrics_export_free(NULL);
}

static void test_collection_is_sent_in_packets(void **state)
{
    (void)state;
    struct fixture f;
    begin_with(&f, 2 * POINTS_PER_PACKET + 1, NULL, 0);
    metrics_export_send(f.export);
    assert_int_equal(f.s.posts, 3);
    metrics_export_send(f.export);
    assert_int_equal(f.s.posts, 6);
    expect(&f, 2 * (2 * POINTS_PER_PACKET + 1), NULL, 0);
    assert_true(metric_of(&f, "packets", NULL) == 6 && metric_of(&f, "failures", NULL) == 0);
    size_t bytes = 0;
    for (size_t i = 0; i < f.s.posts; i++) {
        assert_true(f.s.post[i].size <= 1 << 20);
        bytes += f.s.post[i].size;
    }
    assert_true(metric_of(&f, "bytes", NULL) == (double)bytes);
    end(&f);
}

static void test_packets_are_bounded_in_bytes(void **state)
{
    (void)state;
    struct fixture f;
    begin_with(&f, POINTS_PER_PACKET, NULL, 0);
    f.text_bytes = 255;
    metrics_export_send(f.export);
    assert_true(f.s.posts > 2);
    for (size_t i = 0; i < f.s.posts; i++)
        assert_true(f.s.post[i].size <= 1 << 20);
    expect(&f, POINTS_PER_PACKET, NULL, 0);
    end(&f);
}

static void test_packet_is_sent_again_while_the_receiver_is_busy(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 1, {.status = 503}, {.status = -ECONNREFUSED}, {0});
    metrics_export_send(f.export);
    assert_int_equal(f.s.posts, 3);
    assert_true(simulation_posts_are_equal(&f.s, 0, 2));
    assert_true(metric_of(&f, "failures", NULL) == 2);
    expect(&f, 1, NULL, 0);
    end(&f);
}

/* For one interval; then the rest of the collection is dropped, too, as the next one has all of it. */
static void test_receiver_that_is_down_costs_no_more_than_an_interval(void **state)
{
    (void)state;
    struct fixture f;
    const int points = 3 * POINTS_PER_PACKET;
    begin(&f, points, {.status = -ECONNREFUSED});
    const uint64_t begin_ns = f.s.now_ns;
    metrics_export_send(f.export);
    assert_in_range(f.s.now_ns - begin_ns, 40 * SECOND, 60 * SECOND);
    for (size_t i = 1; i < f.s.posts; i++)
        assert_true(simulation_posts_are_equal(&f.s, 0, i)); /* no other packet of this collection */
    expect(&f, 0, "unreachable", points);
    f.s.script_count = 0; /* the receiver is back */
    const size_t before = f.s.posts;
    metrics_export_send(f.export);
    assert_int_equal(f.s.posts - before, 3); /* one collection: nothing was queued */
    assert_int_equal(f.collections, 2);
    expect(&f, points, "unreachable", points);
    end(&f);
}

static void test_refused_packet_does_not_stop_the_others(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 3 * POINTS_PER_PACKET, {0}, {.status = 400}, {0});
    metrics_export_send(f.export);
    assert_int_equal(f.s.posts, 3);
    expect(&f, 2 * POINTS_PER_PACKET, "refused", POINTS_PER_PACKET);
    end(&f);
}

static void test_rejected_points_are_counted(void **state)
{
    (void)state;
    /* ExportMetricsPartialSuccess: 2 points, "no"; then more than there were. */
    const char two[] = "\x0a\x06\x08\x02\x12\x02no", many[] = "\x0a\x03\x08\xff\x7f";
    struct fixture f;
    begin(&f, 5, {.body = two, .body_size = sizeof(two) - 1}, {.body = many, .body_size = sizeof(many) - 1}, {0});
    metrics_export_send(f.export);
    assert_true(metric_of(&f, "rejected_points", NULL) == 2);
    metrics_export_send(f.export);
    assert_true(metric_of(&f, "rejected_points", NULL) == 7);
    metrics_export_send(f.export);
    assert_true(metric_of(&f, "rejected_points", NULL) == 7);
    expect(&f, 15, NULL, 0);
    end(&f);
}

static void test_shutdown_ends_the_attempts(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 2 * POINTS_PER_PACKET, {.hangs = true});
    metrics_export_end(f.export);
    metrics_export_end(f.export);
    const uint64_t begin_ns = f.s.now_ns;
    metrics_export_send(f.export);
    assert_in_range(f.s.now_ns - begin_ns, 0, 6 * SECOND);
    expect(&f, 0, "ended", 2 * POINTS_PER_PACKET);
    end(&f);
}

static void test_incomplete_collection_is_not_sent(void **state)
{
    (void)state;
    struct fixture f;
    begin_with(&f, 4, NULL, 0);
    f.error = -ENOMEM;
    metrics_export_send(f.export);
    assert_int_equal(f.s.posts, 0);
    expect(&f, 0, "no_memory", 4);
    end(&f);
}

static void test_unusable_endpoint_is_an_error(void **state)
{
    (void)state;
    struct config config;
    struct simulation s = {.now_ns = SECOND};
    struct metrics_export *export = NULL;
    const struct export_io io = {&simulation_transport, simulation_now_ns, simulation_pause, &s};
    config_defaults(&config);
    snprintf(config.otlp_metrics_endpoint, sizeof(config.otlp_metrics_endpoint), "http://no simulation");
    assert_int_equal(metrics_export_new(&config, &(struct metrics_source){0}, &io, &export), -EINVAL);
    assert_null(export);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_is_off_without_an_endpoint),
        cmocka_unit_test(test_collection_is_sent_in_packets),
        cmocka_unit_test(test_packets_are_bounded_in_bytes),
        cmocka_unit_test(test_packet_is_sent_again_while_the_receiver_is_busy),
        cmocka_unit_test(test_receiver_that_is_down_costs_no_more_than_an_interval),
        cmocka_unit_test(test_refused_packet_does_not_stop_the_others),
        cmocka_unit_test(test_rejected_points_are_counted),
        cmocka_unit_test(test_shutdown_ends_the_attempts),
        cmocka_unit_test(test_incomplete_collection_is_not_sent),
        cmocka_unit_test(test_unusable_endpoint_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
