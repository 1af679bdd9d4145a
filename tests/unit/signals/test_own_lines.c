/* The function of debug information that is shown: the innermost of the user's own code. */
#include "signals/own_lines.h"

#include "resolve/lines/native_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct frame native_frame(const char *function)
{
    return (struct frame){.kind = FRAME_NATIVE,
                          .function = function,
                          .system_name = "",
                          .file = "",
                          .mapping = "/srv/server",
                          .build_id = ""};
}

static void test_function_itself(void **state)
{
    const struct native_place place = {.count = 1, .functions = {{"handle", "/src/server.c", 31}}};
    struct frame frame = native_frame("handle.constprop.0");
    (void)state;
    own_lines_choose(&place, &frame);
    assert_string_equal(frame.function, "handle.constprop.0"); /* as in profiles */
    assert_string_equal(frame.file, "/src/server.c");
    assert_int_equal(frame.line, 31);
}

static void test_inlined_own_function_is_shown_with_its_own_line(void **state)
{
    const struct native_place place = {.count = 3,
                                       .functions = {{"core::slice::iter::next", "/rustc/iter.rs", 7},
                                                     {"server::checksum", "/src/checksum.rs", 12},
                                                     {"server::handle", "/src/main.rs", 99}}};
    struct frame frame = native_frame("server::handle");
    (void)state;
    own_lines_choose(&place, &frame);
    assert_string_equal(frame.function, "server::checksum");
    assert_string_equal(frame.file, "/src/checksum.rs");
    assert_int_equal(frame.line, 12);
}

static void test_inlined_library_is_left_out(void **state)
{
    const struct native_place place = {
        .count = 2, .functions = {{"std::vector<int>::push_back", "/usr/include/vector", 7}, {"grow", "/src/a.cc", 5}}};
    struct frame frame = native_frame("grow");
    (void)state;
    own_lines_choose(&place, &frame);
    assert_string_equal(frame.function, "grow");
    assert_string_equal(frame.file, "/src/a.cc");
    assert_int_equal(frame.line, 5);
}

static void test_line_without_a_file_is_not_shown(void **state)
{
    const struct native_place place = {.count = 1, .functions = {{"handle", "", 31}}};
    struct frame frame = native_frame("handle");
    (void)state;
    own_lines_choose(&place, &frame);
    assert_int_equal(frame.line, 0);
}

/* Neither asks for lines: there is nothing that could answer. */
static void test_only_own_native_code_has_lines_looked_up(void **state)
{
    struct frame frames[] = {native_frame("malloc"), native_frame("handle")};
    (void)state;
    frames[0].mapping = "/lib/x86_64-linux-gnu/libc.so.6";
    assert_true(own_lines_add(NULL, frames, 1)); /* no own code */
    assert_true(own_lines_add(NULL, frames, 2)); /* of an unknown file */
    frames[1].kind = FRAME_INTERPRETED;
    assert_true(own_lines_add(NULL, frames, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_function_itself),
        cmocka_unit_test(test_inlined_own_function_is_shown_with_its_own_line),
        cmocka_unit_test(test_inlined_library_is_left_out),
        cmocka_unit_test(test_line_without_a_file_is_not_shown),
        cmocka_unit_test(test_only_own_native_code_has_lines_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
