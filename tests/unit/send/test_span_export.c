/* The agent's export of spans, with a simulated receiver and clock: the spans that are sent, and the count of all
 * others by reason. The packets themselves: tests/unit/export/test_otlp_spans.c. */
#include "send/span_export.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../lib/otlp/simulation.h"
#include "export_metrics.h"
#include "span_requests.h"

struct fixture {
    struct simulation s; /* first member: callbacks cast to the fixture */
    struct span_export *export;
    struct export_io io;
};

static double metric_of(const struct fixture *f, const char *name, const char *reason)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    char full_name[64];
    snprintf(full_name, sizeof(full_name), "sonde_self_spans_export_%s", name);
    assert_int_equal(metric_set_new(&set), 0);
    span_export_metrics(f->export, set);
    return value_of_metric(set, full_name, reason);
}

static void begin_with(struct fixture *f, size_t queue_bytes, const struct simulated_answer *script, size_t count)
{
    struct config config;
    const struct memory_plan memory = {.bytes[MEMORY_SPAN_QUEUE] = queue_bytes};
    *f = (struct fixture){
        .s = {.now_ns = 1000 * SECOND, .attempts_end_early = true, .script = script, .script_count = count}};
    f->io = (struct export_io){&simulation_transport, simulation_now_ns, simulation_pause, &f->s};
    config_defaults(&config);
    simulation_url(&f->s, config.otlp_traces_endpoint);
    assert_int_equal(span_export_new(&config, &memory, &f->io, &f->export), 0);
    assert_non_null(f->export);
}

static void end(struct fixture *f)
{
    span_export_free(f->export);
    assert_int_equal(f->s.connections, 0);
    simulation_fini(&f->s);
}

static void add(struct fixture *f, uint64_t id, uint16_t status, bool is_unsampled)
{
    struct request *r = make_request(id, "a", f->s.now_ns, 1);
    r->status = status;
    r->span.is_unsampled = is_unsampled;
    span_export_add(f->export, r);
    request_free(r);
}

static void test_export_is_off_without_an_endpoint(void **state)
{
    struct config config;
    struct span_export *export = (void *)&config;
    (void)state;
    config_defaults(&config);
    assert_int_equal(span_export_new(&config, &(struct memory_plan){0}, NULL, &export), 0);
    assert_null(export);
    span_export_end(NULL);
    span_export_free(NULL);
}

static void test_requests_are_sent_once_they_are_over(void **state)
{
    struct fixture f;
    (void)state;
    begin_with(&f, 1 << 20, NULL, 0);
    for (uint64_t id = 1; id <= 10; id++)
        add(&f, id, 200, false);
    span_export_send(f.export);
    assert_int_equal(f.s.posts, 0);
    f.s.now_ns += 10 * SECOND;
    span_export_send(f.export);
    assert_int_equal(f.s.posts, 1);
    assert_true(metric_of(&f, "spans", NULL) == 10 && metric_of(&f, "packets", NULL) == 1);
    assert_true(metric_of(&f, "dropped_spans", NULL) == 0 && metric_of(&f, "queue_bytes", NULL) == 0);
    end(&f);
}

/* Failed and slow requests are exported although their callers do not sample. */
static void test_callers_decision_is_honoured(void **state)
{
    struct fixture f;
    (void)state;
    begin_with(&f, 1 << 20, NULL, 0);
    add(&f, 1, 200, true);
    add(&f, 2, 500, true);
    add(&f, 3, 0, true);
    f.s.now_ns += 10 * SECOND;
    span_export_send(f.export);
    assert_true(metric_of(&f, "spans", NULL) == 2 && metric_of(&f, "unsampled", NULL) == 1);
    end(&f);
}

static void test_requests_without_a_span_are_left_out(void **state)
{
    struct fixture f;
    struct request *r;
    (void)state;
    begin_with(&f, 1 << 20, NULL, 0);
    r = make_request(1, "a", f.s.now_ns, 1);
    r->span = (struct request_span){0};
    span_export_add(f.export, r);
    request_free(r);
    assert_true(metric_of(&f, "queue_bytes", NULL) == 0);
    end(&f);
}

/* A receiver that is down costs the oldest requests; every one is counted. */
static void test_receiver_that_is_down(void **state)
{
    static const struct simulated_answer down = {.status = -ECONNREFUSED};
    struct fixture f;
    (void)state;
    begin_with(&f, 64 << 10, &down, 1);
    for (uint64_t id = 1; id <= 1000; id++)
        add(&f, id, 200, false);
    const double full = metric_of(&f, "dropped_spans", "queue_full");
    assert_true(full > 0 && full < 1000 && metric_of(&f, "queue_bytes", NULL) <= 64 << 10);
    f.s.now_ns += 10 * SECOND;
    const uint64_t begin_ns = f.s.now_ns;
    span_export_send(f.export);
    assert_in_range(f.s.now_ns - begin_ns, 30 * SECOND, 61 * SECOND);
    assert_true(full + metric_of(&f, "dropped_spans", "unreachable") == 1000);
    f.s.script_count = 0; /* it is back */
    add(&f, 2000, 200, false);
    f.s.now_ns += 10 * SECOND;
    span_export_send(f.export);
    assert_true(metric_of(&f, "spans", NULL) == 1);
    end(&f);
}

static void test_refused_and_rejected_spans_are_counted(void **state)
{
    static const char two[] = "\x0a\x06\x08\x02\x12\x02no"; /* ExportTracePartialSuccess: 2 spans */
    static const struct simulated_answer script[] = {{.status = 400}, {.body = two, .body_size = sizeof(two) - 1}};
    struct fixture f;
    (void)state;
    begin_with(&f, 1 << 20, script, 2);
    add(&f, 1, 200, false);
    f.s.now_ns += 10 * SECOND;
    span_export_send(f.export);
    assert_true(metric_of(&f, "dropped_spans", "refused") == 1);
    for (uint64_t id = 2; id <= 4; id++)
        add(&f, id, 200, false);
    f.s.now_ns += 10 * SECOND;
    span_export_send(f.export);
    assert_true(metric_of(&f, "spans", NULL) == 3 && metric_of(&f, "rejected_spans", NULL) == 2);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_is_off_without_an_endpoint),
        cmocka_unit_test(test_requests_are_sent_once_they_are_over),
        cmocka_unit_test(test_callers_decision_is_honoured),
        cmocka_unit_test(test_requests_without_a_span_are_left_out),
        cmocka_unit_test(test_receiver_that_is_down),
        cmocka_unit_test(test_refused_and_rejected_spans_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
