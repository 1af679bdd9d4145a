/* The queue between the pipeline and the sender thread: order, bound, eviction when full, and shutdown. */
#include "send/profile_queue.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../fixture.h"

static struct profile *make_profile(uint32_t pid, unsigned samples)
{
    struct profile *p;
    struct resource resource = fixture_resource(pid, "c");
    const struct frame frame = fixture_native("f");
    assert_int_equal(profile_new(0, &p), 0);
    for (unsigned i = 0; i < samples; i++)
        assert_int_equal(fixture_add(p, &resource, 1, "t", 1, &frame, 1), 0);
    return p;
}

static void expect(struct profile_queue *q, uint32_t pid)
{
    _cleanup_(profile_freep) struct profile *p = profile_queue_pop(q);
    assert_non_null(p);
    assert_int_equal(p->resources[0].pid, pid);
}

static void test_profiles_leave_in_order(void **state)
{
    (void)state;
    _cleanup_(profile_queue_freep) struct profile_queue *q = NULL;
    assert_int_equal(profile_queue_new(1 << 20, &q), 0);
    for (uint32_t round = 0; round < 300; round++) { /* more rounds than the ring has slots */
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(profile_queue_push(q, make_profile(round * 5 + i, 1)), 0);
        assert_true(profile_queue_bytes(q) > 0);
        for (uint32_t i = 0; i < 5; i++)
            expect(q, round * 5 + i);
        assert_int_equal(profile_queue_bytes(q), 0);
    }
}

static void test_full_queue_drops_the_oldest(void **state)
{
    (void)state;
    _cleanup_(profile_queue_freep) struct profile_queue *q = NULL;
    struct profile *first = make_profile(1, 10);
    const size_t bytes = profile_bytes(first);
    assert_int_equal(profile_queue_new(bytes * 3 + bytes / 2, &q), 0);
    assert_int_equal(profile_queue_push(q, first), 0);
    assert_int_equal(profile_queue_push(q, make_profile(2, 20)), 0);
    assert_int_equal(profile_queue_push(q, make_profile(3, 30)), 0);
    assert_int_equal(profile_queue_push(q, make_profile(4, 40)), 10); /* the oldest is dropped */
    assert_int_equal(profile_queue_push(q, make_profile(5, 50)), 20);
    assert_true(profile_queue_bytes(q) <= bytes * 3 + bytes / 2);
    expect(q, 3);
    struct profile *large;
    assert_int_equal(profile_new(0, &large), 0);
    fixture_deep(large, 2000); /* larger than the whole bound */
    assert_int_equal(profile_queue_push(q, large), 40 + 50 + 1);
    assert_int_equal(profile_queue_bytes(q), 0);
}

static void test_trim_drops_the_older_half(void **state)
{
    (void)state;
    _cleanup_(profile_queue_freep) struct profile_queue *q = NULL;
    assert_int_equal(profile_queue_new(1 << 20, &q), 0);
    assert_int_equal(profile_queue_trim(q), 0);
    for (uint32_t i = 1; i <= 5; i++)
        profile_queue_push(q, make_profile(i, 10 * i));
    const size_t bytes = profile_queue_bytes(q);
    assert_int_equal(profile_queue_trim(q), 10 + 20 + 30); /* the oldest */
    assert_true(profile_queue_bytes(q) < bytes);
    expect(q, 4);
    assert_int_equal(profile_queue_trim(q), 50);
    assert_int_equal(profile_queue_bytes(q), 0);
}

static void *pop(void *queue)
{
    return profile_queue_pop(queue);
}

static void *wait_long(void *queue)
{
    return export_end_pause(profile_queue_end(queue), INT64_MAX) ? queue : NULL;
}

static void test_close_wakes_the_sender(void **state)
{
    (void)state;
    pthread_t popping, pausing;
    void *popped, *paused;
    _cleanup_(profile_queue_freep) struct profile_queue *q = NULL;
    assert_int_equal(profile_queue_new(1 << 20, &q), 0);
    assert_int_equal(export_end_begun_ns(profile_queue_end(q)), 0);
    assert_true(export_end_pause(profile_queue_end(q), 1)); /* long past */
    assert_int_equal(pthread_create(&popping, NULL, pop, q), 0);
    assert_int_equal(pthread_create(&pausing, NULL, wait_long, q), 0);
    export_end_begin(profile_queue_end(q), 4711);
    assert_int_equal(pthread_join(popping, &popped), 0);
    assert_int_equal(pthread_join(pausing, &paused), 0);
    assert_null(popped);
    assert_null(paused);
    export_end_begin(profile_queue_end(q), 4712); /* changes nothing */
    assert_int_equal(export_end_begun_ns(profile_queue_end(q)), 4711);
    assert_false(export_end_pause(profile_queue_end(q), INT64_MAX));
    assert_int_equal(profile_queue_push(q, make_profile(1, 7)), 7); /* too late */
    assert_null(profile_queue_pop(q));
}

static void test_queued_profiles_remain_after_close(void **state)
{
    (void)state;
    _cleanup_(profile_queue_freep) struct profile_queue *q = NULL;
    assert_int_equal(profile_queue_new(1 << 20, &q), 0);
    profile_queue_push(q, make_profile(1, 1));
    profile_queue_push(q, make_profile(2, 1));
    export_end_begin(profile_queue_end(q), 1);
    expect(q, 1);
    expect(q, 2);
    assert_null(profile_queue_pop(q));
    profile_queue_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profiles_leave_in_order),
        cmocka_unit_test(test_full_queue_drops_the_oldest),
        cmocka_unit_test(test_trim_drops_the_older_half),
        cmocka_unit_test(test_close_wakes_the_sender),
        cmocka_unit_test(test_queued_profiles_remain_after_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
