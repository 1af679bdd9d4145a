/* The critical path in Go's servers of HTTP/2, which serve each request of a connection by a task of its own. */
#include "task_trace.h"

/* The connection's tasks in Go's server of HTTP/2: MAIN creates one that reads frames on thread 11, and one for each
 * request, and one for each write on thread 12. */
enum { MAIN = 600, READER, WRITER, HANDLER, OTHER_HANDLER };

/* The request's own task, which sleeps, was created by `creator`. */
static void put_stream(uint64_t creator)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created(100, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(100, 11, R);
    put_created(150, 11, READER, RECORDER_TASK_WAITS_IO, MAIN);
    put_created(200, 11, HANDLER, RECORDER_TASK_WAITS_TIMER, creator);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
    put_run(810, 12);
    put_created(900, 12, WRITER, RECORDER_TASK_RUNS, MAIN);
    put_send(900, 12, R);
}

static void expect_sleep_of_handler(void)
{
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The walk follows the task that reads. */
static void expect_unknown_handler(void)
{
    expect_task_path(
        12, "cpu 11 100-150\nunattributed 12 150-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

static void test_task_that_was_created_for_the_request(void **state)
{
    (void)state;
    put_stream(MAIN);
    expect_sleep_of_handler();
}

/* grpc-go: by the task that reads. */
static void test_task_that_the_reader_created(void **state)
{
    (void)state;
    put_stream(READER);
    expect_sleep_of_handler();
}

static void test_task_that_another_task_created(void **state)
{
    (void)state;
    put_stream(MAIN + 50);
    expect_unknown_handler();
}

static void test_task_that_was_there_before_the_request(void **state)
{
    (void)state;
    put_created(50, 11, HANDLER, RECORDER_TASK_WAITS_TIMER, MAIN);
    put_stream(MAIN);
    expect_unknown_handler();
}

/* The second request comes at 300 on the same connection. */
static void test_task_of_a_later_request_of_the_connection(void **state)
{
    (void)state;
    put_stream(MAIN);
    put_interrupt_waking(295, 11, RECORDER_IN_SOFTIRQ);
    put_run(298, 11);
    put_created(300, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(300, 11, R);
    put_created(320, 11, OTHER_HANDLER, RECORDER_TASK_WAITS_LOCK, MAIN);
    put_sleep(320, 11, SYS_epoll_pwait, 4);
    expect_sleep_of_handler();
}

/* Both were first seen before more was received: whose request each serves is not known. */
static void test_two_new_tasks(void **state)
{
    (void)state;
    put_stream(MAIN);
    put_created(180, 11, OTHER_HANDLER, RECORDER_TASK_WAITS_LOCK, MAIN);
    expect_unknown_handler();
}

/* The request's own task, and one that only fills a buffer, of which another one sends the content. */
static void put_writer_that_does_not_send(int handler_site, int writer_site)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created(100, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(100, 11, R);
    put_created(150, 11, READER, RECORDER_TASK_WAITS_IO, MAIN);
    put_created_at(200, 11, HANDLER, RECORDER_TASK_WAITS_TIMER, MAIN, handler_site);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
    put_run(810, 12);
    put_created_at(850, 12, OTHER_HANDLER, RECORDER_TASK_RUNS, MAIN, writer_site);
    put_created_at(900, 12, WRITER, RECORDER_TASK_RUNS, MAIN, writer_site);
    put_send(900, 12, R);
}

static void test_new_task_that_writes(void **state)
{
    (void)state;
    put_writer_that_does_not_send(7, 8);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-850 inferred\ncpu 12 850-900 inferred\n");
}

/* Nothing distinguishes the request's own task from one that writes. */
static void test_task_like_those_that_write(void **state)
{
    (void)state;
    put_writer_that_does_not_send(8, 8);
    expect_task_path(12, "cpu 11 100-150\nunattributed 12 150-850 unknown inferred\ncpu 12 850-900 inferred\n");
}

/* The one that reads the next request from the connection. */
static void test_new_task_that_reads(void **state)
{
    (void)state;
    put_stream(MAIN);
    put_created(180, 11, OTHER_HANDLER, RECORDER_TASK_WAITS_IO, MAIN);
    expect_sleep_of_handler();
}

/* It tries to read, and waits then. */
static void test_new_task_that_runs_before_it_reads(void **state)
{
    (void)state;
    put_stream(MAIN);
    put_created(180, 11, OTHER_HANDLER, RECORDER_TASK_RUNS, MAIN);
    put_created(190, 11, OTHER_HANDLER, RECORDER_TASK_WAITS_IO, MAIN);
    expect_sleep_of_handler();
}

/* Over HTTP/1, net/http has the first byte of the next request read while it serves one: READER read R, and another one
 * like it waits for what follows. MAIN serves, and replies. */
static void test_new_task_that_reads_for_the_one_that_replies(void **state)
{
    (void)state;
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created_at(100, 11, READER, RECORDER_TASK_RUNS, MAIN, 7);
    put_receive(100, 11, R);
    put_created_at(200, 11, MAIN, RECORDER_TASK_WAITS_TIMER, 1, 8);
    put_created_at(210, 11, OTHER_HANDLER, RECORDER_TASK_WAITS_IO, MAIN, 7);
    put_sleep(210, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
    put_run(810, 12);
    put_created_at(900, 12, MAIN, RECORDER_TASK_RUNS, 1, 8);
    put_send(900, 12, R);
    expect_sleep_of_handler();
}

/* On thread 13, which thread 11 woke as the request was read, and which wakes thread 12 to write. */
static void test_created_task_computes(void **state)
{
    (void)state;
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_sleep(25, 13, SYS_futex, 0x6000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created(100, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(100, 11, R);
    put_waking(110, 13, 11, SYS_futex, 0x6000);
    put_run(120, 13);
    put_created(790, 13, HANDLER, RECORDER_TASK_RUNS, MAIN);
    put_waking(790, 12, 13, SYS_futex, 0x5000);
    put_run(810, 12);
    put_created(900, 12, WRITER, RECORDER_TASK_RUNS, MAIN);
    put_send(900, 12, R);
    expect_task_path(12,
                     "cpu 11 100-110\nrun_queue 13 110-120\ncpu 13 120-790\nrun_queue 12 790-810\ncpu 12 810-900\n");
}

/* Go takes the thread away from the task that serves the request, and gives it back by another thread. The first
 * thread had woken that one before, which has waited for something else since. */
static void test_created_task_gets_its_thread_back(void **state)
{
    (void)state;
    put_sleep(25, 13, SYS_futex, 0x6000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created(100, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(100, 11, R);
    put_switch(300, 11, 0, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_created(300, 11, HANDLER, RECORDER_TASK_RUNS, MAIN);
    put_run(310, 11);
    put_waking(390, 13, 11, SYS_futex, 0x6000);
    put_run(397, 13);
    put_sleep(410, 13, SYS_epoll_pwait, 4);
    put_interrupt_waking(595, 13, RECORDER_IN_SOFTIRQ);
    put_run(598, 13);
    put_sleep(600, 11, SYS_futex, 0x7000);
    put_waking(610, 11, 13, SYS_futex, 0x7000);
    put_run(620, 11);
    put_created(900, 11, WRITER, RECORDER_TASK_RUNS, MAIN);
    put_send(900, 11, R);
    expect_task_path(11, "cpu 11 100-300\nrun_queue 11 300-310\ncpu 11 310-600\nunattributed 11 600-610 unknown\n"
                         "run_queue 11 610-620\ncpu 11 620-900\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_task_that_was_created_for_the_request, start_trace),
        cmocka_unit_test_setup(test_task_that_the_reader_created, start_trace),
        cmocka_unit_test_setup(test_task_that_another_task_created, start_trace),
        cmocka_unit_test_setup(test_task_that_was_there_before_the_request, start_trace),
        cmocka_unit_test_setup(test_task_of_a_later_request_of_the_connection, start_trace),
        cmocka_unit_test_setup(test_two_new_tasks, start_trace),
        cmocka_unit_test_setup(test_new_task_that_writes, start_trace),
        cmocka_unit_test_setup(test_task_like_those_that_write, start_trace),
        cmocka_unit_test_setup(test_new_task_that_reads, start_trace),
        cmocka_unit_test_setup(test_new_task_that_runs_before_it_reads, start_trace),
        cmocka_unit_test_setup(test_new_task_that_reads_for_the_one_that_replies, start_trace),
        cmocka_unit_test_setup(test_created_task_computes, start_trace),
        cmocka_unit_test_setup(test_created_task_gets_its_thread_back, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
