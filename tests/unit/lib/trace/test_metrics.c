/* Histograms of generations: values on a boundary, the series and their maximum, many threads counting during a read,
 * and the text for Prometheus. */
#include "fixture.h"

#include "../../allocations.h"
#include "trace/metrics.h"

#include <errno.h>

#define MS 1000000

static void count(struct trace_metrics *m, const char *model, const char *operation, const char *finish_reason,
                  const char *error_type, uint64_t duration_ns)
{
    const struct trace_series_key key = {model, operation, finish_reason, error_type};
    uint64_t values[TRACE_METRICS];
    for (unsigned i = 0; i < TRACE_METRICS; i++)
        values[i] = i == TRACE_REQUEST_DURATION ? duration_ns : TRACE_NO_VALUE;
    trace_metrics_count(m, &key, values);
}

static struct trace_metrics *metrics_new(void)
{
    struct trace_metrics *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    assert_int_equal(trace_metrics_init(m), 0);
    return m;
}

static void metrics_free(struct trace_metrics *m)
{
    trace_metrics_fini(m);
    free(m);
}

/* A value on a boundary is in the lower bucket, as in OpenTelemetry and Prometheus. */
static void test_boundary_value_is_in_the_lower_bucket(void **state)
{
    (void)state;
    struct trace_metrics *m = metrics_new();
    struct trace_metrics_snapshot s;
    const uint64_t durations_ns[] = {0, 10 * MS, 10 * MS + 1, 81920ULL * MS, 81920ULL * MS + 1};
    for (size_t i = 0; i < 5; i++)
        count(m, "m", "chat", "", "", durations_ns[i]);
    assert_int_equal(trace_metrics_read(m, &s), 0);
    assert_int_equal(s.count, 1);
    const struct trace_histogram *h = &s.series[0].histograms[TRACE_REQUEST_DURATION];
    assert_int_equal(h->count, 5);
    assert_int_equal(h->counts[0], 2);
    assert_int_equal(h->counts[1], 1);
    assert_int_equal(h->counts[13], 1);
    assert_int_equal(h->counts[14], 1);
    assert_int_equal(h->sum, (20ULL + 2 * 81920) * MS + 2);
    assert_int_equal(s.series[0].histograms[TRACE_TIME_TO_FIRST_TOKEN].count, 0);
    assert_true(s.unix_ns > s.start_unix_ns);
    free(s.series);
    metrics_free(m);
}

/* Each read switches from one half to the other: nothing is lost or counted twice. */
static void test_reading_does_not_change_the_counts(void **state)
{
    (void)state;
    struct trace_metrics *m = metrics_new();
    for (uint64_t n = 1; n <= 5; n++) {
        struct trace_metrics_snapshot s;
        count(m, "m", "chat", "stop", "", 20 * MS);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(trace_metrics_read(m, &s), 0);
            assert_int_equal(s.series[0].histograms[0].count, n);
            assert_int_equal(s.series[0].histograms[0].sum, n * 20 * MS);
            free(s.series);
        }
    }
    metrics_free(m);
}

static void test_series_differ_by_each_name(void **state)
{
    (void)state;
    const char models[][6] = {"model", "model"}; /* two models are distinct, even under one name */
    static const char *const keys[][3] = {
        {"chat", "", ""}, {"chat", "stop", ""}, {"chat", "", "stop"}, {"chats", "top", ""}, {"", "", ""}};
    struct trace_metrics *m = metrics_new();
    struct trace_metrics_snapshot s;
    for (unsigned round = 0; round < 3; round++)
        for (size_t i = 0; i < 5; i++) {
            count(m, models[0], keys[i][0], keys[i][1], keys[i][2], 1);
            count(m, models[1], keys[i][0], keys[i][1], keys[i][2], 1);
        }
    assert_int_equal(trace_metrics_read(m, &s), 0);
    assert_int_equal(s.count, 10);
    for (size_t i = 0; i < s.count; i++) {
        assert_int_equal(s.series[i].histograms[0].count, 3);
        assert_int_equal(s.series[i].order, i);
    }
    free(s.series);
    metrics_free(m);
}

/* A server with unbounded error types does not create unbounded series; existing series continue. */
static void test_excess_series_are_counted_without_names(void **state)
{
    (void)state;
    struct trace_metrics *m = metrics_new();
    struct trace_metrics_snapshot s;
    char type[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TRACE_SERIES_MAX + 7; i++) {
            snprintf(type, sizeof(type), "error %d", i);
            count(m, "m", "chat", "", type, 5);
        }
    assert_int_equal(trace_metrics_read(m, &s), 0);
    assert_int_equal(s.count, TRACE_SERIES_MAX + 1);
    for (int i = 0; i < TRACE_SERIES_MAX; i++)
        assert_true(s.series[i].histograms[0].count == 2 && !s.series[i].overflow);
    assert_true(s.series[TRACE_SERIES_MAX].overflow);
    assert_int_equal(s.series[TRACE_SERIES_MAX].histograms[0].count, 14);
    assert_int_equal(m->overflowed, 14);
    assert_int_equal(m->generations, 2 * (TRACE_SERIES_MAX + 7));
    free(s.series);
    metrics_free(m);
}

static void test_failed_allocation_loses_only_the_name(void **state)
{
    (void)state;
    struct trace_metrics *m = metrics_new();
    struct trace_metrics_snapshot s;
    allocations_fail_at(0);
    count(m, "m", "chat", "", "", 5);
    assert_true(allocations_failed);
    allocations_fail_at(0);
    assert_int_equal(trace_metrics_read(m, &s), -ENOMEM);
    count(m, "m", "chat", "", "", 5);
    assert_int_equal(trace_metrics_read(m, &s), 0);
    assert_int_equal(s.count, 2);
    assert_true(s.series[1].overflow && s.series[0].histograms[0].count == 1);
    free(s.series);
    metrics_free(m);
}

/* --- threads --------------------------------------------------------------------------------- */

#define THREADS 8
#define ROUNDS  20000

static void *count_concurrently(void *argument)
{
    static const char *const reasons[] = {"stop", "length", "tool_calls", "", "content_filter"};
    for (int i = 0; i < ROUNDS; i++)
        count(argument, "m", "chat", reasons[i % 5], "", 7);
    return NULL;
}

/* A reader sees each generation whole: the sum is always seven times the count, and neither decreases. */
static void test_concurrent_counting_and_reading(void **state)
{
    (void)state;
    struct trace_metrics *m = metrics_new();
    pthread_t threads[THREADS];
    uint64_t seen = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_concurrently, m), 0);
    while (seen < (uint64_t)THREADS * ROUNDS) {
        struct trace_metrics_snapshot s;
        uint64_t count = 0;
        assert_int_equal(trace_metrics_read(m, &s), 0);
        for (size_t i = 0; i < s.count; i++) {
            const struct trace_histogram *h = &s.series[i].histograms[0];
            assert_int_equal(h->sum, 7 * h->count);
            assert_int_equal(h->counts[0], h->count);
            count += h->count;
        }
        assert_true(s.count <= 5 && count >= seen);
        seen = count;
        free(s.series);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(m->generations, THREADS * ROUNDS);
    assert_int_equal(m->overflowed, 0);
    metrics_free(m);
}

#define CROWD 4

struct crowd {
    struct trace_metrics *m;
    atomic_uint here;
};

/* All at once, each the same new series and then one of its own. */
static void *count_first(void *argument)
{
    struct crowd *c = argument;
    char reason[16];
    unsigned me = atomic_fetch_add(&c->here, 1);
    snprintf(reason, sizeof(reason), "own %u", me);
    while (atomic_load(&c->here) < CROWD)
        ;
    count(c->m, "m", "chat", "same", "", 7);
    count(c->m, "m", "chat", reason, "", 7);
    return NULL;
}

/* A series that many threads create concurrently takes one slot. A thread whose series has or could have had a slot is
 * not counted without names; slots are numbered in order. */
static void test_last_series_slots_are_taken_once(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct crowd c = {.m = metrics_new()};
        struct trace_metrics_snapshot s;
        pthread_t threads[CROWD];
        char type[16];
        /* at the end there is no slot, one too few, or one left */
        unsigned before = TRACE_SERIES_MAX - CROWD - 1 + (unsigned)round % 3 - 1;
        unsigned without = round % 3 == 2;
        for (unsigned i = 0; i < before; i++) {
            snprintf(type, sizeof(type), "error %u", i);
            count(c.m, "m", "chat", "", type, 7);
        }
        for (int i = 0; i < CROWD; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, count_first, &c), 0);
        for (int i = 0; i < CROWD; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(trace_metrics_read(c.m, &s), 0);
        assert_int_equal(c.m->overflowed, without);
        assert_int_equal(s.count, before + CROWD + 1);
        for (size_t i = 0; i < s.count - without; i++)
            assert_int_equal(s.series[i].order, i);
        free(s.series);
        metrics_free(c.m);
    }
}

/* --- text ------------------------------------------------------------------------------------ */

static void test_prometheus_text(void **state)
{
    (void)state;
    struct fixture f;
    char *text;
    fixture_open(&f, "rate=0");
    assert_int_equal(sonde_trace_metrics(f.manager, &text), 0);
    assert_null(strstr(text, "_count"));
    sonde_trace_free(text);
    count(&f.manager->metrics, f.model->entry->name, "chat", "st\"op\\\n\xff", "", 1500 * MS);
    assert_int_equal(sonde_trace_metrics(f.manager, &text), 0);
#define NAME "gen_ai_server_request_duration_seconds"
#define LABELS                                                                                                         \
    "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"triton-inference-server\","                                 \
    "gen_ai_request_model=\"m\",gen_ai_response_finish_reasons=\"st\\\"op\\\\\\n\xef\xbf\xbd\""
    assert_non_null(strstr(text, "# TYPE " NAME " histogram\n" NAME "_bucket{" LABELS ",le=\"0.01\"} 0\n"));
    assert_non_null(strstr(text, NAME "_bucket{" LABELS ",le=\"1.28\"} 0\n"));
    assert_non_null(strstr(text, NAME "_bucket{" LABELS ",le=\"2.56\"} 1\n"));
    assert_non_null(strstr(text, NAME "_bucket{" LABELS ",le=\"+Inf\"} 1\n" NAME "_sum{" LABELS "} 1.5\n" NAME
                                      "_count{" LABELS "} 1\n# HELP "));
    sonde_trace_free(text);
    for (size_t n = 0;; n++) {
        allocations_fail_at(n);
        int r = sonde_trace_metrics(f.manager, &text);
        if (r == 0)
            sonde_trace_free(text);
        if (!allocations_failed)
            break;
        assert_int_equal(r, -ENOMEM);
    }
    allocations_fail_at(SIZE_MAX);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boundary_value_is_in_the_lower_bucket),
        cmocka_unit_test(test_reading_does_not_change_the_counts),
        cmocka_unit_test(test_series_differ_by_each_name),
        cmocka_unit_test(test_excess_series_are_counted_without_names),
        cmocka_unit_test(test_failed_allocation_loses_only_the_name),
        cmocka_unit_test(test_concurrent_counting_and_reading),
        cmocka_unit_test(test_last_series_slots_are_taken_once),
        cmocka_unit_test(test_prometheus_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
