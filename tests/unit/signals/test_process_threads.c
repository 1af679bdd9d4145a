/* The answer about the threads of a process: stacks of sleeping threads and of CPU samples, of that process only. */
#include "signals/process_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static struct process_threads *threads;

static int begin(void **state)
{
    (void)state;
    return process_threads_new(&threads);
}

static int end(void **state)
{
    (void)state;
    process_threads_free(threads);
    return 0;
}

static struct frame frame(enum frame_kind kind, const char *function, const char *mapping)
{
    struct frame f = frame_of_text(kind, function);
    f.mapping = mapping;
    return f;
}

/* The test's only thread. */
static const struct process_thread *read_one(void)
{
    size_t count, omitted;
    const struct process_thread *t = process_threads_read(threads, 0, &count, &omitted);
    assert_int_equal(count, 1);
    assert_int_equal(omitted, 0);
    assert_int_equal(t->tid, getpid());
    return t;
}

static void note(uint32_t pid, const struct sample_type *type, const struct frame *frames, size_t count)
{
    struct resource resource = resource_unknown;
    resource.pid = pid;
    process_threads_note_sample(
        threads,
        &(const struct sample){
            .type = type, .resource = &resource, .tid = (uint32_t)getpid(), .frames = frames, .frame_count = count});
}

static void test_a_thread_that_runs_has_the_stack_of_its_sample(void **state)
{
    const uint32_t pid = (uint32_t)getpid();
    const struct frame frames[] = {frame(FRAME_NATIVE, "spin", "/usr/lib/libcuda.so.1"),
                                   frame(FRAME_NATIVE, "cuEventSynchronize", "/usr/lib/libcuda.so.1"),
                                   frame(FRAME_NATIVE, "", "/usr/bin/train")};
    (void)state;
    note(pid, &sample_type_cpu, frames, 3); /* not asked yet */
    process_threads_ask(threads, pid, 0);
    assert_int_equal(process_threads_asked(threads), pid);
    assert_false(process_threads_has_stack(threads, pid));
    note(pid + 1, &sample_type_cpu, frames, 3);
    note(pid, &sample_type_off_cpu, frames, 3);
    assert_string_equal(read_one()->stack, "");
    note(pid, &sample_type_cpu, frames, 3);
    assert_true(process_threads_has_stack(threads, pid));
    assert_string_equal(read_one()->stack, "spin\ncuEventSynchronize\ntrain+0x0");
    assert_string_equal(read_one()->call, "cuEventSynchronize");
    process_threads_complete(threads);
    note(pid, &sample_type_cpu, frames, 1);
    assert_string_equal(read_one()->call, "cuEventSynchronize");
    process_threads_ask(threads, pid, 0); /* the next question forgets the answer */
    assert_string_equal(read_one()->stack, "");
}

static void test_the_call_is_the_outermost_one_of_the_gpus_libraries(void **state)
{
    static const struct {
        const char *function, *mapping, *call;
    } cases[] = {{"cuStreamSynchronize", "/lib/libcuda.so.575", "cuStreamSynchronize"},
                 {"cuStreamSynchronize", "/lib/libother.so", ""},
                 {"current", "/lib/libcuda.so.1", ""},
                 {"ncclCommInitRank", "/venv/libtorch_cuda.so", "ncclCommInitRank"},
                 {"nccl_internal", "/lib/libnccl.so.2", ""}};
    const uint32_t pid = (uint32_t)getpid();
    (void)state;
    process_threads_ask(threads, pid, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct frame frames[] = {frame(FRAME_KERNEL, "do_poll", "[kernel.kallsyms]"),
                                       frame(FRAME_NATIVE, cases[i].function, cases[i].mapping),
                                       frame(FRAME_NATIVE, "main", "/usr/bin/train")};
        process_threads_put_stack(threads, pid, frames, 3);
        assert_string_equal(read_one()->call, cases[i].call);
        assert_memory_equal(read_one()->stack, "do_poll [kernel]\n", 17);
    }
}

static void test_an_answer_that_does_not_come_is_no_longer_waited_for(void **state)
{
    (void)state;
    assert_false(process_threads_is_ready(threads, UINT64_MAX));
    process_threads_ask(threads, 4711, 1000);
    assert_false(process_threads_is_ready(threads, 999 + PROCESS_THREADS_PATIENCE_NS));
    assert_true(process_threads_is_ready(threads, 1000 + PROCESS_THREADS_PATIENCE_NS));
    assert_int_equal(process_threads_asked(threads), 0);
}

static void test_stacks_are_bounded(void **state)
{
    const uint32_t pid = (uint32_t)getpid();
    static struct frame frames[4096];
    (void)state;
    for (size_t i = 0; i < 4096; i++)
        frames[i] = frame(FRAME_NATIVE, "a_function_with_a_name", "/usr/bin/train");
    process_threads_ask(threads, pid, 0);
    for (uint32_t i = 0; i < 2 * PROCESS_THREADS_MAX; i++) {
        process_threads_put_stack(threads, pid + i, frames, 4096);
        process_threads_put_wait(threads, pid + i, i);
    }
    assert_in_range(strlen(read_one()->stack), PROCESS_THREADS_STACK_BYTES / 2, PROCESS_THREADS_STACK_BYTES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_thread_that_runs_has_the_stack_of_its_sample),
        TEST(test_the_call_is_the_outermost_one_of_the_gpus_libraries),
        TEST(test_an_answer_that_does_not_come_is_no_longer_waited_for),
        TEST(test_stacks_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
