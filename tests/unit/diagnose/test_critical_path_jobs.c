/* The critical path of requests whose tasks wait for jobs of pool threads: through other tasks, and on event loops that
 * learn by an eventfd that a job is finished (uvloop). */
#include "asyncio_trace.h"

enum { CHILD = 511, CHILD_OF_A = 512, SPINNER = 31 };

#define QUEUE   0x5000
#define EVENTFD 9

/* The loop has read A at 20, and reads R at 110. */
static void put_two_requests(void)
{
    put_run(10, LOOP);
    put_receive(20, LOOP, A);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
}

static void put_idle(uint64_t us, uint32_t tid)
{
    put_sleep(us, tid, SYS_futex, QUEUE);
}

/* The loop wakes thread `tid`, which waits for work, in `task`. */
static void put_given(uint64_t us, uint32_t tid, uint64_t task)
{
    put_task(us, LOOP, task, RECORDER_TASK_RUNS);
    put_waking(us, tid, LOOP, SYS_futex, QUEUE);
    put_run(us + 5, tid);
}

static void put_by_write(uint64_t us, uint32_t tid, uint64_t task)
{
    put(us, RECORDER_TASK, RECORDER_TASK_FINISHED, RECORDER_NO_SYSCALL, tid, task,
        (uint64_t)process_of(tid) << 32 | RECORDER_BY_WRITE);
}

/* Thread `tid` finishes a job for `child`, the child of the waiting `task`, and wakes the loop by write(). */
static void put_finished_by_write(uint64_t us, uint32_t tid, uint64_t child, uint64_t task)
{
    put_by_write(us, tid, child);
    put_by_write(us, tid, task);
    put_waking(us, LOOP, tid, SYS_write, EVENTFD);
}

static void put_sleep_of_loop(uint64_t us)
{
    put_sleep(us, LOOP, SYS_epoll_pwait, 4);
}

/* ---- tasks that wait for tasks ---- */

/* A's child and R's child have jobs, which end together; which child is whose shows only at the end. */
static void put_jobs_of_children(void)
{
    put_idle(5, WORKER);
    put_idle(6, OTHER_WORKER);
    put_two_requests();
    put_given(150, WORKER, CHILD_OF_A);
    put_given(160, OTHER_WORKER, CHILD);
    put_sleep_of_loop(200);
    put_task(500, WORKER, CHILD_OF_A, RECORDER_TASK_FINISHED);
    put_finished(500, WORKER, TASK_OF_A);
    put_task(510, OTHER_WORKER, CHILD, RECORDER_TASK_FINISHED);
    put_finished(510, OTHER_WORKER, TASK);
    put_waking(500, LOOP, WORKER, SYS_sendto, 7);
    put_idle(520, WORKER);
    put_idle(530, OTHER_WORKER);
    put_run(540, LOOP);
    put_receive(550, LOOP, PIPE);
    put_reply(800, TASK, R);
    put_reply(900, TASK_OF_A, A);
}

static void test_jobs_of_tasks_that_the_requests_tasks_wait_for(void **state)
{
    (void)state;
    put_jobs_of_children();
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-160\n"
                "run_queue 22 160-165\n"
                "cpu 22 165-510\n"
                "run_queue 11 510-540\n"
                "loop_busy 11 540-550 other\n"
                "cpu 11 550-800\n");
}

static void test_the_other_request(void **state)
{
    (void)state;
    put_jobs_of_children();
    expect_path(A, 20, 900, LOOP,
                "cpu 11 20-110\n"
                "cpu 11 110-150 inferred\n"
                "run_queue 21 150-155\n"
                "cpu 21 155-500\n"
                "run_queue 11 500-540\n"
                "loop_busy 11 540-800 other\n"
                "cpu 11 800-900\n");
}

/* The end of the job is not recorded, and another one of the same task is, later. */
static void test_child_that_gave_a_job_and_waits_for_another_one_later(void **state)
{
    (void)state;
    put_idle(5, WORKER);
    put_idle(6, OTHER_WORKER);
    put_two_requests();
    put_given(150, WORKER, CHILD);
    put_sleep_of_loop(200);
    put_waking(500, LOOP, WORKER, SYS_write, EVENTFD);
    put_idle(505, WORKER);
    put_run(520, LOOP);
    put_reply(700, TASK, R);
    put_reply(710, TASK_OF_A, A);
    put_given(720, WORKER, CHILD);
    put_finished_by_write(800, WORKER, CHILD, TASK);
    put_reply(900, TASK, R);
    expect_path(R, 100, 700, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150\n"
                "run_queue 21 150-155\n"
                "cpu 21 155-500\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-700\n");
}

/* A task that is no request's task gives a job while both requests are in flight. */
static void test_job_given_by_a_task_of_either_request(void **state)
{
    (void)state;
    put_idle(5, WORKER);
    put_two_requests();
    put_given(150, WORKER, CHILD);
    put_sleep_of_loop(200);
    put_waking(500, LOOP, WORKER, SYS_write, EVENTFD);
    put_idle(510, WORKER);
    put_run(520, LOOP);
    put_reply(700, TASK_OF_A, A);
    put_reply(800, TASK, R);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "unattributed 11 110-150 several inferred\n"
                "cpu 11 150-200\n"
                "cpu 21 200-500 unknown inferred\n"
                "run_queue 11 500-520 inferred\n"
                "loop_busy 11 520-700 other inferred\n"
                "cpu 11 700-800\n");
}

/* ---- what the request waits for after a job ---- */

/* The job's message has been read, and the loop sleeps until a timer expires. */
static void test_wait_after_a_job(void **state)
{
    (void)state;
    put_idle(5, WORKER);
    put_two_requests();
    put_given(150, WORKER, TASK);
    put_sleep_of_loop(200);
    put_finished(3000, WORKER, TASK);
    put_waking(3000, LOOP, WORKER, SYS_sendto, 7);
    put_idle(3010, WORKER);
    put_run(3020, LOOP);
    put_receive(3030, LOOP, PIPE);
    put_sleep_of_loop(5000);
    put_timeout(8000, LOOP);
    put_reply(8100, TASK_OF_A, A);
    put_reply(8200, TASK, R);
    expect_path(R, 100, 8200, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150\n"
                "run_queue 21 150-155\n"
                "cpu 21 155-3000\n"
                "run_queue 11 3000-3020\n"
                "loop_busy 11 3020-3030 other\n"
                "cpu 11 3030-5000\n"
                "sleep 11 5000-7998 inferred\n"
                "run_queue 11 7998-7999 inferred\n"
                "loop_busy 11 7999-8100 other inferred\n"
                "cpu 11 8100-8200\n");
}

/* ---- eventfd ---- */

static void put_job_by_write(void)
{
    put_two_requests();
    put_given(150, WORKER, TASK);
    put_sleep_of_loop(200);
    put_sleep(300, WORKER, SYS_clock_nanosleep, 0);
    put_timeout(480, WORKER);
    put_finished_by_write(500, WORKER, CHILD, TASK);
    put_idle(510, WORKER);
    put_run(520, LOOP);
    put_reply(800, TASK, R);
    put_reply(900, TASK_OF_A, A);
}

static void test_job_that_is_finished_by_write(void **state)
{
    (void)state;
    put_idle(5, WORKER);
    put_job_by_write();
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150\n"
                "run_queue 21 150-155\n"
                "cpu 21 155-300\n"
                "sleep 21 300-478\n"
                "run_queue 21 478-479\n"
                "cpu 21 479-500\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-800\n");
}

/* All threads of the pool are busy: WORKER has a job, and then R's. `task`: what the first one is for. */
static void put_two_jobs(uint64_t task)
{
    put_run(5, WORKER);
    put_two_requests();
    put_task(150, LOOP, TASK, RECORDER_TASK_RUNS);
    put_send(150, LOOP, SERVICE);
    put_sleep_of_loop(200);
    if (task) {
        put_by_write(300, WORKER, task);
        put_waking(300, LOOP, WORKER, SYS_write, EVENTFD);
        put_run(305, LOOP);
        put_sleep_of_loop(310);
    }
    put_finished_by_write(500, WORKER, CHILD, TASK);
    put_idle(510, WORKER);
    put_run(520, LOOP);
    put_reply(800, TASK, R);
    put_reply(900, TASK_OF_A, A);
}

static void test_job_behind_another_requests_job(void **state)
{
    (void)state;
    put_two_jobs(TASK_OF_A);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-200\n"
                "queue_behind 21 200-300 other inferred\n"
                "cpu 21 300-500\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-800\n");
}

static void test_two_jobs_of_a_request_in_one_thread(void **state)
{
    (void)state;
    put_two_jobs(TASK);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150\n"
                "cpu 21 150-500\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-800\n");
}

static void test_job_of_which_the_begin_is_not_known(void **state)
{
    (void)state;
    put_two_jobs(0);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150\n"
                "cpu 21 150-500 unknown inferred\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-800\n");
}

/* ---- jobs that end unseen, as the loop was awake ---- */

/* R's loop is woken by a timer at 500. */
static void put_timer(void)
{
    put_by_write(2, OTHER_WORKER, TASK_OF_B);
    put_two_requests();
    put_reply(150, TASK, R);
    put_sleep_of_loop(200);
    put_timeout(500, LOOP);
    put_reply(550, TASK_OF_A, A);
    put_reply(800, TASK, R);
}

static void test_timer(void **state)
{
    (void)state;
    put_timer();
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-200\n"
                "sleep 11 200-498 inferred\n"
                "run_queue 11 498-499 inferred\n"
                "loop_busy 11 499-550 other inferred\n"
                "cpu 11 550-800\n");
}

static void test_thread_that_may_have_finished_a_job_when_the_timer_expired(void **state)
{
    (void)state;
    put_timer();
    put_sleep(210, WORKER, SYS_clock_nanosleep, 0);
    put_timeout(520, WORKER);
    put_idle(540, WORKER);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-200\n"
                "unattributed 11 200-498 unknown inferred\n"
                "run_queue 11 498-499 inferred\n"
                "loop_busy 11 499-550 other inferred\n"
                "cpu 11 550-800\n");
}

static void test_thread_that_has_only_waited_for_the_gil(void **state)
{
    (void)state;
    put_timer();
    put_run(6, SPINNER);
    put_gil_wait(510, SPINNER, LOOP);
    put_waking(530, SPINNER, LOOP, SYS_futex, GIL + 40);
    put_run(531, SPINNER);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-200\n"
                "sleep 11 200-498 inferred\n"
                "run_queue 11 498-499 inferred\n"
                "loop_busy 11 499-550 other inferred\n"
                "cpu 11 550-800\n");
}

static void test_job_of_another_request_that_ended_when_the_timer_expired(void **state)
{
    (void)state;
    put_timer();
    put_sleep(210, WORKER, SYS_clock_nanosleep, 0);
    put_timeout(520, WORKER);
    put_by_write(530, WORKER, TASK_OF_A);
    put_idle(540, WORKER);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-200\n"
                "sleep 11 200-498 inferred\n"
                "run_queue 11 498-499 inferred\n"
                "loop_busy 11 499-550 other inferred\n"
                "cpu 11 550-800\n");
}

/* Thread `tid` sleeps in a job for `child`, the child of the waiting `task`, from `from_us`, and waits for work from
 * `end_us`. */
static void put_unseen_job(uint64_t from_us, uint64_t end_us, uint32_t tid, uint64_t child, uint64_t task)
{
    put_sleep(from_us, tid, SYS_clock_nanosleep, 0);
    put_task(from_us, tid, child, RECORDER_TASK_WORKS);
    put_task(from_us, tid, task, RECORDER_TASK_WORKS);
    put_timeout(end_us - 10, tid);
    put_idle(end_us, tid);
}

/* The loop is awake when both jobs end. */
static void put_unseen_jobs(void)
{
    put_idle(5, WORKER);
    put_idle(6, OTHER_WORKER);
    put_by_write(2, OTHER_WORKER, TASK_OF_B);
    put_two_requests();
    put_given(150, WORKER, CHILD_OF_A);
    put_given(160, OTHER_WORKER, CHILD);
    put_sleep_of_loop(200);
    put_unseen_job(210, 510, WORKER, CHILD_OF_A, TASK_OF_A);
    put_unseen_job(220, 520, OTHER_WORKER, CHILD, TASK);
    put_timeout(490, LOOP);
    put_reply(800, TASK, R);
    put_reply(900, TASK_OF_A, A);
}

static void test_jobs_whose_ends_are_not_seen(void **state)
{
    (void)state;
    put_unseen_jobs();
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-160\n"
                "run_queue 22 160-165\n"
                "cpu 22 165-220\n"
                "sleep 22 220-508\n"
                "run_queue 22 508-509\n"
                "cpu 22 509-520\n"
                "cpu 11 520-800\n");
}

static void test_the_other_request_whose_job_ended_unseen(void **state)
{
    (void)state;
    put_unseen_jobs();
    expect_path(A, 20, 900, LOOP,
                "cpu 11 20-110\n"
                "cpu 11 110-150 inferred\n"
                "run_queue 21 150-155\n"
                "cpu 21 155-210\n"
                "sleep 21 210-498\n"
                "run_queue 21 498-499\n"
                "cpu 21 499-510\n"
                "loop_busy 11 510-800 other\n"
                "cpu 11 800-900\n");
}

/* The thread still sleeps in the request's job. */
static void test_job_that_has_not_ended(void **state)
{
    (void)state;
    put_timer();
    put_sleep(210, WORKER, SYS_clock_nanosleep, 0);
    put_task(210, WORKER, TASK, RECORDER_TASK_WORKS);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-200\n"
                "sleep 11 200-498 inferred\n"
                "run_queue 11 498-499 inferred\n"
                "loop_busy 11 499-550 other inferred\n"
                "cpu 11 550-800\n");
}

/* The end that is seen is exact. */
static void test_job_whose_begin_and_end_are_seen(void **state)
{
    (void)state;
    put_idle(5, WORKER);
    put_job_by_write();
    put_task(300, WORKER, CHILD, RECORDER_TASK_WORKS);
    put_task(300, WORKER, TASK, RECORDER_TASK_WORKS);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150\n"
                "run_queue 21 150-155\n"
                "cpu 21 155-300\n"
                "sleep 21 300-478\n"
                "run_queue 21 478-479\n"
                "cpu 21 479-500\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-800\n");
}

/* The request had given work to a thread that still computes: it is not the one that woke the loop. */
static void test_thread_that_computes_is_not_the_last_hand(void **state)
{
    (void)state;
    put_idle(5, SPINNER);
    put_idle(6, WORKER);
    put_two_requests();
    put_given(150, SPINNER, TASK);
    put_by_write(160, OTHER_WORKER, TASK_OF_B);
    put_sleep_of_loop(200);
    put_interrupt_waking(300, WORKER, RECORDER_IN_HARDIRQ);
    put_run(305, WORKER);
    put_gil_wait(310, WORKER, SPINNER);
    put_waking(480, WORKER, SPINNER, SYS_futex, GIL + 40);
    put_run(490, WORKER);
    put_waking(500, LOOP, WORKER, SYS_write, EVENTFD);
    put_idle(510, WORKER);
    put_run(520, LOOP);
    put_reply(800, TASK, R);
    put_reply(900, TASK_OF_A, A);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-200\n"
                "sleep 21 200-300 unknown inferred\n"
                "run_queue 21 300-305 unknown inferred\n"
                "cpu 21 305-310 unknown inferred\n"
                "lock 31 310-480 unknown inferred\n"
                "run_queue 21 480-490 unknown inferred\n"
                "cpu 21 490-500 unknown inferred\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-800\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_jobs_of_tasks_that_the_requests_tasks_wait_for, start_trace),
        cmocka_unit_test_setup(test_the_other_request, start_trace),
        cmocka_unit_test_setup(test_child_that_gave_a_job_and_waits_for_another_one_later, start_trace),
        cmocka_unit_test_setup(test_job_given_by_a_task_of_either_request, start_trace),
        cmocka_unit_test_setup(test_wait_after_a_job, start_trace),
        cmocka_unit_test_setup(test_job_that_is_finished_by_write, start_trace),
        cmocka_unit_test_setup(test_job_behind_another_requests_job, start_trace),
        cmocka_unit_test_setup(test_two_jobs_of_a_request_in_one_thread, start_trace),
        cmocka_unit_test_setup(test_job_of_which_the_begin_is_not_known, start_trace),
        cmocka_unit_test_setup(test_timer, start_trace),
        cmocka_unit_test_setup(test_thread_that_may_have_finished_a_job_when_the_timer_expired, start_trace),
        cmocka_unit_test_setup(test_thread_that_has_only_waited_for_the_gil, start_trace),
        cmocka_unit_test_setup(test_job_of_another_request_that_ended_when_the_timer_expired, start_trace),
        cmocka_unit_test_setup(test_jobs_whose_ends_are_not_seen, start_trace),
        cmocka_unit_test_setup(test_the_other_request_whose_job_ended_unseen, start_trace),
        cmocka_unit_test_setup(test_job_that_has_not_ended, start_trace),
        cmocka_unit_test_setup(test_job_whose_begin_and_end_are_seen, start_trace),
        cmocka_unit_test_setup(test_thread_that_computes_is_not_the_last_hand, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
