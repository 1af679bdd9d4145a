/* Numbers of any width are stored without changing their neighbours. */
#include "base/packed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define COUNT 200

static uint32_t number(size_t i, unsigned bits, unsigned round)
{
    return (uint32_t)((i + 1) * 2654435761u * (round + 1)) >> (32 - bits);
}

static void test_numbers_of_every_width(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits <= 32; bits++) {
        struct packed p;
        assert_int_equal(packed_init(&p, COUNT, bits), 0);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(packed_get(&p, i), 0);
        for (unsigned round = 0; round < 2; round++) { /* the second one overwrites, in the other direction */
            for (size_t i = 0; i < COUNT; i++) {
                const size_t at = round ? COUNT - 1 - i : i;
                packed_set(&p, at, number(at, bits, round));
            }
            for (size_t i = 0; i < COUNT; i++)
                assert_int_equal(packed_get(&p, i), number(i, bits, round));
        }
        packed_clear(&p);
    }
}

static void test_too_large_numbers_are_cut(void **state)
{
    struct packed p;
    (void)state;
    assert_int_equal(packed_init(&p, 3, 7), 0);
    packed_set(&p, 1, 0xffff);
    assert_int_equal(packed_get(&p, 0), 0);
    assert_int_equal(packed_get(&p, 1), 0x7f);
    assert_int_equal(packed_get(&p, 2), 0);
    packed_clear(&p);
}

static void test_width(void **state)
{
    (void)state;
    assert_int_equal(packed_bits(0), 1);
    assert_int_equal(packed_bits(1), 1);
    assert_int_equal(packed_bits(2), 2);
    assert_int_equal(packed_bits(255), 8);
    assert_int_equal(packed_bits(256), 9);
    assert_int_equal(packed_bits(UINT32_MAX), 32);
    assert_int_equal(packed_bytes(0, 20), 0);
    assert_int_equal(packed_bytes(16, 20), 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_every_width),
        cmocka_unit_test(test_too_large_numbers_are_cut),
        cmocka_unit_test(test_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
