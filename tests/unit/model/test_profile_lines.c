/* profile_with_lines: inlined functions become frames, and nothing else of a profile changes. */
#include "../fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct profile *make_profile(void)
{
    struct profile *p;
    const struct resource resource = fixture_resource(7, "program");
    const struct frame frames[] = {fixture_native("leaf"), fixture_frame(FRAME_NATIVE, "", "/usr/bin/program", 0x2000),
                                   fixture_frame(FRAME_KERNEL, "kernel", "[kernel.kallsyms]", 1)};
    assert_int_equal(profile_new(0, &p), 0);
    p->start_unix_ns = 5;
    p->duration_ns = 6;
    p->period = 7;
    assert_int_equal(fixture_add(p, &resource, 7, "thread", 100, frames, 3), 0);
    assert_int_equal(fixture_add(p, &resource, 8, "thread", 200, frames, 2), 0);
    assert_int_equal(fixture_add(p, &resource, 8, "thread", 300, frames + 1, 1), 0);
    return p;
}

static const struct profile_line lines[] = {
    {.function = "inner", .system_name = "_inner", .file = "a.h", .line = 3},
    {.function = "middle", .system_name = "", .file = "a.h", .line = 9},
    {.function = "outer", .system_name = "_outer", .file = "a.c", .line = PROFILE_LINE_MAX + 5},
};

static void test_inlined_functions_are_frames(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = make_profile(), *with = NULL;
    const struct profile_frame_lines rows[] = {{lines, 3}, {lines + 2, 1}, {NULL, 0}};
    assert_int_equal(p->frame_count, 3);
    assert_int_equal(profile_with_lines(p, rows, 0, &with), 0);
    assert_int_equal(with->entry_count, 3);
    assert_int_equal(fixture_weight(with), 600);
    assert_int_equal(with->start_unix_ns, 5);
    assert_int_equal(with->duration_ns, 6);
    assert_int_equal(with->period, 7);
    const struct profile_stack *stack = &with->stacks[with->entries[0].stack];
    static const char *const functions[] = {"inner", "middle", "leaf", "outer", "kernel"};
    static const bool inlined[] = {true, true, false, false, false};
    static const uint32_t numbers[] = {3, 9, PROFILE_LINE_MAX, PROFILE_LINE_MAX, 0};
    assert_int_equal(stack->count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        const struct profile_frame *frame = &with->frames[with->stack_frames[stack->first + i]];
        assert_string_equal(profile_text(with, frame->function),
                            functions[i]); /* a frame's own name is kept where it has one */
        assert_int_equal(frame->inlined, inlined[i]);
        assert_int_equal(frame->line, numbers[i]);
        assert_int_equal(frame->address, i < 3 ? 0x1000 + strlen("leaf") : i == 3 ? 0x2000 : 1);
        assert_string_equal(profile_text(with, frame->mapping), i < 4 ? "/usr/bin/program" : "[kernel.kallsyms]");
    }
    assert_int_equal(with->stacks[with->entries[1].stack].count, 4);
    assert_int_equal(with->stacks[with->entries[2].stack].count, 1);
    assert_int_equal(with->frame_count, 5); /* shared by all stacks */
}

static void test_folding_joins_lines_and_keeps_inlined_apart(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = make_profile(), *with = NULL, *folded = NULL;
    const struct profile_line other[] = {{.function = "leaf", .system_name = "", .file = "a.c", .line = 1},
                                         {.function = "", .system_name = "", .file = "a.c", .line = 2}};
    const struct profile_frame_lines rows[] = {{other, 2}, {NULL, 0}, {NULL, 0}};
    assert_int_equal(profile_with_lines(p, rows, 0, &with), 0);
    assert_int_equal(profile_fold(with, &folded), 0);
    unsigned leaves = 0;
    for (uint32_t i = 0; i < folded->frame_count; i++) {
        leaves += strcmp(profile_text(folded, folded->frames[i].function), "leaf") == 0;
        assert_int_equal(folded->frames[i].line, 0);
    }
    assert_int_equal(leaves, 2);
}

static void test_bound_is_kept(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = make_profile(), *with = NULL;
    const struct profile_frame_lines rows[] = {{lines, 3}, {lines, 3}, {NULL, 0}};
    assert_int_equal(profile_with_lines(p, rows, 1, &with), -ENOSPC);
    assert_null(with);
}

/* Frames that otherwise do not differ are joined, and so are their stacks and samples. */
static void test_system_names_can_be_dropped(void **state)
{
    (void)state;
    const struct resource resource = fixture_resource(1, "a");
    struct frame frame = fixture_native("max");
    for (int drops = 0; drops < 2; drops++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        assert_int_equal(profile_new(0, &p), 0);
        p->drops_system_names = drops;
        frame.system_name = "_Z3maxii";
        assert_int_equal(fixture_add(p, &resource, 1, "t", 10, &frame, 1), 0);
        frame.system_name = "_Z3maxdd";
        assert_int_equal(fixture_add(p, &resource, 1, "t", 10, &frame, 1), 0);
        assert_int_equal(p->frame_count, drops ? 1 : 2);
        assert_int_equal(p->entry_count, drops ? 1 : 2);
        assert_string_equal(profile_text(p, p->frames[0].system_name), drops ? "" : "_Z3maxii");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inlined_functions_are_frames),
        cmocka_unit_test(test_folding_joins_lines_and_keeps_inlined_apart),
        cmocka_unit_test(test_system_names_can_be_dropped),
        cmocka_unit_test(test_bound_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
