/* Time lost: what recorded requests stand for, that causes add up to their route, small causes, bounds. */
#include "aggregate/request_causes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS    1000000ull
#define USUAL (10 * MS)
#define MAX   400

static struct request_entry entries[MAX];
static struct caused_request caused[MAX];
static size_t count;

static void add(uint32_t cause, enum request_part_kind kind, uint64_t duration_ns, uint32_t weight, uint16_t status)
{
    struct request_entry *e = &entries[count];
    *e = (struct request_entry){.id = count + 1,
                                .duration_ns = duration_ns,
                                .weight = weight,
                                .cause = cause,
                                .status = status,
                                .is_notable = !weight,
                                .kind = kind};
    caused[count++] = (struct caused_request){.entry = e, .scale = 1, .is_slow = duration_ns >= 3 * USUAL};
}

static struct request_route fill(uint64_t usual_ns)
{
    struct request_route route = {.lost_ns = 1};
    request_causes_fill(caused, count, usual_ns, &route);
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < route.cause_count; i++)
        sum_ns += route.causes[i].group.lost_ns;
    assert_int_equal(sum_ns, route.lost_ns);
    count = 0;
    return route;
}

static void expect_order(const struct request_route *route, size_t first, size_t second)
{
    const struct request_cause_rank a = request_cause_rank(route, &route->causes[first]),
                                    b = request_cause_rank(route, &route->causes[second]);
    assert_true(request_cause_rank_compare(&a, &b) < 0 && request_cause_rank_compare(&b, &a) > 0);
    assert_int_equal(request_cause_rank_compare(&a, &a), 0);
}

static void test_recorded_requests_are_summed(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        add(1, REQUEST_PART_LOCK, 110 * MS, 0, 200);
    add(2, REQUEST_PART_DISK, 1010 * MS, 1, 200);
    add(2, REQUEST_PART_DISK, 60 * MS, 8, 200);
    entries[4].is_notable = true; /* it would have a record without the sample, too: it stands for no other */
    const struct request_route route = fill(USUAL);
    assert_int_equal(route.lost_ns, 1350 * MS);
    assert_false(route.lost_is_estimate);
    assert_int_equal(route.cause_count, 2);
    assert_int_equal(route.causes[0].kind, REQUEST_PART_DISK);
    assert_int_equal(route.causes[0].group.lost_ns, 1050 * MS);
    assert_int_equal(route.causes[0].group.time_ns, 1070 * MS);
    assert_int_equal(route.causes[0].example_id, 4); /* the slowest */
    assert_true(route.causes[0].group.requests == 2 && route.causes[1].group.requests == 3);
}

/* Two sorts that do not overlap: of those that are notable, all have a record; of the others, the sample does. */
static void test_sampled_requests_stand_for_those_without_a_record(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        add(1, REQUEST_PART_LOCK, 110 * MS, 8, 200);
    for (int i = 0; i < 50; i++)
        add(1, REQUEST_PART_LOCK, 110 * MS, 0, 200);
    for (int i = 0; i < 5; i++)
        add(2, REQUEST_PART_CPU, MS, 0, 503);
    const struct request_route route = fill(USUAL);
    assert_int_equal(route.lost_ns, 85000 * MS);
    assert_true(route.lost_is_estimate);
    assert_true(route.causes[0].group.requests == 850 && route.causes[0].group.is_estimate);
    assert_true(route.causes[1].is_failed && route.causes[1].status == 503);
    assert_true(route.causes[1].group.requests == 5 && !route.causes[1].group.is_estimate);
    assert_int_equal(route.causes[1].group.lost_ns, 0); /* failed, and not slow */
}

/* Each further request adds its duration by its weight, and changes the weight of no other one. */
static void test_time_lost_does_not_jump(void **state)
{
    (void)state;
    uint64_t before_ns = 0;
    for (size_t requests = 1; requests <= 200; requests++) {
        for (size_t i = 0; i < requests; i++)
            add(1, REQUEST_PART_LOCK, 110 * MS, i % 3 ? 4 : 0, 200);
        const uint64_t lost_ns = fill(USUAL).lost_ns;
        assert_in_range(lost_ns - before_ns, 100 * MS, 400 * MS);
        before_ns = lost_ns;
    }
}

/* However much time they lost: nothing is known of their cause. */
static void test_requests_without_a_path_are_last(void **state)
{
    (void)state;
    add(1, REQUEST_PART_UNATTRIBUTED, 1010 * MS, 0, 200);
    entries[0].is_over_budget = true;
    add(2, REQUEST_PART_UNATTRIBUTED, 210 * MS, 0, 200); /* its path was searched */
    add(3, REQUEST_PART_DISK, 60 * MS, 0, 200);
    const struct request_route route = fill(USUAL);
    assert_int_equal(route.cause_count, 3);
    assert_int_equal(route.causes[0].group.lost_ns, 200 * MS);
    assert_int_equal(route.causes[1].kind, REQUEST_PART_DISK);
    assert_int_equal(route.causes[2].group.lost_ns, 1000 * MS);
    expect_order(&route, 1, 2);
}

static void test_overwritten_requests_are_estimated(void **state)
{
    (void)state;
    add(1, REQUEST_PART_LOCK, 110 * MS, 0, 200);
    caused[0].scale = 2.5;
    const struct request_route route = fill(USUAL);
    assert_int_equal(route.lost_ns, 250 * MS);
    assert_true(route.lost_is_estimate);
}

/* The cause that took most time is the first, however many requests another one had. */
static void test_no_time_is_lost_where_nothing_is_usual(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        add(2, REQUEST_PART_CPU, 20 * MS, 1, 200);
    add(1, REQUEST_PART_LOCK, 110 * MS, 0, 200);
    const struct request_route route = fill(0);
    assert_int_equal(route.lost_ns, 0);
    assert_int_equal(route.cause_count, 2);
    assert_int_equal(route.causes[0].kind, REQUEST_PART_LOCK);
    expect_order(&route, 0, 1);
    assert_int_equal(fill(USUAL).cause_count, 0);
}

static void test_small_causes_join_the_largest_of_their_kind(void **state)
{
    (void)state;
    add(1, REQUEST_PART_LOCK, 1010 * MS, 0, 200);
    add(2, REQUEST_PART_LOCK, 60 * MS, 0, 200);
    add(3, REQUEST_PART_DISK, 60 * MS, 0, 200); /* small, but the only one of its kind */
    add(4, REQUEST_PART_LOCK, 60 * MS, 0, 503);
    const struct request_route route = fill(USUAL);
    assert_int_equal(route.cause_count, 3);
    assert_int_equal(route.causes[0].group.lost_ns, 1050 * MS);
    assert_int_equal(route.causes[0].group.time_ns, 1070 * MS);
    assert_int_equal(route.causes[0].example_id, 1);
    assert_int_equal(route.lost_ns, 1150 * MS);
}

static void test_many_causes_are_bounded_and_add_up(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 300; i++)
        add(1000 + i, (enum request_part_kind)(i % REQUEST_PART_COUNT), 110 * MS, 0, i % 7 ? 200 : 503);
    const struct request_route route = fill(USUAL);
    assert_true(route.cause_count <= REQUEST_CAUSES_MAX);
    assert_int_equal(route.lost_ns, 30000 * MS);
    double requests = 0;
    for (size_t i = 0; i < route.cause_count; i++)
        requests += route.causes[i].group.requests;
    assert_true(fabs(requests - 300) < 0.001);
}

/* However many slow causes there are, failures are a cause of their own; and the reverse. */
static void test_many_causes_hide_no_failure(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        const uint16_t many = turn ? 503 : 200, few = turn ? 200 : 503;
        for (uint32_t i = 0; i < 40; i++)
            add(1000 + i, (enum request_part_kind)(i % REQUEST_PART_COUNT), 110 * MS, 0, many);
        for (uint32_t i = 0; i < 3; i++)
            add(2000 + i, REQUEST_PART_CPU, 110 * MS, 0, few);
        const struct request_route route = fill(USUAL);
        double failed = 0;
        for (size_t i = 0; i < route.cause_count; i++)
            failed += route.causes[i].is_failed ? route.causes[i].group.requests : 0;
        assert_true(failed == (turn ? 40 : 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_requests_are_summed),
        cmocka_unit_test(test_sampled_requests_stand_for_those_without_a_record),
        cmocka_unit_test(test_time_lost_does_not_jump),
        cmocka_unit_test(test_requests_without_a_path_are_last),
        cmocka_unit_test(test_overwritten_requests_are_estimated),
        cmocka_unit_test(test_no_time_is_lost_where_nothing_is_usual),
        cmocka_unit_test(test_small_causes_join_the_largest_of_their_kind),
        cmocka_unit_test(test_many_causes_are_bounded_and_add_up),
        cmocka_unit_test(test_many_causes_hide_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
