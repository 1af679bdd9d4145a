/* Host names, single and in lists. */
#include "base/host_name.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_host_names_are_parsed(void **state)
{
    struct host_name h;
    (void)state;
    assert_int_equal(host_name_parse("LocalHost.:7070", &h), 0);
    assert_string_equal(h.name, "localhost");
    assert_true(h.loopback);
    assert_false(h.address);
    assert_int_equal(h.port, 7070);
    assert_int_equal(host_name_parse("[::1]", &h), 0);
    assert_true(h.loopback && h.address);
    assert_int_equal(h.port, 0);
    assert_int_equal(host_name_parse("127.9.9.9:1", &h), 0);
    assert_true(h.loopback && h.address);
    assert_int_equal(host_name_parse("10.0.0.1:65535", &h), 0);
    assert_true(h.address && !h.loopback);
}

static void test_invalid_host_names_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        ":",
        ":7070",
        ".",
        "a b",
        "a/b",
        "a:b",
        "a:",
        "a:0",
        "a:65536",
        "a:+1",
        "a: 1",
        "a:1:2",
        "[::1",
        "[::1]x",
        "[::1]:",
        "[]",
        "[localhost]",
        "::1",
        "a@b",
        "user:x@localhost:7070",
        "h\xc3\xb6st",
        "a\tb",
        "[::1%eth0]:7070",
    };
    char longest[400];
    struct host_name h, before;
    (void)state;
    memset(&h, 0x5a, sizeof(h));
    before = h;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (host_name_parse(bad[i], &h) != -EINVAL)
            fail_msg("'%s' was accepted", bad[i]);
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(host_name_parse(longest, &h), -EINVAL);
    longest[0] = '[';
    longest[sizeof(longest) - 2] = ']';
    assert_int_equal(host_name_parse(longest, &h), -EINVAL);
    assert_memory_equal(&h, &before, sizeof(h));
}

static void test_addresses_are_normalised(void **state)
{
    struct host_name h;
    (void)state;
    assert_int_equal(host_name_parse("[2001:DB8:0:0::7]:80", &h), 0);
    assert_string_equal(h.name, "2001:db8::7");
}

static void test_host_name_lists(void **state)
{
    static const struct {
        const char *name;
        int result, port;
    } expected[] = {{"a.example", 1, 0}, {"b", 1, 8080}, {"", -EINVAL, 0}, {"", -EINVAL, 0},
                    {"", -EINVAL, 0},    {"::1", 1, 9},  {"", 0, 0}};
    char longest[400];
    const char *list = " A.example. ,\tb:8080,,*.example, two words,[::1]:9, ";
    struct host_name h;
    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(host_name_next(&list, &h), expected[i].result);
        if (expected[i].result > 0) {
            assert_string_equal(h.name, expected[i].name);
            assert_int_equal(h.port, expected[i].port);
        }
    }
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    list = longest;
    assert_int_equal(host_name_next(&list, &h), -EINVAL);
    assert_int_equal(host_name_next(&list, &h), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_names_are_parsed),
        cmocka_unit_test(test_invalid_host_names_are_refused),
        cmocka_unit_test(test_addresses_are_normalised),
        cmocka_unit_test(test_host_name_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
