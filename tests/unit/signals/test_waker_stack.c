/* A waker's stack is placed above the waiter's, reversed, and keeps its strings after the originals are gone. */
#include "signals/offcpu/waker_stack.h"

#include "../fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static void expect(const struct sample *s, const char *const *functions, size_t count)
{
    assert_int_equal(s->frame_count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(s->frames[i].function, functions[i]);
}

static void test_waker_stack_is_appended_reversed(void **state)
{
    (void)state;
    struct waker_stack w = {0};
    char leaf[] = "wake", file[] = "/lib/waker.so";
    const struct frame waker_frames[] = {fixture_frame(FRAME_KERNEL, leaf, file, 5), fixture_native("let_go"),
                                         fixture_native("left out")};
    const struct frame frames[] = {fixture_frame(FRAME_WAIT, "[lock: futex]", "", 0), fixture_native("wait_here")};
    const struct sample waker = {.frames = waker_frames, .frame_count = 3};
    struct sample s = {.frames = frames, .frame_count = 2};
    assert_int_equal(waker_stack_set(&w, &waker, 2, "[woken by w]"), 0);
    memset(leaf, 'x', sizeof(leaf) - 1);
    memset(file, 'x', sizeof(file) - 1);
    assert_int_equal(waker_stack_put(&w, &s), 0);
    expect(&s, (const char *const[]){"let_go", "wake", "[woken by w]", "[lock: futex]", "wait_here"}, 5);
    assert_string_equal(s.frames[1].mapping, "/lib/waker.so");
    assert_int_equal(s.frames[1].address, 5);
    assert_int_equal(s.frames[1].kind, FRAME_KERNEL);
    assert_int_equal(s.frames[2].kind, FRAME_WAIT);

    struct sample again = {.frames = frames, .frame_count = 2}; /* longer or shorter, reusing the memory */
    assert_int_equal(waker_stack_set(&w, NULL, 0, "[waker not seen]"), 0);
    assert_int_equal(waker_stack_put(&w, &again), 0);
    expect(&again, (const char *const[]){"[waker not seen]", "[lock: futex]", "wait_here"}, 3);
    again = (struct sample){.frames = frames, .frame_count = 2};
    assert_int_equal(waker_stack_set(&w, &waker, 3, "[woken by a much longer name than before]"), 0);
    assert_int_equal(waker_stack_put(&w, &again), 0);
    expect(&again,
           (const char *const[]){"left out", "let_go", "xxxx", "[woken by a much longer name than before]",
                                 "[lock: futex]", "wait_here"},
           6);
    waker_stack_clear(&w);
}

/* Without a waker, the sample is unchanged. */
static void test_no_waker_leaves_the_sample_unchanged(void **state)
{
    (void)state;
    struct waker_stack w = {0};
    const struct frame frame = fixture_native("f");
    struct sample s = {.frames = &frame, .frame_count = 1};
    assert_int_equal(waker_stack_put(&w, &s), 0);
    expect(&s, (const char *const[]){"f"}, 1);
    waker_stack_clear(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waker_stack_is_appended_reversed),
        cmocka_unit_test(test_no_waker_leaves_the_sample_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
