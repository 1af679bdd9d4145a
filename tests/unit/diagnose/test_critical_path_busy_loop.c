/* An event loop with many requests at once: its reads and its work for others are no work of this request. */
#include "asyncio_trace.h"

enum { OTHER_TASK = 504, JOB_CONTEXT = 505 };

#define QUEUE 0x5000

/* A service of this node slept for another request's question, and answers it. The loop reads the answer at 410, after
 * R, and asks the next question at 550. */
static void put_answer_to_another(void)
{
    put_run(10, LOOP);
    put_arrival(20, A);
    put_receive(20, LOOP, A);
    put_run(40, 210);
    put_sleep(60, 210, SYS_clock_nanosleep, 1);
    put_arrival(100, R);
    put_interrupt_waking(190, 210, RECORDER_IN_HARDIRQ);
    put_run(195, 210);
    put_local_send(200, 210, SERVICE_PEER, SERVICE, RECORDER_IN_SOFTIRQ | RECORDER_TCP);
    put_receive(400, LOOP, R);
    put_receive(405, LOOP, B);
    put(410, RECORDER_RECEIVE, RECORDER_TCP, SYS_recvfrom, LOOP, SERVICE, 100);
    put_send(500, LOOP, B);
    put_send(550, LOOP, SERVICE);
    put_send(600, LOOP, R);
}

static void expect_no_answer(void)
{
    expect_path(R, 100, 600, LOOP,
                "unread 11 100-400 other inferred\n"
                "cpu 11 400-405\n"
                "loop_busy 11 405-410 other inferred\n"
                "loop_busy 11 410-500 other inferred\n"
                "cpu 11 500-600\n");
}

static void test_answer_to_a_question_that_is_older_than_the_request(void **state)
{
    (void)state;
    put_answer_to_another();
    put_send(50, LOOP, SERVICE);
    expect_no_answer();
}

/* The question was asked before the records begin. */
static void test_answer_without_a_question(void **state)
{
    (void)state;
    put_answer_to_another();
    expect_no_answer();
}

/* The loop had read another request's answer, and worked for it, when R arrived. */
static void test_work_after_an_answer_to_another(void **state)
{
    (void)state;
    put_run(5, LOOP);
    put_send(10, LOOP, SERVICE);
    put_sleep(20, LOOP, SYS_epoll_pwait, 4);
    put_interrupt_waking(30, LOOP, RECORDER_IN_SOFTIRQ);
    put_run(35, LOOP);
    put_receive(40, LOOP, SERVICE);
    put_arrival(100, R);
    put_receive(500, LOOP, R);
    put_send(600, LOOP, R);
    expect_path(R, 100, 600, LOOP,
                "unread 11 100-500 other inferred\n"
                "cpu 11 500-600\n");
}

/* ---- requests that were read before the records begin ---- */

/* A's task gives a job to the pool, which ends while R waits for a timer. A was read before the records begin. */
static void put_job_of_an_older_request(void)
{
    put_run(10, LOOP);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_sleep(20, WORKER, SYS_futex, QUEUE);
    put_task(130, LOOP, TASK_OF_A, RECORDER_TASK_RUNS);
    put_waking(130, WORKER, LOOP, SYS_futex, QUEUE);
    put_run(131, WORKER);
    put_sleep(135, WORKER, SYS_clock_nanosleep, 0);
    put_reply(200, TASK, R);
    put_sleep(220, LOOP, SYS_epoll_pwait, 4);
    put_timeout(480, WORKER);
}

/* The loop has been woken for A: nothing but a timer can have let R go on. */
static void expect_a_timer(void)
{
    put_waking(500, LOOP, WORKER, SYS_sendto, 7);
    put_sleep(510, WORKER, SYS_futex, QUEUE);
    put_run(520, LOOP);
    put_receive(530, LOOP, PIPE);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-220\n"
                "sleep 11 220-500 inferred\n"
                "run_queue 11 500-520 inferred\n"
                "loop_busy 11 520-530 other inferred\n"
                "cpu 11 530-900\n");
}

static void test_job_of_a_request_that_is_older_than_the_records(void **state)
{
    (void)state;
    put_job_of_an_older_request();
    put_finished(500, WORKER, TASK_OF_A);
    expect_a_timer();
}

/* Between the end of the job and its message, the thread waits for the GIL. */
static void test_job_whose_thread_leaves_its_cpu_before_the_message(void **state)
{
    (void)state;
    put_job_of_an_older_request();
    put_task(485, WORKER, TASK_OF_A, RECORDER_TASK_FINISHED);
    put_off_cpu(490, WORKER, JOB_CONTEXT, 495);
    put_local_send(500, WORKER, PIPE_WRITER, PIPE, RECORDER_UNIX);
    expect_a_timer();
}

/* ---- turns of several tasks ---- */

/* The loop reads A and then R, and is preempted twice before it replies to R. */
static void put_round(uint64_t task)
{
    put_run(10, LOOP);
    put_arrival(100, R);
    put_receive(105, LOOP, A);
    put_receive(110, LOOP, R);
    put_off_cpu(300, LOOP, task, 400);
    put_off_cpu(500, LOOP, task, 600);
    put_reply(700, TASK, R);
}

static void test_turn_of_another_request(void **state)
{
    (void)state;
    put_round(TASK_OF_A);
    put_reply(900, TASK_OF_A, A);
    expect_path(R, 100, 700, LOOP,
                "unread 11 100-105 other\n"
                "unread 11 105-110 other\n"
                "loop_busy 11 110-300 other inferred\n"
                "run_queue 11 300-400 other\n"
                "loop_busy 11 400-500 other inferred\n"
                "run_queue 11 500-600 other\n"
                "cpu 11 600-700\n");
}

/* The task may be A's, or one that R's task waits for. */
static void test_turn_of_an_unknown_task(void **state)
{
    (void)state;
    put_round(OTHER_TASK);
    expect_path(R, 100, 700, LOOP,
                "unread 11 100-105 other\n"
                "unread 11 105-110 other\n"
                "unattributed 11 110-300 several inferred\n"
                "run_queue 11 300-400 several\n"
                "unattributed 11 400-500 several inferred\n"
                "run_queue 11 500-600 several\n"
                "cpu 11 600-700\n");
}

static void test_turn_of_the_request(void **state)
{
    (void)state;
    put_round(TASK);
    expect_path(R, 100, 700, LOOP,
                "unread 11 100-105 other\n"
                "unread 11 105-110 other\n"
                "cpu 11 110-300\n"
                "run_queue 11 300-400\n"
                "cpu 11 400-500\n"
                "run_queue 11 500-600\n"
                "cpu 11 600-700\n");
}

/* No other request can be meant: R's task waits for this one. */
static void test_turn_of_a_task_that_the_request_waits_for(void **state)
{
    (void)state;
    put_run(10, LOOP);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_off_cpu(300, LOOP, OTHER_TASK, 400);
    put_reply(700, TASK, R);
    expect_path(R, 100, 700, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-300\n"
                "run_queue 11 300-400\n"
                "cpu 11 400-700\n");
}

/* In A's task, the loop waits for the GIL, and then for a CPU. */
static void test_turn_of_another_request_that_waits_for_the_gil(void **state)
{
    (void)state;
    put_run(10, LOOP);
    put_run(10, WORKER);
    put_arrival(100, R);
    put_receive(105, LOOP, A);
    put_receive(110, LOOP, R);
    put_gil_wait(300, LOOP, WORKER);
    put(300, RECORDER_TASK, RECORDER_TASK_RUNS, RECORDER_NO_SYSCALL, LOOP, TASK_OF_A,
        (uint64_t)process_of(LOOP) << 32 | RECORDER_OFF_CPU);
    put_waking(400, LOOP, WORKER, SYS_futex, GIL + 40);
    put_run(500, LOOP);
    put_reply(700, TASK, R);
    put_reply(900, TASK_OF_A, A);
    expect_path(R, 100, 700, LOOP,
                "unread 11 100-105 other\n"
                "unread 11 105-110 other\n"
                "loop_busy 11 110-300 other inferred\n"
                "lock 21 300-400 unknown\n"
                "run_queue 11 400-500 other\n"
                "cpu 11 500-700\n");
}

/* The loop reads A and then R, and replies to R `us` later. No record shows its work. */
static void put_silent_round(uint64_t us)
{
    put_run(10, LOOP);
    put_arrival(100, R);
    put_receive(105, LOOP, A);
    put_receive(110, LOOP, R);
    put_reply(110 + us, TASK, R);
}

static void test_long_round_without_records(void **state)
{
    (void)state;
    put_silent_round(5000);
    expect_path(R, 100, 5110, LOOP,
                "unread 11 100-105 other\n"
                "unread 11 105-110 other\n"
                "unattributed 11 110-5110 several inferred\n");
}

static void test_short_round_without_records(void **state)
{
    (void)state;
    put_silent_round(500);
    expect_path(R, 100, 610, LOOP,
                "unread 11 100-105 other\n"
                "unread 11 105-110 other\n"
                "cpu 11 110-610\n");
}

/* A timer wakes the loop for R, which then reads A. An unknown task runs before R's. */
static void test_turn_of_an_unknown_task_after_a_timer(void **state)
{
    (void)state;
    put_run(10, LOOP);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_sleep(150, LOOP, SYS_epoll_pwait, 4);
    put_timeout(300, LOOP);
    put_receive(310, LOOP, A);
    put_off_cpu(400, LOOP, OTHER_TASK, 500);
    put_off_cpu(600, LOOP, OTHER_TASK, 700);
    put_reply(800, TASK, R);
    expect_path(R, 100, 800, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150\n"
                "sleep 11 150-298 inferred\n"
                "run_queue 11 298-299 inferred\n"
                "loop_busy 11 299-310 other inferred\n"
                "unattributed 11 310-400 several inferred\n"
                "run_queue 11 400-500 several\n"
                "unattributed 11 500-600 several inferred\n"
                "run_queue 11 600-700 several\n"
                "cpu 11 700-800\n");
}

/* R's task computes, and asks a service only after the loop has served B. */
static void test_turn_before_another_reply(void **state)
{
    (void)state;
    put_run(10, LOOP);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_receive(115, LOOP, B);
    put_off_cpu(300, LOOP, TASK, 400);
    put_reply(600, TASK_OF_B, B);
    put_task(700, LOOP, TASK, RECORDER_TASK_RUNS);
    put_send(700, LOOP, SERVICE);
    put_sleep(710, LOOP, SYS_epoll_pwait, 4);
    put_arrival(900, SERVICE);
    put_interrupt_waking(901, LOOP, RECORDER_IN_SOFTIRQ);
    put_run(910, LOOP);
    put_receive(920, LOOP, SERVICE);
    put_reply(1000, TASK, R);
    expect_path(R, 100, 1000, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-115\n"
                "cpu 11 115-300 inferred\n"
                "run_queue 11 300-400\n"
                "loop_busy 11 400-600 other inferred\n"
                "cpu 11 600-700\n"
                "downstream 11 700-900\n"
                "run_queue 11 900-910\n"
                "cpu 11 910-1000\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_answer_to_a_question_that_is_older_than_the_request, start_trace),
        cmocka_unit_test_setup(test_answer_without_a_question, start_trace),
        cmocka_unit_test_setup(test_work_after_an_answer_to_another, start_trace),
        cmocka_unit_test_setup(test_job_of_a_request_that_is_older_than_the_records, start_trace),
        cmocka_unit_test_setup(test_job_whose_thread_leaves_its_cpu_before_the_message, start_trace),
        cmocka_unit_test_setup(test_turn_of_another_request, start_trace),
        cmocka_unit_test_setup(test_turn_of_an_unknown_task, start_trace),
        cmocka_unit_test_setup(test_turn_of_the_request, start_trace),
        cmocka_unit_test_setup(test_turn_of_a_task_that_the_request_waits_for, start_trace),
        cmocka_unit_test_setup(test_turn_of_another_request_that_waits_for_the_gil, start_trace),
        cmocka_unit_test_setup(test_long_round_without_records, start_trace),
        cmocka_unit_test_setup(test_short_round_without_records, start_trace),
        cmocka_unit_test_setup(test_turn_of_an_unknown_task_after_a_timer, start_trace),
        cmocka_unit_test_setup(test_turn_before_another_reply, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
