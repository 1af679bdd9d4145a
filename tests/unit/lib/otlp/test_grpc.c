/* How a gRPC reply is interpreted for OTLP: any headers and trailers, and its message. Real receivers are tested in
 * tests/e2e/test_profiles_grpc.py and tests/faults/test_profiles_grpc_receivers.py. */
#include "otlp/grpc.h"
#include "otlp/gzip.h"
#include "otlp/zstd.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Lines as libcurl delivers them, one at a time, each in a buffer of exactly its size. */
static struct otlp_answer judge(unsigned http_status, const char *lines, char *ret_why)
{
    struct otlp_grpc_reply reply = {0};
    struct otlp_answer answer = {0};
    for (const char *end; *lines; lines = end) {
        end = strchr(lines, '\n') + 1;
        char *line = malloc((size_t)(end - lines));
        assert_non_null(line);
        memcpy(line, lines, (size_t)(end - lines));
        otlp_grpc_read_header(&reply, line, (size_t)(end - lines));
        free(line);
    }
    otlp_grpc_judge(&reply, http_status, &answer);
    memcpy(ret_why, answer.why, sizeof(answer.why));
    return answer;
}

static void expect(const char *lines, enum otlp_verdict verdict, uint32_t retry_after_ms, const char *why)
{
    char said[OTLP_TRANSPORT_WHY_SIZE];
    struct otlp_answer answer = judge(200, lines, said);
    assert_int_equal(answer.verdict, verdict);
    assert_int_equal(answer.retry_after_ms, retry_after_ms);
    assert_string_equal(said, why);
}

static void test_grpc_status_mapping(void **state)
{
    (void)state;
    expect("grpc-status: 0\r\n", OTLP_ACCEPTED, 0, "");
    expect("HTTP/2 200\r\nGRPC-Status:0\r\n\r\n", OTLP_ACCEPTED, 0, "");
    expect("grpc-status: 14\r\ngrpc-message: not now\r\n", OTLP_BUSY, 0, "gRPC status UNAVAILABLE: not now");
    expect("grpc-message: a%0ab%2\xc3%zz%00%25\r\ngrpc-status: 7\r\n", OTLP_REFUSED, 0,
           "gRPC status PERMISSION_DENIED: a b%2\xc3%zz %");
    expect("grpc-status: 8\r\n", OTLP_REFUSED, 0, "gRPC status RESOURCE_EXHAUSTED");
    expect("grpc-status: 17\r\n", OTLP_REFUSED, 0, "gRPC status UNKNOWN");
    expect("grpc-status: 00000000000000000000014\r\n", OTLP_REFUSED, 0, "gRPC status UNKNOWN");
    expect("grpc-status: -1\r\n", OTLP_REFUSED, 0, "gRPC status UNKNOWN");
    expect("grpc-status: 99999999999\r\nx: y\r\n", OTLP_REFUSED, 0, "gRPC status UNKNOWN");
    expect("grpc-status: zero\r\ngrpc-message: a%0Ab%\r\n", OTLP_REFUSED, 0, "gRPC status UNKNOWN: a b%");
    expect("HTTP/2 200\r\ngrpc-status: 7\r\ngrpc-message: no%2C you\r\n\r\n", OTLP_REFUSED, 0,
           "gRPC status PERMISSION_DENIED: no, you");
    expect("grpc-status: \r\n", OTLP_REFUSED, 0, "gRPC status UNKNOWN");
    expect("grpc-status: 0\r\ngrpc-status: 13\r\n", OTLP_REFUSED, 0, "gRPC status INTERNAL");
    static const bool again[] = {
        [1] = true, [4] = true, [10] = true, [11] = true, [14] = true, [15] = true, [16] = false};
    for (int i = 1; i < 17; i++) {
        char line[64], why[OTLP_TRANSPORT_WHY_SIZE];
        snprintf(line, sizeof(line), "grpc-status: %d\r\n", i);
        assert_int_equal(judge(200, line, why).verdict, again[i] ? OTLP_BUSY : OTLP_REFUSED);
    }
}

/* Headers of an informational response do not belong to the final one. */
static void test_informational_headers_are_ignored(void **state)
{
    (void)state;
    expect("HTTP/2 103\r\ngrpc-status: 7\r\n\r\nHTTP/2 200\r\ngrpc-status: 0\r\n", OTLP_ACCEPTED, 0, "");
}

static void test_missing_grpc_status(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        const char *lines;
        enum otlp_verdict verdict;
    } all[] = {{200, "content-type: text/html\r\n", OTLP_REFUSED},
               {200, "", OTLP_REFUSED},
               {200, "content-type: application/grpc+proto\r\n", OTLP_BUSY}, /* its end is missing */
               {200, "content-type: application/grpc\r\nx-large: x\r\n", OTLP_BUSY},
               {404, "", OTLP_REFUSED},
               {502, "", OTLP_BUSY},
               {504, "", OTLP_BUSY},
               {404, "content-type: application/grpc\r\n", OTLP_REFUSED},
               {302, "", OTLP_REFUSED},
               {429, "", OTLP_BUSY},
               {503, "", OTLP_BUSY}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char why[OTLP_TRANSPORT_WHY_SIZE], expected[64];
        snprintf(expected, sizeof(expected), "HTTP status %u without a status of gRPC", all[i].status);
        assert_int_equal(judge(all[i].status, all[i].lines, why).verdict, all[i].verdict);
        assert_string_equal(why, expected);
    }
}

/* google.rpc.Status{code 8, details {type.googleapis.com/google.rpc.RetryInfo {retry_delay {seconds 2, nanos
 * 500000000}}}}, as protobuf's own library writes it. */
#define RETRY_INFO "CAgaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIAhCAyrXuAQ"

static void test_retry_info(void **state)
{
    (void)state;
    const char *why = "gRPC status RESOURCE_EXHAUSTED";
    expect("grpc-status: 8\r\ngrpc-status-details-bin: " RETRY_INFO "==\r\n", OTLP_BUSY, 2500, why);
    expect("grpc-status-details-bin: " RETRY_INFO "\r\ngrpc-status: 8\r\n", OTLP_BUSY, 2500, why);
    expect("grpc-status: 14\r\ngrpc-status-details-bin: " RETRY_INFO "\r\n", OTLP_BUSY, 2500,
           "gRPC status UNAVAILABLE");
    expect("grpc-status: 3\r\ngrpc-status-details-bin: " RETRY_INFO "\r\n", OTLP_REFUSED, 0,
           "gRPC status INVALID_ARGUMENT");
    expect("grpc-status: 8\r\ngrpc-status-details-bin: CAgaNQoodHlwZS5\r\n", OTLP_REFUSED, 0, why);
    expect("grpc-status: 8\r\ngrpc-status-details-bin: C-A\r\n", OTLP_REFUSED, 0, why);
    expect("grpc-status: 8\r\ngrpc-status-details-bin: A\r\n", OTLP_REFUSED, 0, why);
    expect("grpc-status: 8\r\ngrpc-status-details-bin: ====\r\n", OTLP_REFUSED, 0, why);
}

/* RESOURCE_EXHAUSTED with every kind of RetryInfo. */
static void test_retry_delays(void **state)
{
    (void)state;
    static const struct {
        const char *details;
        enum otlp_verdict verdict;
        uint32_t retry_after_ms;
    } all[] = {
        {"CAgaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIBQ", OTLP_BUSY, 5000u}, /* five seconds */
        {"CAgaMgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIGCgQIABAB", OTLP_BUSY,
         0u}, /* less than a millisecond */
        {"CAgaLAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIA", OTLP_BUSY, 0u}, /* no delay */
        {"CAgaOQoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxINCgsI////////////AQ", OTLP_BUSY,
         0u}, /* negative */
        {"CAgaMwoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIHCgUItpKGAg", OTLP_BUSY, 4294966000u},
        {"CAgaMwoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIHCgUIt5KGAg", OTLP_BUSY,
         0u}, /* seconds too large for milliseconds in 32 bits */
        {"CAgaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIARCAlOvcAw", OTLP_BUSY,
         0u}, /* nanoseconds out of range */
        {"CAgaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLkRlYnVnSW5mbxIECgIIBQ", OTLP_REFUSED,
         0}, /* another message */
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char lines[256];
        snprintf(lines, sizeof(lines), "grpc-status: 8\r\ngrpc-status-details-bin: %s\r\n", all[i].details);
        expect(lines, all[i].verdict, all[i].retry_after_ms, "gRPC status RESOURCE_EXHAUSTED");
    }
}

static void expect_message(const char *body, size_t size, const char *encoding, const char *expected)
{
    struct otlp_grpc_reply reply = {0};
    char room[16];
    size_t length = 0;
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, body, size);
    otlp_grpc_read_header(&reply, encoding, strlen(encoding));
    const char *message = otlp_grpc_message(&reply, &otlp_zstd, copy, size, room, sizeof(room), &length);
    if (expected) {
        assert_non_null(message);
        assert_int_equal(length, strlen(expected));
        assert_memory_equal(message, expected, length);
    } else {
        assert_null(message);
    }
    free(copy);
}

static void test_grpc_message_decoding(void **state)
{
    (void)state;
    static const char none[] = "content-type: application/grpc\r\n", gzip[] = "grpc-encoding: gzip\r\n",
                      zstd[] = "grpc-encoding: zstd\r\n", unknown[] = "grpc-encoding: zstd-of-another-kind\r\n";
    char long_text[17] = "0123456789abcdef";
    unsigned char prefix[OTLP_GRPC_PREFIX_BYTES];
    struct otlp_packed p = {0};
    size_t size;
    expect_message("\0\0\0\0\3abc", 8, none, "abc");
    expect_message("\0\0\0\0\3abcdef", 11, none, "abc");
    expect_message("\0\0\0\0\0", 5, none, "");
    expect_message("\0\0\0\0\4abc", 8, none, NULL);
    expect_message("\0\0\0\0\xff\x0a", 6, none, NULL);
    expect_message("\0\0", 2, none, NULL);
    expect_message("\1\0\0\0\2\x1f\x8b", 7, gzip, NULL);
    expect_message("\0\xff\xff\xff\xff"
                   "abc",
                   8, none, NULL);
    expect_message("\0\0\0\0", 4, none, NULL);
    expect_message("", 0, none, NULL);
    expect_message("\1\0\0\0\3abc", 8, gzip, NULL);
    expect_message("\1\0\0\0\3abc", 8, zstd, NULL);
    for (size_t i = 0; i < 4; i++) { /* the largest that fits, and one byte more */
        const bool is_zstd = i >= 2;
        assert_int_equal(
            otlp_pack(&p, is_zstd ? &otlp_zstd : NULL, 6, OTLP_GRPC_PREFIX_BYTES, long_text, 16 + i % 2, &size), 0);
        assert_int_equal(otlp_grpc_put_prefix(p.data, true, size - OTLP_GRPC_PREFIX_BYTES), 0);
        expect_message((char *)p.data, size, is_zstd ? zstd : gzip, i % 2 == 0 ? long_text : NULL);
        expect_message((char *)p.data, size, is_zstd ? gzip : zstd, NULL);
        expect_message((char *)p.data, size, unknown, NULL);
        expect_message((char *)p.data, size, none, NULL);
    }
    otlp_packed_free(&p);
    assert_int_equal(otlp_grpc_put_prefix(prefix, false, 0x01020304), 0);
    assert_memory_equal(prefix, "\0\1\2\3\4", 5);
    assert_int_equal(otlp_grpc_put_prefix(prefix, true, (size_t)UINT32_MAX + 1), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grpc_status_mapping), cmocka_unit_test(test_informational_headers_are_ignored),
        cmocka_unit_test(test_missing_grpc_status), cmocka_unit_test(test_retry_info),
        cmocka_unit_test(test_retry_delays),        cmocka_unit_test(test_grpc_message_decoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
