/* Recent waits: found by thread and time, with the stack that they refer to by its name; bounded; and the processes
 * whose waits are wanted. */
#include "signals/recent_waits.h"

#include "model/sample.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static size_t resolved;
static uint32_t line; /* of the thread's function; 0: it is still looked up */

/* Frames by the thread's name in the record: for "kernel" the frames of the program are missing. */
static int resolve(void *context, const struct stack_record *record, struct sample *ret)
{
    static struct frame frames[] = {
        {.kind = FRAME_KERNEL, .function = "schedule", .mapping = ""},
        {.kind = FRAME_KERNEL, .function = "futex_wait", .mapping = ""},
        {.kind = FRAME_KERNEL, .function = "__x64_sys_futex", .mapping = ""},
        {.kind = FRAME_NATIVE, .mapping = ""},
        {.kind = FRAME_NATIVE, .function = "main", .mapping = ""},
    };
    static char name[sizeof(record->comm)];
    (void)context;
    resolved++;
    memcpy(name, record->comm, sizeof(name));
    frames[3].function = name;
    frames[3].mapping = strcmp(name, "native") == 0 ? "/srv/server" : "";
    frames[3].file = line ? "/src/server.c" : "";
    frames[3].line = line;
    *ret = (struct sample){.frames = frames, .frame_count = strcmp(name, "kernel") ? 5 : 3};
    return strcmp(name, "malformed") == 0 ? -EBADMSG : strcmp(name, "native") == 0 && !line ? -EAGAIN : 0;
}

static struct recent_waits *make(void)
{
    struct recent_waits *w;
    assert_int_equal(recent_waits_new(resolve, NULL, &w), 0);
    resolved = 0;
    line = 0;
    return w;
}

static void put_stack(struct recent_waits *w, uint64_t name, const char *function, size_t bytes)
{
    struct stack_record *record = calloc(1, sizeof(*record) + bytes);
    record->h.size_bytes = (uint32_t)(sizeof(*record) + bytes);
    strncpy(record->comm, function, sizeof(record->comm) - 1);
    recent_waits_put_stack(w, name, record);
    free(record);
}

static void test_wait_with_the_most_time_in_the_interval(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    struct path_wait wait;
    (void)state;
    put_stack(w, 1, "idle", 0);
    put_stack(w, 2, "lock", 0);
    recent_waits_put(w, 7, 0, 1000, 1);
    recent_waits_put(w, 7, 1010, 1050, 2);
    recent_waits_put(w, 8, 1000, 1100, 1);
    recent_waits_put(w, 7, 1090, 5000, 1);
    assert_true(recent_waits_find(w, 7, 990, 1100, &wait));
    assert_int_equal(wait.ns, 40);
    assert_string_equal(wait.where, " in lock < main");
    assert_string_equal(wait.kernel, ": futex_wait");
    assert_string_equal(wait.stack, "schedule_[k]\nfutex_wait_[k]\n__x64_sys_futex_[k]\nlock\nmain");
    assert_true(recent_waits_find(w, 7, 900, 1100, &wait));
    assert_string_equal(wait.where, " in idle < main");
    assert_int_equal(wait.ns, 100);
    assert_false(recent_waits_find(w, 7, 1000, 1010, &wait));
    assert_false(recent_waits_find(w, 9, 0, UINT64_MAX, &wait));
}

static void test_stack_is_resolved_once_and_only_if_asked_for(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    struct path_wait wait;
    (void)state;
    put_stack(w, 1, "lock", 0);
    put_stack(w, 2, "other", 0);
    put_stack(w, 1, "ignored", 0);
    for (uint64_t i = 0; i < 10; i++)
        recent_waits_put(w, 7, 10 * i, 10 * i + 9, 1);
    for (uint64_t i = 0; i < 10; i++) {
        assert_true(recent_waits_find(w, 7, 10 * i, 10 * i + 10, &wait));
        assert_string_equal(wait.where, " in lock < main");
    }
    assert_int_equal(resolved, 1);
}

static void test_wait_without_frames_of_the_program(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    struct path_wait wait;
    (void)state;
    put_stack(w, 1, "kernel", 0);
    recent_waits_put(w, 7, 0, 1000, 1);
    assert_true(recent_waits_find(w, 7, 0, 1000, &wait));
    assert_string_equal(wait.where, "");
    assert_string_equal(wait.kernel, ": futex_wait");
}

static void test_unknown_stack_is_no_evidence(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    struct path_wait wait;
    (void)state;
    put_stack(w, 5, "lock", 0);
    put_stack(w, 2, "malformed", 0);
    recent_waits_put(w, 7, 0, 1000, 5 + 1024); /* the same place of the table */
    recent_waits_put(w, 8, 0, 1000, 2);
    assert_false(recent_waits_find(w, 7, 0, 1000, &wait));
    assert_false(recent_waits_find(w, 8, 0, 1000, &wait));
}

static void test_oldest_waits_are_overwritten(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    struct path_wait wait;
    (void)state;
    put_stack(w, 1, "f", 0);
    for (uint64_t i = 0; i < 20000; i++)
        recent_waits_put(w, 7, 2 * i, 2 * i + 1, 1);
    assert_false(recent_waits_find(w, 7, 0, 10000, &wait));
    assert_true(recent_waits_find(w, 7, 39990, 40000, &wait));
}

static void test_stacks_are_bounded_by_their_bytes(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    struct path_wait wait;
    size_t known = 0;
    (void)state;
    for (uint64_t i = 1; i <= 1000; i++) {
        put_stack(w, i, "f", 8192);
        recent_waits_put(w, (uint32_t)i, 0, 10, i);
    }
    for (uint32_t i = 1; i <= 1000; i++)
        known += recent_waits_find(w, i, 0, 10, &wait);
    assert_in_range(known, RECENT_WAITS_BYTES / 8192 / 2, RECENT_WAITS_BYTES / 8192);
    assert_true(recent_waits_find(w, 1000, 0, 10, &wait));
}

static void test_samples_in_the_interval(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    struct code_tally tally;
    struct code_place place;
    (void)state;
    put_stack(w, 1, "burn", 0);
    put_stack(w, 2, "malformed", 0);
    for (uint64_t i = 0; i < 20; i++)
        recent_waits_put_run(w, i % 2 ? 7 : 8, 100 * i, 1);
    recent_waits_put_run(w, 7, 1000, 2);
    recent_waits_put_run(w, 7, 1000, 3); /* its stack was lost */
    code_tally_begin(&tally);
    recent_waits_find_runs(w, 7, 300, 1300, &tally);
    assert_int_equal(tally.samples, 5);
    assert_int_equal(code_tally_most(&tally, &place), 5);
    assert_non_null(strstr(place.runs, "< burn") ?: strstr(place.runs, "futex_wait"));
    assert_int_equal(resolved, 2); /* the malformed one again, when it is asked for again */
}

static void expect_next_wait(struct recent_waits *w, uint64_t from_ns, uint64_t to_ns, const char *function)
{
    struct code_tally tally;
    struct code_place place;
    code_tally_begin(&tally);
    recent_waits_find_next(w, 7, from_ns, to_ns, &tally);
    assert_int_equal(code_tally_most(&tally, &place), function ? 1 : 0);
    if (function)
        assert_string_equal(place.function, function);
}

static void test_first_wait_that_begins_in_the_interval(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    (void)state;
    line = 12;
    put_stack(w, 1, "native", 0);
    put_stack(w, 2, "libc", 0); /* it has no own code */
    recent_waits_put(w, 7, 100, 200, 1);
    recent_waits_put(w, 8, 205, 206, 1);
    recent_waits_put(w, 7, 210, 300, 2);
    recent_waits_put(w, 7, 400, 500, 3); /* its stack was lost */
    expect_next_wait(w, 100, 300, "native()");
    expect_next_wait(w, 101, 211, "");
    expect_next_wait(w, 101, 210, NULL);
    expect_next_wait(w, 211, 500, NULL);
}

static void check_place(struct recent_waits *w, const char *where, uint32_t of_line)
{
    struct code_tally tally;
    struct code_place place;
    struct path_wait wait;
    code_tally_begin(&tally);
    recent_waits_find_runs(w, 7, 0, 10, &tally);
    assert_int_equal(code_tally_most(&tally, &place), 1);
    assert_int_equal(place.line, of_line);
    assert_true(recent_waits_find(w, 7, 0, 10, &wait));
    assert_string_equal(wait.where, where);
}

static void test_stack_is_resolved_again_until_its_line_is_known(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    (void)state;
    put_stack(w, 1, "native", 0);
    recent_waits_put_run(w, 7, 5, 1);
    recent_waits_put(w, 7, 0, 10, 1);
    check_place(w, " in native < main", 0);
    line = 12;
    check_place(w, " in native() server.c:12", 12);
    resolved = 0;
    check_place(w, " in native() server.c:12", 12);
    assert_int_equal(resolved, 0);
}

static void test_processes_are_wanted_for_a_minute(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    uint32_t pids[RECENT_WAITS_PROCESSES];
    (void)state;
    assert_false(recent_waits_want(w, 0, SECOND));
    assert_true(recent_waits_want(w, 7, SECOND));
    assert_true(recent_waits_want(w, 8, SECOND));
    assert_false(recent_waits_want(w, 7, 30 * SECOND));
    assert_int_equal(recent_waits_wanted(w, 60 * SECOND, pids), 2);
    assert_int_equal(recent_waits_wanted(w, 62 * SECOND, pids), 1);
    assert_int_equal(pids[0], 7);
    assert_true(recent_waits_want(w, 8, 63 * SECOND));
}

static void test_process_named_longest_ago_gives_way(void **state)
{
    _cleanup_(recent_waits_freep) struct recent_waits *w = make();
    uint32_t pids[RECENT_WAITS_PROCESSES];
    (void)state;
    for (uint32_t pid = 1; pid <= RECENT_WAITS_PROCESSES; pid++)
        recent_waits_want(w, pid, pid);
    recent_waits_want(w, 1, 1000);
    assert_true(recent_waits_want(w, 5000, 1001));
    assert_int_equal(recent_waits_wanted(w, 1002, pids), RECENT_WAITS_PROCESSES);
    assert_false(recent_waits_want(w, 1, 1003));
    assert_true(recent_waits_want(w, 2, 1003));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_with_the_most_time_in_the_interval),
        cmocka_unit_test(test_stack_is_resolved_once_and_only_if_asked_for),
        cmocka_unit_test(test_wait_without_frames_of_the_program),
        cmocka_unit_test(test_unknown_stack_is_no_evidence),
        cmocka_unit_test(test_oldest_waits_are_overwritten),
        cmocka_unit_test(test_stacks_are_bounded_by_their_bytes),
        cmocka_unit_test(test_samples_in_the_interval),
        cmocka_unit_test(test_first_wait_that_begins_in_the_interval),
        cmocka_unit_test(test_stack_is_resolved_again_until_its_line_is_known),
        cmocka_unit_test(test_processes_are_wanted_for_a_minute),
        cmocka_unit_test(test_process_named_longest_ago_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
