/* Streams of HTTP/2 become requests, each once, however its frames are cut; lost and hostile frames do no harm. */
#include "http2_fixture.h"

#include <stdio.h>

static void test_a_grpc_call_is_a_request_with_its_status(void **state)
{
    (void)state;
    const uint32_t pieces[] = {0, 1, 2, 7, 11};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct fixture f = {.piece = pieces[i]};
        open_on(&f, true);
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES(grpc_request));
        put_frame(&f, HTTP2_RECEIVED, 1001, HTTP2_DATA, HTTP2_END_STREAM, 1, "", 20);
        put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES(grpc_reply));
        put_frame(&f, HTTP2_SENT, 2500, HTTP2_DATA, 0, 1, "", 30);
        assert_int_equal(f.count, 0);
        put_frame(&f, HTTP2_SENT, 3000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, BYTES(not_found));
        assert_int_equal(f.count, 1);
        const struct request_record *r = &f.ended[0];
        assert_int_equal(r->status, REQUEST_GRPC_STATUS + 5);
        assert_int_equal(r->protocol, REQUEST_GRPC);
        assert_string_equal(r->line, "POST /a.B/C HTTP/2");
        assert_int_equal(r->start_ns, 990);
        assert_int_equal(r->unread_ns, 10);
        assert_int_equal(r->duration_ns, 2010);
        assert_int_equal(r->bytes_in, 20);
        assert_int_equal(r->bytes_out, 30);
        assert_int_equal(r->local_port, 8080);
        assert_int_equal(r->h.tid, 8);
        assert_false(r->flags & REQUEST_SHARED);
        http2_requests_free(f.requests);
    }
}

/* The other way round: the process sends the request, and receives the reply. */
static void test_a_clients_stream_ends_with_what_it_receives(void **state)
{
    struct fixture f = {0};
    struct http2_opened o = {
        .kind = HTTP2_RECORD_OPENED, .connection = 5, .process = 99, .is_from_start = true, .r.flags = REQUEST_CLIENT};
    (void)state;
    open_on(&f, true);
    http2_requests_take(f.requests, &o, sizeof(o));
    put_frame(&f, HTTP2_SENT, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES(grpc_request));
    put_frame(&f, HTTP2_SENT, 1001, HTTP2_DATA, HTTP2_END_STREAM, 1, "", 20);
    put_frame(&f, HTTP2_RECEIVED, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES(grpc_reply));
    put_frame(&f, HTTP2_RECEIVED, 2500, HTTP2_DATA, 0, 1, "", 30);
    assert_int_equal(f.count, 0);
    put_frame(&f, HTTP2_RECEIVED, 3000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, BYTES(not_found));
    assert_int_equal(f.count, 1);
    assert_true(f.ended[0].flags & REQUEST_CLIENT);
    assert_string_equal(f.ended[0].line, "POST /a.B/C HTTP/2");
    assert_int_equal(f.ended[0].status, REQUEST_GRPC_STATUS + 5);
    assert_int_equal(f.ended[0].start_ns, 1000);
    assert_int_equal(f.ended[0].duration_ns, 2000);
    assert_int_equal(f.ended[0].bytes_in, 20);
    http2_requests_free(f.requests);
}

static void test_interleaved_streams_end_in_any_order(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    for (uint32_t id = 1; id < 2 * ENDED_MAX; id += 2)
        put_frame(&f, HTTP2_RECEIVED, 1000 + id, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, id,
                  BYTES("\x82\x04\x06/p?t=1"));
    for (uint32_t id = 2 * ENDED_MAX - 1; id < 2 * ENDED_MAX; id -= 2) {
        put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS, id, "\x8d", 1);
        put_frame(&f, HTTP2_SENT, 3000 + id, HTTP2_DATA, HTTP2_END_STREAM, id, "", 5);
    }
    assert_int_equal(f.count, ENDED_MAX);
    for (size_t i = 0; i < f.count; i++) {
        assert_int_equal(f.ended[i].status, 404);
        assert_int_equal(f.ended[i].duration_ns, 2010);
        assert_true(f.ended[i].flags & REQUEST_SHARED);
        assert_string_equal(f.ended[i].line, "GET /p HTTP/2");
    }
    http2_requests_free(f.requests);
}

static void test_padding_priority_and_continuation_are_understood(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_PADDED | HTTP2_HAS_PRIORITY | HTTP2_END_STREAM, 1,
              BYTES("\x02\x80\x00\x00\x00\x10\x82\x04\x03\x00\x00"));
    put_frame(&f, HTTP2_RECEIVED, 1500, HTTP2_CONTINUATION, 0, 1, BYTES("/x"));
    put_frame(&f, HTTP2_RECEIVED, 1600, HTTP2_CONTINUATION, HTTP2_END_HEADERS, 1, BYTES("y"));
    put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, "\x89", 1);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.ended[0].line, "GET /xy HTTP/2");
    assert_int_equal(f.ended[0].status, 204);
    http2_requests_free(f.requests);
}

static void test_trailers_of_a_request_are_no_request(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES("\x83\x84"));
    put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, "\x88", 1);
    put_frame(&f, HTTP2_RECEIVED, 2100, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, BYTES("\x82\x84"));
    const struct http2_event closed = {.kind = HTTP2_RECORD_CLOSED, .connection = 5, .time_ns = 4000};
    http2_requests_take(f.requests, &closed, sizeof(closed));
    assert_int_equal(f.count, 1);
    http2_requests_free(f.requests);
}

static void test_a_reset_or_closed_stream_ends_without_a_reply(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES("\x82\x84"));
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 3, BYTES(grpc_request));
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 5, BYTES("\x82\x84"));
    put_frame(&f, HTTP2_RECEIVED, 2000, HTTP2_RST_STREAM, 0, 1, BYTES("\0\0\0\x08"));
    put_frame(&f, HTTP2_RECEIVED, 2000, HTTP2_RST_STREAM, 0, 3, BYTES("\0\0\0\x08"));
    assert_int_equal(f.count, 2);
    assert_int_equal(f.ended[0].status, 0);
    assert_true(f.ended[0].flags & REQUEST_NO_REPLY);
    assert_int_equal(f.ended[1].status, REQUEST_GRPC_STATUS + 1);
    const struct http2_event closed = {.kind = HTTP2_RECORD_CLOSED, .connection = 5, .time_ns = 4000};
    http2_requests_take(f.requests, &closed, sizeof(closed));
    assert_int_equal(f.count, 3);
    assert_int_equal(f.ended[2].duration_ns, 4000 - 990);
    http2_requests_free(f.requests);
}

static void test_model_is_that_of_the_first_message(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    const struct {
        const char *path, *field, *line;
        size_t field_size;
    } calls[] = {
        {"/inference.GRPCInferenceService/ModelInfer", "resnet",
         "POST /inference.GRPCInferenceService/ModelInfer HTTP/2 resnet:2", 6},
        {"/tensorflow.serving.PredictionService/Predict", "\x0a\x06resnet\x12\x02\x08\x01",
         "POST /tensorflow.serving.PredictionService/Predict HTTP/2 resnet:1", 12},
        {"/tensorflow.serving.PredictionService/Predict", "\x0a\x60resnet",
         "POST /tensorflow.serving.PredictionService/Predict HTTP/2", 8},
        {"/shop.Cart/inference.GRPCInferenceService/", "secret",
         "POST /shop.Cart/inference.GRPCInferenceService/ HTTP/2", 6},
    };
    for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        char block[128];
        const int size = snprintf(block, sizeof(block),
                                  "\x83\x04%c%s\x5f\x10"
                                  "application/grpc",
                                  (int)strlen(calls[i].path), calls[i].path);
        const uint32_t id = 2 * i + 1;
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, id, block, (uint32_t)size);
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_FIELD_1, 0, id, calls[i].field, (uint32_t)calls[i].field_size);
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_FIELD_2, 0, id, "2", 1);
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_DATA, 0, id, "", 100);
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_FIELD_1, 0, id, BYTES("not a model"));
        put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, id, BYTES(not_found));
        assert_int_equal(f.count, i + 1);
        assert_string_equal(f.ended[i].line, calls[i].line);
    }
    http2_requests_free(f.requests);
}

/* The connection is older than the agent: the path is an index that is not known. */
static void test_model_is_recognized_by_its_tensor(void **state)
{
    (void)state;
    static const struct {
        const char *tensor, *line;
        enum request_protocol protocol;
    } calls[] = {
        {"FP32", "POST /inference.GRPCInferenceService/* HTTP/2 resnet:2", REQUEST_GRPC},
        {"FP33", "POST * HTTP/2", REQUEST_GRPC},
        {NULL, "POST * HTTP/2", REQUEST_GRPC},
    };
    struct fixture f = {0};
    open_on(&f, false);
    for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const uint32_t id = 2 * i + 1;
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, id, BYTES("\x83\xc0\xbf"));
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_FIELD_1, 0, id, BYTES("resnet"));
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_FIELD_2, 0, id, BYTES("2"));
        if (calls[i].tensor)
            put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_TENSOR, 0, id, calls[i].tensor, 4);
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_DATA, HTTP2_END_STREAM, id, "", 100);
        put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS, id, BYTES("\x88\xbf"));
        put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, id, BYTES("\xbf"));
        assert_int_equal(f.count, i + 1);
        assert_string_equal(f.ended[i].line, calls[i].line);
        assert_int_equal(f.ended[i].protocol, calls[i].protocol);
        assert_int_equal(f.ended[i].status, REQUEST_GRPC_UNKNOWN);
        assert_true(f.ended[i].flags & REQUEST_NO_PATH);
    }
    http2_requests_free(f.requests);
}

/* :method OPTIONS, :path * (literals): of a message in the form of KServe's it is a path like any other. */
static void test_path_that_is_an_asterisk_is_known(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES("\x02\x07OPTIONS\x04\x01*"));
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_FIELD_1, 0, 1, BYTES("resnet"));
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_TENSOR, 0, 1, BYTES("FP32"));
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_DATA, HTTP2_END_STREAM, 1, "", 100);
    put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, BYTES("\x88"));
    assert_int_equal(f.count, 1);
    assert_string_equal(f.ended[0].line, "OPTIONS * HTTP/2");
    assert_int_equal(f.ended[0].protocol, REQUEST_HTTP2);
    assert_false(f.ended[0].flags & REQUEST_NO_PATH);
    http2_requests_free(f.requests);
}

/* :method CONNECT (a literal), and no path. */
static void test_connect_lacks_no_path(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1,
              BYTES("\x02\x07"
                    "CONNECT"));
    put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, BYTES("\x88"));
    assert_int_equal(f.count, 1);
    assert_string_equal(f.ended[0].line, "CONNECT * HTTP/2");
    assert_false(f.ended[0].flags & REQUEST_NO_PATH);
    http2_requests_free(f.requests);
}

static void test_after_a_gap_old_entries_are_unknown(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, 1, BYTES(grpc_request));
    put_record(&f, HTTP2_RECEIVED, 1100, "\0\0\x02\x01\x05\0\0\0\x05\x83\xbf", 11, true);
    put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 5, "\x88", 1);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.ended[0].line, "POST * HTTP/2");
    assert_int_equal(http2_requests_losses(f.requests)->gaps, 1);
    http2_requests_free(f.requests);
}

static void test_joined_connection_has_its_requests(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, false);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 77, BYTES("\x82\xbe\xbf"));
    put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 75, "\x88", 1);
    put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 77, "\x88", 1);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.ended[0].line, "GET * HTTP/2");
    assert_int_equal(f.ended[0].status, 200);
    http2_requests_free(f.requests);
}

static void test_streams_without_an_end_are_bounded(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    for (uint32_t id = 1; id < 2 * (HTTP2_STREAMS_MAX + 1000); id += 2)
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, HTTP2_END_HEADERS, id, BYTES("\x82\x84"));
    assert_int_equal(http2_requests_losses(f.requests)->streams, 1000);
    assert_true(http2_requests_bytes(f.requests) < 8 << 20);
    http2_requests_free(f.requests);
}

static void test_continuation_flood_is_bounded(void **state)
{
    (void)state;
    struct fixture f = {0};
    char piece[2000];
    memset(piece, 0x82, sizeof(piece));
    open_on(&f, true);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_HEADERS, 0, 1, BYTES("\x82\x84"));
    for (int i = 0; i < 1000; i++)
        put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_CONTINUATION, 0, 1, piece, sizeof(piece));
    assert_true(http2_requests_bytes(f.requests) < 1 << 20);
    put_frame(&f, HTTP2_RECEIVED, 1000, HTTP2_CONTINUATION, HTTP2_END_HEADERS, 1, "\x82", 1);
    put_frame(&f, HTTP2_SENT, 2000, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, 1, "\x88", 1);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.ended[0].line, "* * HTTP/2");
    http2_requests_free(f.requests);
}

static void test_records_of_another_socket_are_ignored(void **state)
{
    (void)state;
    struct fixture f = {0};
    open_on(&f, true);
    struct http2_frames r = {.kind = HTTP2_RECORD_FRAMES, .connection = 6, .bytes = 65535};
    http2_requests_take(f.requests, &r, HTTP2_FRAMES_HEAD);
    r.connection = 5;
    http2_requests_take(f.requests, &r, HTTP2_FRAMES_HEAD);
    http2_requests_take(f.requests, &r, sizeof(struct http2_event) - 1);
    assert_int_equal(http2_requests_losses(f.requests)->malformed, 2);
    http2_requests_free(f.requests);
}

/* Clients that send tables and blocks of header fields on many connections, and do not end them. */
static void test_memory_of_all_connections_is_bounded(void **state)
{
    (void)state;
    enum { CONNECTIONS = 300, PIECE = 1000 };
    static char fields[32 * PIECE];
    struct fixture f = {0};
    open_on(&f, true);
    for (uint64_t connection = 1; connection <= CONNECTIONS; connection++) {
        const struct http2_opened o = {
            .kind = HTTP2_RECORD_OPENED, .connection = connection, .process = 99, .is_from_start = true};
        struct http2_frames r = {
            .kind = HTTP2_RECORD_FRAMES,
            .connection = connection,
            .frames = {0, sizeof(fields) >> 8, sizeof(fields) & 0xff, HTTP2_HEADERS, 0, 0, 0, 0, 1},
            .bytes = HTTP2_HEAD_BYTES};
        http2_requests_take(f.requests, &o, sizeof(o));
        http2_requests_take(f.requests, &r, HTTP2_FRAMES_HEAD + r.bytes);
        r.bytes = PIECE;
        for (size_t sent = 0; sent < sizeof(fields); sent += PIECE)
            http2_requests_take(f.requests, &r, HTTP2_FRAMES_HEAD + r.bytes);
    }
    const uint64_t gaps = http2_requests_losses(f.requests)->gaps;
    assert_true(http2_requests_bytes(f.requests) > HTTP2_REQUESTS_BYTES);
    http2_requests_turn(f.requests, 0);
    assert_true(http2_requests_bytes(f.requests) < HTTP2_REQUESTS_BYTES);
    assert_true(http2_requests_losses(f.requests)->gaps > gaps);
    http2_requests_turn(f.requests, 0);
    http2_requests_free(f.requests);
}

#define TLS (HTTP2_OVER_TLS | 5)

static void put_tls(struct fixture *f, uint8_t direction, uint64_t time_ns, uint32_t stream, const char *block,
                    bool unsent)
{
    struct http2_frames r = {.kind = HTTP2_RECORD_FRAMES,
                             .connection = TLS,
                             .time_ns = time_ns,
                             .pid = 7,
                             .tid = 8,
                             .direction = direction,
                             .is_unsent = unsent,
                             .bytes = (uint16_t)(HTTP2_HEAD_BYTES + strlen(block)),
                             .frames = {0, 0, (uint8_t)strlen(block), HTTP2_HEADERS,
                                        HTTP2_END_HEADERS | HTTP2_END_STREAM, 0, 0, 0, (uint8_t)stream}};
    memcpy(r.frames + HTTP2_HEAD_BYTES, block, strlen(block));
    http2_requests_take(f->requests, &r, HTTP2_FRAMES_HEAD + r.bytes);
}

static void put_event(struct fixture *f, uint32_t kind, uint64_t time_ns)
{
    const struct http2_event e = {.kind = kind, .connection = TLS, .time_ns = time_ns};
    http2_requests_take(f->requests, &e, sizeof(e));
}

static void bind_socket(struct fixture *f, uint8_t flags)
{
    const struct http2_bound b = {.kind = HTTP2_RECORD_BOUND,
                                  .connection = TLS,
                                  .process = 99,
                                  .arrival_ns = {1500, 900},
                                  .received_ns = {1600, 950},
                                  .r = {.socket = 77, .flags = REQUEST_TLS | flags}};
    http2_requests_take(f->requests, &b, sizeof(b));
}

static void open_tls(struct fixture *f, uint8_t flags)
{
    const struct http2_opened o = {
        .kind = HTTP2_RECORD_OPENED, .connection = TLS, .process = 99, .is_from_start = true, .r.flags = flags};
    *f = (struct fixture){0};
    assert_int_equal(http2_requests_new(keep, f, &f->requests), 0);
    http2_requests_take(f->requests, &o, sizeof(o));
}

static void test_requests_over_tls_wait_for_their_socket(void **state)
{
    (void)state;
    struct fixture f;
    open_tls(&f, 0);
    put_tls(&f, HTTP2_RECEIVED, 1000, 1, "\x82\x84", false);
    put_tls(&f, HTTP2_RECEIVED, 1700, 3, "\x82\x84", false);
    put_tls(&f, HTTP2_SENT, 2000, 1, "\x88", false);
    assert_int_equal(f.count, 0);
    bind_socket(&f, 0);
    assert_int_equal(f.count, 1);
    put_tls(&f, HTTP2_SENT, 2100, 3, "\x88", false);
    assert_int_equal(f.count, 2);
    assert_int_equal(f.ended[0].start_ns, 900);
    assert_int_equal(f.ended[0].unread_ns, 50);
    assert_int_equal(f.ended[0].duration_ns, 1100);
    assert_int_equal(f.ended[1].start_ns, 1500);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f.ended[i].socket, 77);
        assert_true(f.ended[i].flags & REQUEST_TLS);
    }
    assert_int_equal(http2_requests_losses(f.requests)->unbound, 0);
    http2_requests_free(f.requests);
}

static void test_a_clients_stream_over_tls_begins_when_it_is_written(void **state)
{
    (void)state;
    struct fixture f;
    open_tls(&f, REQUEST_CLIENT);
    put_tls(&f, HTTP2_SENT, 1700, 1, "\x82\x84", false);
    put_tls(&f, HTTP2_RECEIVED, 2000, 1, "\x88", false);
    bind_socket(&f, REQUEST_CLIENT); /* what it received before is of another call */
    assert_int_equal(f.count, 1);
    assert_int_equal(f.ended[0].start_ns, 1700);
    assert_int_equal(f.ended[0].duration_ns, 300);
    assert_true(f.ended[0].flags & REQUEST_CLIENT);
    http2_requests_free(f.requests);
}

static void test_replies_in_memory_end_when_they_are_sent(void **state)
{
    (void)state;
    struct fixture f;
    open_tls(&f, 0);
    bind_socket(&f, 0);
    put_tls(&f, HTTP2_RECEIVED, 1700, 1, "\x82\x84", false);
    put_tls(&f, HTTP2_SENT, 2000, 1, "\x88", true);
    assert_int_equal(f.count, 0);
    put_event(&f, HTTP2_RECORD_SENT, 5000);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.ended[0].h.time_ns, 5000);
    http2_requests_free(f.requests);
}

static void test_requests_without_a_socket_are_lost_and_counted(void **state)
{
    (void)state;
    struct fixture f;
    open_tls(&f, 0);
    put_tls(&f, HTTP2_RECEIVED, 1000, 1, "\x82\x84", false);
    put_tls(&f, HTTP2_RECEIVED, 1000, 3, "\x82\x84", false);
    put_tls(&f, HTTP2_SENT, 2000, 1, "\x88", false);
    put_event(&f, HTTP2_RECORD_CLOSED, 3000);
    http2_requests_turn(f.requests, 3000 + HTTP2_CLOSING_NS);
    assert_int_equal(f.count, 0);
    assert_int_equal(http2_requests_losses(f.requests)->unbound, 2);
    http2_requests_free(f.requests);
}

static void test_last_frames_may_follow_the_end_of_a_connection_over_tls(void **state)
{
    (void)state;
    struct fixture f;
    open_tls(&f, 0);
    bind_socket(&f, 0);
    put_tls(&f, HTTP2_RECEIVED, 1700, 1, "\x82\x84", false);
    put_event(&f, HTTP2_RECORD_CLOSED, 2500);
    http2_requests_turn(f.requests, 3000);
    put_tls(&f, HTTP2_SENT, 3100, 1, "\x88", false);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.ended[0].status, 200);
    http2_requests_turn(f.requests, 2500 + HTTP2_CLOSING_NS);
    put_tls(&f, HTTP2_RECEIVED, 4000, 3, "\x82\x84", false);
    put_tls(&f, HTTP2_SENT, 4000, 3, "\x88", false);
    assert_int_equal(f.count, 1);
    http2_requests_free(f.requests);
}

/* The end of none is seen. */
static void test_connections_are_bounded(void **state)
{
    (void)state;
    struct fixture f;
    open_tls(&f, 0);
    put_tls(&f, HTTP2_RECEIVED, 1000, 1, "\x82\x84", false);
    const size_t before = http2_requests_bytes(f.requests);
    for (uint32_t i = 1; i <= HTTP2_CONNECTIONS_MAX; i++) {
        const struct http2_opened o = {.kind = HTTP2_RECORD_OPENED, .connection = TLS + i, .is_from_start = true};
        http2_requests_take(f.requests, &o, sizeof(o));
    }
    assert_int_equal(http2_requests_losses(f.requests)->streams, 1);
    const size_t full = http2_requests_bytes(f.requests);
    const struct http2_opened o = {.kind = HTTP2_RECORD_OPENED, .connection = TLS, .is_from_start = true};
    http2_requests_take(f.requests, &o, sizeof(o));
    assert_true(full > before);
    assert_int_equal(http2_requests_bytes(f.requests), full);
    http2_requests_free(f.requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_grpc_call_is_a_request_with_its_status),
        cmocka_unit_test(test_a_clients_stream_ends_with_what_it_receives),
        cmocka_unit_test(test_interleaved_streams_end_in_any_order),
        cmocka_unit_test(test_padding_priority_and_continuation_are_understood),
        cmocka_unit_test(test_trailers_of_a_request_are_no_request),
        cmocka_unit_test(test_a_reset_or_closed_stream_ends_without_a_reply),
        cmocka_unit_test(test_model_is_that_of_the_first_message),
        cmocka_unit_test(test_model_is_recognized_by_its_tensor),
        cmocka_unit_test(test_path_that_is_an_asterisk_is_known),
        cmocka_unit_test(test_connect_lacks_no_path),
        cmocka_unit_test(test_after_a_gap_old_entries_are_unknown),
        cmocka_unit_test(test_joined_connection_has_its_requests),
        cmocka_unit_test(test_streams_without_an_end_are_bounded),
        cmocka_unit_test(test_continuation_flood_is_bounded),
        cmocka_unit_test(test_memory_of_all_connections_is_bounded),
        cmocka_unit_test(test_records_of_another_socket_are_ignored),
        cmocka_unit_test(test_requests_over_tls_wait_for_their_socket),
        cmocka_unit_test(test_a_clients_stream_over_tls_begins_when_it_is_written),
        cmocka_unit_test(test_replies_in_memory_end_when_they_are_sent),
        cmocka_unit_test(test_requests_without_a_socket_are_lost_and_counted),
        cmocka_unit_test(test_last_frames_may_follow_the_end_of_a_connection_over_tls),
        cmocka_unit_test(test_connections_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
