/* Whether a process hangs is judged by all the evidence, and the sentence has it. */
#include "gpu_report/gpu_hang_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static struct process_thread threads[3];
static struct gpu_hang_report report;

static int begin(void **state)
{
    (void)state;
    threads[0] = (struct process_thread){.tid = 10,
                                         .name = "python3",
                                         .state = 'S',
                                         .function = "futex_do_wait",
                                         .waited_ns = 99 * SECOND_NS,
                                         .stack = "wait\nmain"};
    threads[1] = (struct process_thread){.tid = 11,
                                         .name = "worker",
                                         .state = 'S',
                                         .function = "do_poll",
                                         .waited_ns = 31 * SECOND_NS,
                                         .call = "cuStreamSynchronize",
                                         .stack = "do_poll [kernel]\ncuStreamSynchronize\nforward train.py:7"};
    threads[2] = (struct process_thread){.tid = 12, .name = "io", .state = 'R', .stack = ""};
    report = (struct gpu_hang_report){.pid = 10,
                                      .command = "python3",
                                      .threads = threads,
                                      .thread_count = 3,
                                      .observed_ns = 5 * SECOND_NS,
                                      .counts_calls = true,
                                      .counted_ns = 4 * SECOND_NS,
                                      .has_device = true,
                                      .device = 2,
                                      .busy_min = 100,
                                      .event = "",
                                      .ranks = ""};
    return 0;
}

static void assert_sentence(enum gpu_hang_verdict verdict, const char *sentence)
{
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(gpu_hang_judge(&report, &out), verdict);
    assert_string_equal(out.data, sentence);
}

static void assert_verdict(enum gpu_hang_verdict verdict)
{
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(gpu_hang_judge(&report, &out), verdict);
}

static void test_a_hang_needs_all_the_evidence(void **state)
{
    assert_sentence(
        GPU_HANG_FOUND,
        "python3 (process 10) hangs: the GPU does not finish its work: thread 11 has been in "
        "cuStreamSynchronize, off its CPU, for 31.0 s, no kernel was launched in 4.00 s, and GPU 2 was busy "
        "100 % of the time or more");
    threads[1].waited_ns = 29 * SECOND_NS;
    assert_verdict(GPU_HANG_WAITS);
    begin(state);
    report.launches = 1;
    assert_verdict(GPU_HANG_WAITS);
    begin(state);
    report.busy_min = 94;
    assert_verdict(GPU_HANG_WAITS);
    report.busy_min = UINT32_MAX;
    assert_verdict(GPU_HANG_WAITS);
    begin(state);
    report.is_shared = true;
    assert_verdict(GPU_HANG_WAITS);
    begin(state);
    report.has_device = false;
    assert_sentence(GPU_HANG_WAITS,
                    "python3 (process 10) waits for the GPU: thread 11 has been in cuStreamSynchronize, "
                    "off its CPU, for 31.0 s, no kernel was launched in 4.00 s. This is a hang only if "
                    "it does not end");
    begin(state);
    report.counts_calls = false; /* not known: the other evidence decides */
    assert_verdict(GPU_HANG_FOUND);
}

static void test_a_thread_that_spins_hangs_if_an_agent_has_watched_it(void **state)
{
    (void)state;
    threads[1].waited_ns = 0;
    assert_verdict(GPU_HANG_WAITS);
    report.event = "GPU 2 does not finish the work of python3";
    report.event_ago_ns = 61 * SECOND_NS;
    assert_sentence(GPU_HANG_FOUND,
                    "python3 (process 10) hangs: the GPU does not finish its work: thread 11 is in "
                    "cuStreamSynchronize, no kernel was launched in 4.00 s, and GPU 2 was busy 100 % of "
                    "the time or more. 61.0 s ago the agent reported: GPU 2 does not finish the work of "
                    "python3");
    report.launches = 3; /* it has gone on since */
    assert_verdict(GPU_HANG_WAITS);
}

static void test_calls_that_do_not_wait_are_no_hang(void **state)
{
    static const struct {
        const char *call;
        enum gpu_hang_verdict verdict;
    } cases[] = {{"cuLaunchKernel", GPU_HANG_NONE},
                 {"cuMemcpyDtoHAsync_v2", GPU_HANG_NONE},
                 {"", GPU_HANG_NONE},
                 {"cuMemcpyDtoH_v2", GPU_HANG_FOUND},
                 {"cuEventSynchronize", GPU_HANG_FOUND},
                 {"ncclCommInitRank", GPU_HANG_WAITS}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(threads[1].call, sizeof(threads[1].call), "%s", cases[i].call);
        assert_verdict(cases[i].verdict);
    }
}

static void test_ranks_that_do_not_go_on_are_evidence(void **state)
{
    (void)state;
    snprintf(threads[1].call, sizeof(threads[1].call), "ncclCommInitRank");
    threads[1].waited_ns = 61 * SECOND_NS;
    report.has_device = false;
    assert_verdict(GPU_HANG_WAITS);
    report.ranks = "in NCCL's communicator 0xabc of 2 ranks, rank 1: no response";
    assert_sentence(GPU_HANG_FOUND, "python3 (process 10) hangs: other ranks do not come: thread 11 has been in "
                                    "ncclCommInitRank, off its CPU, for 61.0 s, no kernel was launched in 4.00 s; in "
                                    "NCCL's communicator 0xabc of 2 ranks, rank 1: no response");
    threads[1].waited_ns = 59 * SECOND_NS;
    assert_verdict(GPU_HANG_WAITS);
}

static void test_what_does_not_hang_is_one_sentence_with_the_evidence(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    (void)state;
    threads[1].call[0] = '\0';
    report.launches = 1234;
    report.busy_min = 71;
    gpu_hang_put(&report, &out);
    assert_string_equal(out.data,
                        "python3 (process 10) does not hang in a call of CUDA or NCCL: in 5.00 s, none of its 3 "
                        "threads was found in one that waits, 1234 kernels and graphs were launched in 4.00 s, "
                        "and GPU 2 was busy 71 % of the time or more.\n");
    buf_clear(&out);
    report.thread_count = 0;
    gpu_hang_put(&report, &out);
    assert_string_equal(out.data, "python3 (process 10) has ended.\n");
}

static void test_threads_are_listed_with_their_stacks(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    (void)state;
    report.omitted = 7;
    gpu_hang_put(&report, &out);
    assert_non_null(strstr(out.data, "\nThreads (10), innermost function first:\n"
                                     "\n  10 python3  S, for 99.0 s, in futex_do_wait\n      wait\n      main\n"
                                     "\n  11 worker  S, for 31.0 s, in do_poll\n      do_poll [kernel]\n"
                                     "      cuStreamSynchronize\n      forward train.py:7\n"
                                     "\n  12 io  R\n      [stack unknown]\n"
                                     "\n  and 7 more\n"));
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_hang_needs_all_the_evidence),
        TEST(test_a_thread_that_spins_hangs_if_an_agent_has_watched_it),
        TEST(test_calls_that_do_not_wait_are_no_hang),
        TEST(test_ranks_that_do_not_go_on_are_evidence),
        TEST(test_what_does_not_hang_is_one_sentence_with_the_evidence),
        TEST(test_threads_are_listed_with_their_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
