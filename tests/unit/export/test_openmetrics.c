/* openmetrics.c: exact pages in both formats, and the format selected for a scraper. */
#include "export/openmetrics.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect_page(const struct metric_set *set, bool openmetrics, const char *expected)
{
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(openmetrics_write(set, openmetrics, &out), 0);
    assert_string_equal(out.data ? out.data : "", expected);
}

static struct metric_set *new_set(void)
{
    struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    return set;
}

static void test_page_in_both_formats(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    metric_add(set, "a", METRIC_COUNTER, "", "Say \"a\"\\\n", 1, METRIC_LABELS({"l", "\"\\\n"}));
    metric_add(set, "b_seconds", METRIC_GAUGE, "seconds", "B.", 0.25, METRIC_NO_LABELS);
    metric_add(set, "c", METRIC_INFO, "", "C.", 0, METRIC_LABELS({"v", "1"}));
    metric_add_histogram(set, "d_bytes", "bytes", "D.", (double[]){1, 2.5}, (uint64_t[]){1, 0, 2}, 2, 10,
                         METRIC_NO_LABELS);
    expect_page(set, true,
                "# TYPE a counter\n# HELP a Say \\\"a\\\"\\\\\\n\na_total{l=\"\\\"\\\\\\n\"} 1\n"
                "# TYPE b_seconds gauge\n# UNIT b_seconds seconds\n# HELP b_seconds B.\nb_seconds 0.25\n"
                "# TYPE c info\n# HELP c C.\nc_info{v=\"1\"} 1\n"
                "# TYPE d_bytes histogram\n# UNIT d_bytes bytes\n# HELP d_bytes D.\n"
                "d_bytes_bucket{le=\"1.0\"} 1\nd_bytes_bucket{le=\"2.5\"} 1\nd_bytes_bucket{le=\"+Inf\"} 3\n"
                "d_bytes_sum 10\nd_bytes_count 3\n# EOF\n");
    expect_page(set, false,
                "# TYPE a_total counter\n# HELP a_total Say \"a\"\\\\\\n\na_total{l=\"\\\"\\\\\\n\"} 1\n"
                "# TYPE b_seconds gauge\n# HELP b_seconds B.\nb_seconds 0.25\n"
                "# TYPE c_info gauge\n# HELP c_info C.\nc_info{v=\"1\"} 1\n"
                "# TYPE d_bytes histogram\n# HELP d_bytes D.\n"
                "d_bytes_bucket{le=\"1.0\"} 1\nd_bytes_bucket{le=\"2.5\"} 1\nd_bytes_bucket{le=\"+Inf\"} 3\n"
                "d_bytes_sum 10\nd_bytes_count 3\n");
}

static void test_exemplars_are_in_openmetrics_only(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    const struct metric_exemplar exemplar = {0.067, 1520879607789000000, "abc", "def"};
    metric_add_exemplar(set, 0, &exemplar); /* there is no histogram */
    metric_add_histogram(set, "d_seconds", "seconds", "D.", (double[]){0.5}, (uint64_t[]){1, 2}, 1, 10,
                         METRIC_LABELS({"a", "b"}));
    metric_add_exemplar(set, 1, &(struct metric_exemplar){3, 1000000, "x", "y"});
    metric_add_exemplar(set, 0, &exemplar);
    _cleanup_(metric_set_freep) struct metric_set *copy = new_set();
    metric_add_set(copy, set);
    expect_page(copy, true,
                "# TYPE d_seconds histogram\n# UNIT d_seconds seconds\n# HELP d_seconds D.\n"
                "d_seconds_bucket{a=\"b\",le=\"0.5\"} 1 # {trace_id=\"abc\",span_id=\"def\"} 0.067 1520879607.789\n"
                "d_seconds_bucket{a=\"b\",le=\"+Inf\"} 3 # {trace_id=\"x\",span_id=\"y\"} 3 0.001\n"
                "d_seconds_sum{a=\"b\"} 10\nd_seconds_count{a=\"b\"} 3\n# EOF\n");
    expect_page(copy, false,
                "# TYPE d_seconds histogram\n# HELP d_seconds D.\n"
                "d_seconds_bucket{a=\"b\",le=\"0.5\"} 1\nd_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\n"
                "d_seconds_sum{a=\"b\"} 10\nd_seconds_count{a=\"b\"} 3\n");
}

static void test_numbers_read_back(void **state)
{
    (void)state;
    const double values[] = {0,
                             -1,
                             1,
                             1e6,
                             0.1,
                             0.1 + 0.2,
                             1.0 / 3,
                             1e-300,
                             1.7976931348623157e308,
                             9007199254740991.0,
                             9007199254740992.0,
                             1e15 + 0.5,
                             -0.25};
    for (size_t i = 0; i < array_size(values); i++) {
        _cleanup_(metric_set_freep) struct metric_set *set = new_set();
        metric_add(set, "a", METRIC_GAUGE, "", "", values[i], METRIC_NO_LABELS);
        _cleanup_buf_ struct buf out = {0};
        assert_int_equal(openmetrics_write(set, false, &out), 0);
        assert_true(strtod(strstr(out.data, "\na ") + 3, NULL) == values[i]);
    }
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    metric_add(set, "a", METRIC_GAUGE, "", "", NAN, METRIC_NO_LABELS);
    metric_add(set, "a", METRIC_GAUGE, "", "", INFINITY, METRIC_NO_LABELS);
    metric_add(set, "a", METRIC_GAUGE, "", "", -INFINITY, METRIC_NO_LABELS);
    metric_add(set, "a", METRIC_GAUGE, "", "", 1000000, METRIC_NO_LABELS);
    expect_page(set, true, "# TYPE a gauge\n# HELP a \na NaN\na +Inf\na -Inf\na 1000000\n# EOF\n");
}

static void test_values_are_valid_utf8(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    metric_add(set, "a", METRIC_GAUGE, "", "\xff", 1, METRIC_LABELS({"l", "a\xc0\x80z"}));
    metric_add(set, "a", METRIC_GAUGE, "", "\xff", 1, METRIC_LABELS({"l", "\xc3\xa9\tb\x7f\xe2\x82"}));
    expect_page(set, true,
                "# TYPE a gauge\n# HELP a \xef\xbf\xbd\na{l=\"a\xef\xbf\xbd\xef\xbf\xbdz\"} 1\n"
                "a{l=\"\xc3\xa9\xef\xbf\xbd"
                "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"} 1\n# EOF\n");
}

static void test_histograms_have_bounds_and_labels_of_their_own(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    const uint64_t counts[] = {1, 1, 1};
    metric_add_histogram(set, "a", "", "", (double[]){1, 2}, counts, 2, 0.5, METRIC_LABELS({"l", "x"}));
    metric_add_histogram(set, "a", "", "", (double[]){1, 2}, counts, 2, 1, METRIC_LABELS({"l", "y"}));
    metric_add_histogram(set, "a", "", "", (double[]){1, 3}, counts, 2, 1, METRIC_NO_LABELS);
    metric_add_histogram(set, "b", "", "", (double[]){1}, counts, 1, 1, METRIC_NO_LABELS);
    metric_add_histogram(set, "b", "", "", NULL, counts, 0, 1, METRIC_NO_LABELS);
    expect_page(set, true,
                "# TYPE a histogram\n# HELP a \n"
                "a_bucket{l=\"x\",le=\"1.0\"} 1\na_bucket{l=\"x\",le=\"2.0\"} 2\na_bucket{l=\"x\",le=\"+Inf\"} 3\n"
                "a_sum{l=\"x\"} 0.5\na_count{l=\"x\"} 3\n"
                "a_bucket{l=\"y\",le=\"1.0\"} 1\na_bucket{l=\"y\",le=\"2.0\"} 2\na_bucket{l=\"y\",le=\"+Inf\"} 3\n"
                "a_sum{l=\"y\"} 1\na_count{l=\"y\"} 3\n"
                "a_bucket{le=\"1.0\"} 1\na_bucket{le=\"3.0\"} 2\na_bucket{le=\"+Inf\"} 3\na_sum 1\na_count 3\n"
                "# TYPE b histogram\n# HELP b \n"
                "b_bucket{le=\"1.0\"} 1\nb_bucket{le=\"+Inf\"} 2\nb_sum 1\nb_count 2\n"
                "b_bucket{le=\"+Inf\"} 1\nb_sum 1\nb_count 1\n# EOF\n");
}

/* Buckets never fall: otherwise the histogram is invalid. */
static void test_counts_near_the_largest_number(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    metric_add_histogram(set, "a", "", "", (double[]){1, 2}, (uint64_t[]){UINT64_MAX - 1, 1, 7}, 2,
                         18446744073709551616.0, METRIC_NO_LABELS);
    expect_page(set, false,
                "# TYPE a histogram\n# HELP a \n"
                "a_bucket{le=\"1.0\"} 18446744073709551614\na_bucket{le=\"2.0\"} 18446744073709551615\n"
                "a_bucket{le=\"+Inf\"} 18446744073709551615\na_sum 1.8446744073709552e+19\n"
                "a_count 18446744073709551615\n");
}

static void test_empty_set(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    expect_page(set, true, "# EOF\n");
    expect_page(set, false, "");
}

static void test_write_errors_are_returned(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    _cleanup_buf_ struct buf out = {0};
    metric_add(set, "not a name", METRIC_GAUGE, "", "", 1, METRIC_NO_LABELS);
    assert_int_equal(openmetrics_write(set, true, &out), -EINVAL);
}

static void test_accept_header_selects_the_format(void **state)
{
    (void)state;
    const struct {
        const char *accept;
        bool openmetrics;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"*/*", false},
        {"text/plain", false},
        {"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", false},
        {"application/openmetrics-text", true},
        {"APPLICATION/OpenMetrics-Text", true},
        {"application/openmetrics-text; version=1.0.0", true},
        {"application/openmetrics-text;version=\"1.0.0\"", true},
        {"application/openmetrics-text; version=2.0.0", false},
        {"application/openmetrics-text;q=0", false},
        {"application/openmetrics-text;q=0.3,text/plain;q=0.5", false},
        /* Prometheus 2 */
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         true},
        {"application/openmetrics-text2", false},
        {",,;;,=;q=", false},
        {"application/openmetrics-text;q", true},
        {"x/application/openmetrics-text", false},
    };
    for (size_t i = 0; i < array_size(cases); i++)
        if (openmetrics_accepted(cases[i].accept) != cases[i].openmetrics)
            fail_msg("%s", cases[i].accept ? cases[i].accept : "NULL");
    assert_non_null(strstr(openmetrics_content_type(true), "application/openmetrics-text; version=1.0.0"));
    assert_non_null(strstr(openmetrics_content_type(false), "text/plain; version=0.0.4"));
}

static void test_long_accept_header(void **state)
{
    (void)state;
    char header[20000];
    for (size_t i = 0; i < sizeof(header); i++)
        header[i] = ";,=\" q/a"[i % 8];
    header[sizeof(header) - 1] = '\0';
    assert_false(openmetrics_accepted(header));
    memset(header, 'a', sizeof(header) - 1);
    assert_false(openmetrics_accepted(header));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histograms_have_bounds_and_labels_of_their_own),
        cmocka_unit_test(test_counts_near_the_largest_number),
        cmocka_unit_test(test_page_in_both_formats),
        cmocka_unit_test(test_exemplars_are_in_openmetrics_only),
        cmocka_unit_test(test_numbers_read_back),
        cmocka_unit_test(test_values_are_valid_utf8),
        cmocka_unit_test(test_empty_set),
        cmocka_unit_test(test_write_errors_are_returned),
        cmocka_unit_test(test_accept_header_selects_the_format),
        cmocka_unit_test(test_long_accept_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
