/* The critical path in programs that schedule tasks on their threads themselves: what the request's task waited for. */
#include "task_trace.h"

/* The task reads on thread 11, which goes idle when the task waits; thread 12, woken at 800, gets it at the end. */
static void put_wait_of_task(unsigned state)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(200, 11, TASK, state);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_run(810, 12);
    put_operation(900, 12, TASK, R, true);
}

static void put_move_to_other_thread(unsigned state)
{
    put_wait_of_task(state);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
}

static void test_task_sleeps(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TIMER);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

static void test_task_waits_for_a_lock(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_LOCK);
    expect_task_path(12, "cpu 11 100-200\nlock 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* Which one is not recorded. */
static void test_task_waits_for_another(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TASK);
    expect_task_path(
        12, "cpu 11 100-200\nunattributed 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* A task that this one has woken asks a service, on thread 14, and another one reads the answer, on thread 13. */
static void put_call_by_other_tasks(uint64_t asked_us)
{
    put_move_to_other_thread(RECORDER_TASK_WAITS_TASK);
    put_sleep(30, 13, SYS_epoll_pwait, 4);
    put_run(asked_us - 10, 14);
    put_operation(asked_us, 14, OTHER_TASK, SERVICE, true);
    put_sleep(asked_us + 10, 14, SYS_futex, 0x7000);
    put_arrival(780, SERVICE);
    put_interrupt_waking(780, 13, RECORDER_IN_SOFTIRQ);
    put_run(785, 13);
    put_operation(790, 13, SLEEPING_TASK, SERVICE, false);
}

static void test_task_waits_for_another_that_calls_a_service(void **state)
{
    (void)state;
    put_call_by_other_tasks(220);
    expect_task_path(
        12, "cpu 11 100-200 inferred\nunattributed 13 200-220 unknown inferred\ndownstream 13 220-780 inferred\n"
            "run_queue 13 780-785 inferred\ncpu 13 785-790 inferred\nqueue_behind 12 790-800 unknown inferred\n"
            "run_queue 12 800-810\ncpu 12 810-900\n");
}

/* The task sent it before it waited, on a thread that others then used. */
static void test_task_asks_before_it_waits(void **state)
{
    (void)state;
    put_call_by_other_tasks(190);
    expect_task_path(12, "cpu 11 100-190 inferred\ndownstream 13 190-780 inferred\nrun_queue 13 780-785 inferred\n"
                         "cpu 13 785-790 inferred\nqueue_behind 12 790-800 unknown inferred\nrun_queue 12 800-810\n"
                         "cpu 12 810-900\n");
}

/* Asked before the request, or long after the task began to wait. */
static void test_answers_to_other_tasks(void **state)
{
    (void)state;
    put_call_by_other_tasks(95);
    expect_task_path(
        12, "cpu 11 100-200\nunattributed 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* A task on thread 13, which sleeps meanwhile, and then lets the request's task go on. */
static void put_task_that_helps(unsigned state)
{
    put_wait_of_task(RECORDER_TASK_WAITS_TASK);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_waking(205, 13, 11, SYS_futex, 0x6000);
    put_run(210, 13);
    put_task(250, 13, OTHER_TASK, state);
    put_sleep(250, 13, SYS_futex, 0x6000);
    put_interrupt_waking(700, 13, RECORDER_IN_HARDIRQ);
    put_run(705, 13);
    put_task(800, 13, OTHER_TASK, RECORDER_TASK_RUNS);
}

static void test_task_waits_for_another_that_wakes_its_thread(void **state)
{
    (void)state;
    put_task_that_helps(RECORDER_TASK_WAITS_TIMER);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    expect_task_path(12, "cpu 11 100-200\nunattributed 13 200-205 unknown inferred\nrun_queue 13 205-210 inferred\n"
                         "cpu 13 210-250 inferred\nsleep 13 250-700 inferred\nrun_queue 13 700-705 inferred\n"
                         "cpu 13 705-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* On the same thread, one after the other. */
static void test_task_runs_after_the_one_that_it_waited_for(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TASK);
    put_task(210, 11, OTHER_TASK, RECORDER_TASK_WAITS_LOCK);
    put_sleep(210, 11, SYS_futex, 0x5000);
    put_interrupt_waking(800, 11, RECORDER_IN_HARDIRQ);
    put_run(810, 11);
    put_task(820, 11, OTHER_TASK, RECORDER_TASK_RUNS);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-200\ncpu 11 200-210 inferred\nlock 11 210-800 unknown inferred\n"
                         "run_queue 11 800-810 inferred\ncpu 11 810-900 inferred\n");
}

/* It had waited for work since before the request: how long this request was in its queue is not known. */
static void test_task_waits_for_another_of_which_nothing_is_known(void **state)
{
    (void)state;
    put_wait_of_task(RECORDER_TASK_WAITS_TASK);
    put_task(30, 13, OTHER_TASK, RECORDER_TASK_WAITS_TASK);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_waking(300, 13, 11, SYS_futex, 0x6000);
    put_run(310, 13);
    put_task(800, 13, OTHER_TASK, RECORDER_TASK_RUNS);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    expect_task_path(12, "cpu 11 100-200\nunattributed 13 200-300 unknown inferred\nrun_queue 13 300-310 inferred\n"
                         "cpu 13 310-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The thread that it runs on was woken on behalf of a task that serves another request. */
static void test_task_that_serves_another_request(void **state)
{
    (void)state;
    put_task_that_helps(RECORDER_TASK_WAITS_TIMER);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    put_operation(220, 13, OTHER_TASK, A, false);
    expect_task_path(
        12, "cpu 11 100-200\nunattributed 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* Another thread sees it waiting still. */
static void test_wait_that_is_seen_twice(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TIMER);
    put_task(500, 13, TASK, RECORDER_TASK_WAITS_TIMER);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* A request sent long before the wait is no reason for the wait: the walk does not leave the wait, either. */
static void test_answer_to_an_old_question(void **state)
{
    (void)state;
    put_wait_of_task(RECORDER_TASK_WAITS_TASK);
    put_operation(150, 11, TASK, SERVICE, true);
    put_sleep(30, 13, SYS_epoll_pwait, 4);
    put_arrival(500, SERVICE);
    put_interrupt_waking(500, 13, RECORDER_IN_SOFTIRQ);
    put_run(505, 13);
    put_operation(510, 13, OTHER_TASK, SERVICE, false);
    put_task(800, 13, OTHER_TASK, RECORDER_TASK_RUNS);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    for (size_t i = 0; i < count; i++) /* more than a millisecond between the question and the wait */
        records[i].time_ns = BASE_NS + (records[i].time_ns - BASE_NS) * 100;
    expect_task_path_between(10000, 90000, 12,
                             "cpu 11 10000-20000\ndownstream 13 20000-50000 inferred\n"
                             "run_queue 13 50000-50500 inferred\ncpu 13 50500-80000 inferred\n"
                             "run_queue 12 80000-81000\ncpu 12 81000-90000\n");
}

/* The task sends by itself, on a thread that it left unseen; it is next seen waiting elsewhere. */
static void test_task_that_asks_by_itself(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_operation(190, 11, TASK, SERVICE, true);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_run(220, 12);
    put_task(235, 12, TASK, RECORDER_TASK_WAITS_IO);
    put_sleep(235, 12, SYS_futex, 0x5000);
    put_arrival(780, SERVICE);
    put_interrupt_waking(780, 11, RECORDER_IN_SOFTIRQ);
    put_run(790, 11);
    put_operation(800, 11, TASK, SERVICE, false);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-190\ndownstream 11 190-780\nrun_queue 11 780-790\ncpu 11 790-900\n");
}

/* A wait is recorded with its thread's next action, for another task. */
static void test_wait_that_is_seen_with_the_work_of_another(void **state)
{
    (void)state;
    put_task_that_helps(RECORDER_TASK_WAITS_TIMER);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    put_task(240, 13, OTHER_TASK, RECORDER_TASK_WAITS_TIMER);
    put_operation(240, 13, SLEEPING_TASK, A, false);
    expect_task_path(12, "cpu 11 100-200\nunattributed 13 200-205 unknown inferred\nrun_queue 13 205-210 inferred\n"
                         "cpu 13 210-240 inferred\nsleep 13 240-700 inferred\nrun_queue 13 700-705 inferred\n"
                         "cpu 13 705-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* It sends its reply in two parts, on a thread that did not sleep meanwhile. */
static void test_task_is_seen_twice_after_its_wait(void **state)
{
    (void)state;
    put_sleep(20, 11, SYS_futex, 0x5000);
    put_interrupt_waking(80, 11, RECORDER_IN_HARDIRQ);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(210, 11, TASK, RECORDER_TASK_WAITS_TIMER);
    put_task(210, 11, OTHER_TASK, RECORDER_TASK_RUNS);
    put_task(790, 11, OTHER_TASK, RECORDER_TASK_RUNS);
    put_operation(850, 11, TASK, R, true);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-210\nsleep 11 210-790 inferred\ncpu 11 790-850 inferred\ncpu 11 850-900\n");
}

/* Another task sends the reply. */
static void test_reply_by_another_task(void **state)
{
    (void)state;
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TIMER);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
    put_run(810, 12);
    put_operation(900, 12, OTHER_TASK, R, true);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

static void test_task_waits_for_the_collector(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_GC);
    expect_task_path(12, "cpu 11 100-200\nlock 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* What tasks of others wait for, in this process and another with the same ids, says nothing. */
static void test_waits_of_other_tasks(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_LOCK);
    put_task(300, 11, SLEEPING_TASK, RECORDER_TASK_WAITS_TIMER);
    put_task(310, 200, TASK, RECORDER_TASK_WAITS_TIMER);
    expect_task_path(12, "cpu 11 100-200\nlock 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The task was seen to run after its wait: the reason of a later wait is not known. */
static void test_wait_that_has_ended(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TIMER);
    put_task(400, 13, TASK, RECORDER_TASK_RUNS);
    expect_task_path(12, "cpu 11 100-200\nunattributed 12 200-800 unknown\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The task goes on on thread 13, and is seen there. Its wait after that is not seen. Thread 12, which replies,
 * reads another request at `served_us`; 0: it does not. */
static void put_run_elsewhere(uint64_t served_us)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(300, 13, RECORDER_IN_HARDIRQ);
    put_run(310, 13);
    put_switch(400, 13, 0, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_task(400, 13, TASK, RECORDER_TASK_RUNS);
    put_run(410, 13);
    put_sleep(500, 13, SYS_futex, 0x6000);
    put_interrupt_waking(700, 12, RECORDER_IN_SOFTIRQ);
    put_run(710, 12);
    if (served_us)
        put_operation(served_us, 12, OTHER_TASK, A, false);
    put_operation(900, 12, TASK, R, true);
}

static void test_task_that_was_seen_running_before_its_wait(void **state)
{
    (void)state;
    put_run_elsewhere(0);
    expect_task_path(
        12,
        "cpu 11 100-200\nunattributed 13 200-300 unknown\nrun_queue 13 300-310\ncpu 13 310-400\nrun_queue 13 400-410\n"
        "cpu 13 410-500\nunattributed 12 500-700 unknown\nrun_queue 12 700-710\ncpu 12 710-900\n");
}

/* What the thread did for others meanwhile says nothing about the task. */
static void test_task_whose_thread_served_others_before(void **state)
{
    (void)state;
    put_run_elsewhere(800);
    expect_task_path(
        12,
        "cpu 11 100-200\nunattributed 13 200-300 unknown\nrun_queue 13 300-310\ncpu 13 310-400\nrun_queue 13 400-410\n"
        "cpu 13 410-500\nunattributed 12 500-800 unknown\ncpu 12 800-900 inferred\n");
}

static void test_two_waits(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TIMER);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_interrupt_waking(400, 13, RECORDER_IN_HARDIRQ);
    put_run(410, 13);
    put_task(430, 13, TASK, RECORDER_TASK_RUNS);
    put_task(500, 13, TASK, RECORDER_TASK_WAITS_LOCK);
    put_sleep(500, 13, SYS_futex, 0x6000);
    expect_task_path(12, "cpu 11 100-200\nsleep 13 200-400 inferred\nrun_queue 13 400-410\ncpu 13 410-500\n"
                         "lock 12 500-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The thread that answers it has served another request meanwhile, without sleeping. */
static void test_thread_serves_others_meanwhile(void **state)
{
    (void)state;
    put_sleep(20, 11, SYS_futex, 0x5000);
    put_interrupt_waking(80, 11, RECORDER_IN_HARDIRQ);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TIMER);
    put_arrival(190, A);
    put_operation(200, 11, OTHER_TASK, A, false);
    put_operation(850, 11, OTHER_TASK, A, true);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-200\nsleep 11 200-850 inferred\ncpu 11 850-900 inferred\n");
}

/* In a system call the task keeps its thread: as for any thread. */
static void test_task_in_a_system_call(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_switch(200, 11, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, SYS_pread64, 5);
    put_interrupt_waking(800, 11, RECORDER_IN_HARDIRQ);
    put_run(810, 11);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-200\ndisk 11 200-800\nrun_queue 11 800-810\ncpu 11 810-900\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_task_sleeps, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_a_lock, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_another, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_another_that_calls_a_service, start_trace),
        cmocka_unit_test_setup(test_task_asks_before_it_waits, start_trace),
        cmocka_unit_test_setup(test_answers_to_other_tasks, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_another_that_wakes_its_thread, start_trace),
        cmocka_unit_test_setup(test_task_runs_after_the_one_that_it_waited_for, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_another_of_which_nothing_is_known, start_trace),
        cmocka_unit_test_setup(test_task_that_serves_another_request, start_trace),
        cmocka_unit_test_setup(test_wait_that_is_seen_twice, start_trace),
        cmocka_unit_test_setup(test_answer_to_an_old_question, start_trace),
        cmocka_unit_test_setup(test_task_that_asks_by_itself, start_trace),
        cmocka_unit_test_setup(test_wait_that_is_seen_with_the_work_of_another, start_trace),
        cmocka_unit_test_setup(test_task_is_seen_twice_after_its_wait, start_trace),
        cmocka_unit_test_setup(test_reply_by_another_task, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_the_collector, start_trace),
        cmocka_unit_test_setup(test_waits_of_other_tasks, start_trace),
        cmocka_unit_test_setup(test_wait_that_has_ended, start_trace),
        cmocka_unit_test_setup(test_task_that_was_seen_running_before_its_wait, start_trace),
        cmocka_unit_test_setup(test_task_whose_thread_served_others_before, start_trace),
        cmocka_unit_test_setup(test_two_waits, start_trace),
        cmocka_unit_test_setup(test_thread_serves_others_meanwhile, start_trace),
        cmocka_unit_test_setup(test_task_in_a_system_call, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
