/* Which Host headers are accepted. */
#include "serve/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct host_policy loopback = {.port = 7070, .loopback_only = true, .node_name = "node-3.example.org"};
static const struct host_policy anywhere = {.port = 7070, .node_name = "Node-3.example.org"};

static void expect(const struct host_policy *policy, const char *header, bool allowed)
{
    if (host_allowed(policy, header) != allowed)
        fail_msg("'%s' was %s", header, allowed ? "refused" : "allowed");
}

static void test_loopback_hosts(void **state)
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
    const struct host_policy encrypted = {.port = 443, .is_encrypted = true, .loopback_only = true};
    expect(&encrypted, "localhost", true);
    expect(&encrypted, "localhost:80", false);
}

static void test_any_host(void **state)
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

static void test_allowed_hosts(void **state)
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
    p.allowed = "[2001:DB8:0::7]";
    expect(&p, "[2001:db8::7]", true);
    expect(&p, "127.0.0.1:7070", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback_hosts),
        cmocka_unit_test(test_default_port),
        cmocka_unit_test(test_any_host),
        cmocka_unit_test(test_allowed_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
