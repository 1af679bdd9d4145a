/* otlp_metrics.c, read back field by field: each type of metric, limits of packets, and sets of random metrics.
 * tests/e2e/test_metrics_export.py compares with /metrics, and has the official messages and the Collector. */
#include "export/otlp_metrics.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "otlp_metrics_reader.h"

#define OFFSET 1000000

static struct read_points points;
static const char *own_attributes = "";

static void take_packet(void *context, const struct otlp_metrics_packet *packet)
{
    struct read_points *p = context;
    const size_t before = p->count;
    read_metrics_packet(packet->data, packet->size, p);
    assert_int_equal(p->count - before, packet->points);
}

/* Encodes the set as one collection, read back into `points`. Returns the number of points that were too large. */
static uint64_t write_set(const struct metric_set *set, struct series_starts *starts, uint64_t time_ns,
                          size_t max_bytes, size_t max_points)
{
    const struct otlp_metrics_options options = {.packet_max_bytes = max_bytes,
                                                 .packet_max_points = max_points,
                                                 .host_name = "node",
                                                 .attributes = own_attributes,
                                                 .time_ns = time_ns,
                                                 .unix_offset_ns = OFFSET};
    uint64_t too_large = 0;
    memset(&points, 0, sizeof(points));
    series_starts_begin(starts, time_ns, time_ns);
    assert_int_equal(
        otlp_metrics_write(set, starts, &options, &(struct otlp_metrics_sink){&points, take_packet}, &too_large), 0);
    assert_int_equal(series_starts_end(starts), 0);
    assert_true(points.largest_bytes <= max_bytes && points.largest_points <= max_points);
    return too_large;
}

static struct metric_set *new_set(void)
{
    struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    return set;
}

static struct series_starts *new_starts(void)
{
    struct series_starts *starts = NULL;
    assert_int_equal(series_starts_new(5, &starts), 0);
    return starts;
}

static const struct read_point *find_point(const char *name, const char *attributes)
{
    for (size_t i = 0; i < points.count; i++)
        if (strcmp(points.point[i].name, name) == 0 && strcmp(points.point[i].attributes, attributes) == 0)
            return &points.point[i];
    fail_msg("no point of %s{%s}", name, attributes);
    return NULL;
}

/* They have the names of the conventions, and their service is the resource. */
static void test_metrics_of_the_conventions(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    const char *name = "http_server_request_duration_seconds";
    const double bounds[] = {0.5, 1};
    metric_add(set, "before", METRIC_GAUGE, "", "", 1, METRIC_LABELS({"service_name", "web"}));
    metric_add_histogram(
        set, name, "seconds", "", bounds, (uint64_t[]){3, 0, 4}, 2, 9,
        METRIC_LABELS({"service_name", "web"}, {"http_route", "/"}, {"http_response_status_code", "200"}));
    metric_add_exemplar(set, 2,
                        &(struct metric_exemplar){7, 5, "000102030405060708090a0b0c0d0e0f", "0001020304050607"});
    metric_add_histogram(
        set, name, "seconds", "", bounds, (uint64_t[]){1, 0, 0}, 2, 9,
        METRIC_LABELS({"service_name", "db"}, {"http_route", "/"}, {"http_response_status_code", "200"}));
    metric_add(set, "after", METRIC_GAUGE, "", "", 1, METRIC_NO_LABELS);
    for (size_t max_points = 1; max_points < 6; max_points++) {
        write_set(set, starts, max_points * 100, 1 << 20, max_points);
        assert_int_equal(points.count, 4);
        assert_string_equal(points.point[0].service, "sonde");
        assert_string_equal(points.point[0].attributes, "service_name=web,");
        assert_string_equal(points.point[3].service, "sonde");
        for (size_t i = 1; i < 3; i++) {
            assert_string_equal(points.point[i].name, "http.server.request.duration");
            assert_string_equal(points.point[i].unit, "s");
            assert_string_equal(points.point[i].attributes, "http.route=/,http.response.status_code=200,");
            assert_string_equal(points.point[i].service, i == 1 ? "web" : "db");
            assert_string_equal(points.point[i].exemplars, i == 1 ? "0001020304050607@7," : "");
        }
    }
}

/* They describe the node, whose resource is Sonde's own. */
static void test_metrics_of_hardware(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    metric_add(set, "hw_power_watts", METRIC_GAUGE, "watts", "", 600, METRIC_LABELS({"gpu", "0"}, {"hw_id", "GPU-1"}));
    metric_add(set, "hw_gpu_io_bytes", METRIC_COUNTER, "bytes", "", 7,
               METRIC_LABELS({"hw_id", "GPU-1"}, {"network_io_direction", "receive"}));
    write_set(set, starts, 100, 1 << 20, 10);
    assert_int_equal(points.count, 2);
    assert_string_equal(points.point[0].name, "hw.power");
    assert_string_equal(points.point[0].unit, "W");
    assert_string_equal(points.point[0].attributes, "gpu=0,hw.id=GPU-1,");
    assert_string_equal(points.point[1].name, "hw.gpu.io");
    assert_string_equal(points.point[1].attributes, "hw.id=GPU-1,network.io.direction=receive,");
    assert_string_equal(points.point[0].service, "sonde");
    assert_string_equal(points.point[1].service, "sonde");
}

static void test_attributes_of_the_node(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    own_attributes = "service.name=agent,team=a%20b,team=c";
    metric_add(set, "own", METRIC_GAUGE, "", "", 1, METRIC_NO_LABELS);
    write_set(set, starts, 100, 1 << 20, 10);
    assert_non_null(strstr(points.resource, "service.name=agent,team=a b,"));
    assert_null(strstr(points.resource, "sonde") == points.resource ? points.resource : NULL);
    assert_null(strstr(points.resource, "team=c"));
    metric_add_histogram(set, "http_server_request_duration_seconds", "seconds", "", NULL, (uint64_t[]){1}, 0, 9,
                         METRIC_LABELS({"service_name", "web"}));
    write_set(set, starts, 200, 1 << 20, 10);
    assert_non_null(strstr(points.resource, "service.name=web,"));
    assert_null(strstr(points.resource, "agent"));
    assert_non_null(strstr(points.resource, "team=a b,"));
    own_attributes = "";
}

static void test_types_and_units(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    metric_add(set, "read_bytes", METRIC_COUNTER, "bytes", "", 9007199254740991.0, METRIC_LABELS({"job", "7"}));
    metric_add(set, "cpu_seconds", METRIC_COUNTER, "seconds", "", 2, METRIC_NO_LABELS);
    metric_add(set, "cpu_ratio", METRIC_GAUGE, "ratio", "", 1, METRIC_NO_LABELS);
    metric_add(set, "depth", METRIC_GAUGE, "", "", -3, METRIC_LABELS({"a", "\xff"}, {"b", ""}));
    metric_add(set, "build", METRIC_INFO, "", "", 0, METRIC_LABELS({"version", "1"}));
    metric_add_histogram(set, "size_bytes", "bytes", "", (double[]){1, 2.5}, (uint64_t[]){1, 0, 2}, 2, 10.5,
                         METRIC_NO_LABELS);
    assert_int_equal(write_set(set, starts, 70, 1 << 20, 100), 0);
    assert_int_equal(points.packets, 1);
    assert_int_equal(points.count, 6);
    assert_string_equal(points.resource, "service.name=sonde,service.version=" SONDE_VERSION
                                         ",service.instance.id=node,host.name=node,");

    const struct read_point *p = find_point("read_bytes", "job=7,");
    assert_true(p->data == METRIC_DATA_SUM && p->is_monotonic && p->temporality == TEMPORALITY_CUMULATIVE);
    assert_true(p->is_integer && p->value == 9007199254740991.0);
    assert_true(p->start_ns == OFFSET + 5 && p->time_ns == OFFSET + 70);
    assert_string_equal(p->unit, "By");
    p = find_point("cpu_seconds", "");
    assert_true(p->data == METRIC_DATA_SUM && p->is_monotonic && !p->is_integer && p->value == 2);
    assert_string_equal(p->unit, "s");
    p = find_point("cpu_ratio", "");
    assert_true(p->data == METRIC_DATA_GAUGE && !p->temporality && !p->is_integer && p->value == 1);
    assert_true(p->start_ns == 0 && p->time_ns == OFFSET + 70);
    assert_string_equal(p->unit, "1");
    p = find_point("depth", "a=\xef\xbf\xbd,b=,");
    assert_true(p->data == METRIC_DATA_GAUGE && p->is_integer && p->value == -3);
    assert_string_equal(p->unit, "");
    p = find_point("build_info", "version=1,");
    assert_true(p->data == METRIC_DATA_SUM && !p->is_monotonic && p->temporality == TEMPORALITY_CUMULATIVE);
    assert_true(p->is_integer && p->value == 1 && p->start_ns == OFFSET + 5);
    p = find_point("size_bytes", "");
    assert_true(p->data == METRIC_DATA_HISTOGRAM && p->temporality == TEMPORALITY_CUMULATIVE);
    assert_true(p->start_ns == OFFSET + 5 && p->time_ns == OFFSET + 70 && p->count == 3 && p->value == 10.5);
    assert_memory_equal(p->buckets, ((uint64_t[]){1, 0, 2}), 3 * sizeof(uint64_t));
    assert_memory_equal(p->bounds, ((double[]){1, 2.5}), 2 * sizeof(double));
    assert_true(p->bucket_count == 3 && p->bound_count == 2);
}

static void test_numbers_are_exact(void **state)
{
    (void)state;
    const struct {
        double value;
        bool is_integer;
    } cases[] = {{0, true},        {-1, true},         {0.5, false},    {0x1p53, true},   {0x1p62, true},
                 {0x1p63, false},  {-0x1p62, true},    {1e300, false},  {NAN, false},     {INFINITY, false},
                 {1.0 / 3, false}, {-INFINITY, false}, {1e-300, false}, {123456789, true}};
    for (size_t i = 0; i < array_size(cases); i++) {
        _cleanup_(metric_set_freep) struct metric_set *set = new_set();
        _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
        metric_add(set, "a", METRIC_GAUGE, "", "", cases[i].value, METRIC_NO_LABELS);
        write_set(set, starts, 70, 1 << 20, 100);
        const struct read_point *p = find_point("a", "");
        assert_true(p->value == cases[i].value || (isnan(p->value) && isnan(cases[i].value)));
        assert_int_equal(p->is_integer, cases[i].is_integer);
    }
}

/* The buckets add up to the count, or receivers reject the point. */
static void test_saturated_histogram_is_consistent(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    metric_add_histogram(set, "a", "", "", (double[]){1, 2}, (uint64_t[]){UINT64_MAX - 1, 5, 7}, 2, 1,
                         METRIC_NO_LABELS);
    metric_add_histogram(set, "b", "", "", NULL, (uint64_t[]){4}, 0, 1, METRIC_NO_LABELS);
    write_set(set, starts, 70, 1 << 20, 100);
    const struct read_point *p = find_point("a", "");
    assert_true(p->count == UINT64_MAX);
    assert_memory_equal(p->buckets, ((uint64_t[]){UINT64_MAX - 1, 1, 0}), 3 * sizeof(uint64_t));
    p = find_point("b", "");
    assert_true(p->count == 4 && p->bucket_count == 1 && p->bound_count == 0);
}

static struct metric_set *one_counter(double value, uint64_t observations)
{
    struct metric_set *set = new_set();
    metric_add(set, "gauge", METRIC_GAUGE, "", "", value, METRIC_NO_LABELS);
    metric_add(set, "counter", METRIC_COUNTER, "", "", value, METRIC_LABELS({"job", "7"}));
    metric_add_histogram(set, "histogram", "", "", NULL, &observations, 0, 1, METRIC_LABELS({"job", "7"}));
    return set;
}

/* A job that was forgotten begins again at 0. */
static void test_restarted_series_have_a_new_start(void **state)
{
    (void)state;
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    const struct {
        double value;
        uint64_t start_ns;
    } collections[] = {{10, 5}, {20, 5}, {3, 200}, {20, 200}, {20, 200}};
    for (size_t i = 0; i < array_size(collections); i++) {
        const double value = collections[i].value;
        _cleanup_(metric_set_freep) struct metric_set *set = one_counter(value, (uint64_t)value);
        write_set(set, starts, 100 * (i + 1), 1 << 20, 100);
        assert_int_equal(find_point("counter", "job=7,")->start_ns, OFFSET + collections[i].start_ns);
        assert_int_equal(find_point("histogram", "job=7,")->start_ns, OFFSET + collections[i].start_ns);
        assert_int_equal(find_point("gauge", "")->start_ns, 0);
    }
}

static void test_series_differ_by_name_and_label(void **state)
{
    (void)state;
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    _cleanup_(metric_set_freep) struct metric_set *first = new_set(), *second = new_set();
    metric_add(first, "a", METRIC_COUNTER, "", "", 5, METRIC_LABELS({"l", "x"}));
    metric_add(second, "a", METRIC_COUNTER, "", "", 5, METRIC_LABELS({"l", "x"}));
    metric_add(second, "a", METRIC_COUNTER, "", "", 5, METRIC_LABELS({"l", "y"}));
    metric_add(second, "b", METRIC_COUNTER, "", "", 5, METRIC_LABELS({"l", "x"}));
    write_set(first, starts, 100, 1 << 20, 100);
    write_set(second, starts, 200, 1 << 20, 100);
    assert_int_equal(points.point[0].start_ns, OFFSET + 5);
    assert_int_equal(points.point[1].start_ns, OFFSET + 100);
    assert_int_equal(points.point[2].start_ns, OFFSET + 100);
}

static void test_empty_set_has_no_packet(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    assert_int_equal(write_set(set, starts, 70, 1 << 20, 100), 0);
    assert_int_equal(points.packets, 0);
}

static void test_error_of_the_set_is_returned(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    const struct otlp_metrics_options options = {.packet_max_bytes = 1000, .packet_max_points = 1, .host_name = ""};
    metric_add(set, "not a name", METRIC_GAUGE, "", "", 1, METRIC_NO_LABELS);
    assert_int_equal(
        otlp_metrics_write(set, starts, &options, &(struct otlp_metrics_sink){&points, take_packet}, &(uint64_t){0}),
        -EINVAL);
}

/* ---- packets ---- */

static void test_points_continue_in_the_next_packet(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    for (int i = 0; i < 25; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", i);
        metric_add(set, "a", METRIC_COUNTER, "", "", i, METRIC_LABELS({"l", text}));
    }
    metric_add(set, "b", METRIC_GAUGE, "", "", 7, METRIC_NO_LABELS);
    assert_int_equal(write_set(set, starts, 70, 1 << 20, 10), 0);
    assert_int_equal(points.packets, 3);
    assert_int_equal(points.count, 26);
    for (int i = 0; i < 25; i++)
        assert_true(points.point[i].value == i && points.point[i].is_monotonic &&
                    strcmp(points.point[i].name, "a") == 0);
    assert_string_equal(points.point[25].name, "b");
}

static void test_point_larger_than_a_packet_is_left_out(void **state)
{
    (void)state;
    char text[1001];
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    metric_add(set, "a", METRIC_GAUGE, "", "", 1, METRIC_LABELS({"l", "small"}));
    metric_add(set, "a", METRIC_GAUGE, "", "", 2, METRIC_LABELS({"l", text}));
    metric_add(set, "a", METRIC_GAUGE, "", "", 3, METRIC_LABELS({"l", "too"}));
    assert_int_equal(write_set(set, starts, 70, 900, 100), 1);
    assert_int_equal(points.count, 2);
    assert_true(find_point("a", "l=small,")->value == 1 && find_point("a", "l=too,")->value == 3);
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

struct expected_point {
    char name[24], attributes[64];
    double value;
    uint64_t count;
};

/* Adds a point with a label value that no other point has. */
static void add_random_point(struct metric_set *set, uint64_t *random, size_t number, struct expected_point *ret)
{
    char family[16], value[48];
    const uint64_t kind = next_random(random) % 4, length = next_random(random) % 30;
    const double number_value = (double)(next_random(random) >> next_random(random) % 64) / 4;
    snprintf(family, sizeof(family), "f%llu_%llu", (unsigned long long)kind,
             (unsigned long long)(next_random(random) % 5));
    snprintf(value, sizeof(value), "%zu-%.*s", number, (int)length, "abcdefghijklmnopqrstuvwxyzabcdefgh");
    *ret = (struct expected_point){.value = number_value};
    snprintf(ret->name, sizeof(ret->name), "%s%s", family, kind == 3 ? "_info" : "");
    snprintf(ret->attributes, sizeof(ret->attributes), "l=%s,", value);
    if (kind == 2) {
        uint64_t counts[4];
        for (size_t i = 0; i < 4; i++)
            ret->count += counts[i] = next_random(random) >> 8;
        metric_add_histogram(set, family, "", "Help.", (double[]){1, 2, 3}, counts, 3, number_value,
                             METRIC_LABELS({"l", value}));
        return;
    }
    ret->value = kind == 3 ? 1 : number_value;
    metric_add(set, family,
               kind == 0   ? METRIC_GAUGE
               : kind == 1 ? METRIC_COUNTER
                           : METRIC_INFO,
               "", "Help.", number_value, METRIC_LABELS({"l", value}));
}

/* Whatever the limits: every point is in exactly one packet, with its value. */
static void test_random_sets_read_back(void **state)
{
    (void)state;
    enum { ROUNDS = 60, EXPECTED_MAX = 300 };
    static struct expected_point expected[EXPECTED_MAX];
    uint64_t random = 0x243f6a8885a308d3;
    for (int round = 0; round < ROUNDS; round++) {
        _cleanup_(metric_set_freep) struct metric_set *set = new_set();
        _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
        const size_t count = next_random(&random) % EXPECTED_MAX;
        for (size_t i = 0; i < count; i++)
            add_random_point(set, &random, i, &expected[i]);
        const size_t max_bytes = 500 + next_random(&random) % 4000, max_points = 1 + next_random(&random) % 50;
        assert_int_equal(write_set(set, starts, 70, max_bytes, max_points), 0);
        assert_int_equal(points.count, count);
        for (size_t i = 0; i < count; i++) {
            const struct read_point *p = find_point(expected[i].name, expected[i].attributes);
            assert_true(p->value == expected[i].value && p->count == expected[i].count);
        }
    }
}

/* Packets are filled: their sizes are estimated closely. */
static void test_packets_are_full(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_(series_starts_freep) struct series_starts *starts = new_starts();
    for (int i = 0; i < 2000; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", i);
        metric_add(set, "a", METRIC_COUNTER, "", "", i, METRIC_LABELS({"l", text}));
    }
    write_set(set, starts, 70, 10000, 100000);
    assert_int_equal(points.count, 2000);
    assert_in_range(points.largest_bytes, 9900, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics_of_the_conventions),
        cmocka_unit_test(test_metrics_of_hardware),
        cmocka_unit_test(test_attributes_of_the_node),
        cmocka_unit_test(test_types_and_units),
        cmocka_unit_test(test_numbers_are_exact),
        cmocka_unit_test(test_saturated_histogram_is_consistent),
        cmocka_unit_test(test_restarted_series_have_a_new_start),
        cmocka_unit_test(test_series_differ_by_name_and_label),
        cmocka_unit_test(test_empty_set_has_no_packet),
        cmocka_unit_test(test_error_of_the_set_is_returned),
        cmocka_unit_test(test_points_continue_in_the_next_packet),
        cmocka_unit_test(test_point_larger_than_a_packet_is_left_out),
        cmocka_unit_test(test_random_sets_read_back),
        cmocka_unit_test(test_packets_are_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
