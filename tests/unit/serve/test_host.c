/* Which Host headers are taken. */
#include "serve/host.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct host_policy loopback = {
    .port = 7070, .loopback_only = true, .node_name = "node-3.example.org"};
static const struct host_policy anywhere = {.port = 7070, .node_name = "Node-3.example.org"};

static void test_parse(void **state)
{
    struct host_name h;
    (void)state;
    assert_int_equal(host_parse("LocalHost.:7070", &h), 0);
    assert_string_equal(h.name, "localhost");
    assert_true(h.loopback);
    assert_false(h.address);
    assert_int_equal(h.port, 7070);
    assert_int_equal(host_parse("[::1]", &h), 0);
    assert_true(h.loopback && h.address);
    assert_int_equal(h.port, 0);
    assert_int_equal(host_parse("127.9.9.9:1", &h), 0);
    assert_true(h.loopback && h.address);
    assert_int_equal(host_parse("10.0.0.1:65535", &h), 0);
    assert_true(h.address && !h.loopback);
}

static void test_parse_refuses(void **state)
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
        if (host_parse(bad[i], &h) != -EINVAL)
            fail_msg("'%s' was taken", bad[i]);
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(host_parse(longest, &h), -EINVAL);
    longest[0] = '[';
    longest[sizeof(longest) - 2] = ']';
    assert_int_equal(host_parse(longest, &h), -EINVAL);
    assert_memory_equal(&h, &before, sizeof(h));
}

static void expect(const struct host_policy *policy, const char *header, bool allowed)
{
    if (host_allowed(policy, header) != allowed)
        fail_msg("'%s' was %s", header, allowed ? "refused" : "allowed");
}

static void test_loopback(void **state)
{
    (void)state;
    expect(&loopback, "127.0.0.1:7070", true);
    expect(&loopback, "localhost:7070", true);
    expect(&loopback, "LOCALHOST:7070", true);
    expect(&loopback, "[::1]:7070", true);
    expect(&loopback, "127.0.0.1", false);
    expect(&loopback, "127.0.0.1:80", false);
    expect(&loopback, "evil.example:7070", false);
    expect(&loopback, "localhost.evil.example:7070", false);
    expect(&loopback, "127.0.0.1.evil.example:7070", false);
    expect(&loopback, "node-3:7070", false);
    expect(&loopback, "192.168.1.1:7070", false);
    expect(&loopback, "0.0.0.0:7070", false);
    expect(&loopback, "2130706433:7070", false);
    expect(&loopback, "0x7f.1:7070", false);
    expect(&loopback, "", false);
}

static void test_default_port(void **state)
{
    const struct host_policy p = {.port = 80, .loopback_only = true};
    (void)state;
    expect(&p, "localhost", true);
    expect(&p, "localhost:80", true);
    expect(&p, "localhost:7070", false);
}

static void test_anywhere(void **state)
{
    (void)state;
    expect(&anywhere, "node-3.example.org:7070", true);
    expect(&anywhere, "NODE-3:7070", true);
    expect(&anywhere, "192.168.1.1:7070", true);
    expect(&anywhere, "[2001:db8::7]:7070", true);
    expect(&anywhere, "localhost:7070", true);
    expect(&anywhere, "node-3.example.com:7070", false);
    expect(&anywhere, "node:7070", false);
    expect(&anywhere, "node-3:80", false);
    const struct host_policy nameless = {.port = 7070};
    expect(&nameless, "node-3:7070", false);
}

static void test_allowed(void **state)
{
    struct host_policy p = loopback;
    (void)state;
    p.allowed = " sonde.example.org, localhost:8080,,bad:host ,[::2]:9";
    expect(&p, "sonde.example.org", true);
    expect(&p, "Sonde.Example.org:443", true);
    expect(&p, "localhost:8080", true);
    expect(&p, "localhost:8081", false);
    expect(&p, "[::2]:9", true);
    expect(&p, "[::2]", false);
    expect(&p, "onde.example.org", false);
    expect(&p, "bad", false);
    expect(&p, "127.0.0.1:7070", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),    cmocka_unit_test(test_parse_refuses),
        cmocka_unit_test(test_loopback), cmocka_unit_test(test_default_port),
        cmocka_unit_test(test_anywhere), cmocka_unit_test(test_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
