/* The array of requests: every field, and strings from untrusted sources. */
#include "export/requests_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_empty_array(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(requests_json_write(NULL, 0, &out), 0);
    assert_string_equal(out.data, "[]");
}

static void test_two_requests(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    const struct request_kind_time times[] = {{REQUEST_PART_LOCK, 20}, {REQUEST_PART_CPU, 3}};
    const struct request_segment segment = {.start_ns = 7,
                                            .times = times,
                                            .time_count = 2,
                                            .duration_ns = 23,
                                            .kind = REQUEST_PART_LOCK,
                                            .owner = REQUEST_OWNER_OTHER,
                                            .is_inferred = true,
                                            .tid = 9,
                                            .pid = 8,
                                            .thread = "a\"b",
                                            .process = "w :80",
                                            .detail = "held"};
    struct request a = {
        .start_unix_ns = 1763712000123456789,
        .duration_ns = 30,
        .pid = 5,
        .tid = 6,
        .service = "a\"\n\xff",
        .container_id = "",
        .method = "GET",
        .route = "/x",
        .status = 200,
        .peer = "1.2.3.4:5",
        .bytes_in = 1,
        .bytes_out = 2,
        .unit = "shop.service",
        .port = 8100,
        .usual = {.known = 7},
        .group = {3, 60, 90, true},
        .group_cause = "g",
        .cause = "c",
        .segments = &segment,
        .segment_count = 1,
        .part_count = 2,
        .parts = {{REQUEST_PART_CPU, 20, ""}, {REQUEST_PART_LOCK, 10, "futex", "futex_wait_[k]\na \"b\"\nmain"}}};
    struct request b = {.service = "", .container_id = "", .method = "", .route = "", .peer = "", .cause = ""};
    assert_int_equal(requests_json_write((struct request *[]){&a, &b}, 2, &out), 0);
    assert_string_equal(
        out.data,
        "[{\"start_time_unix_nano\":1763712000123456789,\"duration_ns\":30,\"service\":\"a\\\"\\u000a\\ufffd\",\"unit\":\"shop.service\",\"port\":8100,\"pid\":5,\"tid\":6,"
        "\"container_id\":\"\",\"method\":\"GET\",\"route\":\"/x\",\"protocol\":\"http/1\",\"status\":200,\"peer\":\"1.2.3.4:5\",\"bytes_in\":1,"
        "\"bytes_out\":2,\"usual_known\":7,\"group\":{\"requests\":3,\"lost_ns\":60,\"time_ns\":90,\"estimated\":true},\"group_cause\":\"g\",\"cause\":\"c\",\"parts\":[{\"kind\":\"cpu\",\"ns\":20,\"detail\":\"\"},"
        "{\"kind\":\"lock\",\"ns\":10,\"detail\":\"futex\",\"stack\":[\"futex_wait_[k]\",\"a \\\"b\\\"\",\"main\"]}],"
        "\"segments\":[{\"start_ns\":7,\"ns\":23,\"kind\":\"lock\",\"owner\":\"other\",\"evidence\":\"inferred\",\"pid\":8,"
        "\"tid\":9,\"thread\":\"a\\\"b\",\"process\":\"w :80\",\"detail\":\"held\",\"times\":[{\"kind\":\"lock\",\"ns\":20},{\"kind\":\"cpu\",\"ns\":3}]}]},\n"
        "{\"start_time_unix_nano\":0,\"duration_ns\":0,\"service\":\"\",\"unit\":\"\",\"port\":0,\"pid\":0,\"tid\":0,\"container_id\":\"\",\"method\":\"\","
        "\"route\":\"\",\"protocol\":\"http/1\",\"status\":0,\"peer\":\"\",\"bytes_in\":0,\"bytes_out\":0,\"usual_known\":0,\"cause\":\"\",\"parts\":[],\"segments\":[]}]");
}

static void test_stream(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    struct request r = {.service = "",
                        .container_id = "",
                        .method = "",
                        .route = "",
                        .peer = "",
                        .cause = "",
                        .model = "m\"",
                        .stream = {.is_stream = true,
                                   .is_late = true,
                                   .first_byte_ns = 1,
                                   .first_ns = 5,
                                   .last_ns = 25,
                                   .chunks = 4,
                                   .tokens = 3,
                                   .usage = 6}};
    r.first_part_ns[REQUEST_PART_CPU] = 2;
    r.first_part_ns[REQUEST_PART_SLEEP] = 3;
    assert_int_equal(requests_json_write((struct request *[]){&r}, 1, &out), 0);
    assert_non_null(strstr(
        out.data,
        ",\"model\":\"m\\\"\",\"stream\":{\"first_byte_ns\":1,\"unit\":\"token\",\"count\":6,\"first_ns\":5,\"last_ns\":25,\"step_ns\":4,"
        "\"chunks\":4,\"tokens\":3,\"usage\":6,\"is_late\":true,\"is_incomplete\":false,"
        "\"first_parts\":[{\"kind\":\"cpu\",\"ns\":2},{\"kind\":\"sleep\",\"ns\":3}]},"));
}

/* Single requests are no groups. */
static void test_groups(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0}, none = {0};
    struct request one = {.service = "s"},
                   a = {.service = "s\"",
                        .unit = "s.service",
                        .port = 80,
                        .method = "GET",
                        .route = "/x",
                        .group = {3, 60, 90, true},
                        .group_cause = "c"},
                   b = {.service = "t", .method = "PUT", .route = "/y", .group = {.requests = 1, .time_ns = 5}};
    assert_int_equal(requests_json_put_groups((struct request *[]){&one}, 1, &none), 0);
    assert_int_equal(none.size, 0);
    assert_int_equal(requests_json_put_groups((struct request *[]){&a, &b}, 2, &out), 0);
    assert_string_equal(
        out.data,
        ",\"groups\":[{\"port\":80,\"service\":\"s\\\"\",\"unit\":\"s.service\",\"method\":\"GET\",\"route\":\"/x\",\"cause\":\"c\","
        "\"group\":{\"requests\":3,\"lost_ns\":60,\"time_ns\":90,\"estimated\":true}},\n"
        "{\"port\":0,\"service\":\"t\",\"unit\":\"\",\"method\":\"PUT\",\"route\":\"/y\",\"cause\":\"\","
        "\"group\":{\"requests\":1,\"lost_ns\":0,\"time_ns\":5,\"estimated\":false}}]");
}

static void test_usual_and_upstream(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    struct request r = {.service = "",
                        .container_id = "",
                        .method = "",
                        .route = "",
                        .peer = "",
                        .cause = "",
                        .upstream = "10.0.0.7:5432",
                        .upstream_call = "PostgreSQL SELECT",
                        .upstream_ns = 12,
                        .usual = {.requests = 30,
                                  .known = 28,
                                  .p50_ns = 5,
                                  .first_p50_ns = 3,
                                  .explained = 25,
                                  .part_p50_ns = {[REQUEST_PART_DISK] = 4},
                                  .part_p99_ns = {[REQUEST_PART_LOCK] = 9}}};
    assert_int_equal(requests_json_write((struct request *[]){&r}, 1, &out), 0);
    assert_non_null(strstr(
        out.data, ",\"upstream\":\"10.0.0.7:5432\",\"upstream_call\":\"PostgreSQL SELECT\",\"upstream_ns\":12,"
                  "\"usual\":{\"requests\":30,\"p50_ns\":5,\"first_p50_ns\":3,\"known\":28,\"explained\":25,\"parts\":["
                  "{\"kind\":\"disk\",\"p50_ns\":4},{\"kind\":\"lock\",\"p50_ns\":0,"
                  "\"p99_ns\":9}]},\"cause\""));
}

/* Ids in W3C form with leading zeros; unknown ids are omitted. */
static void test_trace_ids(void **state)
{
    (void)state;
    const struct {
        struct trace_link link;
        const char *expected;
    } cases[] = {
        {{0x4bf92f3577b34da6, 0xa3ce929d0e0e4736, 0x00f067aa0ba902b7},
         ",\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"span_id\":\"00f067aa0ba902b7\",\"usual_known\":0,\"cause\""},
        {{0, 1, 0}, "0,\"trace_id\":\"00000000000000000000000000000001\",\"usual_known\":0,\"cause\""},
        {{0, 0, 0}, "\"bytes_out\":0,\"usual_known\":0,\"cause\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        _cleanup_buf_ struct buf out = {0};
        struct request r = {.service = "",
                            .container_id = "",
                            .method = "",
                            .route = "",
                            .peer = "",
                            .cause = "",
                            .link = cases[i].link};
        assert_int_equal(requests_json_write((struct request *[]){&r}, 1, &out), 0);
        assert_non_null(strstr(out.data, cases[i].expected));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_array), cmocka_unit_test(test_two_requests),       cmocka_unit_test(test_stream),
        cmocka_unit_test(test_groups),      cmocka_unit_test(test_usual_and_upstream), cmocka_unit_test(test_trace_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
