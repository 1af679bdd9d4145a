/* The signals at a level of detail are reported in words, for the open signals. */
#include "base/buf.h"
#include "pipeline/pipeline_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct source_level rates[] = {
    {SOURCE_DETAIL_FULL, "full rate"},
    {SOURCE_DETAIL_HALF_RATE, "half rate"},
    {SOURCE_DETAIL_QUARTER_RATE, "quarter rate"},
    {0},
};
static const struct source_level counts[] = {{SOURCE_DETAIL_FULL, "counts"}, {0}};
static const struct source_level paths[] = {{SOURCE_DETAIL_FULL, "paths"}, {SOURCE_DETAIL_LEAST, "no paths"}, {0}};

static enum source_detail shed_to[2];

static int shed_source(void *self, enum source_detail detail)
{
    (void)self;
    shed_to[0] = detail;
    return 0;
}

static void shed_signal(void *self, enum source_detail detail)
{
    (void)self;
    shed_to[1] = detail;
}

static const struct source sampling = {.name = "sampling", .levels = rates, .shed = shed_source},
                           counting = {.name = "counting", .levels = counts};
static const struct signal sampled = {.name = "sampled", .source = &sampling},
                           explained = {.name = "explained", .source = &counting, .levels = paths, .shed = shed_signal};

static void append_to_list(void *context, const char *what)
{
    buf_printf(context, "%s;", what);
}

static void check(const struct pipeline *p, enum source_detail detail, const char *reduced, const char *complete)
{
    _cleanup_buf_ struct buf list = {0}, rest = {0};
    pipeline_describe_detail(p, detail, true, append_to_list, &list);
    pipeline_describe_detail(p, detail, false, append_to_list, &rest);
    assert_string_equal(list.size ? list.data : "", reduced);
    assert_string_equal(rest.size ? rest.data : "", complete);
}

static void test_each_level_is_described(void **state)
{
    int any = 0;
    struct pipeline p = {.opened = {{&sampled, &any, NULL}, {&explained, &any, &any}}, .opened_count = 2};
    (void)state;
    check(&p, SOURCE_DETAIL_FULL, "", "full rate;counts;paths;");
    check(&p, SOURCE_DETAIL_NO_WAIT_STACKS, "", "full rate;counts;paths;");
    check(&p, SOURCE_DETAIL_HALF_RATE, "half rate;", "counts;paths;");
    check(&p, SOURCE_DETAIL_SLOWEST_PATHS, "quarter rate;", "counts;paths;");
    check(&p, SOURCE_DETAIL_LEAST, "quarter rate;no paths;", "counts;");
    assert_int_equal(pipeline_detail_levels(&p), 1u << SOURCE_DETAIL_FULL | 1u << SOURCE_DETAIL_HALF_RATE |
                                                     1u << SOURCE_DETAIL_QUARTER_RATE | 1u << SOURCE_DETAIL_LEAST);
}

static void test_what_is_not_open_is_not_described(void **state)
{
    int any = 0;
    struct pipeline p = {.opened = {{&sampled, NULL, &any}, {&explained, &any, NULL}}, .opened_count = 2};
    (void)state;
    check(&p, SOURCE_DETAIL_LEAST, "", "counts;");
    assert_int_equal(pipeline_detail_levels(&p), 1u << SOURCE_DETAIL_FULL);
}

static void test_sources_and_signals_are_shed(void **state)
{
    int any = 0;
    struct pipeline p = {.opened = {{&sampled, &any, NULL}, {&explained, &any, &any}}, .opened_count = 2};
    (void)state;
    pipeline_shed(&p, SOURCE_DETAIL_HALF_RATE);
    assert_int_equal(shed_to[0], SOURCE_DETAIL_HALF_RATE);
    assert_int_equal(shed_to[1], SOURCE_DETAIL_HALF_RATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_level_is_described),
        cmocka_unit_test(test_what_is_not_open_is_not_described),
        cmocka_unit_test(test_sources_and_signals_are_shed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
