/* The baseline of a route: weighted percentiles, too few requests, bounds, and the slow against the usual. */
#include "aggregate/request_routes.h"
#include "aggregate/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS     1000000ull
#define SECOND (1000 * MS)
#define NOW    (1000000 * SECOND)

static uint64_t next_id = 1;

/* A request that ended at `end`, of two components. */
static struct request make_request(const char *route, uint64_t end_ns, uint64_t cpu_ns, uint64_t disk_ns,
                                   uint32_t weight)
{
    return (struct request){.id = next_id++,
                            .start_ns = end_ns - cpu_ns - disk_ns,
                            .duration_ns = cpu_ns + disk_ns,
                            .service = "shop",
                            .method = "GET",
                            .route = route,
                            .status = 200,
                            .weight = weight,
                            .part_count = 2,
                            .parts = {{REQUEST_PART_CPU, cpu_ns, "", ""}, {REQUEST_PART_DISK, disk_ns, "", ""}}};
}

static void add(struct request_routes *r, const char *route, uint64_t end_ns, uint64_t cpu_ns, uint64_t disk_ns,
                uint32_t weight)
{
    const struct request request = make_request(route, end_ns, cpu_ns, disk_ns, weight);
    request_routes_add(r, &request);
}

static struct request_usual usual_of(struct request_routes *r, const char *route)
{
    const struct request request = make_request(route, NOW, 1, 0, 0);
    return request_routes_usual(r, &request);
}

/* The only route of the last minute. */
static struct request_route only_route(const struct request_routes *r)
{
    struct request_route *list, one;
    size_t count;
    assert_int_equal(
        request_routes_list(r, &(struct request_routes_period){NOW - 60 * SECOND, NOW, NULL}, &list, &count), 0);
    assert_int_equal(count, 1);
    one = list[0];
    free(list);
    return one;
}

static void test_too_few_say_nothing(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < REQUEST_USUAL_MIN - 1; i++)
        add(r, "/", NOW, 2 * MS, 1 * MS, 1);
    for (int i = 0; i < 50; i++)
        add(r, "/", NOW, 2 * MS, 300 * MS, 0); /* here for being slow: they say nothing about the others */
    assert_int_equal(usual_of(r, "/").requests, 0);
    const struct request_route route = only_route(r);
    assert_int_equal(route.sampled, REQUEST_USUAL_MIN - 1);
    assert_int_equal(route.slow.requests, 0); /* slow for their process, perhaps not for their route */
    assert_int_equal(route.top_count, 0);
    assert_int_equal(route.causes[0].kind, REQUEST_PART_DISK);
    assert_int_equal(route.causes[0].group.time_ns, route.time_ns - (REQUEST_USUAL_MIN - 1) * 3 * MS);
    assert_int_equal(route.causes[1].group.time_ns, (REQUEST_USUAL_MIN - 1) * 3 * MS);
    add(r, "/", NOW, 2 * MS, 1 * MS, 1);
    const struct request_usual usual = usual_of(r, "/");
    assert_int_equal(usual.requests, REQUEST_USUAL_MIN);
    assert_int_equal(usual.p50_ns, 3 * MS);
    assert_int_equal(usual.p99_ns, 0);
    assert_int_equal(usual.explained, REQUEST_USUAL_MIN);
    assert_int_equal(usual.part_p50_ns[REQUEST_PART_CPU], 2 * MS);
    assert_int_equal(usual.part_p50_ns[REQUEST_PART_DISK], 1 * MS);
    assert_int_equal(usual_of(r, "/other").requests, 0);
}

static void test_percentiles_by_weight(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 100; i++)
        add(r, "/", NOW, 9 * MS, 0, 1);
    for (int i = 0; i < 100; i++)
        add(r, "/", NOW, 1 * MS, 0, 4); /* 400 requests */
    const struct request_route route = only_route(r);
    assert_int_equal(route.sampled, 200);
    assert_true(route.is_estimate);
    assert_true(route.requests == 500);
    assert_true(route.failed == 0);
    assert_int_equal(route.span_ns, 60 * SECOND);
    assert_int_equal(route.usual.p50_ns, 1 * MS);
    assert_int_equal(route.usual.p99_ns, 9 * MS);
}

static void test_totals(void **state)
{
    (void)state;
    struct request_totals totals;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 20; i++) {
        struct request request = make_request("/", NOW, 1 * MS, 3 * MS, 2);
        request.parts[1].kind = REQUEST_PART_RUN_QUEUE;
        request_routes_add(r, &request);
    }
    add(r, "/", NOW - 61 * SECOND, 9 * MS, 0, 1);                   /* too early */
    struct request request = make_request("/", NOW, 0, 90 * MS, 0); /* slow: not in the sample */
    request_routes_add(r, &request);
    request.id = 2;
    request.is_over_budget = true;
    request_routes_add(r, &request);
    request_routes_totals(r, NOW - 60 * SECOND, &totals);
    assert_true(totals.explained == 40 && totals.time_ns == 160.0 * MS && totals.run_queue_ns == 120.0 * MS);
    assert_int_equal(totals.abnormal, 2);
    assert_int_equal(totals.over_budget, 1);
}

/* 24 requests, one with the weight 1000: that one alone would decide. */
static void test_unequal_weights_are_fewer_requests(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 23; i++)
        add(r, "/", NOW, 1 * MS, 0, 1);
    add(r, "/", NOW, 50 * MS, 0, 1024);
    assert_int_equal(usual_of(r, "/").requests, 0);
}

/* The slow ones spend most on the CPU, as all do, and differ in their disk waits. */
static void test_slow_against_usual(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 40; i++)
        add(r, "/", NOW, 30 * MS, 1 * MS, 1);
    for (int i = 0; i < 3; i++)
        add(r, "/", NOW, 50 * MS, 49 * MS, 0);
    add(r, "/", NOW, 90 * MS, 20 * MS, 0);
    add(r, "/", NOW, 60 * MS, 1 * MS, 0); /* not three times as long */
    const struct request_route route = only_route(r);
    assert_int_equal(route.slow.requests, 4);
    assert_int_equal(route.slow.p50_ns, 99 * MS);
    assert_int_equal(route.slow.part_p50_ns[REQUEST_PART_DISK], 49 * MS);
    assert_int_equal(route.top_kind, REQUEST_PART_DISK);
    assert_int_equal(route.top_count, 3);
    assert_int_equal(route.usual.part_p50_ns[REQUEST_PART_CPU], 30 * MS);
    assert_int_equal(route.sampled, 40);
    assert_false(route.is_estimate);
}

/* The reasons of their waits are unknown, so their components have no baseline. */
static void test_unexplained_requests_say_nothing_of_components(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 60; i++) {
        struct request request = make_request("/", NOW, 1 * MS, 9 * MS, 1);
        request.parts[1].kind = i % 3 ? REQUEST_PART_UNATTRIBUTED : REQUEST_PART_DISK;
        request_routes_add(r, &request);
    }
    const struct request_usual usual = usual_of(r, "/");
    assert_int_equal(usual.p50_ns, 10 * MS);
    assert_int_equal(usual.explained, 0);
}

static void test_later_record_replaces_the_earlier_one(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    struct request request = make_request("/", NOW, 1 * MS, 0, 2);
    assert_int_equal(request_routes_new(&r), 0);
    request_routes_add(r, &request);
    request.duration_ns = 5 * MS;
    request.status = 0;
    request_routes_add(r, &request);
    const struct request_route route = only_route(r);
    assert_int_equal(route.sampled, 1);
    assert_true(route.requests == 2 && route.failed == 2);
    assert_int_equal(route.usual.p50_ns, 5 * MS);
}

/* Rates refer to the time that the sample covers, without the overwritten part. */
static void test_overwritten_sample_shortens_the_period(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 2 * REQUEST_ROUTES_SAMPLE; i++)
        add(r, "/", NOW - 70 * SECOND + (uint64_t)(i + 1) * 135 * MS, MS, 0, 1);
    const struct request_route route = only_route(r);
    assert_int_equal(route.sampled, REQUEST_ROUTES_SAMPLE);
    assert_int_equal(route.span_ns, 70 * SECOND - REQUEST_ROUTES_SAMPLE * 135 * MS - 1);
}

static void test_unmonitored_time_is_no_period(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    struct observed_spans observed = {.since_ns = 0};
    struct request_route *list;
    size_t count;
    assert_int_equal(request_routes_new(&r), 0);
    observed_spans_set(&observed, true, NOW - 50 * SECOND);
    observed_spans_set(&observed, false, NOW - 30 * SECOND);
    observed_spans_set(&observed, true, NOW - 10 * SECOND);
    add(r, "/", NOW - SECOND, MS, 0, 1);
    assert_int_equal(
        request_routes_list(r, &(struct request_routes_period){NOW - 60 * SECOND, NOW, &observed}, &list, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(list[0].span_ns, 30 * SECOND);
    free(list);
}

/* Failed requests outside of the sample are counted, however fast they were. */
static void test_route_that_fails_shows_it_unsampled(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 40; i++)
        add(r, "/", NOW, 10 * MS, 0, 1);
    for (int i = 0; i < 3; i++) {
        struct request failed = make_request("/", NOW, MS, 0, 0);
        failed.status = 500;
        request_routes_add(r, &failed);
    }
    const struct request_route route = only_route(r);
    assert_true(route.failed == 3 && route.requests == 43); /* the sample stands for those that did not fail */
    assert_int_equal(route.slow.requests, 0);
    assert_int_equal(route.cause_count, 1);
    assert_true(route.causes[0].is_failed && route.causes[0].status == 500 && route.causes[0].group.requests == 3);
    assert_int_equal(route.lost_ns, 0);
}

static void test_time_lost_by_cause(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 40; i++)
        add(r, "/", NOW, 10 * MS, 0, 1);
    for (int i = 0; i < 4; i++)
        add(r, "/", NOW, 10 * MS, 50 * MS, 0);
    add(r, "/", NOW, 110 * MS, 0, 0);
    const struct request_route route = only_route(r);
    assert_int_equal(route.lost_ns, 300 * MS);
    assert_int_equal(route.cause_count, 2);
    assert_int_equal(route.causes[0].kind, REQUEST_PART_DISK);
    assert_int_equal(route.causes[0].group.lost_ns, 200 * MS);
    assert_int_equal(route.causes[1].kind, REQUEST_PART_CPU);
    assert_int_equal(route.known, 40);
    assert_int_equal(route.time_ns, 750 * MS - 350 * MS);
}

/* One cause, which lost nothing: the kind that usually takes most time. */
static void test_route_without_slow_requests_has_a_cause(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 30; i++)
        add(r, "/", NOW, 2 * MS, 100 * MS + (uint64_t)i, 2);
    const struct request_route route = only_route(r);
    assert_int_equal(route.cause_count, 1);
    assert_int_equal(route.causes[0].kind, REQUEST_PART_DISK);
    assert_int_equal(route.causes[0].example_id, next_id - 1);
    assert_true(route.causes[0].group.requests == 60 && route.causes[0].group.lost_ns == 0);
}

/* Only the latest are kept: overwritten requests of the period are estimated from them. */
static void test_lost_time_covers_the_whole_period(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 40; i++)
        add(r, "/", NOW - 60 * SECOND, 10 * MS, 0, 1);
    for (int i = 0; i < 2 * REQUEST_ROUTES_SLOW; i++) /* evenly over the minute */
        add(r, "/", NOW - 60 * SECOND + (uint64_t)(i + 1) * 60 * SECOND / (2 * REQUEST_ROUTES_SLOW), 110 * MS, 0, 0);
    const struct request_route route = only_route(r);
    assert_true(route.lost_is_estimate);
    assert_in_range(route.lost_ns, 2 * REQUEST_ROUTES_SLOW * 99 * MS, 2 * REQUEST_ROUTES_SLOW * 101 * MS);
}

static void test_services_of_a_program_are_told_apart_by_port(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (uint16_t port = 8100; port < 8102; port++)
        for (int i = 0; i < 30; i++) {
            struct request request = make_request("/", NOW, port == 8100 ? MS : 5 * MS, 0, 1);
            request.port = port;
            request.unit = "shop.service";
            request_routes_add(r, &request);
        }
    struct request_route *list;
    size_t count;
    assert_int_equal(
        request_routes_list(r, &(struct request_routes_period){NOW - 60 * SECOND, NOW, NULL}, &list, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(list[0].port, 8101); /* none lost time: the one that took more is first */
    assert_int_equal(list[0].usual.p50_ns, 5 * MS);
    assert_int_equal(list[1].usual.p50_ns, MS);
    assert_string_equal(list[1].unit, "shop.service");
    free(list);
}

static void test_route_whose_path_is_not_known(void **state)
{
    struct request_route *list;
    size_t count;
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    struct request known = make_request("/a*b", NOW - SECOND, MS, 0, 1),
                   unknown = make_request("*", NOW - SECOND, 2 * MS, 0, 1);
    known.protocol = unknown.protocol = REQUEST_PROTOCOL_HTTP2;
    unknown.lacks_path = true;
    request_routes_add(r, &known);
    request_routes_add(r, &unknown);
    assert_int_equal(
        request_routes_list(r, &(struct request_routes_period){NOW - 60 * SECOND, NOW, NULL}, &list, &count), 0);
    assert_int_equal(count, 2);
    assert_true(list[0].lacks_path);
    assert_string_equal(list[1].route, "/a*b");
    assert_false(list[1].lacks_path);
    free(list);
}

/* Only requests that are slow for their route take a place among its slow requests. */
static void test_requests_slow_for_their_process_only(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 40; i++)
        add(r, "/", NOW, 10 * MS, 0, 1);
    add(r, "/", NOW, 10 * MS, 50 * MS, 0);
    for (int i = 0; i < 10 * REQUEST_ROUTES_SLOW; i++)
        add(r, "/", NOW, 20 * MS, 0, 0);
    assert_int_equal(only_route(r).slow.requests, 1);
}

static void test_old_requests_are_forgotten(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 100; i++)
        add(r, "/", NOW - (REQUESTS_KEPT_SECONDS + 1) * SECOND, MS, 0, 1);
    add(r, "/new", NOW, MS, 0, 1);
    assert_int_equal(usual_of(r, "/").requests, 0);
    assert_string_equal(only_route(r).route, "/new");
}

static void test_too_many_routes_become_other(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    char name[32];
    assert_int_equal(request_routes_new(&r), 0);
    for (int i = 0; i < 1000; i++) { /* one service */
        snprintf(name, sizeof(name), "/%d", i);
        add(r, name, NOW - 10000 + (uint64_t)i, MS, 0, 1);
    }
    assert_int_equal(request_routes_count(r), REQUEST_ROUTES_SERVICE + 1);
    assert_int_equal(request_routes_overflowed(r), 1000 - REQUEST_ROUTES_SERVICE);
    for (int i = 0; i < 1000; i++) { /* many services */
        struct request request = make_request("/", NOW - 5000 + (uint64_t)i, MS, 0, 1);
        snprintf(name, sizeof(name), "service-%d", i);
        request.service = name;
        request_routes_add(r, &request);
    }
    assert_int_equal(request_routes_count(r), REQUEST_ROUTES_MAX);
    struct request_route *list;
    size_t count;
    double sum = 0;
    assert_int_equal(request_routes_list(r, &(struct request_routes_period){NOW - SECOND, NOW, NULL}, &list, &count),
                     0);
    assert_int_equal(count, REQUEST_ROUTES_MAX);
    assert_string_equal(list[0].route, "other");
    for (size_t i = 0; i < count; i++)
        sum += list[i].sampled;
    assert_true(sum == 2 * REQUEST_ROUTES_SAMPLE + REQUEST_ROUTES_MAX - 2);
    free(list);
    assert_int_equal(usual_of(r, "other").requests, 0);
    add(r, "/new", NOW + (REQUESTS_KEPT_SECONDS + 1) * SECOND, MS, 0, 1); /* the others make room */
    assert_int_equal(request_routes_count(r), 1);
    assert_true(request_routes_bytes(r) < (512u << 10));
}

/* Of the streams only; fewer than five show nothing. */
static void test_median_time_to_the_first_token(void **state)
{
    (void)state;
    _cleanup_(request_routes_freep) struct request_routes *r = NULL;
    assert_int_equal(request_routes_new(&r), 0);
    for (uint64_t i = 0; i < REQUEST_MEDIAN_MIN; i++) {
        struct request stream = make_request("/", NOW, 400 * MS, 0, 1);
        add(r, "/", NOW, 1 * MS, 0, 1);
        assert_int_equal(only_route(r).usual.first_p50_ns, 0);
        stream.stream = (struct request_stream){.is_stream = true, .first_ns = (100 + i) * MS};
        request_routes_add(r, &stream);
    }
    assert_int_equal(only_route(r).usual.first_p50_ns, 102 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_few_say_nothing),
        cmocka_unit_test(test_percentiles_by_weight),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_unequal_weights_are_fewer_requests),
        cmocka_unit_test(test_slow_against_usual),
        cmocka_unit_test(test_unexplained_requests_say_nothing_of_components),
        cmocka_unit_test(test_later_record_replaces_the_earlier_one),
        cmocka_unit_test(test_overwritten_sample_shortens_the_period),
        cmocka_unit_test(test_unmonitored_time_is_no_period),
        cmocka_unit_test(test_route_whose_path_is_not_known),
        cmocka_unit_test(test_requests_slow_for_their_process_only),
        cmocka_unit_test(test_route_that_fails_shows_it_unsampled),
        cmocka_unit_test(test_time_lost_by_cause),
        cmocka_unit_test(test_route_without_slow_requests_has_a_cause),
        cmocka_unit_test(test_median_time_to_the_first_token),
        cmocka_unit_test(test_lost_time_covers_the_whole_period),
        cmocka_unit_test(test_services_of_a_program_are_told_apart_by_port),
        cmocka_unit_test(test_old_requests_are_forgotten),
        cmocka_unit_test(test_too_many_routes_become_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
