/* Mode opentelemetry without a network: which packets are sent, their contents, and the counters when they are not
 * delivered. Real receivers: tests/e2e/test_traces_otel.py, tests/faults/test_trace_receivers.py. */
#include "fixture.h"
#include "keeping_receiver.h"
#include "transport.h"

#include "../../allocations.h"
#include "trace/encoding.h"
#include "trace/format.h"

#include <errno.h>
#include <sys/wait.h>

static int open_manager(struct fixture *f, const char *const *settings, char *why)
{
    struct sonde_trace_config *config;
    const struct sonde_trace_options options = {.size = sizeof(options), .on_error = fixture_on_error, .argument = f};
    *f = (struct fixture){0};
    receiver = (struct receiver){0};
    assert_int_equal(sonde_trace_config_new(&config), 0);
    for (; *settings; settings++)
        assert_int_equal(sonde_trace_config_set(config, "--trace-config", *settings, NULL, 0), 0);
    int r = trace_manager_new(config, &options, &keeping, &f->manager, why, SONDE_TRACE_WHY_SIZE);
    sonde_trace_config_free(config);
    if (r == 0)
        assert_int_equal(sonde_trace_model_new(f->manager, "m", 1, &f->model), 0);
    return r;
}

#define otel_open(f, ...)                                                                                              \
    assert_int_equal(                                                                                                  \
        open_manager((f),                                                                                              \
                     (const char *const[]){"mode=opentelemetry", "rate=1", "level=TIMESTAMPS", __VA_ARGS__, NULL},     \
                     (char[SONDE_TRACE_WHY_SIZE]){""}),                                                                \
        0)
#define SOON  "opentelemetry,bsp_schedule_delay=1"
#define LATER "opentelemetry,bsp_schedule_delay=600000"

static void otel_close(struct fixture *f)
{
    sonde_trace_model_free(f->model);
    sonde_trace_manager_free(f->manager);
    assert_int_equal(receiver.opened, receiver.closed);
    for (int i = 0; i < receiver.posts; i++)
        free(receiver.text[i]);
}

static void flush(struct fixture *f)
{
    assert_int_equal(sonde_trace_manager_flush(f->manager, 60000), 0);
}

static int count_of(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void one(struct fixture *f)
{
    struct sonde_trace *t = sonde_trace_start(f->model, NULL);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_START);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_END);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_END);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
}

/* --- spans ----------------------------------------------------------------------------------- */

/* name, parent's name, start, end, of all spans of a tree that has not been ended yet. */
static void expect_spans(struct sonde_trace *root, const char *expected)
{
    struct trace_spans s = {0};
    char text[2048];
    size_t used = 0;
    root->begin_ns = 100;
    root->end_ns = 900;
    trace_spans_make(&s, root->tree);
    assert_false(s.failed);
    assert_int_equal(trace_spans_count(root->tree), s.count);
    for (uint32_t i = 0; i < s.count; i++) {
        const struct trace_span *span = &s.spans[i], *above = NULL;
        for (uint32_t j = 0; j < s.count; j++)
            above = s.spans[j].id == span->parent_id ? &s.spans[j] : above;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s<%.*s %d-%d", (int)span->name_size, span->name,
                                 above ? (int)above->name_size : 0, above ? above->name : "", (int)span->start_ns,
                                 (int)span->end_ns);
        for (uint32_t e = span->first_event; e != TRACE_NO_EVENT; e = s.events[e].next) {
            size_t size;
            const char *name = trace_record_name(s.events[e].record, &size);
            used += (size_t)snprintf(text + used, sizeof(text) - used, " %.*s", (int)size, name);
        }
        used += (size_t)snprintf(text + used, sizeof(text) - used, "\n");
    }
    assert_string_equal(text, expected);
    trace_spans_free(&s);
}

static void test_timestamp_pairs_become_spans(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, SOON);
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    sonde_trace_timestamp_at(t, SONDE_TRACE_HTTP_RECV_START, 50);
    sonde_trace_timestamp_at(t, SONDE_TRACE_REQUEST_START, 110);
    sonde_trace_custom_at(t, "PRE_START", 120);
    sonde_trace_custom_at(t, "moment", 125);
    sonde_trace_custom_at(t, "PRE_END", 130);
    sonde_trace_timestamp_at(t, SONDE_TRACE_COMPUTE_START, 200);
    sonde_trace_custom_at(t, "A_START", 210);
    sonde_trace_custom_at(t, "B_START", 220);
    sonde_trace_custom_at(t, "A_END", 230); /* not in order of their starts */
    sonde_trace_custom_at(t, "B_END", 240);
    sonde_trace_timestamp_at(t, SONDE_TRACE_COMPUTE_END, 300);
    sonde_trace_custom_at(t, "NEVER_END", 310);
    sonde_trace_custom_at(t, "_START", 320); /* nothing is left of its name */
    sonde_trace_custom_at(t, "OPEN_START", 330);
    sonde_trace_timestamp_at(t, SONDE_TRACE_REQUEST_END, 400);
    expect_spans(t, "InferRequest< 50-900 HTTP_RECV_START\n"
                    "m<InferRequest 110-400 REQUEST_START NEVER_END _START REQUEST_END\n"
                    "PRE<m 120-130 moment\n"
                    "compute<m 200-300 COMPUTE_START COMPUTE_END\n"
                    "A<compute 210-230\n"
                    "B<A 220-240\n"
                    "OPEN<m 330-400\n");
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    otel_close(&f);
}

static void test_child_spans_lie_within_the_parent(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_model *inner;
    otel_open(&f, SOON);
    assert_int_equal(sonde_trace_model_new(f.manager, "inner", 1, &inner), 0);
    struct sonde_trace *t = sonde_trace_start(f.model, NULL), *a = sonde_trace_child(t, inner),
                       *b = sonde_trace_child(a, inner);
    sonde_trace_timestamp_at(a, SONDE_TRACE_REQUEST_START, 200);
    sonde_trace_timestamp_at(a, SONDE_TRACE_REQUEST_END, 1200); /* outlives its parent */
    sonde_trace_timestamp_at(b, SONDE_TRACE_COMPUTE_START, 300);
    b->begin_ns = 250;
    b->end_ns = 800; /* COMPUTE_END never came */
    expect_spans(t, "InferRequest< 100-1200\n"
                    "m<InferRequest 100-900\n"
                    "inner<m 200-1200 REQUEST_START REQUEST_END\n"
                    "inner<inner 250-800\n"
                    "compute<inner 300-800 COMPUTE_START\n");
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    sonde_trace_end(a, SONDE_TRACE_OK, NULL);
    sonde_trace_end(b, SONDE_TRACE_OK, NULL);
    sonde_trace_model_free(inner);
    otel_close(&f);
}

static void test_refused_request_has_only_a_root_span(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, SOON);
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    sonde_trace_timestamp_at(t, SONDE_TRACE_GRPC_WAITREAD_START, 150);
    expect_spans(t, "InferRequest< 100-900 GRPC_WAITREAD_START\n");
    sonde_trace_end(t, SONDE_TRACE_CANCELLED, NULL);
    flush(&f);
    assert_non_null(strstr(receiver.text[0], "\"status\":{\"code\":2,\"message\":\"cancelled\"}"));
    otel_close(&f);
}

/* The status is an error, its message the server's: an attribute distinguishes failed from cancelled. */
static void test_cancelled_request_is_marked(void **state)
{
    (void)state;
    static const char attribute[] = "{\"key\":\"triton.cancelled\",\"value\":{\"boolValue\":true}}";
    struct fixture f;
    otel_open(&f, SOON);
    for (int i = 0; i < 2; i++) {
        struct sonde_trace *t = sonde_trace_start(f.model, NULL);
        sonde_trace_timestamp_at(t, SONDE_TRACE_REQUEST_START, 150);
        sonde_trace_end(t, i == 0 ? SONDE_TRACE_CANCELLED : SONDE_TRACE_ERROR, "the client has gone");
    }
    flush(&f);
    char *cancelled = strstr(receiver.text[0], attribute);
    assert_non_null(cancelled);
    assert_null(strstr(cancelled + 1, attribute));
    otel_close(&f);
}

static void test_context_is_propagated(void **state)
{
    (void)state;
    struct fixture f;
    char header[SONDE_TRACE_PARENT_SIZE], inner[SONDE_TRACE_PARENT_SIZE], span[64];
    const char *list = "untouched";
    struct sonde_trace_request request = {sizeof(request),
                                          .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
                                          .tracestate = "a=1,b@c=2"};
    otel_open(&f, SOON);
    assert_int_equal(sonde_trace_context(NULL, header, &list), -ENOENT);
    assert_string_equal(list, "untouched");
    struct sonde_trace *t = sonde_trace_start(f.model, &request), *child = sonde_trace_child(t, f.model);
    assert_int_equal(sonde_trace_context(t, header, &list), 0);
    assert_memory_equal(header, "00-0af7651916cd43dd8448eb211c80319c-", 36);
    assert_string_equal(header + 52, "-03");
    assert_string_equal(list, "a=1,b@c=2");
    assert_int_equal(sonde_trace_context(child, inner, &list), 0);
    assert_memory_not_equal(header + 36, inner + 36, 16);
    sonde_trace_end(child, SONDE_TRACE_OK, NULL);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    flush(&f);
    request.size = offsetof(struct sonde_trace_request, tracestate); /* a program compiled without this field */
    t = sonde_trace_start(f.model, &request);
    assert_int_equal(sonde_trace_context(t, inner, &list), 0);
    assert_null(list);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    flush(&f);
    snprintf(span, sizeof(span), "\"spanId\":\"%.16s\"", header + 36); /* the model's */
    assert_int_equal(count_of(receiver.text[0], span), 1);
    assert_int_equal(count_of(receiver.text[0], "\"parentSpanId\":\"b7ad6b7169203331\""), 1);
    assert_int_equal(count_of(receiver.text[0], "\"traceState\":\"a=1,b@c=2\""), 3);
    otel_close(&f);

    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    t = sonde_trace_start(f.model, &request);
    assert_int_equal(sonde_trace_context(t, header, &list), -ENOENT);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    fixture_close(&f);
}

/* `foo=1` and another member, whose key has that many letters before and after an @ (0: no @). */
static bool is_valid_with_key(int before, int behind)
{
    char text[600], z[300];
    memset(z, 'z', sizeof(z));
    snprintf(text, sizeof(text), "foo=1,%.*s%s%.*s=1", before, z, behind ? "@" : "", behind, z);
    return sonde_trace_state_is_valid(text);
}

static bool is_valid_with_value(int size)
{
    char text[600];
    snprintf(text, sizeof(text), "foo=%*s", size, "z");
    return sonde_trace_state_is_valid(text);
}

static void test_tracestate_is_validated(void **state)
{
    (void)state;
    /* From the W3C's test suite (trace-context/test/test.py), which still has Level 1's rules for an @: in Level 2 it
     * is an ordinary character, but not the first. */
    static const char *const good[] = {"foo=1",
                                       "foo=1,bar=2",
                                       "foo=1 \t , \t bar=2, \t baz=3",
                                       "foo=1,",
                                       ",foo=1",
                                       "foo=1, ,b=2",
                                       " foo=1\t",
                                       "foo@bar=1",
                                       "0foo=1",
                                       "0=1",
                                       "a-_*/b=x y",
                                       "t@v=1,u@v=2",
                                       "foo@=1",
                                       "foo@@bar=1",
                                       "foo@bar@baz=1",
                                       "foo@12345678901234x=1",
                                       "foo@bar=1,foo=2",
                                       "foo= 1",
                                       "0@v=1"};
    static const char *const bad[] = {"",       " ",       ",",          "foo",      "foo=1,foo=2", "0=1,a=2,0=1",
                                      "foo =1", "FOO=1",   "@foo=1",     "foo=1=2",  "foo=b\x01r",  "foo=b\tr",
                                      "foo=",   "foo=,,",  "foo=b\x80r", "foo=\x7f", "-foo=1",      "fo.o=1",
                                      "=1",     "foo=1,=", "foo=1;b=2",  "fo\to=1"};
    char many[512] = "";
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!sonde_trace_state_is_valid(good[i]))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (sonde_trace_state_is_valid(bad[i]))
            fail_msg("%s", bad[i]);
    assert_false(sonde_trace_state_is_valid(NULL) || trace_state_is_valid("fo\0o=1", 7));
    assert_true(is_valid_with_key(256, 0) && is_valid_with_key(241, 14) && is_valid_with_key(1, 254));
    assert_false(is_valid_with_key(257, 0) || is_valid_with_key(242, 14) || is_valid_with_key(1, 255));
    assert_true(is_valid_with_value(256));
    assert_false(is_valid_with_value(257));
    char all[200] = "abcdefghijklmnopqrstuvwxyz0123456789_-*/@a-z0-9_-*/=";
    size_t size = strlen(all);
    for (char c = 0x20; c <= 0x7e; c++)
        if (c != ',' && c != '=')
            all[size++] = c;
    assert_true(trace_state_is_valid(all, size));
    for (int i = 1; i <= 33; i++) {
        snprintf(many + strlen(many), sizeof(many) - strlen(many), "k%d=1,", i);
        assert_int_equal(trace_state_is_valid(many, strlen(many)), i <= 32);
    }
}

static void test_messages_contain_no_secrets(void **state)
{
    (void)state;
    static const char *const urls[][2] = {
        {"http://localhost:4318/v1/traces", "http://localhost:4318/v1/traces"},
        {"https://user:p@ss@collector/v1/traces?api-key=s#x", "https://collector/v1/traces"},
        {"http://token@[::1]:4318", "http://[::1]:4318"},
        {"http://me:pa/hidden@host:4318/v1/traces", "http://host:4318/v1/traces"},
        {"http://me:hidden#x@host:4318/", "http://host:4318/"},
        {"http://me:hidden?x@host", "http://host"},
        {"http://host/a?b", "http://host/a"},
        {"user:pass@host", "host"},
        {"", ""},
    };
    char shown[OTLP_URL_SHOWN_SIZE], longest[1000];
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        otlp_url_shown(urls[i][0], shown);
        assert_string_equal(shown, urls[i][1]);
    }
    memset(longest, 'u', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    otlp_url_shown(longest, shown);
    assert_int_equal(strlen(shown), sizeof(shown) - 1);
}

/* --- batches --------------------------------------------------------------------------------- */

static void test_batch_size(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, LATER, "opentelemetry,bsp_max_export_batch_size=7");
    one(&f); /* wakes the thread, which then sleeps */
    flush(&f);
    for (int i = 0; i < 6; i++)
        one(&f);
    flush(&f);
    assert_int_equal(fixture_stats(&f).written, 7);
    int spans = 0;
    for (int i = 0; i < receiver.posts; i++) {
        assert_in_range(count_of(receiver.text[i], "\"spanId\""), 1, 7);
        spans += count_of(receiver.text[i], "\"spanId\"");
    }
    assert_int_equal(spans, 21);
    otel_close(&f);
}

/* A request larger than a batch is sent in parts, and is lost when one of them is. */
static void test_large_requests_are_split(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, SOON, "opentelemetry,bsp_max_export_batch_size=4");
    for (int round = 0; round < 2; round++) {
        receiver.answers[1 + round * 3] = round ? 400 : 0;
        struct sonde_trace *t = sonde_trace_start(f.model, NULL);
        for (int i = 0; i < 8; i++) {
            sonde_trace_custom(t, "X_START");
            sonde_trace_custom(t, "X_END");
        }
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        flush(&f);
        assert_int_equal(receiver.posts, 3 + round * 3);
    }
    for (int i = 0; i < receiver.posts; i++)
        assert_int_equal(count_of(receiver.text[i], "\"spanId\""), i % 3 < 2 ? 4 : 2);
    assert_int_equal(fixture_stats(&f).written, 1);
    assert_int_equal(fixture_stats(&f).dropped_write, 1);
    assert_int_equal(f.errors, 1);
    otel_close(&f);
}

static void test_busy_receiver_is_retried(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, SOON);
    receiver.answers[0] = 503;
    receiver.answers[1] = -ECONNREFUSED;
    one(&f);
    flush(&f);
    struct sonde_trace_stats s = fixture_stats(&f);
    assert_int_equal(receiver.posts, 3);
    assert_int_equal(s.written, 1);
    assert_int_equal(s.write_errors, 2);
    assert_int_equal(f.errors, 0); /* nothing is lost */
    assert_string_equal(receiver.text[0], receiver.text[2]);
    otel_close(&f);
}

static void test_losses_are_reported_once(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, SOON);
    for (int i = 0; i < 3; i++)
        receiver.answers[i] = 400;
    for (int i = 0; i < 4; i++) {
        one(&f);
        flush(&f);
    }
    assert_int_equal(f.errors, 1);
    assert_string_equal(f.message, "OpenTelemetry receiver http://localhost:4318/v1/traces: spans are lost: "
                                   "HTTP status 400");
    assert_int_equal(fixture_stats(&f).dropped_write, 3);
    assert_int_equal(fixture_stats(&f).written, 1);
    otel_close(&f);
}

static void test_the_environment_chooses_protobuf_and_headers(void **state)
{
    (void)state;
    struct fixture f;
    setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", 1);
    setenv("OTEL_EXPORTER_OTLP_HEADERS", "k=v", 1);
    otel_open(&f, SOON);
    assert_string_equal(receiver.content_type, "application/x-protobuf");
    assert_string_equal(receiver.headers, "k=v");
    otel_close(&f);
    setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", 1);
    otel_open(&f, SOON);
    assert_string_equal(receiver.content_type, "application/json");
    otel_close(&f);
    unsetenv("OTEL_EXPORTER_OTLP_PROTOCOL");
    unsetenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
    unsetenv("OTEL_EXPORTER_OTLP_HEADERS");
}

static void test_invalid_url_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    char why[SONDE_TRACE_WHY_SIZE] = "";
    const char *const settings[] = {"mode=opentelemetry", "opentelemetry,url=http://bad", NULL};
    assert_int_equal(open_manager(&f, settings, why), -EINVAL);
    assert_string_equal(why, "Bad option: \"--trace-config opentelemetry,url\".\nbad: http://bad");
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    struct fixture f;
    int n = 0;
    otel_open(&f, SOON);
    for (bool failed = true; failed; n++) {
        struct sonde_trace_request request = {sizeof(request), "id", 2,
                                              "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b"};
        allocations_fail_at((size_t)n);
        struct sonde_trace *t = sonde_trace_start(f.model, &request), *child = sonde_trace_child(t, f.model);
        for (int i = 0; i < 40; i++)
            sonde_trace_custom(child, i % 2 ? "X_END" : "X_START");
        sonde_trace_end(child, SONDE_TRACE_ERROR, "why");
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        flush(&f);
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        struct sonde_trace_stats s = fixture_stats(&f);
        assert_int_equal(s.written + s.dropped_write + s.dropped_queue, n + 1);
        assert_int_equal(receiver.posts, s.written);
    }
    assert_in_range(n, 5, 200);
    otel_close(&f);
}

static void test_forked_child_has_its_own_connection_and_ids(void **state)
{
    (void)state;
    fixture_need_threads_after_fork();
    struct fixture f;
    int result[2], status = -1;
    char theirs[64] = "", ours[SONDE_TRACE_PARENT_SIZE];
    const char *list;
    assert_int_equal(pipe(result), 0);
    otel_open(&f, SOON);
    one(&f);
    flush(&f);
    int opened = receiver.opened;
    pid_t pid = fork();
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    sonde_trace_context(t, ours, &list);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    bool sent = sonde_trace_manager_flush(f.manager, 60000) == 0;
    if (pid == 0)
        _exit(sent && write(result[1], ours, sizeof(ours)) == sizeof(ours) && receiver.opened == opened + 1 &&
                      fixture_stats(&f).written == 1
                  ? 0
                  : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(result[0], theirs, sizeof(ours)), sizeof(ours));
    assert_memory_not_equal(ours + 3, theirs + 3, 32);
    assert_memory_not_equal(ours + 36, theirs + 36, 16);
    close(result[0]);
    close(result[1]);
    otel_close(&f);
}

#define THREADS  16
#define REQUESTS 200

static void *serve(void *argument)
{
    for (int i = 0; i < REQUESTS; i++)
        one(argument);
    return NULL;
}

/* Several threads fill the queue: every request is delivered or counted. */
static void test_many_threads_lose_nothing_uncounted(void **state)
{
    (void)state;
    struct fixture f;
    pthread_t threads[THREADS];
    otel_open(&f, SOON, "opentelemetry,bsp_max_queue_size=2000", "opentelemetry,bsp_max_export_batch_size=300");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, serve, &f), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    flush(&f);
    struct sonde_trace_stats s = fixture_stats(&f);
    int spans = 0;
    assert_int_equal(s.sampled, THREADS * REQUESTS);
    assert_int_equal(s.written + s.dropped_queue + s.dropped_write, s.sampled);
    for (int i = 0; i < receiver.posts; i++) {
        assert_in_range(count_of(receiver.text[i], "\"spanId\""), 1, 300);
        spans += count_of(receiver.text[i], "\"spanId\"");
    }
    assert_true(s.written > 0);
    if (s.dropped_write == 0) /* all posts were kept */
        assert_int_equal(spans, 3 * s.written);
    otel_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timestamp_pairs_become_spans),
        cmocka_unit_test(test_child_spans_lie_within_the_parent),
        cmocka_unit_test(test_refused_request_has_only_a_root_span),
        cmocka_unit_test(test_cancelled_request_is_marked),
        cmocka_unit_test(test_context_is_propagated),
        cmocka_unit_test(test_tracestate_is_validated),
        cmocka_unit_test(test_messages_contain_no_secrets),
        cmocka_unit_test(test_batch_size),
        cmocka_unit_test(test_large_requests_are_split),
        cmocka_unit_test(test_busy_receiver_is_retried),
        cmocka_unit_test(test_losses_are_reported_once),
        cmocka_unit_test(test_the_environment_chooses_protobuf_and_headers),
        cmocka_unit_test(test_invalid_url_is_refused),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_many_threads_lose_nothing_uncounted),
        cmocka_unit_test(test_forked_child_has_its_own_connection_and_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
