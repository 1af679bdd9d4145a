/* Every allocation between samples and files fails once: the result is an error or a counted loss, never a crash, a
 * leak, or an unreported wrong result. */
#include "export/darshan.h"
#include "export/export.h"
#include "export/openmetrics.h"
#include "export/otlp_metrics.h"
#include "export/otlp_profiles.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../allocations.h"
#include "../fixture.h"
#include "io_report_example.h"

enum { SAMPLES = 200 };

/* Adds SAMPLES distinct samples; returns how many were refused. */
static uint64_t fill(struct profile *p)
{
    uint64_t refused = 0;
    for (int i = 0; i < SAMPLES; i++) {
        char name[24], thread[24];
        snprintf(name, sizeof(name), "function_%d", i);
        snprintf(thread, sizeof(thread), "t%d", i % 7);
        struct resource resource = fixture_resource(i % 5, "c");
        struct frame frames[] = {fixture_native(name), fixture_native("main")};
        int r = fixture_add(p, &resource, i, thread, 10, frames, 2);
        assert_true(r == 0 || r == -ENOMEM);
        refused += r < 0;
    }
    return refused;
}

static void test_allocation_failures_while_adding(void **state)
{
    (void)state;
    size_t n = 0;
    for (bool failed = true; failed; n++) {
        allocations_fail_at(n);
        _cleanup_(profile_freep) struct profile *p = NULL;
        int r = profile_new(0, &p);
        if (r == 0) {
            uint64_t refused = fill(p);
            assert_int_equal(p->dropped, refused);
            assert_int_equal(fixture_count(p) + refused, SAMPLES);
            assert_true(refused <= 1);
            /* What failed once succeeds the next time, and gets the same row. */
            allocations_left = SIZE_MAX;
            assert_int_equal(fill(p), 0);
            assert_int_equal(p->entry_count, SAMPLES);
            assert_int_equal(fixture_count(p), 2 * SAMPLES - refused);
        } else {
            assert_int_equal(r, -ENOMEM);
            assert_null(p);
        }
        failed = allocations_failed;
    }
    assert_true(n > 30);
    allocations_fail_at(SIZE_MAX);
}

static void test_allocation_failures_while_merging(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *from = NULL;
    assert_int_equal(profile_new(0, &from), 0);
    fill(from);
    size_t n = 0;
    for (bool failed = true; failed; n++) {
        _cleanup_(profile_freep) struct profile *to = NULL;
        assert_int_equal(profile_new(0, &to), 0);
        allocations_fail_at(n);
        int r = profile_merge(to, from, NULL);
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        assert_int_equal(fixture_count(to) + to->dropped, SAMPLES);
        assert_int_equal(r, to->dropped ? -ENOMEM : 0);
    }
    assert_true(n > 30);
}

static void test_allocation_failures_while_exporting(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_typical(p);
    for (const struct exporter *const *e = exporters; *e; e++) {
        _cleanup_buf_ struct buf good = {0};
        assert_int_equal((*e)->write(p, &good), 0);
        size_t n = 0;
        for (bool failed = true; failed; n++) {
            _cleanup_buf_ struct buf out = {0};
            allocations_fail_at(n);
            int r = (*e)->write(p, &out);
            failed = allocations_failed;
            allocations_fail_at(SIZE_MAX);
            if (r == 0) { /* an allocation with a fallback */
                assert_int_equal(out.size, good.size);
                assert_memory_equal(out.data, good.data, good.size);
            } else {
                assert_int_equal(r, -ENOMEM);
            }
        }
        assert_true(n > 5);
    }
}

static void count_samples(void *context, const struct otlp_profiles_packet *packet)
{
    *(uint64_t *)context += packet->samples;
}

/* Also for timestamps of samples; packets that were emitted before are complete. */
static void test_allocation_failures_while_writing_packets(void **state)
{
    (void)state;
    const struct otlp_profiles_options options = {.packet_max_bytes = 2048, .host_name = "node"};
    size_t n = 0;
    for (bool failed = true; failed; n++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        uint64_t sent = 0, too_large, refused = 0;
        assert_int_equal(profile_new(0, &p), 0);
        allocations_fail_at(n);
        struct resource resource = fixture_resource(1, "c");
        for (uint32_t i = 0; i < 40; i++) {
            char name[24];
            snprintf(name, sizeof(name), "function_%u", i);
            refused += fixture_add_moment(p, &resource, i, 10,
                                          &(struct frame){.kind = FRAME_NATIVE,
                                                          .function = name,
                                                          .system_name = "",
                                                          .file = "",
                                                          .mapping = "",
                                                          .build_id = ""},
                                          1, i) < 0;
        }
        assert_int_equal(p->moment_count, 40 - refused);
        int r = otlp_profiles_write(p, &options, &(struct otlp_profiles_sink){&sent, count_samples}, &too_large);
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        assert_true(r == 0 || r == -ENOMEM);
        assert_true(r == 0 ? sent == 40 - refused : sent < 40);
        assert_true(failed || (r == 0 && refused == 0));
    }
    assert_true(n > 50);
}

static void test_allocation_failures_of_metrics(void **state)
{
    (void)state;
    size_t n = 0;
    for (bool failed = true; failed; n++) {
        _cleanup_(metric_set_freep) struct metric_set *set = NULL;
        _cleanup_buf_ struct buf out = {0};
        allocations_fail_at(n);
        int r = metric_set_new(&set);
        for (int i = 0; r == 0 && i < 40; i++) {
            char name[24];
            snprintf(name, sizeof(name), "metric_%d", i / 8);
            metric_add(set, name, METRIC_GAUGE, "", "Help.", i, METRIC_LABELS({"l", name}));
            snprintf(name, sizeof(name), "histogram_%d", i / 8);
            metric_add_histogram(set, name, "", "", (double[]){1}, (uint64_t[]){1, 2}, 1, 3, METRIC_NO_LABELS);
        }
        if (r == 0)
            r = openmetrics_write(set, true, &out);
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        assert_int_equal(r, failed ? -ENOMEM : 0);
    }
    assert_true(n > 20);
}

static void count_points(void *context, const struct otlp_metrics_packet *packet)
{
    *(uint64_t *)context += packet->points;
}

/* Unsent points are reported, and series that could not be remembered. */
static void test_allocation_failures_while_writing_metrics_packets(void **state)
{
    (void)state;
    const struct otlp_metrics_options options = {
        .packet_max_bytes = 2048, .packet_max_points = 100, .host_name = "node", .attributes = "", .time_ns = 7};
    enum { POINTS = 600 };
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    for (int i = 0; i < POINTS; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%d", i);
        metric_add(set, "a", METRIC_COUNTER, "", "Help.", i, METRIC_LABELS({"l", value}));
    }
    size_t n = 0;
    for (bool failed = true; failed; n++) {
        _cleanup_(series_starts_freep) struct series_starts *starts = NULL;
        uint64_t sent = 0, too_large = 0;
        allocations_fail_at(n);
        int r = series_starts_new(1, &starts);
        if (r == 0) {
            series_starts_begin(starts, 7, 7);
            r = otlp_metrics_write(set, starts, &options, &(struct otlp_metrics_sink){&sent, count_points}, &too_large);
            const bool is_sent = r == 0;
            r = series_starts_end(starts) ?: r;
            assert_true(is_sent == (sent == POINTS) && too_large == 0);
        }
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        assert_int_equal(r, failed ? -ENOMEM : 0);
    }
    assert_true(n > 15);
}

static void test_allocation_failures_of_darshan_logs(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    _cleanup_buf_ struct buf good = {0};
    assert_int_equal(darshan_write(&e.report, &good), 0);
    size_t n = 0;
    for (bool failed = true; failed; n++) {
        _cleanup_buf_ struct buf out = {0};
        allocations_fail_at(n);
        int r = darshan_write(&e.report, &out);
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        assert_int_equal(r, failed ? -ENOMEM : 0);
        if (r == 0)
            assert_memory_equal(out.data, good.data, good.size);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocation_failures_while_adding),
        cmocka_unit_test(test_allocation_failures_while_merging),
        cmocka_unit_test(test_allocation_failures_while_exporting),
        cmocka_unit_test(test_allocation_failures_while_writing_packets),
        cmocka_unit_test(test_allocation_failures_of_metrics),
        cmocka_unit_test(test_allocation_failures_while_writing_metrics_packets),
        cmocka_unit_test(test_allocation_failures_of_darshan_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
