/* Walks over BPF hash maps by batches (sources/attach/map_walk.h), while elements are deleted and added. */
#include "sources/attach/map_access.h"
#include "sources/attach/map_walk.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ELEMENTS 20000u

struct value {
    uint64_t number;
    char rest[24];
};

static int make_map(uint32_t elements)
{
    const int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "walked", sizeof(uint32_t), sizeof(struct value), elements, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void fill(int fd, uint32_t from, uint32_t to)
{
    for (uint32_t key = from; key < to; key++) {
        const struct value value = {.number = 3ull * key};
        assert_int_equal(bpf_map_update_elem(fd, &key, &value, BPF_ANY), 0);
    }
}

static void test_each_element_is_visited_once(void **state)
{
    (void)state;
    static uint8_t visits[ELEMENTS];
    _cleanup_close_ int fd = make_map(ELEMENTS);
    uint32_t key;
    struct value value;
    fill(fd, 0, ELEMENTS);
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &value);) {
        assert_true(key < ELEMENTS);
        assert_int_equal(value.number, 3ull * key);
        visits[key]++;
    }
    assert_int_equal(walk.error, 0);
    for (key = 0; key < ELEMENTS; key++)
        assert_int_equal(visits[key], 1);
}

/* A walk from key to key begins again at each key that is deleted behind its back, and takes up to 4 times the steps.
 */
static void test_deleted_elements_do_not_restart_the_walk(void **state)
{
    (void)state;
    static uint8_t visits[2 * ELEMENTS];
    _cleanup_close_ int fd = make_map(2 * ELEMENTS);
    uint32_t key, others = ELEMENTS, steps = 0;
    struct value taken;
    fill(fd, 0, ELEMENTS);
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, NULL); steps++) {
        visits[key]++;
        if (key % 2)
            assert_true(map_take_element(fd, &key, &taken));
        if (key < ELEMENTS && key % 4 == 0) { /* the kernel may visit it or not */
            fill(fd, others, others + 1);
            others++;
        }
    }
    assert_int_equal(walk.error, 0);
    for (key = 0; key < ELEMENTS; key++)
        assert_int_equal(visits[key], 1);
    for (; key < 2 * ELEMENTS; key++)
        assert_true(visits[key] <= 1);
    assert_true(steps <= 2 * ELEMENTS);
}

/* The first batch has room for one element of this size; 128 keys in as many buckets do not have one each. */
static void test_bucket_that_exceeds_the_batch(void **state)
{
    (void)state;
    static char large[65536];
    uint32_t key, count = 0;
    _cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "walked", sizeof(key), sizeof(large), 128, NULL);
    assert_true(fd >= 0);
    for (key = 0; key < 128; key++)
        assert_int_equal(bpf_map_update_elem(fd, &key, large, BPF_ANY), 0);
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, NULL);)
        count++;
    assert_int_equal(walk.error, 0);
    assert_int_equal(count, 128);
    assert_true(walk.max > 1);
}

static void test_empty_missing_and_invalid_map(void **state)
{
    (void)state;
    _cleanup_close_ int fd = make_map(4);
    const int closed = make_map(4);
    uint32_t key;
    struct map_walk walk;
    close(closed);

    map_walk_begin(&walk, fd);
    assert_false(map_walk_next(&walk, &key, NULL));
    assert_false(map_walk_next(&walk, &key, NULL));
    assert_int_equal(walk.error, 0);
    map_walk_end(&walk);

    map_walk_begin(&walk, -1);
    assert_false(map_walk_next(&walk, &key, NULL));
    assert_int_equal(walk.error, 0);
    map_walk_end(&walk);

    map_walk_begin(&walk, closed);
    assert_false(map_walk_next(&walk, &key, NULL));
    assert_true(walk.error < 0);
    map_walk_end(&walk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_element_is_visited_once),
        cmocka_unit_test(test_deleted_elements_do_not_restart_the_walk),
        cmocka_unit_test(test_bucket_that_exceeds_the_batch),
        cmocka_unit_test(test_empty_missing_and_invalid_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
