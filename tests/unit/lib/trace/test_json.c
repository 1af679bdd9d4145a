/* The strict JSON reader: exactly what RFC 8259 allows, within its bounds. */
#include "trace/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct json *read_good(const char *text)
{
    struct json *j = NULL;
    const char *why = "";
    size_t offset = 0;
    if (json_read(text, strlen(text), &j, &why, &offset) != 0)
        fail_msg("%s: %s at %zu", text, why, offset);
    return j;
}

static void expect_bad(const char *text, size_t at)
{
    struct json *j = NULL;
    const char *why = NULL;
    size_t offset = 0;
    int r = json_read(text, strlen(text), &j, &why, &offset);
    if (r == 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(r, -EINVAL);
    assert_null(j);
    assert_non_null(why);
    if (offset != at)
        fail_msg("%s: %s at %zu, not %zu", text, why, offset, at);
}

static void test_values_and_offsets(void **state)
{
    (void)state;
    struct json *j = read_good(" {\"a\" : [1, -0.5e+3, []], \"\":{\"b\":null} ,\"c\":true}\r\n\t");
    const struct json_value *v = json_values(j);
    assert_int_equal(v[0].type, JSON_OBJECT);
    assert_int_equal(v[0].child_count, 3);
    assert_int_equal(v[1].type, JSON_ARRAY);
    assert_string_equal(v[1].name, "a");
    assert_int_equal(v[1].child_count, 3);
    assert_int_equal(v[1].next, 5);
    assert_memory_equal(v[3].text, "-0.5e+3", v[3].text_size);
    assert_int_equal(v[3].text_size, 7);
    assert_int_equal(v[4].type, JSON_ARRAY);
    assert_int_equal(v[5].name_size, 0);
    assert_int_equal(v[5].next, 7);
    assert_int_equal(v[6].type, JSON_NULL);
    assert_int_equal(v[7].type, JSON_TRUE);
    assert_int_equal(v[0].next, 8);
    json_free(j);
}

static void test_string_escapes(void **state)
{
    (void)state;
    struct json *j = read_good(
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\u0000x \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    static const char expected[] =
        "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0x \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    assert_int_equal(json_values(j)->text_size, sizeof(expected) - 1);
    assert_memory_equal(json_values(j)->text, expected, sizeof(expected));
    json_free(j);
}

static void test_invalid_json_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t at;
    } bad[] = {
        {"", 0},
        {" ", 1},
        {"nul", 0},
        {"True", 0},
        {"01", 2},
        {"-", 1},
        {"1.", 2},
        {".5", 0},
        {"1e", 2},
        {"+1", 0},
        {"NaN", 0},
        {"0x1", 1},
        {"[1,]", 3},
        {"[1 2]", 3},
        {"[", 1},
        {"{", 1},
        {"{\"a\"}", 4},
        {"{\"a\":}", 5},
        {"{\"a\":1,}", 7},
        {"{1:2}", 1},
        {"{\"a\":1 \"b\":2}", 7},
        {"\"", 1},
        {"\"a", 2},
        {"\"\\", 2},
        {"\"\\x\"", 3},
        {"\"\\u12\"", 3},
        {"\"\\u12g4\"", 6},
        {"\"\n\"", 1},
        {"\"\\ud800\"", 7},
        {"\"\\udc00\"", 7},
        {"\"\\ud800\\u0041\"", 13},
        {"\"\xff\"", 1},
        {"\"\xc0\xaf\"", 1},
        {"\"\xed\xa0\x80\"", 1},
        {"\"\xf4\x90\x80\x80\"", 1},
        {"\"\xe2\x82\"", 1},
        {"1 1", 2},
        {"{} x", 3},
        {"// c", 0},
        {"'a'", 0},
        {"\xef\xbb\xbf{}", 0},
        {"{\"a\":1,\"a\":2}", 10},
        {"{\"a\":1,\"\\u0061\":2}", 15},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct json *j = NULL;
        const char *why;
        size_t offset;
        if (json_read(bad[i].text, strlen(bad[i].text), &j, &why, &offset) == 0)
            fail_msg("accepted: %s", bad[i].text);
    }
    expect_bad("{\"a\":1,}", 7);
    expect_bad("[1 2]", 3);
    expect_bad("\"\xff\"", 1);
    expect_bad("\"\xe2\x82\"", 1);
}

static int read_repeated(const char *begin, size_t times, const char *end)
{
    size_t size = strlen(begin) * times + strlen(end);
    char *text = malloc(size + 1), *p = text;
    assert_non_null(text);
    for (size_t i = 0; i < times; i++)
        p = stpcpy(p, begin);
    stpcpy(p, end);
    struct json *j = NULL;
    const char *why;
    size_t offset;
    int r = json_read(text, size, &j, &why, &offset);
    json_free(j);
    free(text);
    return r;
}

static void test_depth_and_count_bounds(void **state)
{
    (void)state;
    assert_int_equal(read_repeated("[", JSON_DEPTH_MAX, "]]]]]]]]]]]]]]]]"), 0);
    assert_int_equal(read_repeated("[", JSON_DEPTH_MAX + 1, "]]]]]]]]]]]]]]]]]"), -E2BIG);
    assert_int_equal(read_repeated("[", JSON_SIZE_MAX, ""), -E2BIG);
    assert_int_equal(read_repeated(" ", JSON_SIZE_MAX - 1, "1"), 0);
    assert_int_equal(read_repeated(" ", JSON_SIZE_MAX, "1"), -E2BIG);
    assert_int_equal(read_repeated("{\"a\":[0,0,0,0", 1, "]}"), 0);
    char list[3 * JSON_VALUES_MAX + 8] = "[0";
    for (int i = 1; i < JSON_VALUES_MAX; i++)
        memcpy(list + 2 * i, ",0", 2);
    memcpy(list + 2 * JSON_VALUES_MAX, "]", 2);
    assert_int_equal(read_repeated(list, 1, ""), -E2BIG); /* one more, with the list itself */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_offsets),
        cmocka_unit_test(test_string_escapes),
        cmocka_unit_test(test_invalid_json_is_refused),
        cmocka_unit_test(test_depth_and_count_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
