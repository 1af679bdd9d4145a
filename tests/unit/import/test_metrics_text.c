/* Series of metrics in Prometheus' text format. */
#include "import/metrics_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expect_series(const char *text, const char *expected)
{
    struct metrics_text_series s;
    char copy[1024], found[1024] = "", *at = copy;
    size_t used = 0;
    snprintf(copy, sizeof(copy), "%s", text);
    while (metrics_text_next(&at, &s)) {
        used += (size_t)snprintf(found + used, sizeof(found) - used, "%s", s.name);
        for (size_t i = 0; i < s.label_count; i++)
            used +=
                (size_t)snprintf(found + used, sizeof(found) - used, " %s<%s>", s.labels[i].name, s.labels[i].value);
        used += (size_t)snprintf(found + used, sizeof(found) - used, " %g|", s.value);
    }
    assert_string_equal(found, expected);
}

static void test_names_labels_and_values_are_read(void **state)
{
    (void)state;
    expect_series("# HELP a of\n# TYPE a gauge\na 1\nb_total{pid=\"4711\",call=\"launch\"} 2.5\nc{} -1e3\n",
                  "a 1|b_total pid<4711> call<launch> 2.5|c -1000|");
    expect_series("last{a=\"b\"} 7", "last a<b> 7|");
    expect_series("", "");
}

/* A service's name can be chosen to look like a label. */
static void test_a_value_is_no_label(void **state)
{
    char text[] = "x{service_name=\"a,pid=\\\"1\\\"} 9\\\\\\n\",pid=\"2\"} 3\n", *at = text;
    struct metrics_text_series s;
    (void)state;
    assert_true(metrics_text_next(&at, &s));
    assert_string_equal(metrics_text_label(&s, "service_name"), "a,pid=\"1\"} 9\\\n");
    assert_string_equal(metrics_text_label(&s, "pid"), "2");
    assert_string_equal(metrics_text_label(&s, "call"), "");
    assert_true(s.value == 3);
}

static void test_malformed_lines_are_skipped(void **state)
{
    (void)state;
    expect_series(
        "a\nb{\nc{x} 1\nd{x=\"1} 1\ne{x=\"1\"\nf{x=\"1\"y=\"2\"} 1\ng{=\"1\"} 1\n{} 1\nh{x=\"1\"} z\ni{x=\"\\\nj 1\n",
        "j 1|");
}

static void test_labels_beyond_the_limit_are_left_out(void **state)
{
    char text[512] = "a{", *at = text;
    struct metrics_text_series s;
    (void)state;
    for (int i = 0; i < 2 * METRICS_TEXT_LABELS_MAX; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "l%d=\"%d\",", i, i);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "} 5");
    assert_true(metrics_text_next(&at, &s));
    assert_int_equal(s.label_count, METRICS_TEXT_LABELS_MAX);
    assert_true(s.value == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_labels_and_values_are_read),
        cmocka_unit_test(test_a_value_is_no_label),
        cmocka_unit_test(test_malformed_lines_are_skipped),
        cmocka_unit_test(test_labels_beyond_the_limit_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
