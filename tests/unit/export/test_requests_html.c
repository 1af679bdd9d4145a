/* The file of `sonde why --html`: the page around the JSON, which no name can leave. */
#include "export/requests_html.h"

#include "export/requests_json.h"
#include "web_assets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static size_t occurrences(const char *text, const char *part)
{
    size_t n = 0;
    while ((text = strstr(text, part))) {
        n++;
        text += strlen(part);
    }
    return n;
}

static void test_page_holds_the_json(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf html = {0}, json = {0};
    struct request r = {.service = "s", .container_id = "", .method = "GET", .route = "/x", .peer = "", .cause = "c"};
    struct request *list[] = {&r};
    const struct coverage coverage = {.asked_ns = 1, .observed_ns = 1};
    assert_int_equal(requests_html_write(list, 1, &coverage, &html), 0);
    assert_int_equal(requests_json_write(list, 1, &json), 0);
    assert_int_equal(occurrences(html.data, json.data), 1);
    assert_int_equal(occurrences(html.data, "<title>Sonde: GET /x took 0 ns</title>"), 1);
    assert_int_equal(occurrences(html.data, WEB_PLACEHOLDER), 0);
    assert_null(strstr(html.data, "src=\""));
}

static void test_hostile_names_stay_inside(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf html = {0}, plain = {0};
    const char *hostile = "</title></script><!--<script><img src=x>" WEB_PLACEHOLDER "\xff\n";
    const struct request_segment segment = {.duration_ns = 1, .thread = hostile, .detail = hostile};
    struct request r = {.service = hostile,
                        .container_id = hostile,
                        .method = hostile,
                        .route = hostile,
                        .peer = hostile,
                        .cause = hostile,
                        .segments = &segment,
                        .segment_count = 1,
                        .part_count = 1,
                        .parts = {{REQUEST_PART_CPU, 1, hostile, hostile}}};
    struct request *list[] = {&r};
    struct coverage coverage = {.port_count = 1};
    assert_int_equal(requests_html_write(list, 0, &coverage, &plain), 0);
    coverage_add_gap(&coverage, COVERAGE_BUDGET, 1, "%s", hostile);
    snprintf(coverage.ports[0].process, sizeof(coverage.ports[0].process), "%s", hostile);
    assert_int_equal(requests_html_write(list, 1, &coverage, &html), 0);
    static const char *const marks[] = {"<script", "</script", "<!--", "<img", "</title"};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        assert_int_equal(occurrences(html.data, marks[i]), occurrences(plain.data, marks[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_holds_the_json),
        cmocka_unit_test(test_hostile_names_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
