/* Routes: identifiers and queries are never exposed, non-HTTP is refused, any bytes are safe. */
#include "diagnose/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *line, const char *method, const char *path)
{
    struct route route;
    assert_true(route_parse(line, strlen(line), false, &route));
    assert_string_equal(route.method, method);
    assert_string_equal(route.path, path);
}

/* A record that the agent did not make itself may have any bytes. */
static void test_model_with_control_characters_is_replaced(void **state)
{
    (void)state;
    struct route route;
    static const char line[] = "POST /a.B/C HTTP/2 v\001",
                      known[] = "POST /inference.GRPCInferenceService/* HTTP/2 resnet:2";
    assert_true(route_parse_http2(line, sizeof(line) - 1, true, &route));
    assert_string_equal(route.path, "/a.B/C {id}");
    assert_true(route_parse_http2(known, sizeof(known) - 1, true, &route));
    assert_string_equal(route.path, "/inference.GRPCInferenceService/* resnet:2");
}

static void test_identifiers_are_replaced(void **state)
{
    (void)state;
    check("GET /users/42 HTTP/1.1\r\n", "GET", "/users/{id}");
    check("PUT /a/3fa85f64-5717-4562-b3fc-2c963f66afa6/b HTTP/1.1\r\n", "PUT", "/a/{id}/b");
    check("GET /commit/0bb50f4aabbccdd HTTP/1.0\r\n", "GET", "/commit/{id}");
    check("GET /t/eyJhbGciOiJIUzI1NiJ9abc HTTP/1.1\r\n", "GET", "/t/{id}");
    check("GET /u/jane@example.org/x HTTP/1.1\r\n", "GET", "/u/{id}/x");
    check("GET /2026-11-21/log HTTP/1.1\r\n", "GET", "/{id}/log");
    check("GET /a%20b HTTP/1.1\r\n", "GET", "/{id}");
    check("GET /page;jsessionid=0815/next HTTP/1.1\r\n", "GET", "/page/next");
}

static void test_keys_without_a_digit_are_replaced(void **state)
{
    (void)state;
    check("GET /api/keys/sk_live_abcdefgh/use HTTP/1.1\r\n", "GET", "/api/keys/{id}/use");
    check("GET /x/github_pat_abcdefgh HTTP/1.1\r\n", "GET", "/x/{id}");
    check("GET /x/eyJhbGciOiJIUzI HTTP/1.1\r\n", "GET", "/x/{id}");
    check("GET /x/qWeRtYuIoPaSdFgHjKlZ HTTP/1.1\r\n", "GET", "/x/{id}");
    check("GET /x/token-QWERTYUIOPASDFGHJKLZ HTTP/1.1\r\n", "GET", "/x/{id}");
    check("GET /x/qwertyuiopasdfghjklzxcvbnmqwerty HTTP/1.1\r\n", "GET", "/x/{id}");
}

static void test_words_are_kept(void **state)
{
    (void)state;
    check("GET / HTTP/1.1\r\n", "GET", "/");
    check("POST /api/v1/requests HTTP/1.1\r\n", "POST", "/api/v1/requests");
    check("DELETE //a/ HTTP/1.1\r\n", "DELETE", "//a/");
    check("GET /a/very-long-name-without-any-number/decade HTTP/1.1\r\n", "GET",
          "/a/very-long-name-without-any-number/decade");
    check("GET /getUserProfileInformationByName/internationalization/sk_SK HTTP/1.1\r\n", "GET",
          "/getUserProfileInformationByName/internationalization/sk_SK");
    check("GET /keys/sk-model/AKIA HTTP/1.1\r\n", "GET", "/keys/sk-model/AKIA");
    check("OPTIONS * HTTP/1.1\r\n", "OPTIONS", "*");
    check("PROPPATCH /calendars HTTP/1.1\r\n", "PROPPATCH", "/calendars");
}

static void test_query_and_authority_are_dropped(void **state)
{
    (void)state;
    check("GET /a?token=secret HTTP/1.1\r\n", "GET", "/a");
    check("GET /a?b=http://c/d HTTP/1.1\r\n", "GET", "/a");
    check("GET http://user:secret@host:80/a/b?c HTTP/1.1\r\n", "GET", "/a/b");
    check("GET http://host HTTP/1.1\r\n", "GET", "/");
    check("GET http://host?token=secret HTTP/1.1\r\n", "GET", "/");
    check("CONNECT host:443 HTTP/1.1\r\n", "CONNECT", "{authority}");
}

static void test_truncated_request_lines(void **state)
{
    (void)state;
    check("GET /a/secret-that-goes-on-and-o", "GET", "/a/{cut}");
    check("GET /a/b?token=secre", "GET", "/a/b");
    check("GET /a/b HTT", "GET", "/a/b");
}

static void test_non_http_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "GET",
                                        "GET ",
                                        "GET /\r\n",
                                        "GET / FTP/1.1\r\n",
                                        "get / HTTP/1.1\r\n",
                                        "GETS / HTTP/1.1\r\n",
                                        "GET / HTTP/2.0\r\n",
                                        "GET / HTTP/\r\n"};
    struct route route;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (route_parse(lines[i], strlen(lines[i]), false, &route) && strcmp(lines[i], "GET ") != 0)
            fail_msg("accepted as HTTP: %s", lines[i]);
    assert_true(route_parse("GET / FTP/1.1\r\n", 15, true, &route));
    assert_true(route_parse("GET /a\r\n", 8, true, &route));
    assert_string_equal(route.path, "/a");
}

/* For any bytes the parser ends with printable text of bounded size. The span ends where its allocation ends, so that
 * the sanitizer detects a read beyond it. */
static void test_arbitrary_bytes_are_safe(void **state)
{
    (void)state;
    srandom(1);
    for (int round = 0; round < 20000; round++) {
        size_t size = (size_t)random() % 200;
        char *line = malloc(size ? size : 1);
        struct route route;
        for (size_t i = 0; i < size; i++)
            line[i] = random() % 3 ? "GET /?#:;%\r\n HTTP1."[random() % 19] : (char)random();
        if (size > 5 && round % 2)
            memcpy(line, "GET /", 5);
        if (route_parse(line, size, round % 3 == 0, &route)) {
            assert_non_null(memchr(route.path, 0, sizeof(route.path)));
            for (const char *c = route.path; *c; c++)
                assert_true(*c > 0x20 && *c < 0x7f);
        }
        free(line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_with_control_characters_is_replaced),
        cmocka_unit_test(test_identifiers_are_replaced),
        cmocka_unit_test(test_keys_without_a_digit_are_replaced),
        cmocka_unit_test(test_words_are_kept),
        cmocka_unit_test(test_query_and_authority_are_dropped),
        cmocka_unit_test(test_truncated_request_lines),
        cmocka_unit_test(test_non_http_is_refused),
        cmocka_unit_test(test_arbitrary_bytes_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
