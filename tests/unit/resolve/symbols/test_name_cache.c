/* Names cached under two numbers: whatever is evicted, and whichever entries share a set, a returned name is the one
 * that was stored. */
#include "resolve/symbols/name_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#define FUNCTIONS 40
#define PLACES    6
#define TEXT_MAX  64

static uint64_t value_of(unsigned function, unsigned place)
{
    return 1 + function * 100 + place;
}

static uint64_t twin_of(unsigned function)
{
    return 1ull << 63 | function;
}

static const char *text_of(unsigned function, char text[TEXT_MAX])
{
    snprintf(text, TEXT_MAX, "name %u%cmangled %u", function, 0, function);
    return text;
}

static void check(const char *given, unsigned function)
{
    char expected[TEXT_MAX];
    text_of(function, expected);
    assert_string_equal(given, expected);
    assert_string_equal(name_cache_second(given), name_cache_second(expected));
}

/* As symbols.c does: the name under its own key, and each address of the function as its alias. */
static void lookup(struct name_cache *a, unsigned function, unsigned place)
{
    char text[TEXT_MAX];
    uint64_t value = 0;
    const char *given = name_cache_get(a, 7, value_of(function, place), &value);
    if (given) {
        assert_int_equal(value, value_of(function, place));
        check(given, function);
        return;
    }
    given = name_cache_get(a, 7, twin_of(function), &value);
    if (!given)
        given = name_cache_put(a, 7, twin_of(function), 0, 0, text_of(function, text));
    check(given, function);
    given = name_cache_put(a, 7, value_of(function, place), value_of(function, place), twin_of(function),
                           text_of(function, text));
    check(given, function);
}

static void test_cached_names_are_those_stored(void **state)
{
    (void)state;
    static const size_t slot_bytes[] = {0, 4096, 1 << 20}, text_bytes[] = {0, 512, 4096};
    for (size_t i = 0; i < sizeof(slot_bytes) / sizeof(slot_bytes[0]); i++)
        for (size_t j = 0; j < sizeof(text_bytes) / sizeof(text_bytes[0]); j++) {
            struct name_cache a;
            assert_int_equal(name_cache_init(&a, slot_bytes[i], text_bytes[j], TEXT_MAX), 0);
            uint64_t random = 1;
            for (int n = 0; n < 200000; n++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                unsigned range = n / 1000 % 2 ? FUNCTIONS : 3; /* many, then few again, repeatedly */
                lookup(&a, (unsigned)(random >> 33) % range, (unsigned)(random >> 50) % PLACES);
            }
            name_cache_clear(&a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cached_names_are_those_stored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
