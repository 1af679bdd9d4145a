/* A path folded into lanes: by thread, exact sums, few. */
#include "diagnose/request_lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct request_segment segments[REQUEST_SEGMENTS_MAX];
static struct request request;

static int start_request(void **state)
{
    (void)state;
    request = (struct request){.segments = segments};
    return 0;
}

static void put(uint64_t duration_ns, enum request_part_kind kind, uint32_t tid)
{
    segments[request.segment_count++] = (struct request_segment){.start_ns = request.duration_ns,
                                                                 .duration_ns = duration_ns,
                                                                 .kind = kind,
                                                                 .tid = tid,
                                                                 .thread = "",
                                                                 .detail = ""};
    request.duration_ns += duration_ns;
}

static size_t fold(struct request_lane lanes[REQUEST_LANES_MAX])
{
    const size_t count = request_lanes(&request, lanes);
    uint64_t at_ns = 0;
    size_t first = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t sum_ns = 0;
        for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
            sum_ns += lanes[i].sums_ns[kind];
        assert_int_equal(lanes[i].start_ns, at_ns);
        assert_int_equal(sum_ns, lanes[i].duration_ns);
        assert_int_equal(lanes[i].first, first);
        at_ns += lanes[i].duration_ns;
        first += lanes[i].count;
    }
    assert_int_equal(at_ns, request.duration_ns);
    assert_int_equal(first, request.segment_count);
    return count;
}

static void test_no_path(void **state)
{
    struct request_lane lanes[REQUEST_LANES_MAX];
    (void)state;
    assert_int_equal(fold(lanes), 0);
}

static void test_a_lane_is_a_thread(void **state)
{
    struct request_lane lanes[REQUEST_LANES_MAX];
    (void)state;
    put(20, REQUEST_PART_CPU, 1);
    put(30, REQUEST_PART_RUN_QUEUE, 2);
    put(40, REQUEST_PART_CPU, 2);
    put(10, REQUEST_PART_CPU, 1);
    assert_int_equal(fold(lanes), 3);
    assert_int_equal(lanes[1].tid, 2);
    assert_int_equal(lanes[1].sums_ns[REQUEST_PART_RUN_QUEUE], 30);
    assert_int_equal(lanes[1].sums_ns[REQUEST_PART_CPU], 40);
}

/* A segment that stands for short steps of several kinds counts for each. */
static void test_steps_of_several_kinds_are_added_to_each(void **state)
{
    struct request_lane lanes[REQUEST_LANES_MAX];
    const struct request_kind_time times[] = {{REQUEST_PART_LOCK, 25}, {REQUEST_PART_CPU, 5}};
    (void)state;
    put(20, REQUEST_PART_CPU, 2);
    put(30, REQUEST_PART_LOCK, 7); /* the holder: a lane of its own only if nothing else follows */
    segments[1].times = times;
    segments[1].time_count = 2;
    assert_int_equal(fold(lanes), 1);
    assert_int_equal(lanes[0].tid, 2);
    assert_int_equal(lanes[0].sums_ns[REQUEST_PART_LOCK], 25);
    assert_int_equal(lanes[0].sums_ns[REQUEST_PART_CPU], 25);
    assert_int_equal(lanes[0].held_ns, 30);
}

/* A lock's segment is about its holder, and belongs to who waits. */
static void test_a_lock_is_in_the_lane_of_who_waits(void **state)
{
    struct request_lane lanes[REQUEST_LANES_MAX];
    (void)state;
    put(20, REQUEST_PART_CPU, 2);
    put(30, REQUEST_PART_LOCK, 7);
    put(40, REQUEST_PART_CPU, 2);
    assert_int_equal(fold(lanes), 1);
    assert_int_equal(lanes[0].tid, 2);
    assert_int_equal(lanes[0].sums_ns[REQUEST_PART_LOCK], 30);
}

static void test_short_ones_join_the_one_before(void **state)
{
    struct request_lane lanes[REQUEST_LANES_MAX];
    (void)state;
    put(3, REQUEST_PART_CPU, 9); /* the first joins the next */
    put(500, REQUEST_PART_CPU, 1);
    put(4, REQUEST_PART_CPU, 2);
    put(500, REQUEST_PART_SLEEP, 1);
    put(500, REQUEST_PART_SLEEP, 3);
    assert_int_equal(fold(lanes), 2);
    assert_int_equal(lanes[0].tid, 1);
    assert_int_equal(lanes[0].duration_ns, 1007);
    assert_int_equal(lanes[1].tid, 3);
}

static void test_many_threads_become_few_lanes(void **state)
{
    struct request_lane lanes[REQUEST_LANES_MAX];
    (void)state;
    for (uint32_t i = 0; i < REQUEST_SEGMENTS_MAX; i++)
        put(100 + i, REQUEST_PART_CPU, 1 + i % 7);
    const size_t count = fold(lanes);
    assert_true(count > 1 && count <= REQUEST_LANES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_no_path, start_request),
        cmocka_unit_test_setup(test_a_lane_is_a_thread, start_request),
        cmocka_unit_test_setup(test_steps_of_several_kinds_are_added_to_each, start_request),
        cmocka_unit_test_setup(test_a_lock_is_in_the_lane_of_who_waits, start_request),
        cmocka_unit_test_setup(test_short_ones_join_the_one_before, start_request),
        cmocka_unit_test_setup(test_many_threads_become_few_lanes, start_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
