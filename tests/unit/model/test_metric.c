/* metric.c: order of families and points, copies of all texts, and refusal of names that the formats do not allow. */
#include "model/metric.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct metric_set *new_set(void)
{
    struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    return set;
}

static void test_families_and_points_keep_their_order(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    char name[] = "b_seconds", value[] = "x";
    metric_add(set, name, METRIC_GAUGE, "seconds", "Help.", 1.5, METRIC_LABELS({"k", value}));
    metric_add(set, "a", METRIC_COUNTER, "", "Other.", 2, METRIC_NO_LABELS);
    metric_add(set, "b_seconds", METRIC_GAUGE, "seconds", "Help.", 3, METRIC_LABELS({"k", "y"}, {"l", "z"}));
    memset(name, '!', sizeof(name) - 1); /* all was copied */
    memset(value, '!', sizeof(value) - 1);
    assert_int_equal(metric_set_error(set), 0);
    assert_int_equal(metric_set_families(set), 2);
    struct metric_family b = metric_set_family(set, 0), a = metric_set_family(set, 1);
    assert_string_equal(b.name, "b_seconds");
    assert_string_equal(b.unit, "seconds");
    assert_string_equal(b.help, "Help.");
    assert_int_equal(b.point_count, 2);
    assert_true(b.points[0].value == 1.5 && b.points[1].value == 3);
    assert_string_equal(b.points[0].labels[0].value, "x");
    assert_string_equal(b.points[1].labels[1].name, "l");
    assert_int_equal(a.type, METRIC_COUNTER);
    assert_int_equal(a.points[0].label_count, 0);
}

static void test_many_points(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    for (int i = 0; i < 1000; i++) {
        char name[32], value[32];
        snprintf(name, sizeof(name), "family_%d", i % 100);
        snprintf(value, sizeof(value), "%d", i);
        metric_add(set, name, METRIC_GAUGE, "", "", i, METRIC_LABELS({"i", value}));
    }
    assert_int_equal(metric_set_error(set), 0);
    assert_int_equal(metric_set_families(set), 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(metric_set_family(set, i).point_count, 10);
}

static void test_histograms_are_copied(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    double bounds[] = {1, 2};
    uint64_t counts[] = {3, 4, 5};
    metric_add_histogram(set, "h", "", "", bounds, counts, 2, 9.5, METRIC_NO_LABELS);
    metric_add_histogram(set, "none", "", "", NULL, (uint64_t[]){7}, 0, 1, METRIC_NO_LABELS);
    memset(bounds, 0, sizeof(bounds));
    memset(counts, 0, sizeof(counts));
    struct metric_family h = metric_set_family(set, 0), none = metric_set_family(set, 1);
    assert_int_equal(h.points[0].bound_count, 2);
    assert_true(h.points[0].bounds[1] == 2 && h.points[0].value == 9.5);
    assert_int_equal(h.points[0].counts[2], 5);
    assert_int_equal(none.points[0].counts[0], 7);
    assert_int_equal(metric_set_error(set), 0);
}

static void expect_refused(const char *name, enum metric_type type, const char *unit, const struct metric_label *labels,
                           size_t count)
{
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    metric_add(set, name, type, unit, "", 1, labels, count);
    assert_int_equal(metric_set_error(set), -EINVAL);
}

static void test_invalid_names_are_refused(void **state)
{
    (void)state;
    expect_refused("", METRIC_GAUGE, "", METRIC_NO_LABELS);
    expect_refused("1a", METRIC_GAUGE, "", METRIC_NO_LABELS);
    expect_refused("a-b", METRIC_GAUGE, "", METRIC_NO_LABELS);
    expect_refused("a_total", METRIC_COUNTER, "", METRIC_NO_LABELS);
    expect_refused("a_info", METRIC_INFO, "", METRIC_NO_LABELS);
    expect_refused("a", METRIC_GAUGE, "seconds", METRIC_NO_LABELS);
    expect_refused("aseconds", METRIC_GAUGE, "seconds", METRIC_NO_LABELS);
    expect_refused("a_seconds", METRIC_INFO, "seconds", METRIC_NO_LABELS);
    expect_refused("a", METRIC_GAUGE, "", METRIC_LABELS({"service.name", "x"}));
    expect_refused("a", METRIC_GAUGE, "", METRIC_LABELS({"a:b", "x"}));
    expect_refused("a", METRIC_GAUGE, "", METRIC_LABELS({"__name__", "x"}));
    expect_refused("a", METRIC_GAUGE, "", METRIC_LABELS({"", "x"}));
    const struct metric_label eleven[11] = {{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}, {"e", ""}, {"f", ""},
                                            {"g", ""}, {"h", ""}, {"i", ""}, {"j", ""}, {"k", ""}};
    expect_refused("a", METRIC_GAUGE, "", eleven, 11);
}

static void test_a_family_has_one_type(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    metric_add(set, "a", METRIC_GAUGE, "", "", 1, METRIC_NO_LABELS);
    metric_add(set, "a", METRIC_COUNTER, "", "", 1, METRIC_NO_LABELS);
    assert_int_equal(metric_set_error(set), -EINVAL);
}

static void test_bounds_must_rise(void **state)
{
    (void)state;
    _cleanup_(metric_set_freep) struct metric_set *set = new_set();
    metric_add_histogram(set, "h", "", "", (double[]){1, 1}, (uint64_t[]){0, 0, 0}, 2, 0, METRIC_NO_LABELS);
    assert_int_equal(metric_set_error(set), -EINVAL);
    metric_set_free(NULL);
}

static void test_set_is_added_whole(void **state)
{
    (void)state;
    struct metric_set *all, *other;
    assert_int_equal(metric_set_new(&all), 0);
    assert_int_equal(metric_set_new(&other), 0);
    metric_add(other, "sonde_a", METRIC_COUNTER, "", "A.", 1, METRIC_LABELS({"x", "1"}));
    metric_add(other, "sonde_a", METRIC_COUNTER, "", "A.", 2, METRIC_LABELS({"x", "2"}));
    metric_add_histogram(other, "sonde_h_seconds", "seconds", "H.", (const double[]){1, 2}, (const uint64_t[]){3, 4, 5},
                         2, 6, METRIC_NO_LABELS);
    metric_add_set(all, other);
    metric_set_free(other); /* no text is borrowed */
    assert_int_equal(metric_set_error(all), 0);
    assert_int_equal(metric_set_families(all), 2);
    const struct metric_family a = metric_set_family(all, 0), h = metric_set_family(all, 1);
    assert_int_equal(a.point_count, 2);
    assert_string_equal(a.points[1].labels[0].value, "2");
    assert_true(a.points[1].value == 2 && a.type == METRIC_COUNTER);
    assert_true(h.points[0].value == 6 && h.points[0].bounds[1] == 2 && h.points[0].counts[2] == 5);
    metric_set_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_and_points_keep_their_order),
        cmocka_unit_test(test_many_points),
        cmocka_unit_test(test_histograms_are_copied),
        cmocka_unit_test(test_invalid_names_are_refused),
        cmocka_unit_test(test_a_family_has_one_type),
        cmocka_unit_test(test_bounds_must_rise),
        cmocka_unit_test(test_set_is_added_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
