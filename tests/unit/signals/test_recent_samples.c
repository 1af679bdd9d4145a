/* Recent CPU samples: their code places are found by thread and time, the oldest overwritten. */
#include "signals/recent_samples.h"

#include "model/sample_type.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct code_tally tally;

static void add(struct recent_samples *s, uint32_t tid, uint64_t time_ns, const char *function)
{
    const struct frame frames[] = {
        {.kind = FRAME_NATIVE, .function = function, .mapping = "/srv/server", .file = ""},
    };
    recent_samples_add(
        s,
        &(struct sample){.type = &sample_type_cpu, .tid = tid, .time_ns = time_ns, .frames = frames, .frame_count = 1});
}

/* The number of samples in [from, to). */
static size_t find(const struct recent_samples *s, uint32_t tid, uint64_t from_ns, uint64_t to_ns)
{
    code_tally_begin(&tally);
    recent_samples_find(s, tid, from_ns, to_ns, &tally);
    return tally.samples;
}

static void test_found_by_thread_and_time(void **state)
{
    _cleanup_(recent_samples_freep) struct recent_samples *s = NULL;
    struct code_place place;
    (void)state;
    assert_int_equal(recent_samples_new(&s), 0);
    add(s, 7, 100, "parse");
    add(s, 8, 150, "other");
    add(s, 7, 199, "parse");
    add(s, 7, 200, "late");
    assert_int_equal(find(s, 7, 100, 200), 2);
    assert_int_equal(code_tally_most(&tally, &place), 2);
    assert_string_equal(place.function, "parse()");
    assert_int_equal(find(s, 9, 0, UINT64_MAX), 0);
    assert_int_equal(find(s, 7, 201, UINT64_MAX), 0);
}

static void test_oldest_are_overwritten(void **state)
{
    _cleanup_(recent_samples_freep) struct recent_samples *s = NULL;
    (void)state;
    assert_int_equal(recent_samples_new(&s), 0);
    for (uint64_t i = 0; i < 20000; i++)
        add(s, 7, i, "f");
    assert_int_equal(find(s, 7, 0, 10000), 0);
    assert_int_equal(find(s, 7, 19990, 20000), 10);
}

static void test_other_samples_are_not_kept(void **state)
{
    _cleanup_(recent_samples_freep) struct recent_samples *s = NULL;
    const struct frame frame = {.kind = FRAME_NATIVE, .function = "f", .mapping = "", .file = ""};
    (void)state;
    assert_int_equal(recent_samples_new(&s), 0);
    recent_samples_add(s, &(struct sample){.type = &sample_type_cpu, .tid = 7, .time_ns = 1});
    recent_samples_add(
        s, &(struct sample){.type = &sample_type_off_cpu, .tid = 7, .time_ns = 1, .frames = &frame, .frame_count = 1});
    assert_int_equal(find(s, 7, 0, 10), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_by_thread_and_time),
        cmocka_unit_test(test_oldest_are_overwritten),
        cmocka_unit_test(test_other_samples_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
