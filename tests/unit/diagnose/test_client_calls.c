/* What a request asks other services for: which question a wait of its path is for, and the words for it. */
#include "flight_trace.h"

#include "diagnose/flight/client_calls.h"
#include "diagnose/path/path_text.h"

#include "probes/recorder/client_call.h"

static void put_call(uint64_t us, uint32_t tid, uint64_t socket, int call)
{
    put(us, RECORDER_SEND, RECORDER_TCP, call, tid, socket, 100);
}

/* A call in two sends is named by the first send. The next call is not known. */
static void test_calls_of_a_service(void **state)
{
    struct path_segments path;
    int asks[2] = {-1, -1};
    size_t waits = 0;
    (void)state;
    put_call(20, 11, SERVICE, client_call(CLIENT_POSTGRESQL, CLIENT_INSERT)); /* of an earlier request */
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_call(110, 11, SERVICE, client_call(CLIENT_POSTGRESQL, CLIENT_SELECT));
    put_call(120, 11, SERVICE, RECORDER_NO_SYSCALL);
    put_sleep(130, 11, SYS_recvfrom, 4);
    put_arrival(300, SERVICE);
    put_interrupt_waking(301, 11, RECORDER_IN_SOFTIRQ);
    put_run(310, 11);
    put_receive(320, 11, SERVICE);
    put_call(330, 11, SERVICE, RECORDER_NO_SYSCALL);
    put_sleep(340, 11, SYS_recvfrom, 4);
    put_arrival(500, SERVICE);
    put_interrupt_waking(501, 11, RECORDER_IN_SOFTIRQ);
    put_run(510, 11);
    put_receive(520, 11, SERVICE);
    put_send(600, 11, R);
    find_path_of(R, 100, 600, 11, &path);
    for (size_t i = 0; i < path.count; i++)
        if (path.items[i].kind == REQUEST_PART_DOWNSTREAM && waits < 2)
            asks[waits++] = path.items[i].asks;
    assert_int_equal(waits, 2);
    assert_int_equal(asks[0], client_call(CLIENT_POSTGRESQL, CLIENT_SELECT));
    assert_int_equal(asks[1], 0);
    path_segments_clear(&path);
}

/* Two requests share a connection: which of the two questions is answered is not known. */
static void test_calls_that_are_under_way_together(void **state)
{
    struct path_segments path;
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_call(110, 11, SERVICE, client_call(CLIENT_REDIS, CLIENT_GET));
    put_call(120, 11, SERVICE, client_call(CLIENT_REDIS, CLIENT_SET));
    put_sleep(130, 11, SYS_recvfrom, 4);
    put_arrival(300, SERVICE);
    put_interrupt_waking(301, 11, RECORDER_IN_SOFTIRQ);
    put_run(310, 11);
    put_receive(320, 11, SERVICE);
    put_send(600, 11, R);
    find_path_of(R, 100, 600, 11, &path);
    for (size_t i = 0; i < path.count; i++)
        assert_int_equal(path.items[i].asks, 0);
    path_segments_clear(&path);
}

static void expect_words(int call, const char *expected)
{
    char text[CLIENT_CALL_TEXT_BYTES];
    assert_string_equal(client_call_text(call, text), expected);
}

static void test_words(void **state)
{
    (void)state;
    expect_words(client_call(CLIENT_POSTGRESQL, CLIENT_TRUNCATE), "PostgreSQL TRUNCATE");
    expect_words(client_call(CLIENT_POSTGRESQL, CLIENT_PREPARED), "prepared PostgreSQL statement");
    expect_words(client_call(CLIENT_MYSQL, CLIENT_OTHER), "MySQL statement");
    expect_words(client_call(CLIENT_REDIS, CLIENT_OTHER), "Redis command");
    expect_words(client_call(CLIENT_HTTP, CLIENT_POST), "HTTP POST");
    expect_words(0, "");
    expect_words(RECORDER_NO_SYSCALL, "");
    expect_words(client_call(CLIENT_PROTOCOLS, CLIENT_GET), ""); /* of a newer program */
    expect_words(client_call(CLIENT_HTTP, CLIENT_WORD_COUNT), "");
}

static void test_protocol_and_kind(void **state)
{
    (void)state;
    assert_string_equal(client_call_protocol_name(client_call(CLIENT_MYSQL, CLIENT_SELECT)), "MySQL");
    assert_string_equal(client_call_kind(client_call(CLIENT_MYSQL, CLIENT_SELECT)), "SELECT");
    assert_string_equal(client_call_kind(client_call(CLIENT_MYSQL, CLIENT_PREPARED)), "prepared statement");
    assert_string_equal(client_call_kind(client_call(CLIENT_REDIS, CLIENT_OTHER)), "other");
    assert_string_equal(client_call_protocol_name(client_call(CLIENT_PROTOCOLS, CLIENT_GET)), "");
    assert_string_equal(client_call_kind(client_call(CLIENT_HTTP, CLIENT_WORD_COUNT)), "");
}

static void find_asked(void *context, uint64_t cookie, uint64_t from_ns, uint64_t to_ns, char out[PATH_ASKED_BYTES])
{
    (void)context;
    if (cookie == SERVICE && from_ns == 0 && to_ns == 1000000)
        snprintf(out, PATH_ASKED_BYTES, "gRPC /shop.Stock/Find");
}

static void expect_detail(struct path_segment s, const char *expected)
{
    const struct path_segments path = {.items = &s, .count = 1, .begin_ns = s.start_ns};
    const struct path_names names = {.asked = find_asked};
    _cleanup_(path_text_freep) struct path_text *text = NULL;
    size_t n;
    assert_int_equal(path_text_new(&path, 1, 11, &names, &text), 0);
    assert_string_equal(path_text_segments(text, &n)[0].detail, expected);
}

/* The path continues in a service of this node: its segments name the call that the service works for. */
static void test_details(void **state)
{
    struct path_segment s = {.end_ns = 1000000,
                             .kind = REQUEST_PART_DOWNSTREAM,
                             .tid = 11,
                             .pid = 1,
                             .syscall = SYS_recvfrom,
                             .asks = client_call(CLIENT_REDIS, CLIENT_GET),
                             .reason = ""};
    (void)state;
    expect_detail(s, "Redis GET");
    s.syscall = RECORDER_NO_SYSCALL;
    expect_detail(s, "Redis GET");
    s.syscall = SYS_recvfrom;
    s.asks = 0;
    expect_detail(s, "recvfrom");
    s.kind = REQUEST_PART_CPU;
    s.asks = client_call(CLIENT_REDIS, CLIENT_GET);
    expect_detail(s, "");
    s.tid = s.pid = 210;
    expect_detail(s, "in thread 210 of process 210, for Redis GET");
    s.asks = 0;
    s.call = SERVICE;
    expect_detail(s, "in thread 210 of process 210, for gRPC /shop.Stock/Find");
    s.tid = 11;
    s.pid = 1;
    s.kind = REQUEST_PART_DOWNSTREAM;
    s.call = 0;
    s.socket = SERVICE;
    expect_detail(s, "gRPC /shop.Stock/Find");
    s.socket = R;
    expect_detail(s, "recvfrom");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_calls_of_a_service, start_trace),
        cmocka_unit_test_setup(test_calls_that_are_under_way_together, start_trace),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_protocol_and_kind),
        cmocka_unit_test(test_details),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
