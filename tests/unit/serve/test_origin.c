/* origin.c: which addresses are one client. */
#include "serve/origin.h"

#include "base/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t origin(const char *text)
{
    union address address;
    socklen_t size;
    assert_int_equal(address_parse(text, &address, &size), 0);
    return origin_of_address(&address.any);
}

static void test_each_ipv4_address_is_a_client(void **state)
{
    (void)state;
    assert_int_equal(origin("192.0.2.1:1"), origin("192.0.2.1:2"));
    assert_int_not_equal(origin("192.0.2.1:1"), origin("192.0.2.2:1"));
    assert_int_equal(origin("192.0.2.1:1"), origin("[::ffff:192.0.2.1]:1"));
}

static void test_a_network_of_ipv6_is_one_client(void **state)
{
    (void)state;
    assert_int_equal(origin("[2001:db8:1:2::1]:1"), origin("[2001:db8:1:2:ffff:ffff:ffff:ffff]:1"));
    assert_int_not_equal(origin("[2001:db8:1:2::1]:1"), origin("[2001:db8:1:3::1]:1"));
}

static void test_loopback_is_one_client(void **state)
{
    (void)state;
    assert_int_equal(origin("127.0.0.1:1"), origin("127.99.0.1:1"));
    assert_int_equal(origin("127.0.0.1:1"), origin("[::1]:1"));
    assert_int_equal(origin("127.0.0.1:1"), origin("[::ffff:127.0.0.1]:1"));
}

static void test_a_user_of_a_unix_socket_is_a_client(void **state)
{
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(origin_of_socket(pair[0]), origin_of_socket(pair[1]));
    assert_int_not_equal(origin_of_socket(pair[0]), 0);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(origin_of_socket(-1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_ipv4_address_is_a_client),
        cmocka_unit_test(test_a_network_of_ipv6_is_one_client),
        cmocka_unit_test(test_loopback_is_one_client),
        cmocka_unit_test(test_a_user_of_a_unix_socket_is_a_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
