/* span_queue.c: newer records replace older ones, requests wait until their reply is over, and the queue is bounded. */
#include "send/span_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "span_requests.h"

#define SECOND 1000000000ull

static size_t take(struct span_queue *q, uint64_t now_ns, struct request **ret)
{
    return span_queue_take(q, now_ns, SPAN_QUEUE_MAX, ret);
}

static void free_all(struct request **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        request_free(list[i]);
}

static void test_newer_record_replaces_the_queued_one(void **state)
{
    _cleanup_(span_queue_freep) struct span_queue *q = NULL;
    struct request *taken[SPAN_QUEUE_MAX];
    (void)state;
    assert_int_equal(span_queue_new(1 << 20, &q), 0);
    span_queue_push(q, make_request(7, "a", 100 * SECOND, SECOND));
    span_queue_push(q, make_request(7, "a", 101 * SECOND, 2 * SECOND));
    assert_int_equal(take(q, 102 * SECOND, taken), 0); /* it may go on */
    assert_int_equal(take(q, 110 * SECOND, taken), 1);
    assert_int_equal(taken[0]->duration_ns, 2 * SECOND);
    free_all(taken, 1);
    assert_int_equal(span_queue_bytes(q), 0);
    const struct span_queued late = span_queue_push(q, make_request(7, "a", 120 * SECOND, 21 * SECOND));
    assert_true(late.is_late && !late.dropped);
    assert_int_equal(take(q, 1000 * SECOND, taken), 0); /* a span is sent once */
}

static void test_long_replies_wait_longer(void **state)
{
    _cleanup_(span_queue_freep) struct span_queue *q = NULL;
    struct request *taken[SPAN_QUEUE_MAX];
    (void)state;
    assert_int_equal(span_queue_new(1 << 20, &q), 0);
    span_queue_push(q, make_request(1, "a", 100 * SECOND, 40 * SECOND));
    assert_int_equal(take(q, 111 * SECOND, taken), 0);
    assert_int_equal(take(q, 112 * SECOND, taken), 1);
    free_all(taken, 1);
}

static void test_requests_come_by_service(void **state)
{
    _cleanup_(span_queue_freep) struct span_queue *q = NULL;
    struct request *taken[SPAN_QUEUE_MAX];
    (void)state;
    assert_int_equal(span_queue_new(1 << 20, &q), 0);
    span_queue_push(q, make_request(1, "b", 100 * SECOND, 1));
    span_queue_push(q, make_request(2, "a", 101 * SECOND, 1));
    span_queue_push(q, make_request(3, "b", 99 * SECOND, 1));
    assert_int_equal(take(q, 200 * SECOND, taken), 3);
    assert_true(taken[0]->id == 2 && taken[1]->id == 3 && taken[2]->id == 1);
    free_all(taken, 3);
}

static void test_full_queue_drops_the_oldest(void **state)
{
    _cleanup_(span_queue_freep) struct span_queue *q = NULL;
    struct request *taken[SPAN_QUEUE_MAX], *first = make_request(1, "a", SECOND, 1);
    const size_t bytes = first->bytes;
    (void)state;
    assert_int_equal(span_queue_new(3 * bytes, &q), 0);
    assert_int_equal(span_queue_push(q, first).dropped, 0);
    for (uint64_t id = 2; id <= 3; id++)
        assert_int_equal(span_queue_push(q, make_request(id, "a", SECOND, 1)).dropped, 0);
    assert_int_equal(span_queue_push(q, make_request(4, "a", SECOND, 1)).dropped, 1);
    assert_true(span_queue_bytes(q) <= 3 * bytes);
    assert_int_equal(span_queue_trim(q), 2);
    assert_int_equal(take(q, 100 * SECOND, taken), 1);
    assert_int_equal(taken[0]->id, 4);
    free_all(taken, 1);
}

static void test_number_is_bounded(void **state)
{
    _cleanup_(span_queue_freep) struct span_queue *q = NULL;
    uint64_t dropped = 0;
    (void)state;
    assert_int_equal(span_queue_new(1 << 30, &q), 0);
    for (uint64_t id = 1; id <= SPAN_QUEUE_MAX + 10; id++)
        dropped += span_queue_push(q, make_request(id, "a", SECOND, 1)).dropped;
    assert_int_equal(dropped, 10);
}

static void test_end_hands_out_the_rest_and_takes_no_more(void **state)
{
    _cleanup_(span_queue_freep) struct span_queue *q = NULL;
    struct request *taken[SPAN_QUEUE_MAX];
    (void)state;
    assert_int_equal(span_queue_new(1 << 20, &q), 0);
    span_queue_push(q, make_request(1, "a", 100 * SECOND, 1));
    export_end_begin(span_queue_end(q), 100 * SECOND);
    assert_int_equal(span_queue_push(q, make_request(2, "a", 100 * SECOND, 1)).dropped, 1);
    assert_int_equal(take(q, 100 * SECOND, taken), 1);
    free_all(taken, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newer_record_replaces_the_queued_one),
        cmocka_unit_test(test_long_replies_wait_longer),
        cmocka_unit_test(test_requests_come_by_service),
        cmocka_unit_test(test_full_queue_drops_the_oldest),
        cmocka_unit_test(test_number_is_bounded),
        cmocka_unit_test(test_end_hands_out_the_rest_and_takes_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
