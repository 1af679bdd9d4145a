/* The set of recent keys, compared with a list. */
#include "server/recent_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Keys of few different first bytes: they collide in the table. */
static struct batch_key key_of(uint32_t number)
{
    struct batch_key key = {{number % 5}};
    memcpy(key.bytes + 8, &number, sizeof(number));
    return key;
}

static void add(struct recent_keys *k, uint32_t number, uint64_t time_ns)
{
    const struct batch_key key = key_of(number);
    recent_keys_add(k, &key, time_ns);
}

static bool has(const struct recent_keys *k, uint32_t number)
{
    const struct batch_key key = key_of(number);
    return recent_keys_has(k, &key);
}

static void test_oldest_keys_are_forgotten(void **state)
{
    (void)state;
    _cleanup_(recent_keys_freep) struct recent_keys *k = NULL;
    assert_int_equal(recent_keys_new(100, &k), 0);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_false(has(k, i));
        add(k, i, i / 10);
        for (uint32_t j = i < 200 ? 0 : i - 200; j <= i; j++)
            assert_int_equal(has(k, j), j + 100 > i);
    }
    assert_int_equal(recent_keys_count(k), 100);
    assert_int_equal(recent_keys_oldest_ns(k), 90);
}

static void test_keys_are_forgotten_by_age(void **state)
{
    (void)state;
    _cleanup_(recent_keys_freep) struct recent_keys *k = NULL;
    assert_int_equal(recent_keys_new(100, &k), 0);
    for (uint32_t i = 0; i < 50; i++)
        add(k, i, i);
    recent_keys_forget(k, 30);
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(has(k, i), i >= 30);
    assert_int_equal(recent_keys_oldest_ns(k), 30);
    recent_keys_forget(k, 1000);
    assert_int_equal(recent_keys_count(k), 0);
    assert_int_equal(recent_keys_oldest_ns(k), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oldest_keys_are_forgotten),
        cmocka_unit_test(test_keys_are_forgotten_by_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
