/* The critical path of a request with two tasks: one, the publisher, awaits jobs of pool threads, another one sends
 * their results. */
#include "asyncio_trace.h"

enum { PUBLISHER = 505, PARENT = 506, PUBLISHER_OF_A = 507, PARENT_OF_A = 508 };

#define QUEUE 0x5000

/* Thread `tid` ends a job for `publisher`, whose parent waits for it. */
static void put_end_for(uint64_t us, uint32_t tid, uint64_t publisher, uint64_t parent)
{
    put_task(us, tid, publisher, RECORDER_TASK_FINISHED);
    put_finished(us, tid, parent);
}

/* WORKER has jobs of R's publisher from 150 on, which end at 1000, 2000, 3000. The next job is given before the result
 * is sent, and the worker does not sleep in between. */
static void put_published(size_t results)
{
    put_sleep(5, WORKER, SYS_futex, QUEUE);
    put_run(10, LOOP);
    put_arrival(100, R);
    put_receive(110, LOOP, R);
    put_task(150, LOOP, PUBLISHER, RECORDER_TASK_RUNS);
    put_waking(150, WORKER, LOOP, SYS_futex, QUEUE);
    put_run(155, WORKER);
    put_sleep(160, LOOP, SYS_epoll_pwait, 4);
    for (size_t i = 1; i <= results; i++) {
        put_end_for(1000 * i, WORKER, PUBLISHER, PARENT);
        put_waking(1000 * i, LOOP, WORKER, SYS_sendto, 7);
        put_run(1000 * i + 10, LOOP);
        put_receive(1000 * i + 20, LOOP, PIPE);
        put_reply(1000 * i + 50, TASK, R);
        if (i < results)
            put_sleep(1000 * i + 60, LOOP, SYS_epoll_pwait, 4);
    }
}

static void test_jobs_whose_results_another_task_sends(void **state)
{
    (void)state;
    put_published(4);
    expect_path(R, 100, 4050, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150 inferred\n"
                "run_queue 21 150-155 inferred\n"
                "cpu 21 155-4000 inferred\n"
                "run_queue 11 4000-4010\n"
                "cpu 11 4010-4050\n");
}

/* A's publisher has jobs, too: which jobs were R's is not known. */
static void test_publishers_of_two_requests(void **state)
{
    (void)state;
    put_sleep(6, OTHER_WORKER, SYS_futex, QUEUE);
    put_published(4);
    for (size_t i = 1; i <= 4; i++)
        put_end_for(1000 * i - 400, OTHER_WORKER, PUBLISHER_OF_A, PARENT_OF_A);
    expect_path(R, 100, 4050, LOOP,
                "unread 11 100-110 other inferred\n"
                "cpu 11 110-150 inferred\n"
                "run_queue 21 150-155 several inferred\n"
                "cpu 21 155-4000 several inferred\n"
                "run_queue 11 4000-4010\n"
                "cpu 11 4010-4050\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_jobs_whose_results_another_task_sends, start_trace),
        cmocka_unit_test_setup(test_publishers_of_two_requests, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
