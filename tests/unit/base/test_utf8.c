/* utf8.c: characters that control a terminal or the direction of text, and what buf.c makes of them. */
#include "base/buf.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_control_characters(void **state)
{
    static const uint32_t controls[] = {1,     9,      10,     0x1B,   0x1F,   0x7F,   0x80,   0x9B,   0x9F,
                                        0x61C, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069};
    static const uint32_t others[] = {' ',    '~',    0xA0,   0xE9,   0x61B,  0x61D,  0x200D, 0x2010,
                                      0x2027, 0x202F, 0x2065, 0x206A, 0xFFFD, 0x4E2D, 0x1F600};
    char text[5];
    (void)state;
    for (size_t i = 0; i < array_size(controls); i++) {
        text[utf8_encode(controls[i], text)] = '\0';
        assert_int_equal(utf8_decode(text), controls[i]);
        assert_true(utf8_is_control(controls[i]));
        assert_true(utf8_at_control(text));
        text[utf8_put(controls[i], text)] = '\0';
        assert_string_equal(text, "?");
    }
    for (size_t i = 0; i < array_size(others); i++) {
        text[utf8_encode(others[i], text)] = '\0';
        assert_int_equal(utf8_decode(text), others[i]);
        assert_false(utf8_at_control(text));
    }
    assert_false(utf8_at_control(""));
    assert_false(utf8_at_control("\x9b")); /* no character at all */
    assert_int_equal(utf8_decode("\x9b"), 0xFFFD);
}

static void test_names_are_shown_without_them(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    (void)state;
    buf_put_shown(&out, "a\x1b[2J\xc2\x9b\xe2\x80\xae \x9b\xc3\xa9\n");
    assert_string_equal(out.data, "a?[2J?? " UTF8_REPLACEMENT "\xc3\xa9?");
}

static void test_json_has_them_escaped(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    (void)state;
    buf_put_json_string(&out, "a\x1b\xc2\x9b\xe2\x80\xae\xc3\xa9");
    assert_string_equal(out.data, "\"a\\u001b\\u009b\\u202e\xc3\xa9\"");
}

static void test_counts_and_skips_characters(void **state)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    (void)state;
    assert_int_equal(utf8_count(text, strlen(text)), 5);
    assert_int_equal(utf8_count(text, 3), 2);
    assert_int_equal(utf8_count(text, 0), 0);
    assert_string_equal(utf8_skip(text, 0), text);
    assert_string_equal(utf8_skip(text, 2), "\xe2\x82\xac\xf0\x9f\x98\x80z");
    assert_string_equal(utf8_skip(text, 4), "z");
    assert_string_equal(utf8_skip(text, 5), "");
    assert_string_equal(utf8_skip(text, 99), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_names_are_shown_without_them),
        cmocka_unit_test(test_json_has_them_escaped),
        cmocka_unit_test(test_counts_and_skips_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
