/* An event loop with many requests at once: what it reads and does for others is no work of this request. */
#include "asyncio_trace.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_answer_to_a_question_that_is_older_than_the_request, start_trace),
        cmocka_unit_test_setup(test_answer_without_a_question, start_trace),
        cmocka_unit_test_setup(test_work_after_an_answer_to_another, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
