/* Recent CPU samples: found by thread and time, three frames deep, the oldest overwritten. */
#include "aggregate/recent_stacks.h"

#include "model/sample_type.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MAX 16

static const char *found[MAX];

static void add(struct recent_stacks *s, uint32_t tid, uint64_t time_ns, const char *const *names, size_t count)
{
    struct frame frames[8];
    for (size_t i = 0; i < count; i++)
        frames[i] = (struct frame){
            .kind = names[i][0] == '[' ? FRAME_TRUNCATED : FRAME_NATIVE, .function = names[i], .mapping = ""};
    recent_stacks_add(
        s, &(struct sample){
               .type = &sample_type_cpu, .tid = tid, .time_ns = time_ns, .frames = frames, .frame_count = count});
}

static void test_found_by_thread_and_time(void **state)
{
    _cleanup_(recent_stacks_freep) struct recent_stacks *s = NULL;
    (void)state;
    assert_int_equal(recent_stacks_new(&s), 0);
    add(s, 7, 100, (const char *[]){"parse", "load", "handle", "main"}, 4);
    add(s, 8, 150, (const char *[]){"other"}, 1);
    add(s, 7, 199, (const char *[]){"[cut]", "hash"}, 2);
    add(s, 7, 200, (const char *[]){"late"}, 1);
    assert_int_equal(recent_stacks_find(s, 7, 100, 200, found, MAX), 2);
    assert_string_equal(found[0], "hash");
    assert_string_equal(found[1], "parse < load < handle");
    assert_int_equal(recent_stacks_find(s, 7, 100, 200, found, 1), 1);
    assert_int_equal(recent_stacks_find(s, 9, 0, UINT64_MAX, found, MAX), 0);
    assert_int_equal(recent_stacks_find(s, 7, 201, UINT64_MAX, found, MAX), 0);
}

static void test_long_names_are_cut(void **state)
{
    _cleanup_(recent_stacks_freep) struct recent_stacks *s = NULL;
    static const char name[] = "a_function_with_a_name_that_has_more_than_32_bytes";
    (void)state;
    assert_int_equal(recent_stacks_new(&s), 0);
    add(s, 7, 1, (const char *[]){name, name, name}, 3);
    assert_int_equal(recent_stacks_find(s, 7, 0, 2, found, MAX), 1);
    assert_string_equal(found[0], "a_function_with_a_name_that_h... < a_function_with_a_name_that_h... < "
                                  "a_function_with_a_name_that_h...");
}

static void test_garbage_collectors_are_named(void **state)
{
    _cleanup_(recent_stacks_freep) struct recent_stacks *s = NULL;
    (void)state;
    assert_int_equal(recent_stacks_new(&s), 0);
    add(s, 7, 1, (const char *[]){"mark", "follow", "GenMarkSweep::mark", "VM_GenCollectFull::doit", "VMThread::run"},
        5);
    add(s, 7, 2, (const char *[]){"VM_GetAllStackTraces::doit", "VMThread::run"}, 2);
    add(s, 8, 3, (const char *[]){"mark", "G1FullGCMarker::mark", "G1FullGCMarkTask::work", "GangWorker::loop"}, 4);
    assert_int_equal(recent_stacks_find(s, 8, 0, 4, found, MAX), 1);
    assert_string_equal(found[0], "garbage collection: G1FullGCMarkTask::work");
    assert_int_equal(recent_stacks_find(s, 7, 0, 3, found, MAX), 2);
    assert_string_equal(found[0], "VM_GetAllStackTraces::doit < VMThread::run");
    assert_string_equal(found[1], "garbage collection: VM_GenCollectFull::doit");
}

static void test_oldest_are_overwritten(void **state)
{
    _cleanup_(recent_stacks_freep) struct recent_stacks *s = NULL;
    (void)state;
    assert_int_equal(recent_stacks_new(&s), 0);
    for (uint64_t i = 0; i < 20000; i++)
        add(s, 7, i, (const char *[]){"f"}, 1);
    assert_int_equal(recent_stacks_find(s, 7, 0, 10000, found, MAX), 0);
    assert_int_equal(recent_stacks_find(s, 7, 19990, 20000, found, MAX), 10);
}

static void test_other_samples_are_not_kept(void **state)
{
    _cleanup_(recent_stacks_freep) struct recent_stacks *s = NULL;
    const struct frame frame = {.kind = FRAME_NATIVE, .function = "f", .mapping = ""};
    (void)state;
    assert_int_equal(recent_stacks_new(&s), 0);
    add(s, 7, 1, NULL, 0);
    recent_stacks_add(
        s, &(struct sample){.type = &sample_type_off_cpu, .tid = 7, .time_ns = 1, .frames = &frame, .frame_count = 1});
    assert_int_equal(recent_stacks_find(s, 7, 0, 10, found, MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_by_thread_and_time),     cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_garbage_collectors_are_named), cmocka_unit_test(test_oldest_are_overwritten),
        cmocka_unit_test(test_other_samples_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
