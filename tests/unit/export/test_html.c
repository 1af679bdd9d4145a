/* html.c: the page around the profile's JSON. No name can end the element that contains it. Tests in a
 * browser: web/tests/page.test.mjs. */
#include "export/export.h"
#include "web_assets.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

static size_t occurrences(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

static void assert_titled(const char *html, const char *title)
{
    char element[256];
    snprintf(element, sizeof(element), "<title>%s</title>", title);
    assert_int_equal(occurrences(html, element), 1);
    assert_int_equal(occurrences(html, "<title"), 1);
}

static void test_page_contains_the_profile(void **state)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    _cleanup_buf_ struct buf html = {0}, json = {0};
    (void)state;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_typical(p);
    assert_int_equal(exporter_html.write(p, &html), 0);
    assert_int_equal(exporter_speedscope.write(p, &json), 0);
    static const char title[] = "Sonde: CPU time of several processes, 60.0 s";
    assert_int_equal(html.size,
                     web_flame_html_size() - strlen(WEB_PLACEHOLDER) - strlen(WEB_TITLE) + strlen(title) + json.size);
    assert_titled(html.data, title);
    assert_int_equal(occurrences(html.data, json.data), 1);
    assert_int_equal(occurrences(html.data, WEB_PLACEHOLDER), 0);
    assert_int_equal(occurrences(html.data, "<script"), occurrences(web_flame_html, "<script"));
    assert_int_equal(occurrences(html.data, "http-equiv=\"Content-Security-Policy\""), 1);
}

static void test_names_cannot_end_the_script_element(void **state)
{
    struct resource resource = resource_unknown;
    resource.command = "</script><script>alert(1)</script>";
    resource.executable_path = "<!--";
    const struct frame frame = {.kind = FRAME_NATIVE,
                                .function = "</SCRIPT ><img>" WEB_PLACEHOLDER,
                                .file = "]]>",
                                .mapping = "<!--<script>",
                                .build_id = ""};
    const struct sample sample = {
        .value = 1, .resource = &resource, .thread_name = "", .frames = &frame, .frame_count = 1};
    _cleanup_(profile_freep) struct profile *p = NULL;
    _cleanup_buf_ struct buf html = {0};
    (void)state;
    assert_int_equal(profile_new(0, &p), 0);
    assert_int_equal(profile_add(p, &sample), 0);
    assert_int_equal(exporter_html.write(p, &html), 0);
    assert_int_equal(occurrences(html.data, "</script>"), occurrences(web_flame_html, "</script>"));
    assert_int_equal(occurrences(html.data, "</SCRIPT"), 0);
    assert_int_equal(occurrences(html.data, "<!--"), occurrences(web_flame_html, "<!--"));
    assert_int_equal(occurrences(html.data, "<img"), occurrences(web_flame_html, "<img"));
}

/* It says CPU time only for a CPU profile. */
static void test_title_names_the_profile_type(void **state)
{
    static const struct {
        const char *event, *other_command, *title;
        const struct sample_type *type;
        uint32_t other_pid;
        uint64_t duration_ns;
    } cases[] = {
        {NULL, "a&b<c", "Sonde: off-CPU time of a&amp;b&lt;c (pid 7), 2.50 s", &sample_type_off_cpu, 7, 2500000000},
        {NULL, "a&b<c", "Sonde: wall-clock time of a&amp;b&lt;c", &sample_type_wall, 8, 0},
        {"page-faults", "d", "Sonde: page-faults of several processes", NULL, 8, 0},
    };
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        _cleanup_buf_ struct buf html = {0};
        const struct frame frame = fixture_native("f");
        assert_int_equal(profile_new(0, &p), 0);
        for (int j = 0; j < 2; j++) {
            struct resource resource =
                fixture_resource(j ? cases[i].other_pid : 7, j ? cases[i].other_command : "a&b<c");
            const struct sample s = {
                .value = 1, .resource = &resource, .thread_name = "", .frames = &frame, .frame_count = 1};
            assert_true(profile_add(p, &s) >= 0);
        }
        p->duration_ns = cases[i].duration_ns;
        if (cases[i].event)
            assert_int_equal(fixture_set_event(p, cases[i].event, "count"), 0);
        else
            p->type = cases[i].type;
        assert_int_equal(exporter_html.write(p, &html), 0);
        assert_titled(html.data, cases[i].title);
    }
}

static void test_output_is_bounded(void **state)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    _cleanup_buf_ struct buf html = {.max_bytes = 1000};
    (void)state;
    assert_int_equal(profile_new(0, &p), 0);
    assert_int_equal(exporter_html.write(p, &html), -EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_contains_the_profile),
        cmocka_unit_test(test_names_cannot_end_the_script_element),
        cmocka_unit_test(test_title_names_the_profile_type),
        cmocka_unit_test(test_output_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
