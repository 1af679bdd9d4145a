/* Calls over HTTP/2: the call on a socket at a given time, the calls that are forgotten, and the counts of all. */
#include "sources/request/http2/http2_calls.h"

#include "sources/request/http2/http2_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void add(struct http2_calls *c, uint64_t socket, uint64_t start_ns, uint64_t end_ns, const char *line,
                uint8_t protocol, uint8_t flags)
{
    struct request_record r = {
        .h.time_ns = end_ns, .socket = socket, .start_ns = start_ns, .protocol = protocol, .flags = flags};
    snprintf(r.line, sizeof(r.line), "%s", line);
    r.line_bytes = (uint8_t)strlen(r.line);
    http2_calls_add(c, 99, &r);
}

static void expect(const struct http2_calls *c, uint64_t socket, uint64_t from_ns, uint64_t to_ns, const char *text)
{
    char out[HTTP2_CALL_BYTES] = "untouched";
    http2_calls_find(c, socket, from_ns, to_ns, out);
    assert_string_equal(out, text);
}

static void test_call_is_named(void **state)
{
    static struct http2_calls c;
    (void)state;
    add(&c, 5, 100, 200, "POST /shop.Stock/Find HTTP/2", REQUEST_GRPC, 0);
    add(&c, 6, 100, 200, "GET /private?no HTTP/2", REQUEST_HTTP2, 0);
    add(&c, 7, 100, 200, "POST * HTTP/2", REQUEST_GRPC, REQUEST_NO_PATH);
    add(&c, 8, 100, 200, "* * HTTP/2", REQUEST_HTTP2, REQUEST_NO_PATH);
    expect(&c, 5, 110, 190, "gRPC /shop.Stock/Find");
    expect(&c, 6, 110, 190, "HTTP GET"); /* of another path, only the method */
    expect(&c, 7, 110, 190, "gRPC call");
    expect(&c, 8, 110, 190, "HTTP request");
    expect(&c, 5, 200, 300, "");
    expect(&c, 5, 10, 100, "");
    expect(&c, 9, 110, 190, "");
    expect(&c, 0, 110, 190, "");
    http2_calls_clear(&c);
}

static void add_report(void *context, uint64_t process, struct http2_report *r)
{
    http2_calls_add(context, process, &r->request);
}

static void put_frames(struct http2_requests *q, uint8_t direction, uint64_t time_ns, const void *frames, size_t size)
{
    struct http2_frames r = {.kind = HTTP2_RECORD_FRAMES,
                             .bytes = (uint16_t)size,
                             .direction = direction,
                             .connection = 5,
                             .time_ns = time_ns};
    memcpy(r.frames, frames, size);
    http2_requests_take(q, &r, HTTP2_FRAMES_HEAD + size);
}

/* On a connection that is found in its middle, the path and the type of contents are indices that are not known. */
static void test_message_shows_that_an_older_connection_has_grpc(void **state)
{
    static const char head[] = "\0\0\3\1\4\0\0\0\x4d\x83\xbe\xbf", message[] = "\0\0\4\xf0\0\0\0\0\x4d\0\0\0\x0f",
                      data[] = "\0\0\x14\0\1\0\0\0\x4d", reply[] = "\0\0\1\1\4\0\0\0\x4d\x88\0\0\1\1\5\0\0\0\x4d\xbe";
    (void)state;
    for (unsigned has_message = 0; has_message < 2; has_message++) {
        struct http2_calls c = {0};
        struct http2_requests *q;
        const struct http2_opened o = {
            .kind = HTTP2_RECORD_OPENED, .connection = 5, .process = 99, .r = {.flags = REQUEST_CLIENT, .socket = 5}};
        assert_int_equal(http2_requests_new(add_report, &c, &q), 0);
        http2_requests_take(q, &o, sizeof(o));
        put_frames(q, HTTP2_SENT, 100, head, sizeof(head) - 1);
        if (has_message)
            put_frames(q, HTTP2_SENT, 100, message, sizeof(message) - 1);
        put_frames(q, HTTP2_SENT, 100, data, sizeof(data) - 1);
        put_frames(q, HTTP2_RECEIVED, 200, reply, sizeof(reply) - 1);
        expect(&c, 5, 110, 190, has_message ? "gRPC call" : "HTTP POST");
        http2_requests_free(q);
        http2_calls_clear(&c);
    }
}

static void test_different_calls_have_no_name(void **state)
{
    static struct http2_calls c;
    (void)state;
    add(&c, 5, 100, 200, "POST /shop.Stock/Find HTTP/2", REQUEST_GRPC, 0);
    add(&c, 5, 150, 250, "POST /shop.Stock/Find HTTP/2", REQUEST_GRPC, 0);
    add(&c, 5, 230, 300, "POST /shop.Stock/Reserve HTTP/2", REQUEST_GRPC, 0);
    expect(&c, 5, 100, 220, "gRPC /shop.Stock/Find");
    expect(&c, 5, 100, 240, "");
    expect(&c, 5, 250, 260, "gRPC /shop.Stock/Reserve");
    http2_calls_clear(&c);
}

static void test_oldest_call_is_forgotten(void **state)
{
    static struct http2_calls c;
    (void)state;
    add(&c, 5, 100, 200, "POST /shop.Stock/Find HTTP/2", REQUEST_GRPC, 0);
    for (int i = 0; i < HTTP2_CALLS_MAX - 1; i++)
        add(&c, 6, 100, 200, "POST /a.B/C HTTP/2", REQUEST_GRPC, 0);
    expect(&c, 5, 110, 190, "gRPC /shop.Stock/Find");
    add(&c, 6, 100, 200, "POST /a.B/C HTTP/2", REQUEST_GRPC, 0);
    expect(&c, 5, 110, 190, "");
    http2_calls_clear(&c);
}

struct taken {
    bool is_wanted;
    size_t count;
    uint64_t calls, failed, wait_ns;
};

static bool keep(void *context, uint64_t process, const struct service_address *server, const char *text,
                 const struct service_call_sums *sums)
{
    static const uint8_t expected[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 3};
    struct taken *t = context;
    assert_int_equal(process, 99);
    assert_memory_equal(server->address, expected, sizeof(expected));
    assert_int_equal(server->port, 50051);
    assert_memory_equal(text, "gRPC /", 6);
    t->count++;
    t->calls += service_call_sums_calls(sums);
    t->failed += sums->failed;
    t->wait_ns += sums->wait_ns;
    return t->is_wanted;
}

static void add_call(struct http2_calls *c, const char *method, uint16_t status)
{
    struct request_record r = {.socket = 5,
                               .duration_ns = 100,
                               .status = status,
                               .peer_family = 2,
                               .peer_port = 50051,
                               .peer_address = {10, 0, 0, 3},
                               .protocol = REQUEST_GRPC};
    snprintf(r.line, sizeof(r.line), "POST /a.B/%s HTTP/2", method);
    http2_calls_add(c, 99, &r);
}

static void test_calls_are_counted_until_they_are_taken(void **state)
{
    static struct http2_calls c;
    struct taken t = {.is_wanted = false};
    (void)state;
    add_call(&c, "C", REQUEST_GRPC_STATUS);
    add_call(&c, "C", REQUEST_GRPC_STATUS + 5);
    add_call(&c, "D", REQUEST_GRPC_STATUS);
    http2_calls_take(&c, keep, &t); /* they stay */
    t = (struct taken){.is_wanted = true};
    http2_calls_take(&c, keep, &t);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.calls, 3);
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.wait_ns, 300);
    t.count = 0;
    http2_calls_take(&c, keep, &t);
    assert_int_equal(t.count, 0);
}

static void test_counts_are_bounded(void **state)
{
    static struct http2_calls c;
    char method[16];
    (void)state;
    for (int i = 0; i < HTTP2_CALL_COUNTS_MAX + 3; i++) {
        snprintf(method, sizeof(method), "C%d", i);
        add_call(&c, method, REQUEST_GRPC_STATUS);
    }
    assert_int_equal(c.uncounted, 3);
    http2_calls_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_is_named),
        cmocka_unit_test(test_message_shows_that_an_older_connection_has_grpc),
        cmocka_unit_test(test_different_calls_have_no_name),
        cmocka_unit_test(test_oldest_call_is_forgotten),
        cmocka_unit_test(test_calls_are_counted_until_they_are_taken),
        cmocka_unit_test(test_counts_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
