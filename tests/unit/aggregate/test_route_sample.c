/* Which requests of the sample enter the ring of a busy route: few enough for half a minute, and by weight as many as
 * there were. */
#include "aggregate/route_sample.h"

#include "aggregate/request_routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define START  (1000 * SECOND)

static void test_all_enter_until_the_ring_is_full(void **state)
{
    struct route_sample s = {0};
    (void)state;
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(route_sample_weight(&s, i + 1, START + i, 4, false), 4);
}

static void test_few_enter_a_full_ring(void **state)
{
    struct route_sample s = {0};
    uint64_t entered = 0, weight = 0;
    (void)state;
    for (uint64_t i = 0; i < 60 * 50; i++) {
        const uint32_t w = route_sample_weight(&s, i + 1, START + i * SECOND / 50, 2, true);
        entered += w != 0;
        weight += w;
    }
    assert_in_range(entered, 60 * ROUTE_SAMPLE_WINDOW / 2, 60 * ROUTE_SAMPLE_WINDOW);
    assert_in_range(weight, 2 * 60 * 50 * 9 / 10, 2 * 60 * 50 * 11 / 10);
    for (uint64_t i = 0; i < 8; i++) /* the route became quiet */
        route_sample_weight(&s, 10000 + i, START + (60 + i) * SECOND, 1, true);
    for (uint64_t i = 8; i < 100; i++)
        assert_int_equal(route_sample_weight(&s, 10000 + i, START + (60 + i) * SECOND, 1, true), 1);
}

static void test_weight_does_not_overflow(void **state)
{
    struct route_sample s = {0};
    (void)state;
    for (uint64_t i = 0; i < 1000; i++)
        route_sample_weight(&s, i + 1, START + i, 1, true);
    assert_true(s.shift > 1);
    assert_int_equal(route_sample_weight(&s, 1, START + 1000, 1u << 31, true), 1u << 31);
}

/* Ten minutes of 50 requests a second: the baseline rests on more than the last seconds. */
static void test_slow_seconds_do_not_become_usual(void **state)
{
    _cleanup_(request_routes_freep) struct request_routes *routes = NULL;
    struct request r = {
        .service = "shop", .method = "GET", .route = "/", .status = 200, .weight = 1, .is_notable = true};
    uint64_t end_ns = START;
    (void)state;
    assert_int_equal(request_routes_new(&routes), 0);
    for (r.id = 1; r.id <= 600 * 50; r.id++, end_ns += SECOND / 50) {
        r.duration_ns = r.id > 590 * 50 ? SECOND : SECOND / 100; /* the last ten seconds are slow */
        r.start_ns = end_ns - r.duration_ns;
        request_routes_add(routes, &r);
    }
    assert_int_equal(request_routes_usual(routes, &r).p50_ns, SECOND / 100);
    struct request_route *list;
    size_t count;
    assert_int_equal(
        request_routes_list(routes, &(struct request_routes_period){end_ns - 60 * SECOND, end_ns, NULL}, &list, &count),
        0);
    assert_int_equal(count, 1);
    assert_in_range((uint64_t)list[0].requests, 30 * 50 * 8 / 10, 60 * 50 * 12 / 10);
    assert_true(list[0].lost_ns > 0);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_enter_until_the_ring_is_full),
        cmocka_unit_test(test_few_enter_a_full_ring),
        cmocka_unit_test(test_weight_does_not_overflow),
        cmocka_unit_test(test_slow_seconds_do_not_become_usual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
