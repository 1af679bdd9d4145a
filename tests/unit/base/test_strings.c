/* strings.c: each string is stored once under a stable number, within a memory bound. */
#include "base/strings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct strings *new_strings(void)
{
    struct strings *s = NULL;
    assert_int_equal(strings_new(&s), 0);
    return s;
}

static void test_the_empty_string_is_number_0(void **state)
{
    (void)state;
    _cleanup_(strings_freep) struct strings *s = new_strings();
    assert_int_equal(strings_count(s), 1);
    assert_string_equal(strings_get(s, 0), "");
    assert_int_equal(strings_add(s, ""), 0);
    assert_int_equal(strings_add(s, NULL), 0);
    assert_int_equal(strings_add_n(s, NULL, 0), 0);
    assert_int_equal(strings_add_n(s, "abc", 0), 0);
    assert_int_equal(strings_count(s), 1);
    assert_string_equal(strings_get(s, 1), ""); /* a number that does not exist */
    assert_string_equal(strings_get(s, UINT32_MAX), "");
    strings_free(NULL);
}

static void test_equal_strings_have_one_number(void **state)
{
    (void)state;
    _cleanup_(strings_freep) struct strings *s = new_strings();
    char first[] = "abc", second[] = "abc";
    assert_int_equal(strings_add(s, first), 1);
    assert_int_equal(strings_add(s, second), 1);
    first[0] = 'x'; /* it was copied */
    assert_string_equal(strings_get(s, 1), "abc");
    assert_int_equal(strings_add_n(s, "abcd", 3), 1);
    assert_int_equal(strings_add_n(s, "abcd", 4), 2);
    assert_int_equal(strings_add_n(s, "a\0b", 3), 3);
    assert_int_equal(strings_add_n(s, "a\0c", 3), 4);
    assert_int_equal(strings_add(s, "a"), 5);
    assert_memory_equal(strings_get(s, 4), "a\0c", 4);
}

static void test_numbers_are_stable(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    _cleanup_(strings_freep) struct strings *s = new_strings();
    char text[32];
    const char *early = NULL;
    for (uint32_t i = 1; i < COUNT; i++) {
        snprintf(text, sizeof(text), "string %u", i);
        assert_int_equal(strings_add(s, text), i);
        if (i == 1)
            early = strings_get(s, 1);
    }
    assert_ptr_equal(strings_get(s, 1), early); /* valid until the table is freed */
    for (uint32_t i = 1; i < COUNT; i++) {
        snprintf(text, sizeof(text), "string %u", i);
        assert_string_equal(strings_get(s, i), text);
        assert_int_equal(strings_add(s, text), i);
    }
    assert_int_equal(strings_count(s), COUNT);
    assert_int_equal(strings_dropped(s), 0);
}

/* Large strings are stored separately and leave the pool for small ones as it is. */
static void test_large_strings_are_stored_separately(void **state)
{
    (void)state;
    _cleanup_(strings_freep) struct strings *s = new_strings();
    char *large = malloc(1 << 20);
    memset(large, 'x', 1 << 20);
    strings_add(s, "small");
    size_t before = strings_bytes(s);
    for (size_t size = 1000; size <= 1 << 20; size *= 2)
        assert_int_equal(strlen(strings_get(s, strings_add_n(s, large, size))), size);
    assert_true(strings_bytes(s) < before + 2 * (1 << 20));
    before = strings_bytes(s);
    assert_true(strings_add(s, "small again") > 0);
    assert_int_equal(strings_bytes(s), before);
    free(large);
}

static void test_bound_is_kept(void **state)
{
    (void)state;
    _cleanup_(strings_freep) struct strings *s = new_strings();
    enum { MAX_BYTES = 100000 };
    strings_set_max_bytes(s, MAX_BYTES);
    uint32_t added = 0;
    for (int i = 0; i < 20000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "string %d", i);
        if (strings_add(s, text))
            added++;
        assert_true(strings_bytes(s) <= MAX_BYTES);
    }
    assert_true(added > 1000 && added < 20000);
    assert_int_equal(strings_dropped(s), 20000 - added);
    assert_int_equal(strings_count(s), added + 1);
    assert_int_equal(strings_add(s, "string 0"), 1); /* existing strings are found */
    strings_set_max_bytes(s, 0);
    assert_true(strings_add(s, "no bound again") > 0);
    strings_set_max_bytes(s, 1); /* below the present size: allocated memory may be used, no more is allocated */
    char large[5000] = {0};
    memset(large, 'x', sizeof(large) - 1);
    assert_int_equal(strings_add(s, large), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_empty_string_is_number_0),
        cmocka_unit_test(test_equal_strings_have_one_number),
        cmocka_unit_test(test_numbers_are_stable),
        cmocka_unit_test(test_large_strings_are_stored_separately),
        cmocka_unit_test(test_bound_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
