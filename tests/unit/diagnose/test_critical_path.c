/* Critical paths of synthetic traces: what the walk must get right under concurrency. */
#include "flight_trace.h"

#include <errno.h>

/* ---- one thread a request ---- */

static void test_bytes_wait_until_the_thread_reads_them(void **state)
{
    (void)state;
    put_sleep(10, 11, SYS_recvfrom, 5);
    put_arrival(100, R);
    put_interrupt_waking(101, 11, RECORDER_IN_SOFTIRQ);
    put_run(150, 11);
    put_receive(160, 11, R);
    put_send(400, 11, R);
    expect_path(R, 100, 400, 11,
                "run_queue 11 100-150\n"
                "cpu 11 150-400\n");
}

static void test_sleep_and_disk(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(200, 11, SYS_clock_nanosleep, 0);
    put_interrupt_waking(300, 11, RECORDER_IN_HARDIRQ);
    put_run(310, 11);
    put_switch(400, 11, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, SYS_pread64, 7);
    put_interrupt_waking(600, 11, RECORDER_IN_SOFTIRQ);
    put_run(620, 11);
    put_sleep(700, 11, SYS_read, 8); /* of a timerfd */
    put_interrupt_waking(800, 11, RECORDER_IN_HARDIRQ);
    put_run(800, 11);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-200\n"
                "sleep 11 200-300\n"
                "run_queue 11 300-310\n"
                "cpu 11 310-400\n"
                "disk 11 400-600\n"
                "run_queue 11 600-620\n"
                "cpu 11 620-700\n"
                "sleep 11 700-800 inferred\n"
                "cpu 11 800-900\n");
}

/* sched_waking fires before the sleeper has left its CPU. */
static void test_waking_before_switch_out(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_run(150, 21); /* the holder */
    put_waking(199, 11, 21, SYS_futex, 0x4000);
    put_sleep(200, 11, SYS_futex, 0x4000);
    put_run(240, 11);
    put_send(300, 11, R);
    expect_path(R, 100, 300, 11,
                "cpu 11 100-200\n"
                "run_queue 11 200-240\n"
                "cpu 11 240-300\n");
}

/* Between set_current_state(TASK_INTERRUPTIBLE) and schedule(): still runnable. */
static void test_preempted_in_s(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_switch(200, 11, 31, RECORDER_PREEMPTED, SYS_futex, 0x4000);
    put_switch(260, 31, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_send(300, 11, R);
    expect_path(R, 100, 300, 11,
                "cpu 11 100-200\n"
                "run_queue 11 200-260\n"
                "cpu 11 260-300\n");
}

/* The thread that a network interrupt interrupted has nothing to do with it. */
static void test_loopback_softirq_bystander(void **state)
{
    (void)state;
    put_run(90, 11);
    put_run(90, CLIENT);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(150, 11, SERVICE);
    put_sleep(160, 11, SYS_recvfrom, 6);
    put_arrival(500, SERVICE);
    put_interrupt_waking(501, 11, RECORDER_IN_SOFTIRQ);
    put_run(510, 11);
    put_receive(520, 11, SERVICE);
    put_send(600, 11, R);
    expect_path(R, 100, 600, 11,
                "cpu 11 100-150\n"
                "downstream 11 150-500\n"
                "run_queue 11 500-510\n"
                "cpu 11 510-600\n");
}

/* A thread with bottom halves disabled is no interrupt: the recorder sets no flag, and the walk follows it. */
static void test_bh_disabled_task_waker(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5000);
    put_run(130, 12);
    put_sleep(140, 11, SYS_futex, 0x6000);
    put_waking(400, 11, 12, SYS_futex, 0x6000);
    put_run(410, 11);
    put_send(450, 11, R);
    expect_path(R, 100, 450, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-400\n"
                "run_queue 11 400-410\n"
                "cpu 11 410-450\n");
}

/* The work of a thread that the request's handler created is the request's work. */
static void test_new_thread(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_clone3, 0);
    put_sleep(130, 11, SYS_futex, 0x6000);
    put_run(150, 12);
    put_waking(300, 11, 12, SYS_futex, 0x6000);
    put_run(310, 11);
    put_send(350, 11, R);
    expect_path(R, 100, 350, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-150\n"
                "cpu 12 150-300\n"
                "run_queue 11 300-310\n"
                "cpu 11 310-350\n");
}

/* ---- event loops ---- */

/* Three requests are read in one round of the loop; their handlers run in the next, in order. */
static void test_asyncio_burst_abc(void **state)
{
    (void)state;
    put_run(50, 11);
    put_arrival(90, A);
    put_arrival(91, B);
    put_arrival(92, C);
    put_receive(100, 11, A);
    put_receive(110, 11, B);
    put_receive(120, 11, C);
    put_send(220, 11, A);
    put_send(320, 11, B);
    put_send(420, 11, C);
    expect_path(B, 91, 320, 11,
                "unread 11 91-100 other\n"
                "unread 11 100-110 other\n"
                "cpu 11 110-120\n"
                "loop_busy 11 120-220 other inferred\n"
                "cpu 11 220-320\n");
}

static void test_loop_serves_500_while_awaiting(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(110, 11, SYS_epoll_pwait, 4);
    for (uint64_t i = 0; i < 500; i++) {
        const uint64_t at = 200 + 10 * i;
        put_arrival(at, A);
        put_interrupt_waking(at, 11, RECORDER_IN_SOFTIRQ);
        put_run(at + 1, 11);
        put_receive(at + 2, 11, A);
        put_send(at + 4, 11, A);
        put_sleep(at + 5, 11, SYS_epoll_pwait, 4);
    }
    put_interrupt_waking(5300, 11, RECORDER_IN_HARDIRQ);
    put_run(5310, 11);
    put_send(5400, 11, R);
    expect_path(R, 100, 5400, 11,
                "cpu 11 100-110\n"
                "sleep 11 110-5300 inferred\n"
                "run_queue 11 5300-5310\n"
                "cpu 11 5310-5400\n");
}

/* The loop is busy with A when R's bytes arrive: with A's request, and it says so. */
static void test_unread_while_the_loop_is_blocked(void **state)
{
    (void)state;
    put_run(50, 11);
    put_receive(60, 11, A);
    put_arrival(100, R);
    put_send(900, 11, A);
    put_receive(910, 11, R);
    put_send(950, 11, R);
    expect_path(R, 100, 950, 11,
                "unread 11 100-900 other\n"
                "unread 11 900-910 other\n"
                "cpu 11 910-950\n");
}

/* A pool thread works for R and finishes by a byte to the loop, which is awake, serves A first, and sleeps never. */
static void test_pool_thread_while_the_loop_is_awake(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5000);
    put_run(130, 12);
    put_receive(140, 11, A);
    put_local_send(500, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_sleep(520, 12, SYS_futex, 0x5000);
    put_send(600, 11, A);
    put_receive(610, 11, PIPE);
    put_send(700, 11, R);
    expect_path(R, 100, 700, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-500\n"
                "loop_busy 11 500-600 other\n"
                "loop_busy 11 600-610 other\n"
                "cpu 11 610-700\n");
}

/* The worker takes R's item only after another one: until then R waited behind it. */
static void test_worker_fifo_second_item(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_run(50, 11);
    put_arrival(60, A);
    put_receive(60, 11, A);
    put_waking(70, 12, 11, SYS_futex, 0x5000);
    put_run(80, 12);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(110, 11, SYS_epoll_pwait, 4);
    put_local_send(400, 12, PIPE_WRITER, PIPE, RECORDER_UNIX); /* A's item is done */
    put_waking(400, 11, 12, SYS_sendto, 9);
    put_run(405, 11);
    put_receive(406, 11, PIPE);
    put_send(410, 11, A);
    put_sleep(420, 11, SYS_epoll_pwait, 4);
    put_local_send(900, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(900, 11, 12, SYS_sendto, 9);
    put_sleep(910, 12, SYS_futex, 0x5000);
    put_run(905, 11);
    put_receive(906, 11, PIPE);
    put_send(950, 11, R);
    expect_path(R, 100, 950, 11,
                "cpu 11 100-110\n"
                "queue_behind 12 110-401 other inferred\n"
                "cpu 12 401-900\n"
                "run_queue 11 900-905\n"
                "cpu 11 905-950\n");
}

/* Two pool threads finish before the loop reads their bytes. The thread that R's handler woke works for R. */
static void test_one_read_for_two_pool_threads(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_sleep(11, 13, SYS_futex, 0x5000);
    put_run(50, 11);
    put_arrival(60, A);
    put_receive(60, 11, A);
    put_waking(65, 12, 11, SYS_futex, 0x5000);
    put_run(66, 12);
    put_arrival(70, R);
    put_receive(70, 11, R);
    put_waking(75, 13, 11, SYS_futex, 0x5000);
    put_run(76, 13);
    put_receive(100, 11, B); /* keeps the loop awake */
    put_local_send(300, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_local_send(310, 13, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_send(600, 11, B);
    put_receive(610, 11, PIPE);
    put_send(650, 11, A);
    put_send(700, 11, R);
    expect_path(R, 70, 700, 11,
                "cpu 11 70-75\n"
                "run_queue 13 75-76\n"
                "cpu 13 76-310\n"
                "loop_busy 11 310-600 other\n"
                "loop_busy 11 600-610 other\n"
                "loop_busy 11 610-650 other\n"
                "cpu 11 650-700\n");
}

/* libuv writes to its eventfd only if no write is pending, so the last writer (13) need not be R's worker (12), and the
 * kernel shows no read: R was ready when its worker waited for work again, at the latest. */
static void test_uv_async_coalesced(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_sleep(11, 13, SYS_futex, 0x5000);
    put_run(50, 11);
    put_arrival(70, R);
    put_receive(70, 11, R);
    put_waking(75, 12, 11, SYS_futex, 0x5000);
    put_run(76, 12);
    put_receive(80, 11, A);
    put_waking(85, 13, 11, SYS_futex, 0x5000);
    put_run(86, 13);
    put_receive(100, 11, B);
    put_sleep(300, 12, SYS_futex, 0x5004);
    put_sleep(310, 13, SYS_futex, 0x5000);
    put_send(600, 11, A);
    put_send(700, 11, R);
    expect_path(R, 70, 700, 11,
                "cpu 11 70-75\n"
                "run_queue 12 75-76\n"
                "cpu 12 76-300\n"
                "loop_busy 11 300-600 other inferred\n"
                "cpu 11 600-700\n");
}

/* Three threads wrote to the loop before it read, and none of them was woken by R's handler. */
static void test_several_candidates(void **state)
{
    (void)state;
    put_run(10, 12);
    put_run(11, 13);
    put_run(50, 11);
    put_arrival(70, R);
    put_receive(70, 11, R);
    put_receive(100, 11, A);
    put_send(150, 11, A);
    put_local_send(300, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_local_send(310, 13, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_receive(610, 11, PIPE);
    put_send(700, 11, R);
    expect_path(R, 70, 700, 11,
                "cpu 11 70-100\n"
                "unattributed 11 100-610 several\n"
                "cpu 11 610-700\n");
}

/* ---- locks ---- */

/* take_gil gives up every 5 ms and asks again: one wait for one holder. */
static void test_gil_three_timeouts(void **state)
{
    (void)state;
    put_run(50, 21);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    for (uint64_t i = 0; i < 3; i++) {
        put_sleep(200 + 5000 * i, 11, SYS_futex, 0x4000 + 4 * (i % 2));
        put_interrupt_waking(5150 + 5000 * i, 11, RECORDER_IN_HARDIRQ);
        put_run(5160 + 5000 * i, 11);
    }
    put_sleep(15200, 11, SYS_futex, 0x4000);
    put_waking(18000, 11, 21, SYS_futex, 0x4000);
    put_run(18010, 11);
    put_send(18100, 11, R);
    expect_path(R, 100, 18100, 11,
                "cpu 11 100-200\n"
                "lock 21 200-18000 unknown\n"
                "run_queue 11 18000-18010\n"
                "cpu 11 18010-18100\n");
}

/* Three threads, one lock, held one after the other: the waiter's time is in the holders. */
static void test_holders_one_after_the_other(void **state)
{
    (void)state;
    put_run(10, 21);
    put_receive(20, 21, A);
    put_run(15, 22);
    put_receive(25, 22, B);
    put_sleep(50, 22, SYS_futex, 0x4000);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(200, 11, SYS_futex, 0x4000);
    put_sleep(210, 21, SYS_clock_nanosleep, 0);
    put_interrupt_waking(1000, 21, RECORDER_IN_HARDIRQ);
    put_run(1010, 21);
    put_waking(1100, 22, 21, SYS_futex, 0x4000);
    put_run(1110, 22);
    put_waking(2000, 11, 22, SYS_futex, 0x4000);
    put_run(2010, 11);
    put_send(2100, 11, R);
    expect_path(R, 100, 2100, 11,
                "cpu 11 100-200\n"
                "lock 21 200-210 other\n"
                "lock 21 210-1000 other\n"
                "lock 21 1000-1010 other\n"
                "lock 21 1010-1100 other\n"
                "lock 22 1100-1110 other\n"
                "lock 22 1110-2000 other\n"
                "run_queue 11 2000-2010\n"
                "cpu 11 2010-2100\n");
}

/* A broadcast wakes the waiter, which must then get the mutex: two waits, the second for the mutex's holder. */
static void test_condvar_broadcast_requeue(void **state)
{
    (void)state;
    put_run(50, 21);
    put_run(60, 31);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(200, 11, SYS_futex, 0x4000);
    put_waking(1000, 11, 31, SYS_futex, 0x4000);
    put_run(1010, 11);
    put_sleep(1020, 11, SYS_futex, 0x9000);
    put_waking(1500, 11, 21, SYS_futex, 0x9000);
    put_run(1510, 11);
    put_send(1600, 11, R);
    expect_path(R, 100, 1600, 11,
                "cpu 11 100-200\n"
                "lock 31 200-1000 unknown\n"
                "run_queue 11 1000-1010\n"
                "cpu 11 1010-1020\n"
                "lock 21 1020-1500 unknown\n"
                "run_queue 11 1500-1510\n"
                "cpu 11 1510-1600\n");
}

/* ---- the recorder's limits ---- */

/* One CPU's ring begins later than another's: what lies before is not "nothing happened". */
static void test_uneven_horizons(void **state)
{
    (void)state;
    complete_from_us = 5000;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(200, 11, SYS_futex, 0x4000);
    put_interrupt_waking(8000, 11, RECORDER_IN_HARDIRQ);
    put_run(8010, 11);
    put_send(8100, 11, R);
    expect_path(R, 100, 8100, 11,
                "unattributed 0 100-5000 unknown\n"
                "sleep 11 5000-8000 inferred\n"
                "run_queue 11 8000-8010\n"
                "cpu 11 8010-8100\n");
}

/* The request was ready before the recorder's history begins. */
static void test_ready_before_the_horizon(void **state)
{
    (void)state;
    complete_from_us = 500;
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(900, 11, A);
    put_receive(910, 11, R);
    put_send(950, 11, R);
    expect_path(R, 100, 950, 11,
                "unattributed 0 100-500 unknown\n"
                "unread 11 500-900 other\n"
                "unread 11 900-910 other\n"
                "cpu 11 910-950\n");
}

/* Clocks of CPUs differ: two threads seem to wake each other before either ran. */
static void test_skewed_cycle(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(200, 11, SYS_futex, 0x4000);
    put_sleep(200, 12, SYS_futex, 0x5000);
    put_waking(300, 12, 11, SYS_futex, 0x5000);
    put_waking(300, 11, 12, SYS_futex, 0x4000);
    put_run(301, 12);
    put_run(301, 11);
    put_send(400, 11, R);
    struct path_segments path;
    struct flight_window window = {.records = records, .count = count};
    const struct critical_path_request request = {.socket = R, .start_ns = US(100), .end_ns = US(400), .tid = 11};
    qsort(records, count, sizeof(records[0]), compare_times);
    assert_int_equal(find_path_in_window(&window, &request, &path), 0);
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < path.count; i++)
        sum_ns += path.items[i].end_ns - path.items[i].start_ns;
    assert_int_equal(sum_ns, 300000);
    path_segments_clear(&path);
}

static void test_a_switch_that_was_not_recorded(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(200, 11, SYS_futex, 0x4000);
    put_sleep(900, 11, SYS_clock_nanosleep, 0); /* it must have run before */
    put_interrupt_waking(1000, 11, RECORDER_IN_HARDIRQ);
    put_run(1010, 11);
    put_send(1100, 11, R);
    expect_path(R, 100, 1100, 11,
                "cpu 11 100-200\n"
                "unattributed 11 200-900 unknown\n"
                "sleep 11 900-1000\n"
                "run_queue 11 1000-1010\n"
                "cpu 11 1010-1100\n");
}

static void test_nothing_recorded(void **state)
{
    struct path_segments path;
    const struct flight_window window = {.records = records};
    const struct critical_path_request request = {.socket = R, .start_ns = US(100), .end_ns = US(400), .tid = 11};
    (void)state;
    assert_int_equal(find_path_in_window(&window, &request, &path), -ENODATA);
    path_segments_clear(&path);
}

/* ---- processes of this node ---- */

/* A proxy asks a server of this node over TCP, which is followed into. */
static void test_proxy_and_server_of_this_node(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(50, 21, SYS_recvfrom, 3);
    put_local_send(150, 11, SERVICE, SERVICE_PEER, RECORDER_TCP | RECORDER_IN_SOFTIRQ);
    put_interrupt_waking(150, 21, RECORDER_IN_SOFTIRQ);
    put_sleep(170, 11, SYS_epoll_pwait, 4);
    put_run(180, 21);
    put_receive(181, 21, SERVICE_PEER);
    put_switch(300, 21, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, SYS_pread64, 8);
    put_interrupt_waking(800, 21, RECORDER_IN_SOFTIRQ);
    put_run(810, 21);
    put_local_send(900, 21, SERVICE_PEER, SERVICE, RECORDER_TCP | RECORDER_IN_SOFTIRQ);
    put_interrupt_waking(900, 11, RECORDER_IN_SOFTIRQ);
    put_run(920, 11);
    put_receive(930, 11, SERVICE);
    put_send(1000, 11, R);
    expect_path(R, 100, 1000, 11,
                "cpu 11 100-150\n"
                "run_queue 21 150-180\n"
                "cpu 21 180-300\n"
                "disk 21 300-800\n"
                "run_queue 21 800-810\n"
                "cpu 21 810-900\n"
                "run_queue 11 900-920\n"
                "cpu 11 920-1000\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_bytes_wait_until_the_thread_reads_them, start_trace),
        cmocka_unit_test_setup(test_sleep_and_disk, start_trace),
        cmocka_unit_test_setup(test_waking_before_switch_out, start_trace),
        cmocka_unit_test_setup(test_preempted_in_s, start_trace),
        cmocka_unit_test_setup(test_loopback_softirq_bystander, start_trace),
        cmocka_unit_test_setup(test_bh_disabled_task_waker, start_trace),
        cmocka_unit_test_setup(test_new_thread, start_trace),
        cmocka_unit_test_setup(test_asyncio_burst_abc, start_trace),
        cmocka_unit_test_setup(test_loop_serves_500_while_awaiting, start_trace),
        cmocka_unit_test_setup(test_unread_while_the_loop_is_blocked, start_trace),
        cmocka_unit_test_setup(test_pool_thread_while_the_loop_is_awake, start_trace),
        cmocka_unit_test_setup(test_worker_fifo_second_item, start_trace),
        cmocka_unit_test_setup(test_one_read_for_two_pool_threads, start_trace),
        cmocka_unit_test_setup(test_uv_async_coalesced, start_trace),
        cmocka_unit_test_setup(test_several_candidates, start_trace),
        cmocka_unit_test_setup(test_gil_three_timeouts, start_trace),
        cmocka_unit_test_setup(test_holders_one_after_the_other, start_trace),
        cmocka_unit_test_setup(test_condvar_broadcast_requeue, start_trace),
        cmocka_unit_test_setup(test_uneven_horizons, start_trace),
        cmocka_unit_test_setup(test_ready_before_the_horizon, start_trace),
        cmocka_unit_test_setup(test_skewed_cycle, start_trace),
        cmocka_unit_test_setup(test_a_switch_that_was_not_recorded, start_trace),
        cmocka_unit_test_setup(test_nothing_recorded, start_trace),
        cmocka_unit_test_setup(test_proxy_and_server_of_this_node, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
