/* The critical path of goroutines that wait without being seen to run: those that another thread finds waiting, and
 * those that the request's own one created. */
#include "task_trace.h"

enum { CREATED = 700, CREATED_TOO };

/* Any thread of the process may have run it. */
static void put_found_waiting(uint64_t us, uint64_t task, unsigned state, uint64_t creator)
{
    put(us, RECORDER_TASK, state, RECORDER_NO_SYSCALL, 0, task,
        (uint64_t)process_of(11) << 32 | (creator ? recorder_creator(creator) : 0));
}

/* The task reads on thread 11, and replies on thread 12, which was woken at 800. */
static void put_request_of_task(void)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_sleep(210, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
    put_run(810, 12);
    put_operation(900, 12, TASK, R, true);
}

/* Another request's work on thread 13 is none of this one's. */
static void test_wait_that_another_thread_finds(void **state)
{
    (void)state;
    put_request_of_task();
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TIMER);
    put_run(300, 13);
    put_found_waiting(500, TASK, RECORDER_TASK_WAITS_LOCK, 0);
    put_sleep(500, 13, SYS_futex, 0x6000);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-500 inferred\nlock 12 500-800 unknown inferred\n"
                         "run_queue 12 800-810\ncpu 12 810-900\n");
}

/* Where it ran until 500 is not known. */
static void test_first_wait_that_another_thread_finds(void **state)
{
    (void)state;
    put_request_of_task();
    put_run(300, 13);
    put_found_waiting(500, TASK, RECORDER_TASK_WAITS_LOCK, 0);
    put_sleep(500, 13, SYS_futex, 0x6000);
    expect_task_path(12, "cpu 11 100-210\nunattributed 12 210-500 unknown\nlock 12 500-800 unknown inferred\n"
                         "run_queue 12 800-810\ncpu 12 810-900\n");
}

static void test_task_waits_for_one_that_it_created(void **state)
{
    (void)state;
    put_request_of_task();
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TASK);
    put_created(200, 11, CREATED, RECORDER_TASK_WAITS_LOCK, TASK);
    put_created(790, 12, CREATED, RECORDER_TASK_RUNS, TASK);
    expect_task_path(12, "cpu 11 100-200\nlock 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* Both are found waiting for something else at 500: the lock that it waits for is the one that the other has. */
static void test_waits_that_change_at_once(void **state)
{
    (void)state;
    put_request_of_task();
    put_found_waiting(205, TASK, RECORDER_TASK_WAITS_TASK, 0);
    put_created(200, 11, CREATED, RECORDER_TASK_WAITS_LOCK, TASK);
    put_found_waiting(499, CREATED, RECORDER_TASK_WAITS_TIMER, TASK);
    put_found_waiting(500, TASK, RECORDER_TASK_WAITS_LOCK, 0);
    expect_task_path(12, "cpu 11 100-205\nlock 12 205-800 unknown inferred\n"
                         "run_queue 12 800-810\ncpu 12 810-900\n");
}

static void expect_unknown_wait(void)
{
    for (size_t i = 0; i < count; i++) /* more than a millisecond from event to event */
        records[i].time_ns = BASE_NS + (records[i].time_ns - BASE_NS) * 100;
    expect_task_path_between(10000, 90000, 12,
                             "cpu 11 10000-20000\nunattributed 12 20000-80000 unknown inferred\n"
                             "run_queue 12 80000-81000\ncpu 12 81000-90000\n");
}

/* It may wait longer than the request's task does. */
static void test_created_task_that_is_not_seen_at_the_end(void **state)
{
    (void)state;
    put_request_of_task();
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TASK);
    put_created(200, 11, CREATED, RECORDER_TASK_WAITS_LOCK, TASK);
    put_created(700, 12, CREATED, RECORDER_TASK_RUNS, TASK);
    expect_unknown_wait();
}

static void test_two_created_tasks(void **state)
{
    (void)state;
    put_request_of_task();
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TASK);
    put_created(200, 11, CREATED, RECORDER_TASK_WAITS_LOCK, TASK);
    put_created(205, 11, CREATED_TOO, RECORDER_TASK_WAITS_TIMER, TASK);
    put_created(800, 12, CREATED, RECORDER_TASK_RUNS, TASK);
    put_created(800, 13, CREATED_TOO, RECORDER_TASK_RUNS, TASK);
    expect_unknown_wait();
}

static void test_task_that_another_one_created(void **state)
{
    (void)state;
    put_request_of_task();
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TASK);
    put_created(200, 11, CREATED, RECORDER_TASK_WAITS_LOCK, OTHER_TASK);
    put_created(800, 12, CREATED, RECORDER_TASK_RUNS, OTHER_TASK);
    expect_unknown_wait();
}

/* A part of the reply is sent on thread 13, while thread 12 sleeps, which sends the rest. */
static void test_thread_that_slept_while_another_one_worked(void **state)
{
    (void)state;
    put_request_of_task();
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TIMER);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_interrupt_waking(600, 13, RECORDER_IN_HARDIRQ);
    put_run(610, 13);
    put_task(650, 13, TASK, RECORDER_TASK_RUNS);
    put_operation(700, 13, OTHER_TASK, R, true);
    put_sleep(710, 13, SYS_futex, 0x6000);
    expect_task_path(12, "cpu 11 100-200\nsleep 13 200-600 inferred\nrun_queue 13 600-610\ncpu 13 610-710\n"
                         "unattributed 12 710-800 unknown\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* Thread 11 runs it until it wakes thread 12, which takes it over and had slept meanwhile. */
static void test_task_that_another_thread_takes_over(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_switch(250, 11, 0, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_task(250, 11, TASK, RECORDER_TASK_RUNS);
    put_run(260, 11);
    put_sleep(300, 12, SYS_futex, 0x5000);
    put_waking(800, 12, 11, SYS_futex, 0x5000);
    put_run(810, 12);
    put_operation(900, 12, TASK, R, true);
    expect_task_path(12, "cpu 11 100-250\nrun_queue 11 250-260\ncpu 11 260-800\nrun_queue 12 800-810\n"
                         "cpu 12 810-900\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_wait_that_another_thread_finds, start_trace),
        cmocka_unit_test_setup(test_first_wait_that_another_thread_finds, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_one_that_it_created, start_trace),
        cmocka_unit_test_setup(test_waits_that_change_at_once, start_trace),
        cmocka_unit_test_setup(test_created_task_that_is_not_seen_at_the_end, start_trace),
        cmocka_unit_test_setup(test_two_created_tasks, start_trace),
        cmocka_unit_test_setup(test_task_that_another_one_created, start_trace),
        cmocka_unit_test_setup(test_thread_that_slept_while_another_one_worked, start_trace),
        cmocka_unit_test_setup(test_task_that_another_thread_takes_over, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
