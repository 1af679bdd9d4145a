/* The receiver over HTTP and gRPC, without an engine: answers to good, bad, repeated and too many batches. */
#include "server/otlp_http.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/protobuf.h"
#include "lib/otlp/fields.h"
#include "lib/otlp/profile_fields.h"
#include "server/otlp_grpc.h"
#include "server/receiver.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define SPOOL_BYTES 2000

static char directory[64];
static struct spool *spool;
static struct known_rows *known;
static struct receiver receiver;
static struct rate_limit *rate_limit;
static struct listener *listener;

static int start(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(directory, sizeof(directory), "/tmp/sonde-test-receiver-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    const struct spool_options options = {.directory = directory,
                                          .max_bytes = SPOOL_BYTES,
                                          .segment_max_bytes = 1 << 20,
                                          .segment_max_rows = 1000,
                                          .segment_max_ns = UINT64_MAX,
                                          .remember_ns = 3600000000000ull,
                                          .remember_max = 100,
                                          .unix_ns = clock_unix_ns,
                                          .monotonic_ns = clock_monotonic_ns};
    if (spool_open(&options, &spool) < 0)
        return -1;
    if (known_rows_new(1000, &known) < 0 || rate_limit_new(0, clock_monotonic_ns, &rate_limit) < 0)
        return -1;
    receiver_init(&receiver, spool, known, 30, clock_unix_ns);
    const struct listener_options listen = {.option = "--otlp-listen",
                                            .address = "127.0.0.1:0",
                                            .rate_limit = rate_limit,
                                            .header_bytes = 64 << 10,
                                            .body_max_bytes = RECEIVER_BODY_MAX_BYTES,
                                            .answer = otlp_http_answer,
                                            .context = &receiver};
    return listener_start(&listen, &listener);
}

static int stop(void **state)
{
    char path[400];
    (void)state;
    listener_free(listener);
    rate_limit_free(rate_limit);
    spool_free(spool);
    known_rows_free(known);
    DIR *d = opendir(directory);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
            unlink(path);
        }
    closedir(d);
    return rmdir(directory);
}

/* Sends a request and returns the status; the whole answer is in `out`. */
static int ask(const char *line, const char *headers, const struct buf *body, struct buf *out)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(listener_port(listener)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    buf_clear(out);
    buf_printf(out, "%s HTTP/1.1\r\nHost: localhost:%u\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n", line,
               listener_port(listener), body->size, headers);
    if (body->size)
        buf_append(out, body->data, body->size);
    for (size_t at = 0; at < out->size;) {
        const ssize_t n = send(fd, out->data + at, out->size - at, MSG_NOSIGNAL);
        if (n <= 0)
            break; /* the answer came before the end of the body */
        at += (size_t)n;
    }
    out->size = 0;
    assert_int_equal(buf_read_fd(out, fd, 100000), 0);
    assert_true(out->size > 12);
    return atoi(out->data + strlen("HTTP/1.1 "));
}

#define PROTOBUF "Content-Type: application/x-protobuf\r\n"
#define JSON     "Content-Type: application/json; charset=utf-8\r\n"

/* A request with one span, whose name has `name_size` bytes. */
static void put_request(struct buf *out, uint64_t number, uint64_t start_ns, size_t name_size)
{
    struct buf span = {0}, scope = {0}, one = {0}, name = {0};
    uint8_t id[16] = {1};
    memcpy(id + 8, &number, sizeof(number));
    for (size_t i = 0; i < name_size; i++)
        buf_putc(&name, 'n');
    protobuf_put_bytes(&span, SPAN_TRACE_ID, id, sizeof(id));
    protobuf_put_bytes(&span, SPAN_ID, id, 8);
    protobuf_put_fixed64(&span, SPAN_START, start_ns);
    protobuf_put_message(&span, SPAN_NAME, &name);
    protobuf_put_message(&scope, SCOPE_SPANS_SPANS, &span);
    protobuf_put_message(&one, RESOURCE_SPANS_SCOPE_SPANS, &scope);
    buf_clear(out);
    protobuf_put_message(out, TRACES_RESOURCE_SPANS, &one);
    buf_clear(&span);
    buf_clear(&scope);
    buf_clear(&one);
    buf_clear(&name);
}

static void test_batches_are_stored_once(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, packed = {0}, out = {0};
    put_request(&body, 1, clock_unix_ns(), 10);
    assert_int_equal(buf_gzip(&packed, body.data, body.size), 0);
    assert_int_equal(ask("POST /v1/traces", PROTOBUF, &body, &out), 200);
    assert_int_equal(spool_statistics(spool).batches, 1);
    assert_int_equal(ask("POST /v1/traces", PROTOBUF "Content-Encoding: gzip\r\n", &packed, &out), 200);
    assert_int_equal(spool_statistics(spool).batches, 1);
    assert_int_equal(spool_statistics(spool).repeats, 1);
    put_request(&body, 2, clock_unix_ns(), 10);
    assert_int_equal(ask("POST /v1/traces", PROTOBUF, &body, &out), 200);
    assert_int_equal(spool_statistics(spool).batches, 2);
}

static void test_rejected_rows_are_reported(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, out = {0};
    put_request(&body, 1, 1, 10);
    assert_int_equal(ask("POST /v1/traces", PROTOBUF, &body, &out), 200);
    assert_non_null(memmem(out.data, out.size, "\x08\x01\x12", 3)); /* one span, a message */
    assert_non_null(strstr(out.data, "application/x-protobuf"));
    assert_int_equal(spool_statistics(spool).batches, 0);
}

/* Its replies are JSON, too. */
static void test_json_is_stored(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, packed = {0}, out = {0};
    buf_printf(&body,
               "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"5b8efff798038103d269b633813fc60c\","
               "\"spanId\":\"eee19b7ec3c1b174\",\"startTimeUnixNano\":\"%llu\"},{}]}]}]}",
               (unsigned long long)clock_unix_ns());
    assert_int_equal(buf_gzip(&packed, body.data, body.size), 0);
    assert_int_equal(ask("POST /v1/traces", JSON "Content-Encoding: gzip\r\n", &packed, &out), 200);
    buf_putc(&out, '\0');
    assert_non_null(strstr(out.data, "Content-Type: application/json\r\n"));
    assert_non_null(strstr(out.data, "{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"its trace id"));
    assert_int_equal(spool_statistics(spool).batches, 1);
    buf_clear(&body);
    buf_puts(&body, "{}");
    assert_int_equal(ask("POST /v1/logs", JSON, &body, &out), 200);
    assert_memory_equal(out.data + out.size - 4, "\r\n{}", 4);
    buf_puts(&body, "x");
    assert_int_equal(ask("POST /v1/metrics", JSON, &body, &out), 400);
    assert_non_null(memmem(out.data, out.size, "{\"message\":\"", 12));
}

/* A request of samples with the empty stack. */
static void put_profile(struct buf *out, uint64_t time_ns, int samples)
{
    struct buf profile = {0}, scope = {0}, resource = {0};
    protobuf_put_fixed64(&profile, PROFILE_TIME_UNIX_NANO, time_ns);
    for (int i = 0; i < samples; i++)
        protobuf_put_bytes(&profile, PROFILE_SAMPLES, "\x22\x01\x07", 3); /* values: 7 */
    protobuf_put_message(&scope, SCOPE_PROFILES_PROFILES, &profile);
    protobuf_put_message(&resource, RESOURCE_PROFILES_SCOPE_PROFILES, &scope);
    protobuf_put_message(out, REQUEST_RESOURCE_PROFILES, &resource);
    buf_clear(&profile);
    buf_clear(&scope);
    buf_clear(&resource);
}

static void test_stacks_are_known_when_they_are_on_disk(void **state)
{
    (void)state;
    const uint64_t now_ns = clock_unix_ns();
    const uint64_t key = known_rows_key(TABLE_PROFILE_STACKS, (uint16_t)(now_ns / 86400000000000ull), 0);
    _cleanup_buf_ struct buf large = {0}, small = {0}, out = {0};
    put_profile(&large, now_ns, 100);
    put_profile(&small, now_ns, 1);
    assert_int_equal(ask("POST /v1development/profiles", PROTOBUF, &large, &out), 503); /* the spool is too small */
    assert_false(known_rows_has(known, key));
    assert_int_equal(ask("POST /v1development/profiles", PROTOBUF, &small, &out), 200);
    assert_true(known_rows_has(known, key));
}

/* The rows of a repeated batch are not stored, so a set that has forgotten them does not learn them from it. */
static void test_repeated_batch_adds_no_known_rows(void **state)
{
    (void)state;
    const uint64_t now_ns = clock_unix_ns();
    const uint64_t key = known_rows_key(TABLE_PROFILE_STACKS, (uint16_t)(now_ns / 86400000000000ull), 0);
    _cleanup_buf_ struct buf body = {0}, out = {0};
    put_profile(&body, now_ns, 1);
    assert_int_equal(ask("POST /v1development/profiles", PROTOBUF, &body, &out), 200);
    known_rows_forget(known);
    assert_int_equal(ask("POST /v1development/profiles", PROTOBUF, &body, &out), 200);
    assert_int_equal(spool_statistics(spool).repeats, 1);
    assert_false(known_rows_has(known, key));
}

static void test_full_spool_is_back_pressure(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, out = {0};
    for (uint64_t i = 1; i < 3; i++) {
        put_request(&body, i, clock_unix_ns(), 1200);
        assert_int_equal(ask("POST /v1/traces", PROTOBUF, &body, &out), i == 1 ? 200 : 503);
    }
    assert_non_null(strstr(out.data, "Retry-After: "));
    assert_non_null(memmem(out.data, out.size, "the server's spool is full", 26));
}

static void test_refused_requests(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, empty = {0}, out = {0};
    static const struct {
        const char *line, *headers, *body;
        int status;
    } requests[] = {
        {"POST /v1/traces", PROTOBUF, "not protobuf", 400},
        {"POST /v1/traces", PROTOBUF "Content-Encoding: gzip\r\n", "not gzip", 400},
        {"POST /v1/traces", PROTOBUF "Content-Encoding: br\r\n", "x", 415},
        {"POST /v1/traces", JSON, "{", 400},
        {"POST /v1/traces", JSON, "", 400},
        {"POST /v1/traces", "Content-Type: application/jsonx\r\n", "{}", 415},
        {"POST /v1development/profiles", JSON, "{}", 415},
        {"POST /v1/traces", "", "x", 415},
        {"POST /v1/other", PROTOBUF, "x", 404},
        {"GET /v1/traces", "", "", 405},
        {"PUT /v1/traces", PROTOBUF, "x", 405},
        {"POST /v1/traces", PROTOBUF "Sec-Fetch-Site: cross-site\r\n", "x", 403},
        {"POST /v1/traces", PROTOBUF "Origin: http://localhost:1\r\n", "x", 403},
        {"POST /v1/traces", PROTOBUF "Origin: null\r\n", "x", 403},
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        buf_clear(&body);
        buf_puts(&body, requests[i].body);
        assert_int_equal(ask(requests[i].line, requests[i].headers, &body, &out), requests[i].status);
    }
    assert_int_equal(ask("POST /v1/traces", PROTOBUF, &empty, &out), 200);
    char own[100];
    snprintf(own, sizeof(own), PROTOBUF "Origin: http://localhost:%u\r\n", listener_port(listener));
    assert_int_equal(ask("POST /v1/traces", own, &empty, &out), 200);
    assert_int_equal(spool_statistics(spool).batches, 0);
}

static void test_large_bodies_are_refused(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, packed = {0}, out = {0};
    char *zeros = calloc(1, RECEIVER_BODY_MAX_BYTES + 1);
    buf_append(&body, zeros, RECEIVER_BODY_MAX_BYTES + 1);
    free(zeros);
    assert_int_equal(buf_gzip(&packed, body.data, body.size), 0);
    assert_int_equal(ask("POST /v1/traces", PROTOBUF "Content-Encoding: gzip\r\n", &packed, &out), 413);
}

static void test_only_some_requests_are_decoded_at_once(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, out = {0};
    put_request(&body, 1, clock_unix_ns(), 10);
    for (int i = 0; i < RECEIVER_DECODERS; i++)
        assert_int_equal(sem_trywait(&receiver.decoders), 0);
    assert_int_equal(ask("POST /v1/traces", PROTOBUF, &body, &out), 503);
    assert_non_null(strstr(out.data, "Retry-After: "));
    assert_int_equal(sem_post(&receiver.decoders), 0);
    for (int i = 0; i < 2; i++) /* each gives its turn back */
        assert_int_equal(ask("POST /v1/traces", PROTOBUF, &body, &out), 200);
    assert_int_equal(receiver.waiting_bytes, 0);
}

/* ---- gRPC ---- */

static struct grpc_reply call(const char *service, const char *encoding, const struct buf *message)
{
    const struct sockaddr_in client = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct grpc_call call = {.encoding = encoding,
                             .message = cursor_make(message->data, message->size),
                             .client = (const struct sockaddr *)&client};
    snprintf(call.method, sizeof(call.method), "/opentelemetry.proto.collector.%s/Export", service);
    otlp_grpc_answer(&receiver, &call);
    return call.reply;
}

#define TRACES "trace.v1.TraceService"

static void test_calls_store_batches_once(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, packed = {0}, out = {0};
    put_request(&body, 1, clock_unix_ns(), 10);
    assert_int_equal(buf_gzip(&packed, body.data, body.size), 0);
    const struct grpc_reply plain = call(TRACES, NULL, &body), gzip = call(TRACES, "gzip", &packed);
    assert_int_equal(plain.status, GRPC_OK);
    assert_int_equal(plain.message.size, 0);
    assert_int_equal(gzip.status, GRPC_OK);
    assert_int_equal(ask("POST /v1/traces", PROTOBUF, &body, &out), 200); /* a retry over HTTP is the same batch */
    assert_int_equal(spool_statistics(spool).batches, 1);
    assert_int_equal(spool_statistics(spool).repeats, 2);
}

static void test_calls_report_rejected_rows(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0};
    put_request(&body, 1, 1, 10);
    struct grpc_reply reply = call(TRACES, NULL, &body);
    assert_int_equal(reply.status, GRPC_OK);
    assert_non_null(memmem(reply.message.data, reply.message.size, "\x08\x01\x12", 3)); /* one span, a message */
    buf_clear(&reply.message);
}

static void test_calls_that_cannot_be_stored(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0}, bad = {0}, bomb = {0};
    buf_puts(&bad, "no protobuf");
    put_request(&body, 1, clock_unix_ns(), 1200);
    assert_int_equal(call("other.v1.Service", NULL, &body).status, GRPC_UNIMPLEMENTED);
    assert_int_equal(call(TRACES, "br", &body).status, GRPC_UNIMPLEMENTED);
    assert_int_equal(call(TRACES, NULL, &bad).status, GRPC_INVALID_ARGUMENT);
    assert_int_equal(call(TRACES, "zstd", &bad).status, GRPC_INVALID_ARGUMENT);
    char *zeros = calloc(1, RECEIVER_BODY_MAX_BYTES + 1);
    assert_int_equal(buf_gzip(&bomb, zeros, RECEIVER_BODY_MAX_BYTES + 1), 0);
    free(zeros);
    assert_int_equal(call(TRACES, "gzip", &bomb).status, GRPC_INVALID_ARGUMENT);
    assert_int_equal(call("profiles.v1development.ProfilesService", NULL, &bad).status, GRPC_INVALID_ARGUMENT);
    assert_int_equal(spool_statistics(spool).batches, 0);
}

static void test_calls_get_back_pressure(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf body = {0};
    struct grpc_reply reply = {0};
    for (uint64_t i = 1; i < 3; i++) {
        put_request(&body, i, clock_unix_ns(), 1200);
        reply = call(TRACES, NULL, &body);
        assert_int_equal(reply.status, i == 1 ? GRPC_OK : GRPC_RESOURCE_EXHAUSTED);
    }
    assert_int_equal(reply.retry_after_s, RECEIVER_RETRY_S);
    for (int i = 0; i < RECEIVER_DECODERS; i++)
        assert_int_equal(sem_trywait(&receiver.decoders), 0);
    reply = call(TRACES, NULL, &body);
    assert_int_equal(reply.status, GRPC_UNAVAILABLE);
    assert_int_equal(reply.retry_after_s, RECEIVER_RETRY_S);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_batches_are_stored_once),
        TEST(test_rejected_rows_are_reported),
        TEST(test_stacks_are_known_when_they_are_on_disk),
        TEST(test_repeated_batch_adds_no_known_rows),
        TEST(test_full_spool_is_back_pressure),
        TEST(test_refused_requests),
        TEST(test_json_is_stored),
        TEST(test_large_bodies_are_refused),
        TEST(test_only_some_requests_are_decoded_at_once),
        TEST(test_calls_store_batches_once),
        TEST(test_calls_report_rejected_rows),
        TEST(test_calls_that_cannot_be_stored),
        TEST(test_calls_get_back_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
