/* How the BPF program reads streams and requests (probes/request/stream_scan.h): counts of events and tokens, wherever
 * chunks begin and end; and the model that a request names. */
#include <linux/types.h>

#include "probes/request/stream_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

static struct stream_scan scan(enum stream_place place, const char *text, size_t bytes)
{
    struct stream_scan s = {0};
    stream_scan_begin(&s, place);
    for (size_t i = 0; i < bytes; i++)
        stream_scan_byte(&s, (uint8_t)text[i]);
    return s;
}

static void expect_body(const char *text, unsigned chunks, unsigned tokens, unsigned usage)
{
    const struct stream_scan s = scan(STREAM_PLACE_BODY, text, strlen(text));
    if (s.chunks != chunks || s.tokens != tokens || s.usage != usage)
        fail_msg("%u chunks, %u tokens, usage %u in: %s", s.chunks, s.tokens, s.usage, text);
}

static void test_events_with_text_are_tokens(void **state)
{
    (void)state;
    expect_body("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", 1, 1, 0);
    expect_body("data: {\"delta\": {\"content\" : \"a\"}}\n\n", 1, 1, 0);
    expect_body("data: {\"choices\":[{\"text\":\"\\\"\"}]}\n\n", 1, 1, 0);
    expect_body("data: {\"reasoning_content\":\"a\"}\r\n\r\n", 1, 1, 0);
    expect_body("data: {\"token\":{\"id\":7,\"text\":\"a\"}}\r\r", 1, 1, 0);
    expect_body("event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n", 1, 1, 0);
    expect_body("data: {\"model_name\":\"m\",\"text_output\":\"a\"}\n\n", 1, 1, 0);
    expect_body("data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n", 1, 1, 0);
    expect_body("data: {\"tool_calls\":[{\"function\":{\"arguments\":\"{\\\"\"}}],\"content\":null}\n\n", 1, 1, 0);
}

static void test_events_without_text_are_none(void **state)
{
    (void)state;
    expect_body("data: {\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}\n\n", 1, 0, 0);
    expect_body("data: {\"content\":null,\"refusal\":\"no\"}\n\n", 1, 0, 0);
    expect_body("data: {\"type\":\"text\",\"context\":\"a\"}\n\n", 1, 0, 0);
    expect_body("data: {\"say\":\"\\\"content\\\":\\\"a\"}\n\n", 1, 0, 0);
    expect_body("data: hello\n\n", 1, 0, 0);
    expect_body("data: [DONE]\n\ndata:[DONE]\n\n", 0, 0, 0);
    expect_body("data: [DONE] or not\n\n", 1, 0, 0);
}

static void test_only_data_makes_an_event(void **state)
{
    (void)state;
    expect_body(": ping\n\n\n\nevent: a\nid: 7\n\nretry: 10\n\n", 0, 0, 0);
    expect_body("data: a\ndata: b\n\ndata\n\n", 1, 0, 0);
    expect_body("datas: a\n\n data: a\n\ndata: not ended\n", 0, 0, 0);
    expect_body("data:\n\n", 1, 0, 0);
}

static void test_usage_is_the_last_number(void **state)
{
    (void)state;
    expect_body("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\": 96,"
                "\"completion_tokens_details\":{\"reasoning_tokens\":5}}}\n\n",
                1, 0, 96);
    expect_body("data: {\"usage\":{\"completion_tokens\":1}}\n\ndata: {\"usage\":{\"output_tokens\":2}}\n\n", 2, 0, 2);
    expect_body("data: {\"usage\":null,\"completion_tokens\":\"7\"}\n\n", 1, 0, 0);
    expect_body("data: {\"completion_tokens\":99999999999999999999}\n\n", 1, 0, 999999999);
}

static void expect_reply(const char *text, enum stream_place place, unsigned chunks)
{
    const struct stream_scan s = scan(STREAM_PLACE_HEAD, text, strlen(text));
    assert_int_equal(s.place, place);
    assert_int_equal(s.chunks, chunks);
}

static void test_header_of_a_reply(void **state)
{
    (void)state;
    expect_reply(HEAD "\r\ndata: a\n\n", STREAM_PLACE_BODY, 1);
    expect_reply("HTTP/1.1 200 OK\ncontent-type:text/event-stream\n\ndata: a\n\n", STREAM_PLACE_BODY, 1);
    expect_reply(HEAD CHUNKED "\r\n9;x=\"1\"\r\ndata: a\n\n\r\n0\r\n\r\n", STREAM_PLACE_END, 1);
    expect_reply(HEAD CHUNKED "X-A: data: a\r\n\r\n00A\r\ndata: a\n\nd\r\n7\r\nata: b\n\r\n1\r\n\n\r\n",
                 STREAM_PLACE_SIZE, 2);
    expect_reply("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\ndata: a\n\n", STREAM_PLACE_NONE, 0);
    expect_reply("HTTP/1.1 200 OK\r\nX: a;content-type:text/event-stream\r\n\r\ndata: a\n\n", STREAM_PLACE_NONE, 0);
    expect_reply(HEAD CHUNKED "\r\n9 \r\ndata: a\n\n\r\nno size\r\n", STREAM_PLACE_LOST, 1);
    expect_reply(HEAD CHUNKED "\r\nffffffffff\r\n", STREAM_PLACE_LOST, 0);
    expect_reply(HEAD, STREAM_PLACE_HEAD, 0);
}

static void test_bytes_that_were_not_read(void **state)
{
    (void)state;
    struct stream_scan s = scan(STREAM_PLACE_SIZE, "100\r\ndata: {\"content\":\"a", 24);
    stream_scan_skip(&s, 256 - 19 + 2); /* to the end of the chunk's line */
    assert_int_equal(s.place, STREAM_PLACE_SIZE);
    assert_int_equal(s.tokens, 1);
    s = scan(STREAM_PLACE_SIZE, "100\r\ndata: ", 11);
    stream_scan_skip(&s, 1000);
    assert_int_equal(s.place, STREAM_PLACE_LOST);
    s = scan(STREAM_PLACE_BODY, "data: a", 7);
    stream_scan_skip(&s, 1000000);
    assert_int_equal(s.chunks, 1);
    assert_int_equal(s.place, STREAM_PLACE_BODY);
}

/* ---- generated streams ---- */

struct stream_text {
    char data[65536];
    size_t bytes;
    unsigned chunks, tokens;
};

static void put(struct stream_text *t, const char *text)
{
    const size_t bytes = strlen(text);
    assert_true(t->bytes + bytes < sizeof(t->data));
    memcpy(t->data + t->bytes, text, bytes);
    t->bytes += bytes;
}

static void make_events(struct stream_text *t, unsigned *seed)
{
    static const struct {
        const char *data;
        unsigned chunks, tokens;
    } lines[] = {{"data: {\"choices\":[{\"delta\":{\"content\":\"a \\\"b\\\" [DONE]\"}}]}", 1, 1},
                 {"data:{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}", 1, 0},
                 {"data: [DONE]", 0, 0},
                 {": a comment, \"content\":\"x\"", 0, 0},
                 {"id: data: 7", 0, 0},
                 {"data: plain \x01\xff text", 1, 0}};
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    for (int events = rand_r(seed) % 50; events > 0; events--) {
        const unsigned i = (unsigned)rand_r(seed) % (sizeof(lines) / sizeof(lines[0]));
        const char *end = ends[rand_r(seed) % 3];
        put(t, lines[i].data);
        put(t, end);
        put(t, end);
        t->chunks += lines[i].chunks;
        t->tokens += lines[i].tokens;
    }
}

static void cut_into_chunks(const struct stream_text *from, struct stream_text *to, unsigned *seed)
{
    char size[32];
    for (size_t at = 0, bytes; at < from->bytes; at += bytes) {
        bytes = 1 + (size_t)rand_r(seed) % (rand_r(seed) % 2 ? 3 : 300);
        bytes = bytes < from->bytes - at ? bytes : from->bytes - at;
        snprintf(size, sizeof(size), rand_r(seed) % 2 ? "%zx\r\n" : "%zX;a=b\r\n", bytes);
        put(to, size);
        assert_true(to->bytes + bytes < sizeof(to->data));
        memcpy(to->data + to->bytes, from->data + at, bytes);
        to->bytes += bytes;
        put(to, "\r\n");
    }
    put(to, "0\r\n\r\n");
}

static void test_generated_streams_are_counted(void **state)
{
    static struct stream_text plain, chunked;
    (void)state;
    for (unsigned round = 1; round <= 2000; round++) {
        unsigned seed = round;
        plain.bytes = chunked.bytes = plain.chunks = plain.tokens = 0;
        make_events(&plain, &seed);
        cut_into_chunks(&plain, &chunked, &seed);
        const struct stream_scan body = scan(STREAM_PLACE_BODY, plain.data, plain.bytes),
                                 chunks = scan(STREAM_PLACE_SIZE, chunked.data, chunked.bytes);
        if (body.chunks != plain.chunks || body.tokens != plain.tokens || chunks.chunks != plain.chunks ||
            chunks.tokens != plain.tokens || chunks.place != STREAM_PLACE_END)
            fail_msg("round %u: %u chunks, %u tokens instead of %u, %u", round, body.chunks, body.tokens, plain.chunks,
                     plain.tokens);
    }
}

/* ---- requests ---- */

static void expect_model(const char *body, const char *model)
{
    char text[1024];
    const int bytes = snprintf(text, sizeof(text), "POST /v1/completions HTTP/1.1\r\nHost: a\r\n\r\n%s", body);
    const struct stream_scan s = scan(STREAM_PLACE_REQUEST, text, (size_t)bytes);
    assert_int_equal(s.model_bytes, strlen(model));
    assert_memory_equal(s.model, model, s.model_bytes);
}

static void test_model_of_a_request(void **state)
{
    (void)state;
    expect_model("{\"model\":\"meta/llama-3.1-8b\",\"prompt\":\"a\"}", "meta/llama-3.1-8b");
    expect_model("{ \"messages\" : [{\"model\":\"no\",\"content\":\"\\\"model\\\":\\\"no\"}], \"model\" : \"m\"}", "m");
    expect_model("{\"metadata\":{\"model\":\"no\"},\"say\":\"model\",\"model\":7}", "");
    expect_model("[\"model\",\"no\"]", "");
    expect_model("{\"model\":\"a\\u0000\"}", "");
    expect_model("{\"model\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

static void expect_beginning(const char *text, enum stream_beginning wanted)
{
    char first[STREAM_BEGINNING_BYTES] = {0};
    const size_t bytes = strlen(text) < sizeof(first) ? strlen(text) : sizeof(first);
    memcpy(first, text, bytes);
    assert_int_equal(stream_find_beginning(first, (uint32_t)bytes), wanted);
}

static void test_beginning_of_a_stream(void **state)
{
    (void)state;
    expect_beginning("data: a\n\n", STREAM_BEGINS_EVENT);
    expect_beginning("event: a", STREAM_BEGINS_EVENT);
    expect_beginning(": ping\n\n", STREAM_BEGINS_EVENT);
    expect_beginning("1a\r\ndata: {\"id\":1}", STREAM_BEGINS_CHUNK);
    expect_beginning("0000001a\r\ndata: ", STREAM_BEGINS_NOTHING);
    expect_beginning("1a\r\n", STREAM_BEGINS_CHUNK_SIZE);
    expect_beginning("1a\r\n{\"id\":1}", STREAM_BEGINS_NOTHING);
    expect_beginning("{\"id\":1}", STREAM_BEGINS_NOTHING);
    expect_beginning("data", STREAM_BEGINS_NOTHING);
    expect_beginning("", STREAM_BEGINS_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_with_text_are_tokens),
        cmocka_unit_test(test_events_without_text_are_none),
        cmocka_unit_test(test_only_data_makes_an_event),
        cmocka_unit_test(test_usage_is_the_last_number),
        cmocka_unit_test(test_header_of_a_reply),
        cmocka_unit_test(test_bytes_that_were_not_read),
        cmocka_unit_test(test_generated_streams_are_counted),
        cmocka_unit_test(test_model_of_a_request),
        cmocka_unit_test(test_beginning_of_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
