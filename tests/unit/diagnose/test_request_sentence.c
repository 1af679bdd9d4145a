/* The sentence of a request: its first component, with and without usual durations. */
#include "diagnose/request_sentence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

/* 212 ms, most of it on a CPU as always; the disk is what differs. */
static struct request make_request(void)
{
    return (struct request){
        .service = "shop",
        .method = "GET",
        .route = "/",
        .status = 200,
        .duration_ns = 212 * MS,
        .part_count = 3,
        .parts = {{REQUEST_PART_CPU, 120 * MS, "", ""},
                  {REQUEST_PART_DISK, 60 * MS, "pread64 of weights.bin (ext4): folio_wait", "folio_wait_[k]"},
                  {REQUEST_PART_DISK, 32 * MS, "in thread 7 pool-1: no records", ""}}};
}

static void expect(const struct request *r, const char *expected)
{
    char sentence[REQUEST_SENTENCE_BYTES];
    assert_string_equal(request_sentence(r, sentence), expected);
}

static void test_most_time_without_knowledge(void **state)
{
    (void)state;
    struct request r = make_request();
    expect(&r, "212 ms: 120 ms on a CPU");
    r.status = 0;
    expect(&r, "no reply was seen; 212 ms: 120 ms on a CPU");
    r.part_count = 0;
    r.duration_ns = 0;
    r.status = 200;
    expect(&r, "took no time");
}

static void expect_failure(const struct request *r, const char *expected)
{
    char sentence[REQUEST_SENTENCE_BYTES];
    assert_string_equal(request_failure(r, sentence), expected);
}

/* The failure, its known origin, and the place to look for its error. */
static void test_failure(void **state)
{
    (void)state;
    struct request r = make_request();
    expect_failure(&r, "");
    r.pid = 7;
    r.status = 500;
    r.upstream = r.upstream_call = "";
    expect(&r, "status 500; 212 ms: 120 ms on a CPU");
    expect_failure(&r,
                   "process 7 replied with status 500 after 212 ms (whether that is slow is not known yet). Sonde does "
                   "not see the error itself: see the log of that process.");
    r.usual = (struct request_usual){.requests = 20, .p50_ns = 200 * MS};
    r.segments = &(struct request_segment){.thread = "", .detail = "", .notes = ""};
    r.segment_count = 1;
    r.parts[0].detail = "in thread 9 uvicorn, in checkout() shop.py:38";
    expect(&r,
           "status 500, not slow; 212 ms: 120 ms on a CPU, in thread 9 uvicorn, in checkout() shop.py:38; usually 200 "
           "ms (median of 20 requests)");
    expect_failure(&r,
                   "process 7 replied with status 500 after 212 ms (not slow: only the failure is abnormal); it "
                   "waited for no other service; it ran in checkout() shop.py:38. Sonde does not see the error itself: "
                   "see the log of that process.");
    r.usual.p50_ns = 1 * MS;
    r.status = 0;
    r.upstream = "rank :8299";
    r.upstream_ns = 30 * MS;
    r.parts[0].detail = "in thread 9 uvicorn";
    expect_failure(&r,
                   "the connection to process 7 ended without a reply after 212 ms (it was slow, too); it waited 30.0 "
                   "ms of that for rank :8299. Sonde does not see the error itself: see the log of that process.");
}

static void test_every_kind_has_words(void **state)
{
    char sentence[REQUEST_SENTENCE_BYTES];
    (void)state;
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++) {
        const struct request r = {
            .status = 200, .duration_ns = 9, .part_count = 1, .parts = {{(enum request_part_kind)kind, 9, "", ""}}};
        request_sentence(&r, sentence);
        assert_int_equal(strncmp(sentence, "9 ns: 9 ns ", 11), 0);
        assert_true(strlen(sentence) > 11);
        assert_null(strstr(sentence, "null"));
    }
}

static void test_what_differs_most_comes_first(void **state)
{
    (void)state;
    struct request r = make_request();
    r.usual = (struct request_usual){.requests = 256,
                                     .p50_ns = 70 * MS,
                                     .explained = 200,
                                     .part_p50_ns = {[REQUEST_PART_CPU] = 60 * MS, [REQUEST_PART_DISK] = 1 * MS}};
    expect(&r,
           "212 ms: 92.0 ms waiting for disk, pread64 of weights.bin (ext4); usually 70.0 ms (median of 256 requests)");
    r.usual.explained = 0; /* the durations alone are known */
    expect(&r, "212 ms: 120 ms on a CPU; usually 70.0 ms (median of 256 requests)");
    r.usual.explained = 200;
    r.usual.p50_ns = 100 * MS; /* not slow: nothing is unusual enough to be named for that */
    expect(&r, "212 ms: 120 ms on a CPU; usually 100 ms (median of 256 requests)");
}

static void test_slow_needs_a_factor_and_a_millisecond(void **state)
{
    (void)state;
    const struct request_usual usual = {.requests = 20, .p50_ns = 100000};
    assert_false(request_is_slow(1000000, &usual));
    assert_true(request_is_slow(1100000, &usual));
    assert_false(request_is_slow(0, &usual));
    assert_false(request_is_slow(5 * MS, &(struct request_usual){.requests = 20, .p50_ns = 2 * MS}));
    assert_true(request_is_slow(6 * MS, &(struct request_usual){.requests = 20, .p50_ns = 2 * MS}));
    assert_false(request_is_slow(UINT64_MAX, &(struct request_usual){.requests = 0}));
}

static void test_holder_of_a_lock(void **state)
{
    (void)state;
    const struct request_segment segments[] = {
        {.duration_ns = 5, .kind = REQUEST_PART_LOCK, .detail = "held by thread 1 a"},
        {.duration_ns = 9, .kind = REQUEST_PART_LOCK, .detail = "futex, held by thread 2 b: the holder slept"}};
    struct request r = {.status = 200,
                        .duration_ns = 20,
                        .part_count = 1,
                        .parts = {{REQUEST_PART_LOCK, 20, "futex in lock < main: futex_wait", "futex_wait_[k]"}},
                        .segments = segments,
                        .segment_count = 2};
    expect(
        &r,
        "20 ns: 20 ns waiting for a lock or another thread, futex in lock < main, held by thread 2 b: the holder slept");
}

static void test_long_details_are_cut_before_what_is_usual(void **state)
{
    (void)state;
    char detail[2000], sentence[REQUEST_SENTENCE_BYTES];
    memset(detail, 'x', sizeof(detail) - 1);
    detail[sizeof(detail) - 1] = '\0';
    struct request r = {.status = 200,
                        .duration_ns = 20 * MS,
                        .part_count = 1,
                        .parts = {{REQUEST_PART_DISK, 20 * MS, detail, ""}},
                        .usual = {.requests = 30, .p50_ns = 1 * MS}};
    request_sentence(&r, sentence);
    assert_int_equal(strlen(sentence), REQUEST_SENTENCE_BYTES - 1);
    assert_non_null(strstr(sentence, "xxx; usually 1.00 ms (median of 30 requests)"));
}

static void expect_cause(const struct request *r, const char *expected)
{
    char sentence[REQUEST_SENTENCE_BYTES];
    assert_string_equal(request_cause_sentence(r, sentence), expected);
}

static void test_one_request_does_not_speak_for_its_route(void **state)
{
    (void)state;
    struct request r = make_request();
    r.usual = (struct request_usual){.requests = 50, .p50_ns = 200 * MS};
    expect_cause(&r, "in one request, on a CPU");
    r.usual.explained = 25;
    expect_cause(&r, "on a CPU");
    r.usual = (struct request_usual){.requests = 50, .p50_ns = 20 * MS};
    expect_cause(&r, "on a CPU"); /* it is slow: an abnormal request */
}

/* The largest component of the example is not what its group has in common. */
static void test_constant_cause_of_a_group(void **state)
{
    (void)state;
    struct request r = make_request();
    r.constant = (struct request_constant){.part = 2};
    expect_cause(&r, "waiting for disk, pread64 of weights.bin (ext4)");
    r.upstream = "127.0.0.1:8199 (python)";
    r.upstream_call = "";
    r.constant = (struct request_constant){.is_upstream = true};
    expect_cause(&r, "waiting for an answer of 127.0.0.1:8199 (python)");
    r.constant.part = 3;
    r.parts[2] = (struct request_part){REQUEST_PART_SLEEP, 150 * MS,
                                       "clock_nanosleep in thread 9 of process 8 (python :8199), in get() b.py:5", ""};
    expect_cause(&r, "waiting for an answer of 127.0.0.1:8199 (python), most of it asleep, clock_nanosleep in get() "
                     "b.py:5");
    r.upstream = "10.0.0.7:5432";
    r.parts[2] = (struct request_part){REQUEST_PART_DOWNSTREAM, 150 * MS,
                                       "recvfrom to 10.0.0.7:5432, 3 times in query() db.py:7", ""};
    expect_cause(&r, "waiting for an answer of 10.0.0.7:5432 in query() db.py:7");
    r.parts[2].detail = "epoll_wait";
    expect_cause(&r, "waiting for an answer of 10.0.0.7:5432");
    r.upstream_call = "PostgreSQL SELECT";
    expect_cause(&r, "waiting for an answer of 10.0.0.7:5432 to PostgreSQL SELECT");
}

static void test_cause_of_a_group(void **state)
{
    (void)state;
    struct request r = make_request();
    r.segments = &(struct request_segment){.kind = REQUEST_PART_CPU,
                                           .duration_ns = 1,
                                           .thread = "",
                                           .detail = "",
                                           .notes = "3 of 4 CPU samples are in burn\nmore"};
    r.segment_count = 1;
    expect_cause(&r, "on a CPU, in the slowest request 3 of 4 CPU samples are in burn");
    r.usual = (struct request_usual){
        .requests = 20, .p50_ns = 10 * MS, .explained = 20, .part_p50_ns = {[REQUEST_PART_CPU] = 110 * MS}};
    expect_cause(&r, "waiting for disk, pread64 of weights.bin (ext4)");
    r.status = 503;
    expect_cause(&r, "status 503, slow: waiting for disk, pread64 of weights.bin (ext4)");
    r.duration_ns = 10 * MS;
    expect_cause(&r, "status 503, not slow");
    r.usual.requests = 0;
    expect_cause(&r, "status 503");
    r.status = 0;
    expect_cause(&r, "no reply");
    r = make_request();
    r.parts[0].kind = REQUEST_PART_RUN_QUEUE;
    r.segments = &(struct request_segment){
        .kind = REQUEST_PART_RUN_QUEUE,
        .duration_ns = 1,
        .thread = "",
        .detail = "",
        .notes = "the CPU ran cc1 (9 processes) for 52 % of the wait, sh (process 8) 9 %\nmore"};
    r.segment_count = 1;
    expect_cause(
        &r,
        "waiting for a CPU, in the slowest request the CPU ran cc1 (9 processes) for 52 % of the wait, sh (process 8) 9 %");
    const struct request lock = {.status = 200,
                                 .duration_ns = 9,
                                 .part_count = 1,
                                 .parts = {{REQUEST_PART_LOCK, 9, "held by thread 7: the holder slept", ""}}};
    expect_cause(&lock, "waiting for a lock held by another thread: the holder slept");
    expect(&lock, "9 ns: 9 ns waiting for a lock held by thread 7: the holder slept");
    const struct request interrupted = {
        .status = 200, .duration_ns = 9, .part_count = 1, .parts = {{REQUEST_PART_OTHER, 9, "CPU 1 ran NET_RX", ""}}};
    expect_cause(&interrupted, "interrupted, its CPU ran NET_RX");
    expect(&interrupted, "9 ns: 9 ns interrupted, CPU 1 ran NET_RX");
    const struct request reclaiming = {
        .status = 200,
        .duration_ns = 9,
        .part_count = 1,
        .parts = {{REQUEST_PART_OTHER, 9, "in direct reclaim of cgroup /a (memory.max 1.00 GiB), 7 times", ""}}};
    expect_cause(&reclaiming, "short of memory, in direct reclaim of cgroup /a (memory.max 1.00 GiB)");
    expect(&reclaiming, "9 ns: 9 ns short of memory, in direct reclaim of cgroup /a (memory.max 1.00 GiB), 7 times");
    const struct request stalled = {
        .status = 200, .duration_ns = 9, .part_count = 1, .parts = {{REQUEST_PART_OTHER, 9, "stalled on memory", ""}}};
    expect(&stalled, "9 ns: 9 ns short of memory, stalled on memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_cause_of_a_group),
        cmocka_unit_test(test_one_request_does_not_speak_for_its_route),
        cmocka_unit_test(test_cause_of_a_group),
        cmocka_unit_test(test_most_time_without_knowledge),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_every_kind_has_words),
        cmocka_unit_test(test_what_differs_most_comes_first),
        cmocka_unit_test(test_slow_needs_a_factor_and_a_millisecond),
        cmocka_unit_test(test_holder_of_a_lock),
        cmocka_unit_test(test_long_details_are_cut_before_what_is_usual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
