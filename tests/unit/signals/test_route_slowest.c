/* Only a request that is slower than the others of its route in the last seconds is the slowest. */
#include "signals/request/route_slowest.h"

#include <linux/types.h>

#include "probes/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS     1000000ull
#define SECOND (1000 * MS)

static uint64_t key(const char *comm, const char *line)
{
    struct request_record r = {.status = 200};
    snprintf(r.comm, sizeof(r.comm), "%s", comm);
    snprintf(r.line, sizeof(r.line), "%s", line);
    r.line_bytes = (uint8_t)strlen(r.line);
    return route_slowest_key(&r);
}

static void test_key_is_that_of_a_route(void **state)
{
    const uint64_t seven = key("web", "GET /user/7 HTTP/1.1\r\n\r\n");
    (void)state;
    assert_true(seven == key("web", "GET /user/8?all HTTP/1.1\r\n\r\n"));
    assert_true(seven != key("web", "PUT /user/7 HTTP/1.1\r\n\r\n"));
    assert_true(seven != key("web", "GET /users HTTP/1.1\r\n\r\n"));
    assert_true(seven != key("api", "GET /user/7 HTTP/1.1\r\n\r\n"));
    assert_true(seven != 0 && key("web", "") != 0);
}

static void test_slowest_of_each_route(void **state)
{
    static struct route_slowest s;
    const uint64_t a = key("web", "GET /a HTTP/1.1\r\n"), b = key("web", "GET /b HTTP/1.1\r\n"), now = 1000 * SECOND;
    (void)state;
    assert_true(route_slowest_is(&s, a, 5 * MS, now));
    route_slowest_add(&s, a, 5 * MS, now);
    assert_false(route_slowest_is(&s, a, 5 * MS, now + SECOND)); /* as slow, not slower */
    assert_true(route_slowest_is(&s, a, 6 * MS, now + SECOND));
    assert_true(route_slowest_is(&s, b, 1 * MS, now + SECOND)); /* another route's requests are faster */
    route_slowest_add(&s, a, 3 * MS, now + SECOND);
    assert_false(route_slowest_is(&s, a, 4 * MS, now + SECOND));
}

static void test_slowest_is_forgotten_after_seconds(void **state)
{
    static struct route_slowest s;
    const uint64_t a = key("web", "GET /a HTTP/1.1\r\n"), now = 1000 * SECOND;
    (void)state;
    route_slowest_add(&s, a, 900 * MS, now);
    route_slowest_add(&s, a, 20 * MS, now + 10 * SECOND);
    assert_false(route_slowest_is(&s, a, 800 * MS, now + 19 * SECOND));
    assert_true(route_slowest_is(&s, a, 30 * MS, now + 20 * SECOND));
    assert_false(route_slowest_is(&s, a, 10 * MS, now + 20 * SECOND));
    assert_true(route_slowest_is(&s, a, 10 * MS, now + 30 * SECOND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_is_that_of_a_route),
        cmocka_unit_test(test_slowest_of_each_route),
        cmocka_unit_test(test_slowest_is_forgotten_after_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
