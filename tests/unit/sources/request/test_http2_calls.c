/* Calls over HTTP/2: what was asked on a socket at some time, and which calls are forgotten. */
#include "sources/request/http2/http2_calls.h"

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
    http2_calls_add(c, &r);
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_is_named),
        cmocka_unit_test(test_different_calls_have_no_name),
        cmocka_unit_test(test_oldest_call_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
