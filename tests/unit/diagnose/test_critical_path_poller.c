/* The critical path where a thread of a library reads requests and wakes the event loop, which serves them, by a byte
 * on a local socket, as gRPC's does on asyncio. */
#include "asyncio_trace.h"

#define POLLER 31
#define QUEUE  0x5000

/* The poller, which waits for events, reads a request that arrives, and lets the loop know. */
static void put_call(uint64_t us, uint64_t socket)
{
    put_arrival(us, socket);
    put_interrupt_waking(us + 1, POLLER, RECORDER_IN_SOFTIRQ);
    put_run(us + 5, POLLER);
    put_receive(us + 10, POLLER, socket);
    put_local_send(us + 20, POLLER, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_sleep(us + 30, POLLER, SYS_epoll_pwait, 7);
}

/* The loop computes for A until 700. It is preempted meanwhile. */
static void put_blocker(void)
{
    put_receive(340, LOOP, PIPE);
    put_off_cpu(400, LOOP, TASK_OF_A, 500);
    put_reply(700, TASK_OF_A, A);
}

static void put_start(void)
{
    put_sleep(10, POLLER, SYS_epoll_pwait, 7);
    put_run(15, LOOP);
}

static void test_call_while_the_loop_works_for_another(void **state)
{
    (void)state;
    put_start();
    put_call(300, A);
    put_blocker();
    put_call(360, R);
    put_receive(710, LOOP, PIPE);
    put_reply(800, TASK, R);
    expect_path(R, 360, 800, LOOP,
                "run_queue 31 360-365\n"
                "cpu 31 365-370\n"
                "cpu 31 370-380\n"
                "loop_busy 11 380-400 other\n"
                "run_queue 11 400-500 other\n"
                "loop_busy 11 500-700 other\n"
                "loop_busy 11 700-710 other\n"
                "cpu 11 710-800\n");
}

/* R's task waits for a timer. The byte that the loop reads afterwards is B's. */
static void test_timer_while_the_loop_works_for_another(void **state)
{
    (void)state;
    put_start();
    put_call(100, R);
    put_receive(140, LOOP, PIPE);
    put_sleep(150, LOOP, SYS_epoll_pwait, 4);
    put_call(300, A);
    put_waking(320, LOOP, POLLER, SYS_write, 9);
    put_run(330, LOOP);
    put_blocker();
    put_call(600, B);
    put_receive(710, LOOP, PIPE);
    put_reply(800, TASK, R);
    expect_path(R, 100, 800, LOOP,
                "run_queue 31 100-105\n"
                "cpu 31 105-130\n"
                "unattributed 11 130-320 unknown\n"
                "run_queue 11 320-330 inferred\n"
                "loop_busy 11 330-400 other inferred\n"
                "run_queue 11 400-500 other inferred\n"
                "loop_busy 11 500-700 other inferred\n"
                "loop_busy 11 700-710 other inferred\n"
                "cpu 11 710-800\n");
}

/* The loop makes the poller, which waits for events, do something for R: by an eventfd, or by another thread. */
static void put_help(bool is_by_worker)
{
    put_start();
    put_sleep(12, WORKER, SYS_futex, QUEUE);
    put_call(300, A);
    put_blocker();
    put_call(360, R);
    put_receive(710, LOOP, PIPE);
    if (is_by_worker) {
        put_waking(730, WORKER, LOOP, SYS_futex, QUEUE);
        put_run(735, WORKER);
        put_waking(740, POLLER, WORKER, SYS_write, 8);
        put_sleep(745, WORKER, SYS_futex, QUEUE);
    } else {
        put_waking(740, POLLER, LOOP, SYS_write, 8);
    }
    put_sleep(742, LOOP, SYS_epoll_pwait, 4);
    put_run(750, POLLER);
    put_local_send(760, POLLER, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(760, LOOP, POLLER, SYS_write, 9);
    put_sleep(770, POLLER, SYS_epoll_pwait, 7);
    put_run(765, LOOP);
    put_receive(780, LOOP, PIPE);
    put_reply(800, TASK, R);
}

static void test_loop_wakes_the_poller(void **state)
{
    (void)state;
    put_help(false);
    expect_path(R, 360, 800, LOOP,
                "run_queue 31 360-365 inferred\n"
                "cpu 31 365-370 inferred\n"
                "cpu 31 370-380 inferred\n"
                "loop_busy 11 380-400 other inferred\n"
                "run_queue 11 400-500 other inferred\n"
                "loop_busy 11 500-700 other inferred\n"
                "loop_busy 11 700-710 other inferred\n"
                "cpu 11 710-740 inferred\n"
                "run_queue 31 740-750\n"
                "cpu 31 750-760\n"
                "run_queue 11 760-765\n"
                "cpu 11 765-800\n");
}

static void test_loop_gives_work_to_a_thread_that_wakes_the_poller(void **state)
{
    (void)state;
    put_help(true);
    expect_path(R, 360, 800, LOOP,
                "run_queue 31 360-365 inferred\n"
                "cpu 31 365-370 inferred\n"
                "cpu 31 370-380 inferred\n"
                "loop_busy 11 380-400 other inferred\n"
                "run_queue 11 400-500 other inferred\n"
                "loop_busy 11 500-700 other inferred\n"
                "loop_busy 11 700-710 other inferred\n"
                "cpu 11 710-730 inferred\n"
                "run_queue 21 730-735 unknown inferred\n"
                "cpu 21 735-740 unknown inferred\n"
                "run_queue 31 740-750\n"
                "cpu 31 750-760\n"
                "run_queue 11 760-765\n"
                "cpu 11 765-800\n");
}

/* R's task waits for a timer, while the loop works for A. A thread of the library sends a ping on R's connection
 * meanwhile, and the poller reads its answer. */
static void test_ping_while_the_loop_works_for_another(void **state)
{
    (void)state;
    put_start();
    put_sleep(12, WORKER, SYS_futex, QUEUE);
    put_call(100, R);
    put_receive(140, LOOP, PIPE);
    put_sleep(150, LOOP, SYS_epoll_wait, 4);
    put_call(300, A);
    put_waking(320, LOOP, POLLER, SYS_write, 9);
    put_run(330, LOOP);
    put_blocker();
    put_interrupt_waking(595, WORKER, RECORDER_IN_HARDIRQ);
    put_run(598, WORKER);
    put_send(610, WORKER, R);
    put_control(610, WORKER, R);
    put_sleep(615, WORKER, SYS_futex, QUEUE);
    put_arrival(640, R);
    put_interrupt_waking(641, POLLER, RECORDER_IN_SOFTIRQ);
    put_run(645, POLLER);
    put(650, RECORDER_RECEIVE, RECORDER_TCP | RECORDER_REQUESTS, SYS_recvfrom, POLLER, R, 77ull << 32 | 17);
    put_control(650, POLLER, R);
    put_sleep(660, POLLER, SYS_epoll_wait, 7);
    put_reply(800, TASK, R);
    expect_path(R, 100, 800, LOOP,
                "run_queue 31 100-105\n"
                "cpu 31 105-130\n"
                "unattributed 11 130-320 unknown\n"
                "run_queue 11 320-330 inferred\n"
                "loop_busy 11 330-400 other inferred\n"
                "run_queue 11 400-500 other inferred\n"
                "loop_busy 11 500-700 other inferred\n"
                "cpu 11 700-800\n");
}

/* The network wakes the poller for nothing that is known, and the poller wakes the loop. Its byte before that went to
 * the loop, and timers are the loop's. */
static void test_poller_knows_no_service_and_no_timer(void **state)
{
    (void)state;
    put_start();
    put_call(100, R);
    put_receive(140, LOOP, PIPE);
    put_sleep(150, LOOP, SYS_epoll_wait, 4);
    put_interrupt_waking(590, POLLER, RECORDER_IN_SOFTIRQ);
    put_run(595, POLLER);
    put_waking(600, LOOP, POLLER, SYS_write, 9);
    put_run(605, LOOP);
    put_sleep(610, POLLER, SYS_epoll_wait, 7);
    put_reply(800, TASK, R);
    expect_path(R, 100, 800, LOOP,
                "run_queue 31 100-105\n"
                "cpu 31 105-130\n"
                "unattributed 31 130-590 unknown\n"
                "run_queue 31 590-595\n"
                "cpu 31 595-600\n"
                "run_queue 11 600-605\n"
                "cpu 11 605-800\n");
}

/* The loop gives work to a thread, which gives it back, and later to another one. In between the network wakes it. */
static void test_loop_that_was_given_its_own_work(void **state)
{
    (void)state;
    put_sleep(10, WORKER, SYS_futex, QUEUE);
    put_sleep(12, OTHER_WORKER, SYS_futex, QUEUE);
    put_run(90, LOOP);
    put_arrival(100, R);
    put_receive(100, LOOP, R);
    put_waking(110, WORKER, LOOP, SYS_futex, QUEUE);
    put_sleep(120, LOOP, SYS_epoll_wait, 4);
    put_run(130, WORKER);
    put_waking(200, LOOP, WORKER, SYS_write, 9);
    put_run(210, LOOP);
    put_sleep(220, WORKER, SYS_epoll_wait, 7);
    put_sleep(230, LOOP, SYS_epoll_wait, 4);
    put_interrupt_waking(600, LOOP, RECORDER_IN_SOFTIRQ);
    put_run(610, LOOP);
    put_waking(650, OTHER_WORKER, LOOP, SYS_futex, QUEUE);
    put_run(660, OTHER_WORKER);
    put_send(800, LOOP, R);
    expect_path(R, 100, 800, LOOP,
                "cpu 11 100-110\n"
                "run_queue 21 110-130\n"
                "cpu 21 130-200\n"
                "run_queue 11 200-210\n"
                "cpu 11 210-230\n"
                "unattributed 11 230-600 unknown\n"
                "run_queue 11 600-610\n"
                "cpu 11 610-800\n");
}

/* The thread that waits for events is given that task by the request's thread. When the answer of the service arrives,
 * it wakes that thread before it reads the answer on `socket`. */
static void put_poller_that_wakes_first(uint64_t socket)
{
    put_sleep(10, POLLER, SYS_futex, 0x7000);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(150, 11, SERVICE);
    put_waking(155, POLLER, 11, SYS_futex, 0x7000);
    put_run(160, POLLER);
    put_sleep(170, POLLER, SYS_epoll_wait, 7);
    put_sleep(180, 11, SYS_futex, QUEUE);
    put(700, RECORDER_READY, RECORDER_IN_SOFTIRQ | RECORDER_TCP, RECORDER_NO_SYSCALL, CLIENT, socket, 100ull << 32);
    put_interrupt_waking(701, POLLER, RECORDER_IN_SOFTIRQ);
    put_run(705, POLLER);
    put_waking(720, 11, POLLER, SYS_futex, QUEUE);
    put_receive(730, POLLER, socket);
    put_sleep(740, POLLER, SYS_futex, 0x7000);
    put_run(745, 11);
    put_send(800, 11, R);
}

static void test_poller_wakes_another_before_it_reads(void **state)
{
    (void)state;
    put_poller_that_wakes_first(SERVICE);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-150 inferred\n"
                "downstream 31 150-701 inferred\n"
                "run_queue 31 701-705\n"
                "cpu 31 705-720\n"
                "run_queue 11 720-745\n"
                "cpu 11 745-800\n");
}

static void test_poller_then_reads_a_request(void **state)
{
    (void)state;
    put_poller_that_wakes_first(A);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-155\n"
                "run_queue 31 155-160\n"
                "cpu 31 160-170\n"
                "unattributed 31 170-701 unknown\n"
                "run_queue 31 701-705\n"
                "cpu 31 705-720\n"
                "run_queue 11 720-745\n"
                "cpu 11 745-800\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_call_while_the_loop_works_for_another, start_trace),
        cmocka_unit_test_setup(test_timer_while_the_loop_works_for_another, start_trace),
        cmocka_unit_test_setup(test_loop_wakes_the_poller, start_trace),
        cmocka_unit_test_setup(test_loop_gives_work_to_a_thread_that_wakes_the_poller, start_trace),
        cmocka_unit_test_setup(test_ping_while_the_loop_works_for_another, start_trace),
        cmocka_unit_test_setup(test_poller_knows_no_service_and_no_timer, start_trace),
        cmocka_unit_test_setup(test_loop_that_was_given_its_own_work, start_trace),
        cmocka_unit_test_setup(test_poller_wakes_another_before_it_reads, start_trace),
        cmocka_unit_test_setup(test_poller_then_reads_a_request, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
