/* The critical path of requests that share an event loop with others whose tasks are known: streams that wait for
 * timers, jobs of pool threads, and services that other requests call. */
#include "asyncio_trace.h"

enum { SPINNER = 31, OTHER_TASK = 504 };

#define QUEUE       0x5000
#define OTHER_QUEUE 0x6000

/* The loop has read R at 110 and sends a first piece at 200; it sleeps from 220. A was read before. */
static void put_stream(void)
{
    put_run(10, LOOP);
    put_receive(20, LOOP, A);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_reply(200, TASK, R);
    put_sleep(220, LOOP, SYS_epoll_pwait, 4);
}

/* A job for `task`, given to WORKER at `given`, ends at 500, which wakes the loop. */
static void put_job_of(uint64_t task, uint64_t given_us)
{
    put_sleep(given_us - 5, WORKER, SYS_futex, QUEUE);
    put_waking(given_us, WORKER, LOOP, SYS_futex, QUEUE);
    put_run(given_us + 1, WORKER);
    put_sleep(given_us + 5, WORKER, SYS_clock_nanosleep, 0);
    put_timeout(490, WORKER);
    put_finished(500, WORKER, task);
    put_waking(500, LOOP, WORKER, SYS_sendto, 7);
    put_sleep(510, WORKER, SYS_futex, QUEUE);
    put_run(520, LOOP);
    put_receive(530, LOOP, PIPE);
}

/* R's next piece is sent after the loop has been woken for A: nothing but a timer can have let R go on. */
static void test_stream_when_a_job_of_another_request_ends(void **state)
{
    (void)state;
    put_stream();
    put_job_of(TASK_OF_A, 130);
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

static void test_stream_when_its_own_job_ends(void **state)
{
    (void)state;
    put_stream();
    put_job_of(TASK, 130);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-200\n"
                "sleep 21 200-488\n"
                "run_queue 21 488-489\n"
                "cpu 21 489-500\n"
                "run_queue 11 500-520\n"
                "loop_busy 11 520-530 other\n"
                "cpu 11 530-900\n");
}

/* It may have been for a task that R's waits for. */
static void test_stream_when_a_job_of_an_unknown_task_ends(void **state)
{
    (void)state;
    put_stream();
    put_job_of(OTHER_TASK, 130);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-130 inferred\n"
                "run_queue 21 130-131 inferred\n"
                "cpu 21 131-135 inferred\n"
                "sleep 21 135-488 inferred\n"
                "run_queue 21 488-489 inferred\n"
                "cpu 21 489-500 inferred\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-900\n");
}

static void test_stream_when_a_job_ends_that_began_before_the_request(void **state)
{
    (void)state;
    put_stream();
    put_job_of(OTHER_TASK, 30);
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

/* A's task has the id of an earlier task, which ended before A was read. */
static void test_job_of_an_earlier_task_with_the_same_id(void **state)
{
    (void)state;
    put_stream();
    put_job_of(TASK_OF_B, 130);
    put_receive(540, LOOP, B);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_B, B);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-130 inferred\n"
                "run_queue 21 130-131 inferred\n"
                "cpu 21 131-135 inferred\n"
                "sleep 21 135-488 inferred\n"
                "run_queue 21 488-489 inferred\n"
                "cpu 21 489-500 inferred\n"
                "run_queue 11 500-520\n"
                "loop_busy 11 520-540 other\n"
                "cpu 11 540-900 inferred\n");
}

/* An event loop that sends all replies itself does so in one context: that is no task. */
static void test_job_of_a_context_of_several_requests(void **state)
{
    (void)state;
    put_stream();
    put_job_of(OTHER_TASK, 130);
    put_reply(210, OTHER_TASK, B);
    put_reply(900, TASK, R);
    put_reply(950, OTHER_TASK, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-130 inferred\n"
                "run_queue 21 130-131 inferred\n"
                "cpu 21 131-135 inferred\n"
                "sleep 21 135-488 inferred\n"
                "run_queue 21 488-489 inferred\n"
                "cpu 21 489-500 inferred\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-900\n");
}

/* The loop slept after it had read that a job ended: whatever that was for, it has gone on. */
static void test_job_that_ended_before_the_loop_slept(void **state)
{
    (void)state;
    put_stream();
    put_job_of(OTHER_TASK, 130);
    put_sleep(600, LOOP, SYS_epoll_pwait, 4);
    put_timeout(700, LOOP);
    put_reply(750, TASK_OF_A, A);
    put_reply(900, TASK, R);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-130 inferred\n"
                "run_queue 21 130-131 inferred\n"
                "cpu 21 131-135 inferred\n"
                "sleep 21 135-488 inferred\n"
                "run_queue 21 488-489 inferred\n"
                "cpu 21 489-500 inferred\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-600\n"
                "sleep 11 600-698 inferred\n"
                "run_queue 11 698-699 inferred\n"
                "loop_busy 11 699-750 other inferred\n"
                "cpu 11 750-900\n");
}

/* The loop wakes for A, and sleeps again, before it wakes for R. */
static void test_rounds_of_the_loop_for_others(void **state)
{
    (void)state;
    put_stream();
    put_job_of(TASK_OF_A, 130);
    put_reply(550, TASK_OF_A, A);
    put_sleep(600, LOOP, SYS_epoll_pwait, 4);
    put_timeout(700, LOOP);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-220\n"
                "sleep 11 220-698 inferred\n"
                "run_queue 11 698-699\n"
                "cpu 11 699-900\n");
}

/* ---- hand-overs ---- */

/* The loop sends a piece of A at 150, then wakes WORKER in `task`. */
static void put_handover(uint64_t task)
{
    put_sleep(5, WORKER, SYS_futex, QUEUE);
    put_run(10, LOOP);
    put_receive(20, LOOP, A);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_reply(150, TASK_OF_A, A);
    put_task(180, LOOP, task, RECORDER_TASK_RUNS);
    put_waking(180, WORKER, LOOP, SYS_futex, QUEUE);
    put_run(190, WORKER);
    put_sleep(220, LOOP, SYS_epoll_pwait, 4);
}

/* Without a message that names the task of the job, as with uvloop. */
static void put_unknown_end(uint64_t us, uint32_t tid)
{
    put_waking(us, LOOP, tid, SYS_write, 9);
    put_sleep(us + 10, tid, SYS_futex, QUEUE);
    put_run(us + 20, LOOP);
}

static void test_job_given_by_the_requests_task(void **state)
{
    (void)state;
    put_handover(TASK);
    put_unknown_end(500, WORKER);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-180\n"
                "run_queue 21 180-190\n"
                "cpu 21 190-500\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-900\n");
}

static void test_job_given_by_another_requests_task(void **state)
{
    (void)state;
    put_handover(TASK_OF_A);
    put_unknown_end(500, WORKER);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "unattributed 11 150-500 unknown\n"
                "run_queue 11 500-520\n"
                "cpu 11 520-900\n");
}

/* WORKER takes R's job, and wakes the next thread that waits for the queue: that one's job is not R's. */
static void put_next_waiter(uint64_t word)
{
    put_handover(TASK);
    put_sleep(5, OTHER_WORKER, SYS_futex, word);
    put_waking(200, OTHER_WORKER, WORKER, SYS_futex, word);
    put_run(210, OTHER_WORKER);
    put_sleep(240, WORKER, SYS_clock_nanosleep, 0);
    put_timeout(400, WORKER);
    put_unknown_end(600, OTHER_WORKER);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
}

static void test_next_waiter_of_the_queue(void **state)
{
    (void)state;
    put_next_waiter(QUEUE);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-180 inferred\n"
                "run_queue 21 180-190 inferred\n"
                "cpu 21 190-240 inferred\n"
                "sleep 21 240-398 inferred\n"
                "run_queue 21 398-399 inferred\n"
                "cpu 21 399-600 inferred\n"
                "run_queue 11 600-620\n"
                "cpu 11 620-900\n");
}

static void test_job_that_gives_work_to_another_queue(void **state)
{
    (void)state;
    put_next_waiter(OTHER_QUEUE);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-180\n"
                "run_queue 21 180-190\n"
                "cpu 21 190-200\n"
                "run_queue 22 200-210\n"
                "cpu 22 210-600\n"
                "run_queue 11 600-620\n"
                "cpu 11 620-900\n");
}

/* WORKER reports that it has finished the job when it sends the message, and once more after that. */
static void test_job_that_is_reported_twice(void **state)
{
    (void)state;
    put_handover(TASK);
    put_finished(500, WORKER, TASK);
    put_waking(500, LOOP, WORKER, SYS_sendto, 7);
    put_task(510, WORKER, TASK, RECORDER_TASK_FINISHED);
    put_sleep(520, WORKER, SYS_futex, QUEUE);
    put_run(520, LOOP);
    put_receive(530, LOOP, PIPE);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-180\n"
                "run_queue 21 180-190\n"
                "cpu 21 190-500\n"
                "run_queue 11 500-520\n"
                "loop_busy 11 520-530 other\n"
                "cpu 11 530-900\n");
}

/* Two jobs of one task in one thread, which slept in between: the second one's message is not known. */
static void test_second_job_without_a_message(void **state)
{
    (void)state;
    put_handover(TASK);
    put_finished(300, WORKER, TASK);
    put_sleep(310, WORKER, SYS_clock_nanosleep, 0);
    put_timeout(500, WORKER);
    put_task(510, WORKER, TASK, RECORDER_TASK_FINISHED);
    put_waking(520, LOOP, WORKER, SYS_futex, GIL);
    put_sleep(530, WORKER, SYS_futex, QUEUE);
    put_run(540, LOOP);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-180\n"
                "run_queue 21 180-190\n"
                "cpu 21 190-310\n"
                "sleep 21 310-498\n"
                "run_queue 21 498-499\n"
                "cpu 21 499-510\n"
                "run_queue 11 510-540\n"
                "cpu 11 540-900\n");
}

/* WORKER was preempted in its message about A's job while R's task still ran. Its work before that is not R's. */
static void test_job_of_a_thread_that_was_preempted_in_its_message(void **state)
{
    (void)state;
    put_sleep(5, WORKER, SYS_clock_nanosleep, 0);
    put_run(10, LOOP);
    put_receive(20, LOOP, A);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_sleep(120, LOOP, SYS_epoll_pwait, 4);
    put_timeout(300, WORKER);
    put_finished(310, WORKER, TASK_OF_A);
    put_waking(310, LOOP, WORKER, SYS_sendto, 7);
    put_switch(312, WORKER, LOOP, RECORDER_PREEMPTED, SYS_sendto, 7);
    put_receive(320, LOOP, PIPE);
    put_reply(400, TASK, R);
    put_sleep(420, LOOP, SYS_epoll_pwait, 4);
    put_run(430, WORKER);
    put_finished(600, WORKER, TASK);
    put_waking(600, LOOP, WORKER, SYS_sendto, 7);
    put_sleep(610, WORKER, SYS_futex, QUEUE);
    put_run(620, LOOP);
    put_receive(630, LOOP, PIPE);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-120\n"
                "sleep 11 120-310 inferred\n"
                "run_queue 11 310-312 inferred\n"
                "loop_busy 11 312-320 other inferred\n"
                "cpu 11 320-400\n"
                "run_queue 21 400-430\n"
                "cpu 21 430-600\n"
                "run_queue 11 600-620\n"
                "loop_busy 11 620-630 other\n"
                "cpu 11 630-900\n");
}

/* ---- services ---- */

/* The loop connects to a service at 130, in a task of its own, and asks it at 140, in `task`. A timer wakes the loop.
 */
static void put_question(uint64_t task)
{
    put_run(10, LOOP);
    put_receive(20, LOOP, A);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_task(130, LOOP, OTHER_TASK, RECORDER_TASK_RUNS);
    put_send(130, LOOP, SERVICE);
    put_task(140, LOOP, task, RECORDER_TASK_RUNS);
    put_send(140, LOOP, SERVICE);
    put_sleep(220, LOOP, SYS_epoll_pwait, 4);
    put_interrupt_waking(700, LOOP, RECORDER_IN_SOFTIRQ);
    put_run(710, LOOP);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
}

static void test_service_that_another_request_asked(void **state)
{
    (void)state;
    put_question(TASK_OF_A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-140 other inferred\n"
                "cpu 11 140-220\n"
                "sleep 11 220-700 inferred\n"
                "run_queue 11 700-710\n"
                "cpu 11 710-900\n");
}

static void test_service_that_the_request_asked(void **state)
{
    (void)state;
    put_question(TASK);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-220\n"
                "downstream 11 220-700 inferred\n"
                "run_queue 11 700-710\n"
                "cpu 11 710-900\n");
}

/* The answer is read while R's task is about to go on for another reason. */
static void put_answer(uint64_t task)
{
    put_question(task);
    put_arrival(700, SERVICE);
    put_receive(720, LOOP, SERVICE);
}

static void test_answer_for_another_request(void **state)
{
    (void)state;
    put_answer(TASK_OF_A);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-140 other inferred\n"
                "cpu 11 140-220\n"
                "sleep 11 220-700 inferred\n"
                "run_queue 11 700-710 inferred\n"
                "loop_busy 11 710-720 other inferred\n"
                "cpu 11 720-900\n");
}

static void test_answer_for_the_request(void **state)
{
    (void)state;
    put_answer(TASK);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-140\n"
                "downstream 11 140-700\n"
                "run_queue 11 700-710\n"
                "cpu 11 710-900\n");
}

/* ---- the GIL ---- */

/* A job is finished at 300; the loop waits from 310 to 700 for something that SPINNER has. */
static void put_loop_that_waits(bool is_gil)
{
    put_handover(TASK);
    put_run(15, SPINNER);
    put_finished(300, WORKER, TASK);
    put_waking(300, LOOP, WORKER, SYS_sendto, 7);
    put_sleep(305, WORKER, SYS_futex, QUEUE);
    put_run(305, LOOP);
    if (is_gil)
        put_gil_wait(310, LOOP, SPINNER);
    else
        put_sleep(310, LOOP, SYS_futex, OTHER_QUEUE);
    put_timeout(700, LOOP);
    put_receive(710, LOOP, PIPE);
    put_reply(900, TASK, R);
    put_reply(950, TASK_OF_A, A);
}

static void test_loop_that_waits_for_the_gil(void **state)
{
    (void)state;
    put_loop_that_waits(true);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-180\n"
                "run_queue 21 180-190\n"
                "cpu 21 190-300\n"
                "run_queue 11 300-305\n"
                "loop_busy 11 305-310 other\n"
                "lock 31 310-698 unknown\n"
                "run_queue 11 698-699 other\n"
                "loop_busy 11 699-710 other\n"
                "cpu 11 710-900\n");
}

static void test_loop_that_waits_for_something_else(void **state)
{
    (void)state;
    put_loop_that_waits(false);
    expect_path(R, 100, 900, LOOP,
                "unread 11 100-110 other inferred\n"
                "loop_busy 11 110-150 other inferred\n"
                "cpu 11 150-180\n"
                "run_queue 21 180-190\n"
                "cpu 21 190-300\n"
                "run_queue 11 300-305\n"
                "loop_busy 11 305-310 other\n"
                "loop_busy 11 310-698 other\n"
                "run_queue 11 698-699 other\n"
                "loop_busy 11 699-710 other\n"
                "cpu 11 710-900\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_stream_when_a_job_of_another_request_ends, start_trace),
        cmocka_unit_test_setup(test_stream_when_its_own_job_ends, start_trace),
        cmocka_unit_test_setup(test_stream_when_a_job_of_an_unknown_task_ends, start_trace),
        cmocka_unit_test_setup(test_stream_when_a_job_ends_that_began_before_the_request, start_trace),
        cmocka_unit_test_setup(test_job_of_an_earlier_task_with_the_same_id, start_trace),
        cmocka_unit_test_setup(test_job_of_a_context_of_several_requests, start_trace),
        cmocka_unit_test_setup(test_job_that_ended_before_the_loop_slept, start_trace),
        cmocka_unit_test_setup(test_rounds_of_the_loop_for_others, start_trace),
        cmocka_unit_test_setup(test_job_given_by_the_requests_task, start_trace),
        cmocka_unit_test_setup(test_job_given_by_another_requests_task, start_trace),
        cmocka_unit_test_setup(test_next_waiter_of_the_queue, start_trace),
        cmocka_unit_test_setup(test_job_that_gives_work_to_another_queue, start_trace),
        cmocka_unit_test_setup(test_job_that_is_reported_twice, start_trace),
        cmocka_unit_test_setup(test_second_job_without_a_message, start_trace),
        cmocka_unit_test_setup(test_job_of_a_thread_that_was_preempted_in_its_message, start_trace),
        cmocka_unit_test_setup(test_service_that_another_request_asked, start_trace),
        cmocka_unit_test_setup(test_service_that_the_request_asked, start_trace),
        cmocka_unit_test_setup(test_answer_for_another_request, start_trace),
        cmocka_unit_test_setup(test_answer_for_the_request, start_trace),
        cmocka_unit_test_setup(test_loop_that_waits_for_the_gil, start_trace),
        cmocka_unit_test_setup(test_loop_that_waits_for_something_else, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
