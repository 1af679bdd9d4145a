/* Calls of gRPC whose reply has several messages are streams, timed by message. */
#include "http2_fixture.h"

/* A message of gRPC of `length` bytes begins with the next frame. */
static void put_message(struct fixture *f, uint64_t time_ns, uint8_t length)
{
    const uint8_t payload[] = {0, 0, 0, length};
    put_frame(f, HTTP2_SENT, time_ns, HTTP2_MESSAGE, 0, 1, payload, sizeof(payload));
}

static void begin_call(struct fixture *f)
{
    open_on(f, true);
    put_frame(f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES(grpc_request));
    put_frame(f, HTTP2_RECEIVED, 1001, HTTP2_DATA, HTTP2_END_STREAM, 1, "", 20);
    put_frame(f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES(grpc_reply));
}

static void end_call(struct fixture *f)
{
    put_frame(f, HTTP2_SENT, 9000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, BYTES(not_found));
}

static void test_several_messages_of_a_reply_are_a_stream(void **state)
{
    struct fixture f = {.piece = 11};
    (void)state;
    begin_call(&f);
    put_message(&f, 2500, 25);
    put_frame(&f, HTTP2_SENT, 2500, HTTP2_DATA, 0, 1, "", 30);
    assert_int_equal(f.count, 0);
    put_message(&f, 3000, 95); /* in three frames */
    put_frame(&f, HTTP2_SENT, 3000, HTTP2_DATA, 0, 1, "", 40);
    put_frame(&f, HTTP2_SENT, 3100, HTTP2_DATA, 0, 1, "", 40);
    put_message(&f, 3200, 1); /* bytes of the message that look like a beginning */
    put_frame(&f, HTTP2_SENT, 3200, HTTP2_DATA, 0, 1, "", 20);
    assert_int_equal(f.open_count, 1);
    assert_int_equal(f.ended[0].status, 200);
    assert_int_equal(f.ended[0].duration_ns, 2210);
    assert_int_equal(f.streams[0].chunks, 2);
    assert_int_equal(f.streams[0].flags, REQUEST_STREAM_EVENTS);
    put_message(&f, 4000, 1);
    put_frame(&f, HTTP2_SENT, 4000, HTTP2_DATA, 0, 1, "", 6);
    end_call(&f);
    assert_int_equal(f.count, 2);
    assert_int_equal(f.ended[1].id, f.ended[0].id);
    assert_int_equal(f.ended[1].weight, 3);
    assert_int_equal(f.ended[1].duration_ns, 8010);
    const struct request_stream_record *s = &f.streams[1];
    assert_true(request_stream_record_is_sound(s));
    assert_int_equal(s->id, f.ended[1].id);
    assert_int_equal(s->chunks, 3);
    assert_int_equal(s->tokens, 0);
    assert_int_equal(s->first_byte_ns, 1010);
    assert_int_equal(s->first_ns, 1510);
    assert_int_equal(s->last_ns, 3010);
    assert_int_equal(s->flags, REQUEST_STREAM_EVENTS | REQUEST_STREAM_ENDED);
    assert_int_equal(s->status, REQUEST_GRPC_STATUS + 5);
    http2_requests_free(f.requests);
}

static void test_messages_that_cannot_be_told_apart_are_counted_as_one(void **state)
{
    struct fixture f = {0};
    (void)state;
    begin_call(&f);
    put_frame(&f, HTTP2_SENT, 2500, HTTP2_DATA, 0, 1, "", 30);
    put_message(&f, 3000, 1);
    put_frame(&f, HTTP2_SENT, 3000, HTTP2_DATA, 0, 1, "", 6);
    end_call(&f);
    assert_int_equal(f.streams[1].chunks, 2);
    assert_true(f.streams[1].flags & REQUEST_STREAM_UNREAD);
    http2_requests_free(f.requests);
}

static void test_one_message_is_no_stream(void **state)
{
    struct fixture f = {0};
    (void)state;
    begin_call(&f);
    put_message(&f, 2500, 25);
    put_frame(&f, HTTP2_SENT, 2500, HTTP2_DATA, 0, 1, "", 30);
    end_call(&f);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.streams[0].h.size_bytes, 0);
    http2_requests_free(f.requests);
}

static void test_messages_in_memory_count_from_their_send(void **state)
{
    struct fixture f = {0};
    (void)state;
    begin_call(&f);
    f.is_unsent = true;
    for (uint64_t ns = 2500; ns <= 3500; ns += 500) {
        put_message(&f, ns, 1);
        put_frame(&f, HTTP2_SENT, ns, HTTP2_DATA, 0, 1, "", 6);
        const struct http2_event sent = {.kind = HTTP2_RECORD_SENT, .connection = 5, .time_ns = ns + 100};
        http2_requests_take(f.requests, &sent, sizeof(sent));
    }
    assert_int_equal(f.open_count, 1);
    assert_int_equal(f.streams[0].first_ns, 1610);
    assert_int_equal(f.streams[0].last_ns, 2110);
    f.is_unsent = false;
    end_call(&f);
    assert_int_equal(f.streams[1].chunks, 3);
    assert_int_equal(f.streams[1].last_ns, 2610);
    http2_requests_free(f.requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_messages_of_a_reply_are_a_stream),
        cmocka_unit_test(test_messages_that_cannot_be_told_apart_are_counted_as_one),
        cmocka_unit_test(test_one_message_is_no_stream),
        cmocka_unit_test(test_messages_in_memory_count_from_their_send),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
