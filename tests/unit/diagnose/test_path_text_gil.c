/* Words for the holder of Python's GIL whose function no CPU sample shows. */
#include "diagnose/path/path_text.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define BASE   1000000000ull
#define MS     1000000ull
#define HOLDER 4711

static uint64_t sampled_ns, waits_ns; /* when a sample found the holder, and when it began to wait; 0: never */
static const char *function;

static void add_place(struct code_tally *tally, const char *name, uint32_t line)
{
    struct code_place place = {.file = "app.py", .line = line, .runs = "pthread_cond_timedwait"};
    snprintf(place.function, sizeof(place.function), "%s", name);
    code_tally_add(tally, &place);
}

static void find_samples(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct code_tally *tally)
{
    (void)context;
    if (tid == HOLDER && sampled_ns >= from_ns && sampled_ns < to_ns)
        add_place(tally, "sampled()", 5);
}

static void find_next_wait(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct code_tally *tally)
{
    (void)context;
    if (tid == HOLDER && waits_ns >= from_ns && waits_ns < to_ns)
        add_place(tally, function, 7);
}

static void check_detail(bool has_gil, const char *expected)
{
    struct path_segment item = {.start_ns = BASE,
                                .end_ns = BASE + 5 * MS,
                                .kind = REQUEST_PART_LOCK,
                                .tid = HOLDER,
                                .pid = 4700,
                                .for_tid = 4701,
                                .syscall = -1,
                                .has_gil = has_gil,
                                .reason = "the holder was running"};
    const struct path_segments path = {
        .items = &item, .count = 1, .begin_ns = item.start_ns, .next_end_ns = item.end_ns};
    const struct path_names names = {.samples = find_samples, .next_wait = find_next_wait};
    struct request_part parts[REQUEST_PARTS_MAX];
    _cleanup_(path_text_freep) struct path_text *text = NULL;
    size_t count;
    assert_int_equal(path_text_new(&path, 4700, 4701, &names, &text), 0);
    assert_int_equal(path_text_parts(text, REQUEST_PARTS_MAX, parts, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(parts[0].detail, expected);
}

static int start(void **state)
{
    (void)state;
    sampled_ns = waits_ns = 0;
    function = "spin()";
    return 0;
}

#define HELD "held by thread 4711: the holder was running"

static void test_function_that_gave_the_gil_up(void **state)
{
    (void)state;
    waits_ns = BASE + 5 * MS + 300000;
    check_detail(true, HELD "; it gave the GIL up in spin() app.py:7");
    check_detail(false, HELD);
    waits_ns = BASE + 5 * MS - 300000; /* by an account that lacks stolen time */
    check_detail(true, HELD "; it gave the GIL up in spin() app.py:7");
}

static void test_sample_says_more(void **state)
{
    (void)state;
    waits_ns = BASE + 5 * MS;
    sampled_ns = BASE + MS;
    check_detail(true, HELD "; the holder ran sampled() app.py:5, running pthread_cond_timedwait");
}

static void test_later_wait_shows_nothing(void **state)
{
    (void)state;
    check_detail(true, HELD);
    waits_ns = BASE + 7 * MS;
    check_detail(true, HELD);
    waits_ns = BASE + MS;
    check_detail(true, HELD);
    waits_ns = BASE + 5 * MS;
    function = ""; /* no own code */
    check_detail(true, HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_function_that_gave_the_gil_up, start),
        cmocka_unit_test_setup(test_sample_says_more, start),
        cmocka_unit_test_setup(test_later_wait_shows_nothing, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
