/* A connection of gRPC with nghttp2's client: calls, refused and hostile ones, and calls whose client has gone. */
#include "server/grpc_connection.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include <cmocka.h>

#define METHOD     "/a.Service/Export"
#define CLIENT     0x0100007f /* an IPv4 address */
#define TOKEN      "Bearer secret"
#define BUSY_TOKEN "Bearer busy"
#define MESSAGE    1000          /* bytes that a message may have */
#define MEMORY     (3 * MESSAGE) /* of the bodies of all calls: one client has at most half */
#define TAKEN_MAX  3

/* What a client has got of one reply. */
struct answer {
    char http_status[8], status[8], text[300], details[400];
    struct buf body;
    bool is_closed;
    uint32_t reset;
};

/* A request that a client sends. */
struct request {
    const char *type, *encoding, *authorization;
    struct buf body; /* all of it; with `hold`, the stream does not end */
    bool hold;
    size_t sent;
};

struct fixture {
    nghttp2_session *client;
    struct grpc_connection *connection;
    struct body_memory *memory;
    struct grpc_call *taken[TAKEN_MAX];
    unsigned taken_count, taken_max;
    uint64_t now_ns;
};

/* ---- the server's side ---- */

static enum grpc_status admit(void *context, const char *authorization, const struct sockaddr *address,
                              struct access_client *ret_client)
{
    (void)context;
    (void)address;
    ret_client->number = 1;
    if (authorization && strcmp(authorization, BUSY_TOKEN) == 0)
        return GRPC_RESOURCE_EXHAUSTED;
    return authorization && strcmp(authorization, TOKEN) == 0 ? GRPC_OK : GRPC_UNAUTHENTICATED;
}

static bool take(void *context, struct grpc_call *call)
{
    struct fixture *f = context;
    if (f->taken_count == f->taken_max)
        return false;
    f->taken[f->taken_count++] = call;
    return true;
}

/* ---- the client's ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t size, uint8_t flags, void *context)
{
    struct answer *a = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)name_size;
    (void)flags;
    (void)context;
    static const struct {
        const char *name;
        size_t offset, space;
    } known[] = {{":status", offsetof(struct answer, http_status), sizeof(a->http_status)},
                 {"grpc-status", offsetof(struct answer, status), sizeof(a->status)},
                 {"grpc-message", offsetof(struct answer, text), sizeof(a->text)},
                 {"grpc-status-details-bin", offsetof(struct answer, details), sizeof(a->details)}};
    for (size_t i = 0; i < array_size(known); i++)
        if (strcmp((const char *)name, known[i].name) == 0)
            snprintf((char *)a + known[i].offset, known[i].space, "%.*s", (int)size, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size, void *context)
{
    struct answer *a = nghttp2_session_get_stream_user_data(session, id);
    (void)flags;
    (void)context;
    return buf_append(&a->body, data, size);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *context)
{
    struct answer *a = nghttp2_session_get_stream_user_data(session, id);
    (void)context;
    if (a) {
        a->is_closed = true;
        a->reset = error;
    }
    return 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t id, uint8_t *to, size_t space, uint32_t *flags,
                            nghttp2_data_source *source, void *context)
{
    struct request *r = source->ptr;
    const size_t left = r->body.size - r->sent, n = left < space ? left : space;
    (void)session;
    (void)id;
    (void)context;
    if (!left && r->hold)
        return NGHTTP2_ERR_DEFERRED;
    if (n)
        memcpy(to, r->body.data + r->sent, n);
    r->sent += n;
    *flags |= n == left && !r->hold ? NGHTTP2_DATA_FLAG_EOF : 0;
    return (ssize_t)n;
}

#define FIELD(n, v)                                                                                                    \
    (nghttp2_nv)                                                                                                       \
    {                                                                                                                  \
        .name = (uint8_t *)(n), .namelen = strlen(n), .value = (uint8_t *)(v), .valuelen = strlen(v)                   \
    }

static int32_t send_request(struct fixture *f, struct request *r, struct answer *answer)
{
    const nghttp2_data_provider data = {.source.ptr = r, .read_callback = read_request};
    nghttp2_nv fields[8] = {FIELD(":method", "POST"), FIELD(":scheme", "http"), FIELD(":path", METHOD),
                            FIELD(":authority", "test")};
    size_t count = 4;
    if (r->type)
        fields[count++] = FIELD("content-type", r->type);
    if (r->encoding)
        fields[count++] = FIELD("grpc-encoding", r->encoding);
    if (r->authorization)
        fields[count++] = FIELD("authorization", r->authorization);
    const int32_t id = nghttp2_submit_request(f->client, NULL, fields, count, &data, answer);
    assert_true(id > 0);
    return id;
}

/* Passes bytes on in both directions until there are none. */
static void exchange(struct fixture *f)
{
    for (bool is_busy = true; is_busy;) {
        _cleanup_buf_ struct buf out = {0};
        const uint8_t *data;
        is_busy = false;
        for (ssize_t n; (n = nghttp2_session_mem_send(f->client, &data)) > 0; is_busy = true)
            assert_int_equal(grpc_connection_receive(f->connection, data, (size_t)n, f->now_ns), 0);
        assert_int_equal(grpc_connection_put_output(f->connection, &out, 1 << 20), 0);
        if (out.size) {
            assert_int_equal(nghttp2_session_mem_recv(f->client, (const uint8_t *)out.data, out.size), out.size);
            is_busy = true;
        }
    }
}

static int start(void **state)
{
    static struct fixture f;
    nghttp2_session_callbacks *callbacks;
    f = (struct fixture){.taken_max = TAKEN_MAX, .now_ns = 1};
    assert_int_equal(body_memory_new(MEMORY, &f.memory), 0);
    const struct grpc_connection_options options = {.client.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = CLIENT},
                                                    .message_max_bytes = MESSAGE,
                                                    .memory = f.memory,
                                                    .admit = admit,
                                                    .take = take,
                                                    .context = &f};
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&f.client, callbacks, NULL);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(f.client, NGHTTP2_FLAG_NONE, NULL, 0);
    *state = &f;
    return grpc_connection_new(&options, &f.connection);
}

static int stop(void **state)
{
    struct fixture *f = *state;
    grpc_connection_free(f->connection);
    nghttp2_session_del(f->client);
    const size_t held = body_memory_held(f->memory);
    body_memory_free(f->memory);
    return held != 0;
}

/* ---- messages ---- */

static void put_message(struct buf *out, uint8_t is_compressed, size_t declared, size_t size)
{
    buf_putc(out, (char)is_compressed);
    for (int shift = 24; shift >= 0; shift -= 8)
        buf_putc(out, (char)(declared >> shift));
    for (size_t i = 0; i < size; i++)
        buf_putc(out, (char)i);
}

static void clear(struct request *r, struct answer *a)
{
    buf_clear(&r->body);
    buf_clear(&a->body);
}

static struct request good_request(size_t size)
{
    struct request r = {.type = "application/grpc+proto", .encoding = "gzip", .authorization = TOKEN};
    put_message(&r.body, 1, size, size);
    return r;
}

static void test_calls_are_answered(void **state)
{
    struct fixture *f = *state;
    struct request requests[2] = {good_request(700), good_request(0)};
    struct answer answers[2] = {0};
    requests[1].body.data[0] = 0;
    for (size_t i = 0; i < 2; i++)
        send_request(f, &requests[i], &answers[i]);
    exchange(f);
    assert_int_equal(f->taken_count, 2);
    assert_string_equal(f->taken[0]->method, METHOD);
    assert_string_equal(f->taken[0]->encoding, "gzip");
    assert_int_equal(f->taken[0]->message.size, 700);
    assert_memory_equal(f->taken[0]->message.data, requests[0].body.data + 5, 700);
    assert_null(f->taken[1]->encoding);
    assert_int_equal(body_memory_held(f->memory), 710);
    buf_puts(&f->taken[0]->reply.message, "well");
    for (size_t i = 2; i-- > 0;) /* in another order */
        grpc_call_finish(f->taken[i], f->now_ns);
    exchange(f);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(answers[i].http_status, "200");
        assert_string_equal(answers[i].status, "0");
        assert_true(answers[i].is_closed);
        assert_int_equal(answers[i].body.size, i == 0 ? 9 : 5);
        assert_memory_equal(answers[i].body.data, i == 0 ? "\0\0\0\0\4well" : "\0\0\0\0\0", answers[i].body.size);
        clear(&requests[i], &answers[i]);
    }
    assert_false(grpc_connection_has_calls(f->connection));
}

/* The details are a google.rpc.Status with a RetryInfo: what `protoc --encode` makes of it. */
static void test_errors_say_when_to_repeat_a_call(void **state)
{
    struct fixture *f = *state;
    struct request r = good_request(1);
    struct answer a = {0};
    send_request(f, &r, &a);
    exchange(f);
    f->taken[0]->reply.status = GRPC_RESOURCE_EXHAUSTED;
    f->taken[0]->reply.text = "full";
    f->taken[0]->reply.retry_after_s = 5;
    grpc_call_finish(f->taken[0], f->now_ns);
    exchange(f);
    assert_string_equal(a.status, "8");
    assert_string_equal(a.text, "full");
    assert_string_equal(a.details, "CAgSBGZ1bGwaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIBQ==");
    assert_true(a.is_closed);
    clear(&r, &a);
}

static void test_bad_requests_are_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *what, *type, *encoding, *authorization;
        size_t declared, size;
        uint8_t is_compressed;
        bool hold;
        const char *http_status, *status;
    } bad[] = {
        {"no gRPC", "application/json", NULL, TOKEN, 1, 1, 0, false, "415", "12"},
        {"no gRPC that only begins like it", "application/grpcx", NULL, TOKEN, 1, 1, 0, false, "415", "12"},
        {"no type", NULL, NULL, TOKEN, 1, 1, 0, false, "415", "12"},
        {"no token", "application/grpc", NULL, NULL, 1, 1, 0, true, "200", "16"},
        {"another token", "application/grpc", NULL, "Bearer other", 1, 1, 0, true, "200", "16"},
        {"too many calls", "application/grpc", NULL, BUSY_TOKEN, 1, 1, 0, true, "200", "8"},
        {"a message that is cut", "application/grpc", NULL, TOKEN, 2, 1, 0, false, "200", "3"},
        {"more than a message", "application/grpc", NULL, TOKEN, 1, 2, 0, false, "200", "3"},
        {"an unknown flag", "application/grpc", "gzip", TOKEN, 1, 1, 2, false, "200", "3"},
        {"an unknown compression", "application/grpc", NULL, TOKEN, 1, 1, 1, false, "200", "3"},
        {"a large message, which is not read", "application/grpc", NULL, TOKEN, MESSAGE + 1, 1, 0, true, "200", "3"},
        {"a larger message than it says", "application/grpc", NULL, TOKEN, 1, MESSAGE + 1, 0, true, "200", "3"},
    };
    for (size_t i = 0; i < array_size(bad); i++) {
        struct request r = {.type = bad[i].type,
                            .encoding = bad[i].encoding,
                            .authorization = bad[i].authorization,
                            .hold = bad[i].hold};
        struct answer a = {0};
        put_message(&r.body, bad[i].is_compressed, bad[i].declared, bad[i].size);
        send_request(f, &r, &a);
        exchange(f);
        if (strcmp(a.http_status, bad[i].http_status) != 0 || strcmp(a.status, bad[i].status) != 0 || !a.is_closed)
            fail_msg("%s: %s, %s, %s", bad[i].what, a.http_status, a.status, a.text);
        assert_int_equal(a.details[0] != '\0', strcmp(a.status, "8") == 0); /* the only one to be repeated */
        if (strcmp(a.status, "16") == 0)
            assert_non_null(strstr(a.text, "`sonde token new --scope write`"));
        clear(&r, &a);
    }
    assert_int_equal(f->taken_count, 0);
    assert_false(grpc_connection_has_calls(f->connection));
}

static void test_memory_and_number_of_calls_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct request r[3] = {good_request(MESSAGE), good_request(MESSAGE), good_request(1)};
    struct answer a[3] = {0};
    f->taken_max = 1;
    for (size_t i = 0; i < 3; i++)
        send_request(f, &r[i], &a[i]);
    exchange(f);
    assert_int_equal(f->taken_count, 1);
    assert_int_equal(body_memory_held(f->memory), MESSAGE + 5);
    for (size_t i = 1; i < 3; i++) {
        assert_string_equal(a[i].status, "14");
        assert_string_not_equal(a[i].details, "");
    }
    grpc_call_finish(f->taken[0], f->now_ns);
    assert_int_equal(body_memory_held(f->memory), 0);
    exchange(f);
    assert_string_equal(a[0].status, "0");
    for (size_t i = 0; i < 3; i++)
        clear(&r[i], &a[i]);
}

/* The receiver, which gets the call, knows which compressions there are. */
static void test_a_long_name_of_a_compression_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct request r = good_request(1);
    struct answer a = {0};
    r.encoding = "a-name-of-more-than-16";
    send_request(f, &r, &a);
    exchange(f);
    assert_int_equal(f->taken_count, 1);
    assert_string_equal(f->taken[0]->encoding, "unknown");
    grpc_call_finish(f->taken[0], f->now_ns);
    clear(&r, &a);
}

/* What the prefix says is not waited for. */
static void test_message_beyond_the_share_is_refused_before_it_comes(void **state)
{
    struct fixture *f = *state;
    struct request r = {.type = "application/grpc", .authorization = TOKEN, .hold = true};
    struct answer a = {0};
    assert_true(body_memory_take(f->memory, 1, MESSAGE));
    put_message(&r.body, 0, MESSAGE, 0);
    send_request(f, &r, &a);
    exchange(f);
    assert_string_equal(a.status, "14");
    assert_int_equal(body_memory_held(f->memory), MESSAGE);
    body_memory_give(f->memory, 1, MESSAGE);
    clear(&r, &a);
}

static void test_slow_requests_and_readers_end(void **state)
{
    struct fixture *f = *state;
    struct request r = good_request(10);
    struct answer a = {0};
    r.hold = true;
    send_request(f, &r, &a);
    exchange(f);
    grpc_connection_tick(f->connection, f->now_ns + GRPC_CALL_NS - 1);
    exchange(f);
    assert_string_equal(a.status, "");
    grpc_connection_tick(f->connection, f->now_ns + GRPC_CALL_NS);
    exchange(f);
    assert_string_equal(a.status, "4");
    assert_true(a.is_closed);
    clear(&r, &a);
    /* A client whose window is 0 */
    const nghttp2_settings_entry none = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    nghttp2_submit_settings(f->client, NGHTTP2_FLAG_NONE, &none, 1);
    r = good_request(1);
    a = (struct answer){0};
    send_request(f, &r, &a);
    exchange(f);
    f->now_ns += GRPC_CALL_NS;
    grpc_call_finish(f->taken[0], f->now_ns);
    exchange(f);
    assert_false(a.is_closed);
    grpc_connection_tick(f->connection, f->now_ns + GRPC_CALL_NS);
    exchange(f);
    assert_true(a.is_closed);
    assert_int_equal(a.reset, NGHTTP2_CANCEL);
    clear(&r, &a);
}

/* The call is away when its client gives up, and another when its connection ends: both come back. */
static void test_calls_outlive_their_client(void **state)
{
    struct fixture *f = *state;
    struct request r[2] = {good_request(1), good_request(2)};
    struct answer a[2] = {0};
    const int32_t first = send_request(f, &r[0], &a[0]);
    send_request(f, &r[1], &a[1]);
    exchange(f);
    assert_int_equal(f->taken_count, 2);
    nghttp2_submit_rst_stream(f->client, NGHTTP2_FLAG_NONE, first, NGHTTP2_CANCEL);
    exchange(f);
    grpc_call_finish(f->taken[0], f->now_ns);
    const struct sockaddr *client = f->taken[1]->client;
    grpc_connection_free(take_ptr(f->connection));
    assert_int_equal(((const struct sockaddr_in *)(const void *)client)->sin_addr.s_addr, CLIENT);
    grpc_call_finish(f->taken[1], f->now_ns);
    assert_int_equal(body_memory_held(f->memory), 0);
    for (size_t i = 0; i < 2; i++)
        clear(&r[i], &a[i]);
}

static void test_bytes_that_are_no_http2_end_the_connection(void **state)
{
    struct fixture *f = *state;
    static const char http1[] = "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_int_equal(grpc_connection_receive(f->connection, http1, strlen(http1), 1), -EPROTO);
}

/* A field that is repeated takes one byte: 1,000 bytes can stand for megabytes. */
static void test_large_header_block_ends_the_connection(void **state)
{
    enum { SIZE = 3000, COUNT_MAX = 7 };
    struct fixture *f = *state;
    static char value[SIZE + 1];
    memset(value, 'v', SIZE);
    for (size_t count = 4; count <= COUNT_MAX; count += COUNT_MAX - 4) {
        nghttp2_nv fields[3 + COUNT_MAX] = {FIELD(":method", "POST"), FIELD(":scheme", "http"), FIELD(":path", METHOD)};
        const uint8_t *data;
        int r = 0;
        for (size_t i = 0; i < count; i++)
            fields[3 + i] = FIELD("x", value);
        assert_true(nghttp2_submit_request(f->client, NULL, fields, 3 + count, NULL, NULL) > 0);
        for (ssize_t n; r == 0 && (n = nghttp2_session_mem_send(f->client, &data)) > 0;)
            r = grpc_connection_receive(f->connection, data, (size_t)n, f->now_ns);
        assert_int_equal(r, count == COUNT_MAX ? -EPROTO : 0);
    }
}

/* A listener closes connections without calls if it needs space: a client that may not call must not prevent that by
 * leaving its replies unread. */
static void test_only_calls_that_are_allowed_count(void **state)
{
    struct fixture *f = *state;
    struct request r[2] = {good_request(1), good_request(1)};
    struct answer a[2] = {0};
    const uint8_t *data;
    r[0].authorization = "Bearer other";
    for (size_t i = 0; i < 2; i++) {
        r[i].hold = true;
        send_request(f, &r[i], &a[i]);
        for (ssize_t n; (n = nghttp2_session_mem_send(f->client, &data)) > 0;)
            assert_int_equal(grpc_connection_receive(f->connection, data, (size_t)n, f->now_ns), 0);
        assert_int_equal(grpc_connection_has_calls(f->connection), i == 1);
    }
    for (size_t i = 0; i < 2; i++)
        clear(&r[i], &a[i]);
}

static void test_end_says_goaway(void **state)
{
    struct fixture *f = *state;
    exchange(f);
    assert_false(grpc_connection_is_ended(f->connection));
    grpc_connection_end(f->connection);
    exchange(f);
    assert_true(grpc_connection_is_ended(f->connection));
    assert_false(nghttp2_session_want_read(f->client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls_are_answered, start, stop),
        cmocka_unit_test_setup_teardown(test_errors_say_when_to_repeat_a_call, start, stop),
        cmocka_unit_test_setup_teardown(test_bad_requests_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(test_memory_and_number_of_calls_are_bounded, start, stop),
        cmocka_unit_test_setup_teardown(test_a_long_name_of_a_compression_is_unknown, start, stop),
        cmocka_unit_test_setup_teardown(test_message_beyond_the_share_is_refused_before_it_comes, start, stop),
        cmocka_unit_test_setup_teardown(test_slow_requests_and_readers_end, start, stop),
        cmocka_unit_test_setup_teardown(test_calls_outlive_their_client, start, stop),
        cmocka_unit_test_setup_teardown(test_bytes_that_are_no_http2_end_the_connection, start, stop),
        cmocka_unit_test_setup_teardown(test_large_header_block_ends_the_connection, start, stop),
        cmocka_unit_test_setup_teardown(test_only_calls_that_are_allowed_count, start, stop),
        cmocka_unit_test_setup_teardown(test_end_says_goaway, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
