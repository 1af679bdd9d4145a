/* cursor.c: values from the DWARF and ELF specifications, and no read outside the span. */
#include "base/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct cursor cursor_over(const char *bytes, size_t size)
{
    return cursor_make(bytes, size);
}

static void test_integers(void **state)
{
    (void)state;
    struct cursor c = cursor_over("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", 15);
    assert_int_equal(cursor_u8(&c), 0x01);
    assert_int_equal(cursor_u16(&c), 0x0302); /* not aligned */
    assert_int_equal(cursor_u32(&c), 0x07060504);
    assert_int_equal(cursor_left(&c), 8);
    assert_int_equal(cursor_u64(&c), 0x0f0e0d0c0b0a0908);
    assert_int_equal(cursor_left(&c), 0);
    assert_false(c.failed);
    assert_int_equal(cursor_u8(&c), 0);
    assert_true(c.failed);
}

static void test_whole_text(void **state)
{
    (void)state;
    assert_true(cursor_is(cursor_over("cpu", 3), "cpu"));
    assert_false(cursor_is(cursor_over("cpu", 3), "cp"));
    assert_false(cursor_is(cursor_over("cpu", 2), "cpu"));
    assert_false(cursor_is(cursor_over("cpu", 4), "cpu")); /* a NUL is one of its bytes */
    assert_true(cursor_is((struct cursor){0}, ""));
}

static void test_failure_sticks(void **state)
{
    (void)state;
    struct cursor c = cursor_over("\x01\x02\x03", 3);
    assert_int_equal(cursor_u32(&c), 0);
    assert_true(c.failed);
    assert_int_equal(cursor_u8(&c), 0); /* although three bytes are there */
    assert_int_equal(cursor_left(&c), 0);
    assert_null(cursor_bytes(&c, 1));
    assert_null(cursor_string(&c));
    cursor_seek(&c, 0);
    assert_true(c.failed);
    assert_int_equal(cursor_uleb128(&c), 0);
    assert_int_equal(cursor_sleb128(&c), 0);
    assert_true(cursor_sub(&c, 0).failed);
}

static void test_uleb128(void **state)
{
    (void)state;
    const struct {
        const char *bytes;
        size_t size;
        uint64_t value;
        bool fails;
    } cases[] = {
        /* DWARF 5, table 7.7 */
        {"\x02", 1, 2, false},
        {"\x7f", 1, 127, false},
        {"\x80\x01", 2, 128, false},
        {"\x81\x01", 2, 129, false},
        {"\x82\x01", 2, 130, false},
        {"\xb9\x64", 2, 12857, false},
        {"\x80\x00", 2, 0, false}, /* padded */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX, false},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 0, true}, /* 65 bits */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12, 0, false},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, 0, true},
        {"\x80", 1, 0, true},
        {"", 0, 0, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cursor c = cursor_over(cases[i].bytes, cases[i].size);
        assert_int_equal(cursor_uleb128(&c), cases[i].value);
        assert_int_equal(c.failed, cases[i].fails);
        if (!cases[i].fails)
            assert_int_equal(c.position, cases[i].size);
    }
}

static void test_sleb128(void **state)
{
    (void)state;
    const struct {
        const char *bytes;
        size_t size;
        int64_t value;
        bool fails;
    } cases[] = {
        /* DWARF 5, table 7.8 */
        {"\x02", 1, 2, false},
        {"\x7e", 1, -2, false},
        {"\xff\x00", 2, 127, false},
        {"\x81\x7f", 2, -127, false},
        {"\x80\x01", 2, 128, false},
        {"\x80\x7f", 2, -128, false},
        {"\x81\x01", 2, 129, false},
        {"\xff\x7e", 2, -129, false},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 10, INT64_MIN, false},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 10, INT64_MAX, false},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, 0, true}, /* 65 bits */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x40", 10, 0, true},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, 0, true},
        {"\x80", 1, 0, true},
        {"", 0, 0, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cursor c = cursor_over(cases[i].bytes, cases[i].size);
        assert_true(cursor_sleb128(&c) == cases[i].value);
        assert_int_equal(c.failed, cases[i].fails);
    }
}

static void test_strings(void **state)
{
    (void)state;
    struct cursor c = cursor_over("ab\0\0cd", 6);
    assert_string_equal(cursor_string(&c), "ab");
    assert_string_equal(cursor_string(&c), "");
    assert_int_equal(c.position, 4);
    assert_null(cursor_string(&c)); /* no NUL inside the span */
    assert_true(c.failed);
}

static void test_positions(void **state)
{
    (void)state;
    struct cursor c = cursor_over("abcdef", 6);
    cursor_seek(&c, 6); /* the end is a valid position */
    assert_false(c.failed);
    cursor_seek(&c, 2);
    assert_memory_equal(cursor_bytes(&c, 3), "cde", 3);
    cursor_skip(&c, 1);
    assert_false(c.failed);
    cursor_skip(&c, 1);
    assert_true(c.failed);
    c = cursor_over("abc", 3);
    cursor_seek(&c, 4);
    assert_true(c.failed);
    c = cursor_over("abc", 3);
    cursor_u8(&c);
    assert_null(cursor_bytes(&c, SIZE_MAX)); /* position + size would wrap */
    assert_true(c.failed);
}

static void test_subspans(void **state)
{
    (void)state;
    struct cursor c = cursor_over("abcdef", 6), sub = cursor_sub(&c, 2);
    assert_int_equal(cursor_u8(&sub), 'a');
    assert_int_equal(cursor_u8(&c), 'c'); /* skipped in the outer one */
    assert_int_equal(cursor_u16(&sub), 0);
    assert_true(sub.failed);
    assert_false(c.failed);
    sub = cursor_sub(&c, 0);
    assert_false(sub.failed);
    sub = cursor_sub(&c, 4);
    assert_true(sub.failed && c.failed);
}

static void test_empty_span_without_data(void **state)
{
    (void)state;
    struct cursor c = cursor_make(NULL, 0), sub = cursor_sub(&c, 0);
    assert_false(sub.failed || c.failed);
    cursor_seek(&c, 0);
    cursor_skip(&c, 0);
    assert_false(c.failed);
    assert_null(cursor_string(&c));
    assert_true(c.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),   cmocka_unit_test(test_failure_sticks),
        cmocka_unit_test(test_uleb128),    cmocka_unit_test(test_sleb128),
        cmocka_unit_test(test_strings),    cmocka_unit_test(test_positions),
        cmocka_unit_test(test_subspans),   cmocka_unit_test(test_empty_span_without_data),
        cmocka_unit_test(test_whole_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
