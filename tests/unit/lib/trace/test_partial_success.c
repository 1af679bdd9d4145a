/* Partial success messages of receivers, from arbitrary bytes. */
#include "trace/partial_success_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A copy of exactly that size, so that a sanitizer detects a read beyond it. */
static uint64_t read_bytes(const char *body, size_t size, bool protobuf, char *why)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, body, size);
    uint64_t rejected = protobuf ? otlp_partial_success(copy, size, why) : trace_partial_success_json(copy, size, why);
    free(copy);
    return rejected;
}

static void expect(const char *body, size_t size, bool protobuf, uint64_t rejected, const char *words)
{
    char why[OTLP_PARTIAL_WHY_SIZE] = "?";
    assert_int_equal(read_bytes(body, size, protobuf, why), rejected);
    assert_string_equal(why, words);
}

#define JSON(body, ...)  expect(body, strlen(body), false, __VA_ARGS__)
#define BYTES(body, ...) expect(body, sizeof(body) - 1, true, __VA_ARGS__)

static void test_json_partial_success(void **state)
{
    (void)state;
    JSON("", 0, "");
    JSON("{}", 0, "");
    JSON("{\"partialSuccess\":{}}", 0, "");
    JSON("{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"too\\nold\"}}", 3, "too old");
    JSON("{\"partialSuccess\":{\"rejectedDataPoints\":4}}", 4, "");
    JSON("{\"partialSuccess\":{\"rejectedSpans\":\"-3\"}}", 0, "");
    JSON("{\"partialSuccess\":{\"rejectedSpans\":[3]}}", 0, "");
    JSON("{\"partialSuccess\":[]}", 0, "");
    JSON("{\"partialSuccess\":{\"errorMessage\":\"mind\"}}", 0, "mind");
    JSON("<html>", 0, "");
    JSON("{\"partialSuccess\":{\"rejectedSpans\":\"3\"", 0, "");
}

static void test_protobuf_partial_success(void **state)
{
    (void)state;
    BYTES("", 0, "");
    BYTES("\x0a\x00", 0, "");
    BYTES("\x0a\x02\x08\x03", 3, "");
    BYTES("\x0a\x08\x08\xac\x02\x12\x03old", 300, "old");
    BYTES("\x0a\x08\x12\x03old\x08\xac\x02", 300, "old");
    BYTES("\x10\x05\x1d....\x21........\x0a\x02\x08\x03", 3, "");         /* unknown fields are skipped */
    BYTES("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, ""); /* -1 */
    BYTES("\x0a\x7f\x08\x03", 0, "");                                     /* longer than it is */
    BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0, "");
}

/* Any input is read within its bounds and yields a terminated text. */
static void test_arbitrary_bytes_are_safe(void **state)
{
    (void)state;
    static const char good[] = "\x0a\x14\x08\x83\x02\x12\x0fspans are tooold";
    uint64_t seed = 1;
    char why[OTLP_PARTIAL_WHY_SIZE], body[sizeof(good) - 1];
    for (int i = 0; i < 200000; i++) {
        memcpy(body, good, sizeof(body));
        for (int j = 0; j < 3; j++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            body[(seed >> 33) % sizeof(body)] = (char)(seed >> 56);
        }
        read_bytes(body, (seed >> 20) % (sizeof(body) + 1), true, why);
        assert_true(strlen(why) < sizeof(why));
    }
    char *large = malloc(60000);
    assert_non_null(large);
    memset(large, 'x', 60000);
    memcpy(large, "{\"partialSuccess\":{\"errorMessage\":\"", 35);
    memcpy(large + 59997, "\"}}", 3);
    assert_int_equal(read_bytes(large, 60000, false, why), 0);
    assert_int_equal(strlen(why), sizeof(why) - 1);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_partial_success),
        cmocka_unit_test(test_protobuf_partial_success),
        cmocka_unit_test(test_arbitrary_bytes_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
