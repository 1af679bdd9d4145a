/* request_series.c: the series of a service add up to the kernel's counts, are right for recorded requests, divide the
 * others by the sample's weights, never decrease, and are bounded. */
#include "signals/request/request_series.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

static struct {
    struct request_series *series;
    struct request_totals_exact exact;
    uint32_t service;
    uint64_t id;
} test;

static int begin(void **state)
{
    (void)state;
    memset(&test, 0, sizeof(test));
    assert_int_equal(request_series_new(&test.series), 0);
    assert_int_equal(request_series_service(test.series, "web", &test.service), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    request_series_free(test.series);
    return 0;
}

static int bucket(uint64_t ns)
{
    static const uint64_t bounds[] = {
#define X(n) n,
        REQUEST_BOUNDS(X)
#undef X
    };
    int i = 0;
    while (i < REQUEST_BOUND_COUNT && ns > bounds[i])
        i++;
    return i;
}

/* As the kernel counts them. */
static void count(uint16_t status, uint64_t ns, uint64_t requests)
{
    test.exact.counts[status / 100][bucket(ns)] += requests;
    test.exact.sum_ns[status / 100] += ns * requests;
}

static struct request make(const char *route, uint16_t status, uint64_t ns, uint32_t weight)
{
    return (struct request){.id = ++test.id,
                            .method = "GET",
                            .route = route,
                            .status = status,
                            .duration_ns = ns,
                            .weight = weight,
                            .is_notable = !weight};
}

static void record(const char *route, uint16_t status, uint64_t ns, uint32_t weight)
{
    const struct request r = make(route, status, ns, weight);
    request_series_record(test.series, test.service, &r);
}

static void settle(void)
{
    request_series_settle(test.series, test.service, &test.exact);
}

/* Sums over the points with this label (NULL: all). */
struct found {
    uint64_t count, buckets[REQUEST_BUCKETS];
    double sum_s;
    size_t points;
};

static bool has_label(const struct metric_point *p, const char *name, const char *value)
{
    for (size_t i = 0; i < p->label_count; i++)
        if (strcmp(p->labels[i].name, name) == 0)
            return strcmp(p->labels[i].value, value) == 0;
    return false;
}

static struct found find(const char *name, const char *value)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    struct found found = {0};
    assert_int_equal(metric_set_new(&set), 0);
    request_series_write(test.series, set);
    assert_int_equal(metric_set_error(set), 0);
    for (size_t f = 0; f < metric_set_families(set); f++) {
        const struct metric_family family = metric_set_family(set, f);
        for (size_t i = 0; family.type == METRIC_HISTOGRAM && i < family.point_count; i++) {
            const struct metric_point *p = &family.points[i];
            if (name && !has_label(p, name, value))
                continue;
            found.points++;
            found.sum_s += p->value;
            for (size_t b = 0; b < REQUEST_BUCKETS; b++) {
                found.buckets[b] += p->counts[b];
                found.count += p->counts[b];
            }
        }
    }
    return found;
}

static void test_recorded_requests_are_exact_at_once(void **state)
{
    (void)state;
    count(200, 3 * MS, 2);
    count(404, 7 * MS, 1);
    count(0, 20000 * MS, 1);
    record("/a", 200, 3 * MS, 1);
    record("/b", 200, 3 * MS, 1);
    record("/b", 404, 7 * MS, 1);
    record("/a", 0, 20000 * MS, 1);
    settle();
    assert_int_equal(find(NULL, NULL).count, 4);
    assert_int_equal(find("http_route", "/a").count, 2);
    assert_int_equal(find("http_response_status_code", "404").buckets[1], 1);
    assert_int_equal(find("error_type", "no_reply").buckets[REQUEST_BUCKETS - 1], 1);
    assert_true(find("http_route", "/b").sum_s > 0.0099 && find("http_route", "/b").sum_s < 0.0101);
    assert_int_equal(find("service_name", "web").points, 4);
}

static void test_bounds_are_inclusive(void **state)
{
    (void)state;
    count(200, 5 * MS, 1);
    record("/", 200, 5 * MS, 1);
    settle();
    assert_int_equal(find(NULL, NULL).buckets[0], 1);
}

/* Their records may be on the way: they wait for one settling. */
static void test_requests_without_a_record_are_divided_by_weight(void **state)
{
    (void)state;
    count(200, 1 * MS, 1000);
    for (int i = 0; i < 3; i++)
        record("/often", 200, 1 * MS, 200);
    record("/seldom", 200, 1 * MS, 200);
    settle();
    assert_int_equal(find(NULL, NULL).count, 4);
    settle();
    assert_int_equal(find(NULL, NULL).count, 1000);
    const uint64_t seldom = find("http_route", "/seldom").count;
    assert_in_range(seldom, 249, 251);
    const double sum_s = find(NULL, NULL).sum_s;
    assert_true(sum_s > 0.9999 && sum_s < 1.0001);
}

static void test_recorded_requests_of_other_buckets_get_nothing(void **state)
{
    (void)state;
    count(200, 1 * MS, 100);
    count(200, 800 * MS, 1);
    record("/fast", 200, 1 * MS, 100);
    record("/slow", 200, 800 * MS, 0);
    settle();
    settle();
    assert_int_equal(find("http_route", "/slow").count, 1);
    assert_int_equal(find("http_route", "/fast").count, 100);
}

/* A share below one request a settling is saved up. */
static void test_rare_route_gets_its_part_in_time(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        count(200, 1 * MS, 1);
        if (i % 50 == 0) {
            record(i % 500 == 0 ? "/rare" : "/often", 200, 1 * MS, 50);
        }
        settle();
    }
    settle();
    settle();
    assert_int_equal(find(NULL, NULL).count, 1000);
    assert_in_range(find("http_route", "/rare").count, 60, 140);
}

static void test_class_without_a_record_is_counted(void **state)
{
    (void)state;
    count(503, 1 * MS, 7);
    settle();
    settle();
    const struct found found = find("error_type", "_OTHER");
    assert_int_equal(found.count, 7);
    assert_int_equal(find("http_request_method", "_OTHER").count, 7);
    assert_int_equal(find("http_response_status_code", "0").points, 0);
    assert_int_equal(find("url_scheme", "http").points + find("url_scheme", "https").points, 0);
}

/* The same route with TLS and without is two series; calls of gRPC have no scheme, and are one. */
static void test_requests_over_tls_are_https(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct request r = make("/a", i < 3 ? 200 : REQUEST_STATUS_GRPC, 1 * MS, 1);
        r.is_tls = i > 0;
        count(200, 1 * MS, 1);
        request_series_record(test.series, test.service, &r);
    }
    record("/a", REQUEST_STATUS_GRPC, 1 * MS, 1);
    count(200, 1 * MS, 1);
    settle();
    assert_int_equal(find("url_scheme", "http").count, 1);
    assert_int_equal(find("url_scheme", "https").count, 2);
    assert_int_equal(find(NULL, NULL).count, 5);
    assert_int_equal(find(NULL, NULL).points, 3);
}

/* The reply went on: the kernel moves the request to a higher bucket, at any time. */
static void test_moved_request_decreases_nothing(void **state)
{
    (void)state;
    struct request r = make("/stream", 200, 2 * MS, 1);
    count(200, 2 * MS, 1);
    request_series_record(test.series, test.service, &r);
    settle();
    assert_int_equal(find(NULL, NULL).buckets[0], 1);
    test.exact.counts[2][0]--;
    test.exact.counts[2][bucket(700 * MS)]++;
    test.exact.sum_ns[2] += 698 * MS;
    r.duration_ns = 700 * MS;
    request_series_record(test.series, test.service, &r);
    settle();
    assert_int_equal(find(NULL, NULL).buckets[0], 1);
    assert_int_equal(find(NULL, NULL).count, 1);
    assert_true(find(NULL, NULL).sum_s > 0.69);
    /* The next fast request, of another route, corrects the bucket. */
    count(200, 2 * MS, 1);
    record("/fast", 200, 2 * MS, 1);
    settle();
    assert_int_equal(find(NULL, NULL).count, 2);
    count(200, 2 * MS, 1);
    record("/stream", 200, 2 * MS, 1);
    settle();
    assert_int_equal(find("http_route", "/fast").buckets[0], 1);
    assert_int_equal(find("http_route", "/stream").buckets[0], 1);
    assert_int_equal(find("http_route", "/stream").buckets[bucket(700 * MS)], 1);
}

/* At random: sums are exact and no bucket of any series decreases, whatever is recorded. */
static void test_sums_are_exact_at_random(void **state)
{
    static const char *const routes[] = {"/a", "/b", "/c", "/d"};
    static const uint64_t durations[] = {1 * MS, 30 * MS, 700 * MS, 20000 * MS};
    struct found before[4] = {0};
    uint64_t all = 0, random = 12345;
    (void)state;
    for (int i = 0; i < 300; i++) {
        for (int k = 0; k < 20; k++) {
            random = random * 6364136223846793005ull + 1442695040888963407ull;
            const uint64_t n = random >> 60, ns = durations[random >> 58 & 3];
            count(200, ns, n);
            all += n;
            if (n && random >> 50 & 1)
                record(routes[random >> 48 & 3], 200, ns, random >> 47 & 1 ? (uint32_t)n : 0);
        }
        settle();
        for (int r = 0; r < 4; r++) {
            const struct found now = find("http_route", routes[r]);
            for (int b = 0; b < REQUEST_BUCKETS; b++)
                assert_true(now.buckets[b] >= before[r].buckets[b]);
            before[r] = now;
        }
    }
    settle();
    settle();
    const struct found found = find(NULL, NULL);
    assert_int_equal(found.count, all);
    for (int b = 0; b < REQUEST_BUCKETS; b++)
        assert_int_equal(found.buckets[b], test.exact.counts[2][b]);
    assert_true(found.sum_s * 1e9 > (double)test.exact.sum_ns[2] * 0.999999);
    assert_true(found.sum_s * 1e9 < (double)test.exact.sum_ns[2] * 1.000001);
}

static void test_routes_are_bounded(void **state)
{
    char route[32];
    (void)state;
    for (int i = 0; i < 10 * REQUEST_SERIES_ROUTES; i++) {
        snprintf(route, sizeof(route), "/r%d", i);
        count(200, 1 * MS, 1);
        record(route, 200, 1 * MS, 1);
    }
    settle();
    assert_int_equal(find(NULL, NULL).points, REQUEST_SERIES_ROUTES + 1);
    assert_int_equal(find("http_route", "other").count, 9 * REQUEST_SERIES_ROUTES);
    assert_int_equal(find(NULL, NULL).count, 10 * REQUEST_SERIES_ROUTES);
}

static void test_services_are_bounded(void **state)
{
    char name[32];
    uint32_t service = 0, other;
    (void)state;
    for (int i = 0; i < 2 * REQUEST_SERIES_SERVICES; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        assert_int_equal(request_series_service(test.series, name, &service), 0);
        assert_true(service < REQUEST_SERIES_SERVICES);
    }
    assert_int_equal(request_series_service(test.series, "other", &other), 0);
    assert_int_equal(service, other);
}

static void test_exemplar_is_the_latest_traced_request(void **state)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    (void)state;
    count(200, 800 * MS, 2);
    struct request r = make("/a", 200, 800 * MS, 1);
    r.link = (struct trace_link){1, 2, 3};
    request_series_record(test.series, test.service, &r);
    r = make("/a", 200, 800 * MS, 1);
    r.link = (struct trace_link){1, 2, 3};
    r.span.id = (struct trace_link){0xabc, 2, 0xdef};
    request_series_record(test.series, test.service, &r);
    settle();
    assert_int_equal(metric_set_new(&set), 0);
    request_series_write(test.series, set);
    const struct metric_family family = metric_set_family(set, 0);
    const struct metric_exemplar *exemplars = family.points[0].exemplars;
    assert_non_null(exemplars);
    assert_null(exemplars[0].trace_id);
    assert_string_equal(exemplars[bucket(800 * MS)].trace_id, "0000000000000abc0000000000000002");
    assert_string_equal(exemplars[bucket(800 * MS)].span_id, "0000000000000def");
    assert_true(exemplars[bucket(800 * MS)].value == 0.8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_recorded_requests_are_exact_at_once),
        TEST(test_bounds_are_inclusive),
        TEST(test_requests_without_a_record_are_divided_by_weight),
        TEST(test_recorded_requests_of_other_buckets_get_nothing),
        TEST(test_rare_route_gets_its_part_in_time),
        TEST(test_class_without_a_record_is_counted),
        TEST(test_requests_over_tls_are_https),
        TEST(test_moved_request_decreases_nothing),
        TEST(test_sums_are_exact_at_random),
        TEST(test_routes_are_bounded),
        TEST(test_services_are_bounded),
        TEST(test_exemplar_is_the_latest_traced_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
