/* The critical path in programs whose tasks run on an event loop, and whose jobs run on a pool of threads: which thread
 * did the job that a request's task waited for is recorded where it finishes. And who had the lock that all of them
 * need. */
#include "asyncio_trace.h"

enum { SPINNER = 31, POLLER = 32 };

#define QUEUE 0x5000

/* The loop reads R at 100, and gives its job to the pool without waking a thread, as all are busy with jobs of A and B.
 */
static void put_queued_job(void)
{
    put_run(10, WORKER);
    put_run(10, OTHER_WORKER);
    put_sleep(20, LOOP, SYS_epoll_pwait, 4);
    put_arrival(100, R);
    put_interrupt_waking(100, LOOP, RECORDER_IN_SOFTIRQ);
    put_run(110, LOOP);
    put_receive(120, LOOP, R);
    put_sleep(150, LOOP, SYS_epoll_pwait, 4);
}

static void test_queued_job(void **state)
{
    (void)state;
    put_queued_job();
    put_finished(500, WORKER, TASK_OF_A);
    put_waking(500, LOOP, WORKER, SYS_sendto, 7);
    put_finished(540, OTHER_WORKER, TASK_OF_B);
    put_finished(560, WORKER, TASK);
    put_sleep(570, WORKER, SYS_futex, QUEUE);
    put_sleep(580, OTHER_WORKER, SYS_futex, QUEUE);
    put_run(600, LOOP);
    put_receive(610, LOOP, PIPE);
    put_reply(700, TASK_OF_A, A);
    put_reply(800, TASK_OF_B, B);
    put_reply(900, TASK, R);
    expect_path(R, 100, 900, LOOP,
                "run_queue 11 100-110\ncpu 11 110-150\nqueue_behind 21 150-501 other inferred\ncpu 21 501-560\n"
                "run_queue 11 560-600\nloop_busy 11 600-700 other\nloop_busy 11 700-800 other\ncpu 11 800-900\n");
}

/* A job of another task wakes the loop last, and the loop reads the pipe: R's path still leads to R's job. */
static void test_job_that_another_one_follows(void **state)
{
    (void)state;
    put_sleep(20, WORKER, SYS_futex, QUEUE);
    put_run(10, OTHER_WORKER);
    put_run(90, LOOP);
    put_arrival(100, R);
    put_receive(100, LOOP, R);
    put_waking(150, WORKER, LOOP, SYS_futex, QUEUE);
    put_run(160, WORKER);
    put_sleep(170, LOOP, SYS_epoll_pwait, 4);
    put_finished(400, WORKER, TASK);
    put_waking(400, LOOP, WORKER, SYS_sendto, 7);
    put_sleep(410, WORKER, SYS_futex, QUEUE);
    put_finished(700, OTHER_WORKER, TASK_OF_A);
    put_run(710, LOOP);
    put_receive(720, LOOP, PIPE);
    put_reply(900, TASK, R);
    expect_path(
        R, 100, 900, LOOP,
        "cpu 11 100-150\nrun_queue 21 150-160\ncpu 21 160-400\nrun_queue 11 400-710\nloop_busy 11 710-720 other\n"
        "cpu 11 720-900\n");
}

/* The loop replies before the send that woke it has ended. */
static void test_reply_before_the_end_of_the_send(void **state)
{
    (void)state;
    put_sleep(20, WORKER, SYS_futex, QUEUE);
    put_run(90, LOOP);
    put_arrival(100, R);
    put_receive(100, LOOP, R);
    put_waking(150, WORKER, LOOP, SYS_futex, QUEUE);
    put_run(160, WORKER);
    put_sleep(170, LOOP, SYS_epoll_pwait, 4);
    put_task(400, WORKER, TASK, RECORDER_TASK_FINISHED);
    put(400, RECORDER_READY, RECORDER_UNIX, RECORDER_NO_SYSCALL, WORKER, PIPE, 500ull << 32);
    put_waking(400, LOOP, WORKER, SYS_sendto, 7);
    put_switch(401, WORKER, LOOP, RECORDER_PREEMPTED, SYS_sendto, 7);
    put_receive(410, LOOP, PIPE);
    put_reply(900, TASK, R);
    put_run(950, WORKER);
    put(960, RECORDER_SEND, RECORDER_UNIX, SYS_sendto, WORKER, PIPE_WRITER, 20);
    expect_path(
        R, 100, 900, LOOP,
        "cpu 11 100-150\nrun_queue 21 150-160\ncpu 21 160-400\nrun_queue 11 400-401\nloop_busy 11 401-410 other\n"
        "cpu 11 410-900\n");
}

/* A job of another request slept before this one's: select() for no file is no wait for work. */
static void test_job_behind_one_that_sleeps_by_select(void **state)
{
    (void)state;
    put_sleep(20, WORKER, SYS_pselect6, 0);
    put_run(90, LOOP);
    put_arrival(100, R);
    put_receive(100, LOOP, R);
    put_sleep(170, LOOP, SYS_epoll_pwait, 4);
    put_timeout(400, WORKER);
    put_finished(410, WORKER, TASK_OF_A);
    put_waking(410, LOOP, WORKER, SYS_sendto, 7);
    put_sleep(450, WORKER, SYS_pselect6, 0);
    put_timeout(600, WORKER);
    put_finished(610, WORKER, TASK);
    put_sleep(620, WORKER, SYS_futex, QUEUE);
    put_run(700, LOOP);
    put_receive(710, LOOP, PIPE);
    put_reply(900, TASK, R);
    expect_path(R, 100, 900, LOOP,
                "cpu 11 100-170\nqueue_behind 21 170-398 other inferred\nrun_queue 21 398-399 other inferred\n"
                "queue_behind 21 399-411 other inferred\ncpu 21 411-450\nsleep 21 450-598\nrun_queue 21 598-599\n"
                "cpu 21 599-610\nrun_queue 11 610-700\nloop_busy 11 700-710 other\ncpu 11 710-900\n");
}

/* The job was for a task, or a future, that the request's task waits for: only the order shows that. */
static void test_job_for_another_task(void **state)
{
    (void)state;
    put_sleep(20, WORKER, SYS_futex, QUEUE);
    put_run(90, LOOP);
    put_arrival(100, R);
    put_receive(100, LOOP, R);
    put_waking(150, WORKER, LOOP, SYS_futex, QUEUE);
    put_run(160, WORKER);
    put_sleep(170, LOOP, SYS_epoll_pwait, 4);
    put_finished(400, WORKER, TASK_OF_A);
    put_waking(400, LOOP, WORKER, SYS_sendto, 7);
    put_sleep(410, WORKER, SYS_futex, QUEUE);
    put_run(500, LOOP);
    put_receive(510, LOOP, PIPE);
    put_reply(900, TASK, R);
    expect_path(
        R, 100, 900, LOOP,
        "cpu 11 100-150 inferred\nrun_queue 21 150-160 inferred\ncpu 21 160-400 inferred\nrun_queue 11 400-500\n"
        "cpu 11 500-900\n");
}

/* Two jobs one after the other. */
static void test_two_jobs(void **state)
{
    (void)state;
    put_sleep(20, WORKER, SYS_futex, QUEUE);
    put_sleep(20, OTHER_WORKER, SYS_futex, QUEUE);
    put_run(90, LOOP);
    put_arrival(100, R);
    put_receive(100, LOOP, R);
    put_waking(150, WORKER, LOOP, SYS_futex, QUEUE);
    put_run(150, WORKER);
    put_sleep(170, LOOP, SYS_epoll_pwait, 4);
    put_finished(400, WORKER, TASK);
    put_waking(400, LOOP, WORKER, SYS_sendto, 7);
    put_sleep(402, WORKER, SYS_futex, QUEUE);
    put_run(401, LOOP);
    put_receive(410, LOOP, PIPE);
    put_waking(450, OTHER_WORKER, LOOP, SYS_futex, QUEUE);
    put_run(450, OTHER_WORKER);
    put_sleep(470, LOOP, SYS_epoll_pwait, 4);
    put_finished(800, OTHER_WORKER, TASK);
    put_waking(800, LOOP, OTHER_WORKER, SYS_sendto, 7);
    put_sleep(802, OTHER_WORKER, SYS_futex, QUEUE);
    put_run(801, LOOP);
    put_receive(810, LOOP, PIPE);
    put_reply(900, TASK, R);
    expect_path(R, 100, 900, LOOP,
                "cpu 11 100-150\ncpu 21 150-400\nrun_queue 11 400-401\nloop_busy 11 401-410 other\ncpu 11 410-450\n"
                "cpu 22 450-800\nrun_queue 11 800-801\nloop_busy 11 801-810 other\ncpu 11 810-900\n");
}

/* The id of a task that has ended is used again: a job finished before the request was read was for the earlier task.
 * Tasks of other processes may have the same id. */
static void test_other_tasks_with_the_same_id(void **state)
{
    (void)state;
    put_run(10, WORKER);
    put_run(90, LOOP);
    put_arrival(100, R);
    put_finished(200, WORKER, TASK);
    put_reply(300, TASK, A);
    put_receive(400, LOOP, R);
    put_task(500, 200, TASK, RECORDER_TASK_FINISHED);
    put_reply(900, TASK, R);
    expect_path(R, 100, 900, LOOP, "unread 11 100-300 other\nunread 11 300-400 other\ncpu 11 400-900\n");
}

/* ---- the GIL ---- */

/* WORKER reads R and waits for the GIL in rounds. The spinner has it, except for one moment: the poller, which has
 * waited longer, gets it, and gives it back to the spinner with its next sleep. */
static void put_contended_gil(void)
{
    put_run(10, SPINNER);
    put_sleep(20, POLLER, SYS_clock_nanosleep, 0);
    put_run(90, WORKER);
    put_arrival(100, R);
    put_receive(100, WORKER, R);
    put_timeout(140, POLLER);
    put_gil_wait(150, POLLER, SPINNER);
    put_gil_wait(200, WORKER, SPINNER);
    put_timeout(300, WORKER);
    put_gil_wait(300, WORKER, SPINNER);
    put_waking(350, POLLER, SPINNER, SYS_futex, GIL + 40);
    put_run(351, POLLER);
    put_gil_wait(360, SPINNER, POLLER);
    put_waking(370, SPINNER, POLLER, SYS_futex, GIL + 44);
    put_run(371, SPINNER);
    put_sleep(380, POLLER, SYS_clock_nanosleep, 0);
}

static void test_holder_of_the_gil(void **state)
{
    (void)state;
    put_contended_gil();
    put_timeout(400, WORKER);
    put_gil_wait(400, WORKER, SPINNER);
    put_waking(450, WORKER, SPINNER, SYS_futex, GIL + 40);
    put_run(451, WORKER);
    put_send(900, WORKER, R);
    expect_path(R, 100, 900, WORKER,
                "cpu 21 100-200\nlock 31 200-350 unknown\nlock 32 350-351 unknown\nlock 32 351-370 unknown\n"
                "lock 31 370-371 unknown\nlock 31 371-450 unknown\nrun_queue 21 450-451\ncpu 21 451-900\n");
}

static void test_the_lock_is_called_the_gil(void **state)
{
    struct path_segments path;
    const struct critical_path_request request = {
        .socket = R, .start_ns = US(100), .read_ns = US(100), .end_ns = US(900), .tid = WORKER};
    (void)state;
    put_contended_gil();
    put_waking(450, WORKER, SPINNER, SYS_futex, GIL + 40);
    put_run(451, WORKER);
    put_send(900, WORKER, R);
    qsort(records, count, sizeof(records[0]), compare_times);
    const struct flight_window window = {.records = records, .count = count};
    assert_int_equal(find_path_in_window(&window, &request, &path), 0);
    assert_int_equal(path.items[1].kind, REQUEST_PART_LOCK);
    assert_string_equal(path.items[1].reason, "the holder of Python's GIL was running");
    assert_true(path.items[1].has_gil);
    assert_false(path.items[0].has_gil);
    path_segments_clear(&path);
}

/* The last round ends by its timeout, as the GIL was just free. */
static void test_gil_that_was_taken_after_a_timeout(void **state)
{
    (void)state;
    put_contended_gil();
    put_timeout(400, WORKER);
    put_send(900, WORKER, R);
    expect_path(
        R, 100, 900, WORKER,
        "cpu 21 100-200\nlock 31 200-298 unknown\nrun_queue 21 298-299\ncpu 21 299-300\nlock 31 300-350 unknown\n"
        "lock 32 350-351 unknown\nlock 32 351-380 unknown\nlock 31 380-398 unknown inferred\n"
        "run_queue 21 398-399\ncpu 21 399-900\n");
}

/* The poller takes it once more, without waiting. */
static void test_gil_that_was_taken_without_waiting(void **state)
{
    (void)state;
    put_contended_gil();
    put_timeout(430, POLLER);
    put_waking(450, WORKER, POLLER, SYS_futex, GIL + 40);
    put_run(451, WORKER);
    put_send(900, WORKER, R);
    expect_path(R, 100, 900, WORKER,
                "cpu 21 100-200\nlock 31 200-350 unknown\nlock 32 350-351 unknown\nlock 32 351-380 unknown\n"
                "lock 31 380-428 unknown inferred\nlock 32 428-429 unknown\nlock 32 429-450 unknown\n"
                "run_queue 21 450-451\ncpu 21 451-900\n");
}

/* A thread that releases the GIL hands no work to the one that it wakes. */
static void test_release_of_the_gil(void **state)
{
    (void)state;
    put_run(40, WORKER);
    put_gil_wait(50, POLLER, WORKER);
    put_arrival(100, R);
    put_receive(100, WORKER, R);
    put_waking(150, POLLER, WORKER, SYS_futex, GIL + 40);
    put_run(151, POLLER);
    put_sleep(160, WORKER, SYS_futex, 0x7000);
    put_waking(800, WORKER, POLLER, SYS_futex, 0x7000);
    put_run(801, WORKER);
    put_send(900, WORKER, R);
    expect_path(R, 100, 900, WORKER, "cpu 21 100-160\nlock 32 160-800 unknown\nrun_queue 21 800-801\ncpu 21 801-900\n");
}

/* A thread is woken just before it would have slept for the GIL, and goes on: its later sleep is not over. */
static void test_wake_up_of_a_thread_that_did_not_sleep(void **state)
{
    (void)state;
    put_run(90, WORKER);
    put_arrival(100, R);
    put_receive(100, WORKER, R);
    put_waking(150, WORKER, SPINNER, SYS_futex, GIL + 40);
    put_sleep(200, WORKER, SYS_clock_nanosleep, 0);
    put_timeout(800, WORKER);
    put_send(900, WORKER, R);
    expect_path(R, 100, 900, WORKER, "cpu 21 100-200\nsleep 21 200-798\nrun_queue 21 798-799\ncpu 21 799-900\n");
}

/* The same, if it does sleep for the GIL: the waker was early. */
static void test_wake_up_before_the_switch(void **state)
{
    (void)state;
    put_run(90, WORKER);
    put_arrival(100, R);
    put_receive(100, WORKER, R);
    put_waking(199, WORKER, SPINNER, SYS_futex, GIL + 40);
    put_sleep(200, WORKER, SYS_futex, GIL + 44);
    put_run(800, WORKER);
    put_send(900, WORKER, R);
    expect_path(R, 100, 900, WORKER, "cpu 21 100-200\nrun_queue 21 200-800\ncpu 21 800-900\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_queued_job, start_trace),
        cmocka_unit_test_setup(test_job_that_another_one_follows, start_trace),
        cmocka_unit_test_setup(test_reply_before_the_end_of_the_send, start_trace),
        cmocka_unit_test_setup(test_job_behind_one_that_sleeps_by_select, start_trace),
        cmocka_unit_test_setup(test_job_for_another_task, start_trace),
        cmocka_unit_test_setup(test_two_jobs, start_trace),
        cmocka_unit_test_setup(test_other_tasks_with_the_same_id, start_trace),
        cmocka_unit_test_setup(test_holder_of_the_gil, start_trace),
        cmocka_unit_test_setup(test_the_lock_is_called_the_gil, start_trace),
        cmocka_unit_test_setup(test_gil_that_was_taken_after_a_timeout, start_trace),
        cmocka_unit_test_setup(test_gil_that_was_taken_without_waiting, start_trace),
        cmocka_unit_test_setup(test_release_of_the_gil, start_trace),
        cmocka_unit_test_setup(test_wake_up_of_a_thread_that_did_not_sleep, start_trace),
        cmocka_unit_test_setup(test_wake_up_before_the_switch, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
