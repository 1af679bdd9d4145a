/* Ranges of code compared with the simplest equivalent: an array with a name for every address. */
#include "resolve/jit/code_ranges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BASE 0x7f0000000000u

static int put_range(struct code_ranges *c, uint64_t start, uint32_t size, uint32_t place)
{
    const struct code_range range = {start, size, place};
    return code_ranges_put(c, &range);
}

/* The name at the address; 0: none. */
static uint32_t place_at(const struct code_ranges *c, uint64_t address)
{
    struct code_range range;
    if (!code_ranges_find(c, address, &range))
        return 0;
    assert_true(range.start <= address && address - range.start < range.size);
    return range.place;
}

static void test_empty_table(void **state)
{
    struct code_ranges c = {0};
    (void)state;
    assert_int_equal(place_at(&c, BASE), 0);
    code_ranges_remove(&c, BASE, 1);
    code_ranges_keep(&c, 0);
    assert_int_equal(code_ranges_bytes(&c), 0);
    code_ranges_clear(&c);
}

static void test_overlapped_range_is_removed_whole(void **state)
{
    struct code_ranges c = {0};
    (void)state;
    put_range(&c, BASE, 100, 1);
    put_range(&c, BASE + 100, 100, 2);
    put_range(&c, BASE + 300, 100, 3);
    assert_int_equal(place_at(&c, BASE + 99), 1);
    assert_int_equal(place_at(&c, BASE + 100), 2);
    assert_int_equal(place_at(&c, BASE + 200), 0);
    put_range(&c, BASE + 199, 102, 4); /* the last byte of one, the first of another */
    assert_int_equal(c.count, 2);
    assert_int_equal(place_at(&c, BASE + 99), 1);
    assert_int_equal(place_at(&c, BASE + 100), 0);
    assert_int_equal(place_at(&c, BASE + 199), 4);
    assert_int_equal(place_at(&c, BASE + 300), 4);
    assert_int_equal(place_at(&c, BASE + 301), 0);
    put_range(&c, BASE + 50, 1, 5); /* inside */
    assert_int_equal(place_at(&c, BASE + 50), 5);
    assert_int_equal(place_at(&c, BASE + 49), 0);
    put_range(&c, 0, UINT32_MAX, 6);
    assert_int_equal(place_at(&c, UINT32_MAX - 1), 6);
    assert_int_equal(c.count, 3);
    code_ranges_clear(&c);
}

#define SPACE 20000

/* The reference: each address has an owner, and when any of it is overwritten, all of the owner's range is removed. */
static void model_remove(uint32_t *owner, size_t start, size_t size)
{
    for (size_t i = start; i < start + size && i < SPACE; i++) {
        const uint32_t who = owner[i];
        if (!who)
            continue;
        size_t first = i, last = i;
        while (first > 0 && owner[first - 1] == who)
            first--;
        while (last + 1 < SPACE && owner[last + 1] == who)
            last++;
        memset(owner + first, 0, (last - first + 1) * sizeof(*owner));
    }
}

static void test_random_ranges_match_a_reference(void **state)
{
    static uint32_t owner[SPACE];
    struct code_ranges c = {0};
    unsigned seed = 7;
    (void)state;
    for (uint32_t n = 1; n <= 30000; n++) {
        seed = seed * 1103515245 + 12345;
        const size_t start = seed / 7 % (SPACE - 600), size = 1 + (n % 500 == 0 ? seed / 3 % 500 : seed / 3 % 6);
        model_remove(owner, start, size);
        if (n % 7 == 0) {
            code_ranges_remove(&c, BASE + start, (uint32_t)size);
            continue;
        }
        for (size_t i = 0; i < size; i++)
            owner[start + i] = n;
        assert_int_equal(put_range(&c, BASE + start, (uint32_t)size, n), 0);
    }
    size_t ranges = 0;
    for (size_t i = 0; i < SPACE; i++) {
        assert_int_equal(place_at(&c, BASE + i), owner[i]);
        ranges += owner[i] && (i == 0 || owner[i - 1] != owner[i]);
    }
    assert_int_equal(c.count, ranges);
    assert_true(ranges > 2000);

    code_ranges_keep(&c, ranges / 3);
    assert_in_range(c.count, ranges / 10, ranges / 3);
    uint32_t last_gone = 0, first_kept = UINT32_MAX;
    for (size_t i = 0; i < SPACE; i++) {
        const uint32_t place = place_at(&c, BASE + i);
        assert_true(place == 0 || place == owner[i]);
        if (owner[i] && !place && owner[i] > last_gone)
            last_gone = owner[i];
        if (place && place < first_kept)
            first_kept = place;
    }
    assert_true(last_gone < first_kept); /* the oldest were evicted */
    code_ranges_clear(&c);
}

static void test_memory_follows_the_kept_ranges(void **state)
{
    struct code_ranges c = {0};
    (void)state;
    for (uint32_t i = 0; i < 100000; i++) /* in order, as a starting runtime writes them */
        assert_int_equal(put_range(&c, BASE + 64 * (uint64_t)i, 64, i + 1), 0);
    assert_in_range(code_ranges_bytes(&c), 100000 * 16, 100000 * 18);
    code_ranges_keep(&c, 1000);
    assert_true(code_ranges_bytes(&c) < 1000 * 16 + 40000);
    assert_int_equal(place_at(&c, BASE + 64 * (uint64_t)99999), 100000);
    for (uint32_t round = 0; round < 50; round++) /* the same addresses repeatedly */
        for (uint32_t i = 0; i < 1000; i++)
            assert_int_equal(put_range(&c, BASE + 64 * (uint64_t)((i * 7919) % 1000), 64, 200000 + round * 1000 + i),
                             0);
    assert_true(c.count <= 2000);
    assert_true(code_ranges_bytes(&c) < 2000 * 2 * 16 + 40000);
    code_ranges_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_table),
        cmocka_unit_test(test_overlapped_range_is_removed_whole),
        cmocka_unit_test(test_random_ranges_match_a_reference),
        cmocka_unit_test(test_memory_follows_the_kept_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
