/* export.c: the list of formats, and how one is selected. */
#include "export/export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_names_and_suffixes_are_distinct(void **state)
{
    (void)state;
    for (const struct exporter *const *e = exporters; *e; e++) {
        assert_true((*e)->name[0] && (*e)->suffix[0] == '.' && (*e)->content_type[0] && (*e)->help[0]);
        assert_ptr_equal(exporter_by_name((*e)->name), *e);
        assert_ptr_equal(exporter_by_path((*e)->suffix), *e);
    }
}

static void test_find_by_path(void **state)
{
    (void)state;
    assert_ptr_equal(exporter_by_path("/tmp/a.pb.gz"), &exporter_pprof);
    assert_ptr_equal(exporter_by_path("a.pprof"), &exporter_pprof);
    assert_ptr_equal(exporter_by_path("a.json.folded"), &exporter_folded);
    assert_ptr_equal(exporter_by_path("a.txt"), &exporter_folded);
    assert_ptr_equal(exporter_by_path("a.json"), &exporter_speedscope);
    assert_ptr_equal(exporter_by_path("a.speedscope.json"), &exporter_speedscope);
    assert_ptr_equal(exporter_by_path("a.html"), &exporter_html);
    assert_null(exporter_by_path("a.svg"));
    assert_null(exporter_by_path("json"));
    assert_null(exporter_by_path("/tmp/a.json/out"));
    assert_null(exporter_by_path(""));
}

static void test_find_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(exporter_by_name("pprof"), &exporter_pprof);
    assert_ptr_equal(exporter_by_name("json"), &exporter_speedscope);
    assert_null(exporter_by_name(""));
    assert_null(exporter_by_name("PPROF"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_suffixes_are_distinct),
        cmocka_unit_test(test_find_by_path),
        cmocka_unit_test(test_find_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
