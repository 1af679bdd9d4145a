/* A stream's components add up to the time to its first token, whatever its critical path; and its words. */
#include "diagnose/stream.h"

#include "request_records.h"

#include <errno.h>
#include <string.h>

static struct request *diagnose(const struct request_stream_record *stream, const struct path_segments *path)
{
    const struct request_record record = make_record(1000000);
    struct request *request = NULL;
    assert_int_equal(diagnose_request(&record, path, REQUEST_NO_RECORDS, &no_names, &request), 0);
    assert_int_equal(diagnose_stream(stream, path, &request), 0);
    uint64_t sum_ns = 0;
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        sum_ns += request->first_part_ns[kind];
    assert_int_equal(sum_ns, stream->first_ns);
    return request;
}

static struct request_stream_record make_stream(uint64_t first_ns)
{
    struct request_stream_record r = {.first_byte_ns = 100,
                                      .first_ns = first_ns,
                                      .last_ns = 900000,
                                      .chunks = 12,
                                      .tokens = 10,
                                      .flags = REQUEST_STREAM_EVENTS,
                                      .model = "m",
                                      .model_bytes = 1};
    r.h.size_bytes = sizeof(r);
    return r;
}

static void test_path_is_cut_at_the_first_token(void **state)
{
    (void)state;
    const struct request_record r = make_record(1000000);
    struct path_segment items[] = {
        make_segment(r.start_ns, r.start_ns + 300000, REQUEST_PART_UNREAD, r.h.pid, 3),
        make_segment(r.start_ns + 300000, r.start_ns + 700000, REQUEST_PART_CPU, r.h.pid, 3),
        make_segment(r.start_ns + 700000, r.start_ns + 1000000, REQUEST_PART_DISK, r.h.pid, 3)};
    const struct path_segments path = {.items = items, .count = 3, .begin_ns = r.start_ns};
    const struct request_stream_record stream = make_stream(400000);
    struct request *request = diagnose(&stream, &path);
    assert_int_equal(request->first_part_ns[REQUEST_PART_UNREAD], 300000);
    assert_int_equal(request->first_part_ns[REQUEST_PART_CPU], 100000);
    assert_string_equal(request->model, "m");
    request_free(request);
}

static void test_time_without_a_path_is_unattributed(void **state)
{
    (void)state;
    const struct request_stream_record stream = make_stream(400000);
    struct request *request = diagnose(&stream, NULL);
    assert_int_equal(request->first_part_ns[REQUEST_PART_UNATTRIBUTED], 400000);
    request_free(request);
}

static void test_unsound_record_is_refused(void **state)
{
    (void)state;
    struct request_stream_record stream = make_stream(1);
    struct request *request = NULL;
    stream.model_bytes = REQUEST_MODEL_BYTES;
    assert_int_equal(diagnose_stream(&stream, NULL, &request), -EBADMSG);
}

static void expect_text(const struct request_stream *s, const char *text)
{
    char out[REQUEST_STREAM_TEXT_BYTES];
    assert_string_equal(request_stream_text(s, out), text);
}

static void test_text(void **state)
{
    (void)state;
    expect_text(&(struct request_stream){.first_ns = 412000000, .last_ns = 2435500000, .chunks = 98, .tokens = 96},
                "first token after 412 ms, then 21.3 ms per token, 96 tokens");
    expect_text(
        &(struct request_stream){.first_ns = 1000000, .last_ns = 2000000, .chunks = 9, .tokens = 8, .usage = 11},
        "first token after 1.00 ms, then 100 us per token, 11 tokens");
    expect_text(&(struct request_stream){.first_ns = 1000000, .last_ns = 1000000, .chunks = 1},
                "first chunk after 1.00 ms, 1 chunk");
    expect_text(&(struct request_stream){.first_ns = 1000000, .last_ns = 2000000, .chunks = 2, .is_late = true},
                "a chunk after 1.00 ms, then 1.00 ms per chunk, at least 2 chunks");
    expect_text(&(struct request_stream){0}, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_path_is_cut_at_the_first_token),
                                       cmocka_unit_test(test_time_without_a_path_is_unattributed),
                                       cmocka_unit_test(test_unsound_record_is_refused), cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
