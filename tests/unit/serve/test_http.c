/* Lists in headers. */
#include "serve/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_header_list_names(void **state)
{
    (void)state;
    assert_true(http_header_names("gzip", "gzip"));
    assert_true(http_header_names("deflate, GZIP;q=0.5, br", "gzip"));
    assert_true(http_header_names(" br ,\tgzip ", "gzip"));
    assert_false(http_header_names(NULL, "gzip"));
    assert_false(http_header_names("", "gzip"));
    assert_false(http_header_names("gzipped, x-gzip", "gzip"));
    assert_false(http_header_names("gzip;q=0", "gzip"));
    assert_false(http_header_names("gzip; q=0.000", "gzip"));
    assert_true(http_header_names("gzip;q=0.001", "gzip"));
    assert_false(http_header_names("br;gzip", "gzip"));
    assert_false(http_header_names(",,,;;;", "gzip"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_header_list_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
