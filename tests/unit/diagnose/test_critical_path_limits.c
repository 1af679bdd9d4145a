/* Critical paths in windows as large as the recorder gives them, and with records that lack something: the walk ends,
 * stays exact, and reports the parts that it could not follow. */
#include "flight_trace.h"

#include <errno.h>

#define LARGE 60000 /* without the walk's bounds, these tests run into the time limit of the program */

static struct recorder_record large[LARGE + 16];
static size_t large_count;

/* Moves what put() collected to the large window. */
static void take_records(void)
{
    assert_true(large_count + count <= array_size(large));
    memcpy(large + large_count, records, count * sizeof(records[0]));
    large_count += count;
    count = 0;
}

/* Finds the path of R, which thread 11 answered, and checks that it is exact. */
static void find_path(uint64_t start_us, uint64_t end_us, struct path_segments *ret)
{
    const struct critical_path_request request = {
        .socket = R, .start_ns = US(start_us), .end_ns = US(end_us), .tid = 11};
    take_records();
    qsort(large, large_count, sizeof(large[0]), compare_times);
    const struct flight_window window = {.records = large, .count = large_count};
    assert_int_equal(find_path_in_window(&window, &request, ret), 0);
    uint64_t t_ns = ret->begin_ns;
    for (size_t i = 0; i < ret->count; i++) {
        assert_int_equal(ret->items[i].start_ns, t_ns);
        t_ns = ret->items[i].end_ns;
    }
    assert_int_equal(t_ns, US(end_us));
}

static uint64_t time_of(const struct path_segments *path, enum request_part_kind kind)
{
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < path->count; i++)
        if (path->items[i].kind == kind)
            sum_ns += path->items[i].end_ns - path->items[i].start_ns;
    return sum_ns / 1000;
}

static int start_large_trace(void **state)
{
    large_count = 0;
    return start_trace(state);
}

/* ---- large windows ---- */

/* 20,000 requests a second over 1,000 connections, while R waits to be answered by the same thread. */
static uint64_t put_busy_loop(void)
{
    uint64_t at = 200;
    for (; large_count + 3 < LARGE; at += 50) {
        const uint64_t socket = 10000 + at / 50 % 1000;
        put_arrival(at, socket);
        put(at + 5, RECORDER_RECEIVE, RECORDER_TCP | RECORDER_REQUESTS, SYS_recvfrom, 11, socket, 100);
        put(at + 30, RECORDER_SEND, RECORDER_TCP | RECORDER_REQUESTS, SYS_sendto, 11, socket, 100);
        take_records();
    }
    return at;
}

static void test_busy_loop_with_many_connections(void **state)
{
    struct path_segments path;
    (void)state;
    put_run(50, 11);
    put_arrival(90, R);
    put_receive(100, 11, R);
    const uint64_t end = put_busy_loop();
    put_send(end, 11, R);
    find_path(100, end, &path);
    assert_true(time_of(&path, REQUEST_PART_LOOP_BUSY) > (end - 200) * 99 / 100);
    assert_int_equal(time_of(&path, REQUEST_PART_UNATTRIBUTED), 0);
    path_segments_clear(&path);
}

static void test_unread_behind_many_connections(void **state)
{
    struct path_segments path;
    (void)state;
    put_run(50, 11);
    put_arrival(90, R);
    const uint64_t end = put_busy_loop();
    put_receive(end, 11, R);
    put_send(end + 10, 11, R);
    find_path(90, end + 10, &path);
    assert_true(time_of(&path, REQUEST_PART_UNREAD) > (end - 200) * 99 / 100);
    path_segments_clear(&path);
}

/* Threads that wake each other all the time: whose work it is is decided once for each wake-up. */
static void test_many_wakeups_between_threads(void **state)
{
    struct path_segments path;
    uint64_t at = 200;
    (void)state;
    put_run(50, 11);
    put_arrival(90, R);
    put_receive(100, 11, R);
    for (; large_count + 2 < LARGE; at++) {
        put_waking(at, 20 + (uint32_t)(at * 7 % 64), 20 + (uint32_t)(at * 11 % 63), SYS_sendto, 9);
        take_records();
    }
    put_sleep(at, 11, SYS_futex, 0x4000);
    put_waking(at + 50, 11, 21, SYS_futex, 0x4000);
    put_run(at + 60, 11);
    put_send(at + 70, 11, R);
    find_path(100, at + 70, &path);
    path_segments_clear(&path);
}

/* One thread is woken tens of thousands of times by another, by one futex word. */
static void test_many_wakeups_by_one_waker(void **state)
{
    struct path_segments path;
    uint64_t at = 200;
    (void)state;
    put_run(50, 11);
    put_run(51, 12);
    put_arrival(90, R);
    put_receive(100, 11, R);
    for (; large_count + 3 < LARGE; at += 10) {
        put_sleep(at, 11, SYS_futex, 0x4000);
        put_waking(at + 5, 11, 12, SYS_futex, 0x4000);
        put_run(at + 7, 11);
        take_records();
    }
    put_send(at, 11, R);
    find_path(100, at, &path);
    assert_true(time_of(&path, REQUEST_PART_LOCK) > 0);
    path_segments_clear(&path);
}

/* A thread that is preempted more often than segments are kept: the end of the request is shown, and the rest said. */
static void test_more_segments_than_are_kept(void **state)
{
    struct path_segments path;
    uint64_t at = 200;
    (void)state;
    put_run(50, 11);
    put_arrival(90, R);
    put_receive(100, 11, R);
    for (; large_count + 2 < LARGE; at += 10) {
        put_switch(at, 11, 31, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
        put_switch(at + 5, 31, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
        take_records();
    }
    put_send(at, 11, R);
    find_path(100, at, &path);
    assert_int_equal(path.items[0].kind, REQUEST_PART_UNATTRIBUTED);
    assert_string_equal(path.items[0].reason, "the path has too many events to follow it further back");
    assert_true(path.count > 1000);
    path_segments_clear(&path);
}

/* The thread that ends the wait is preempted very often before that: the path still leads to the thread that woke it.
 */
static void test_holder_that_is_preempted_often(void **state)
{
    struct path_segments path;
    uint64_t at = 1000;
    (void)state;
    put_run(40, 200);
    put_sleep(45, 200, SYS_clock_nanosleep, 0);
    put_run(50, 11);
    put_arrival(90, R);
    put_receive(100, 11, R);
    put_sleep(150, 11, SYS_futex, 0x4000);
    put_interrupt_waking(900, 200, RECORDER_IN_HARDIRQ);
    put_run(910, 200);
    put_waking(950, 12, 200, SYS_kill, 0); /* it slept since before the window */
    put_run(960, 12);
    for (int i = 0; i < 2000; i++, at += 10) {
        put_switch(at, 12, 31, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
        put_switch(at + 5, 31, 12, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
        take_records();
    }
    put_waking(at, 11, 12, SYS_futex, 0x4000);
    put_run(at + 10, 11);
    put_send(at + 20, 11, R);
    find_path(100, at + 20, &path);
    assert_int_equal(path.items[1].start_ns, US(150));
    assert_int_equal(path.items[1].end_ns, US(900));
    assert_int_equal(path.items[1].tid, 200);
    assert_string_equal(path.items[1].reason, "the holder slept");
    path_segments_clear(&path);
}

/* A request body in many reads: each goes back to the read before it, and time with it. */
static void test_body_in_many_reads(void **state)
{
    struct path_segments path;
    (void)state;
    put_interrupt_waking(99, 11, RECORDER_IN_SOFTIRQ);
    put_run(99, 11);
    for (uint64_t i = 0; i < 1000; i++) {
        put_arrival(100 + 10 * i, R);
        put_receive(101 + 10 * i, 11, R);
    }
    put_send(10200, 11, R);
    find_path(100, 10200, &path);
    assert_int_equal(time_of(&path, REQUEST_PART_UNATTRIBUTED), 0);
    assert_int_equal(time_of(&path, REQUEST_PART_CPU), 10100);
    path_segments_clear(&path);
}

/* ---- the network ---- */

/* A blocking call of a service elsewhere: its socket is the one that the thread then reads. */
static void test_socket_of_a_wait(void **state)
{
    struct path_segments path;
    const struct path_segment *asked = NULL;
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(150, 11, SERVICE);
    put_sleep(160, 11, SYS_recvfrom, 5);
    put(200, RECORDER_RETRANSMIT, RECORDER_TCP, RECORDER_NO_SYSCALL, 0, SERVICE, 0);
    put(300, RECORDER_RETRANSMIT, RECORDER_TCP, RECORDER_NO_SYSCALL, 0, SERVICE, 0);
    put(300, RECORDER_RETRANSMIT, RECORDER_TCP, RECORDER_NO_SYSCALL, 0, B, 0);
    put_arrival(500, SERVICE);
    put_interrupt_waking(501, 11, RECORDER_IN_SOFTIRQ);
    put_run(510, 11);
    put_receive(511, 11, SERVICE);
    put_send(600, 11, R);
    find_path(100, 600, &path);
    for (size_t i = 0; i < path.count; i++)
        if (path.items[i].kind == REQUEST_PART_DOWNSTREAM)
            asked = &path.items[i];
    assert_non_null(asked);
    assert_int_equal(asked->socket, SERVICE);
    assert_int_equal(asked->retransmissions, 2);
    assert_int_equal(asked->retransmitted_ns, 150000); /* from the send to the last one */
    path_segments_clear(&path);
}

/* TCP sends the question to a service of this node again: until it arrives, the request waits for that service. */
static void test_question_that_was_lost(void **state)
{
    (void)state;
    put_run(90, 11);
    put_sleep(90, 210, SYS_recvfrom, 7);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(150, 11, SERVICE);
    put_sleep(160, 11, SYS_recvfrom, 9);
    put(350, RECORDER_RETRANSMIT, RECORDER_TCP, RECORDER_NO_SYSCALL, 0, SERVICE, 0);
    put_arrival(351, SERVICE_PEER);
    put_interrupt_waking(352, 210, RECORDER_IN_SOFTIRQ);
    put_run(360, 210);
    put_receive(370, 210, SERVICE_PEER);
    put_local_send(600, 210, SERVICE_PEER, SERVICE, RECORDER_IN_SOFTIRQ);
    put_waking(602, 11, 210, SYS_sendto, 7);
    put_run(610, 11);
    put_receive(620, 11, SERVICE);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-160\n"
                "downstream 11 160-351 inferred\n"
                "run_queue 210 351-360\n"
                "cpu 210 360-600\n"
                "run_queue 11 600-610\n"
                "cpu 11 610-800\n");
}

/* ---- records that lack something ---- */

static void test_socket_without_a_cookie(void **state)
{
    (void)state;
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_receive(150, 11, A);
    put(200, RECORDER_RECEIVE, 0, SYS_recvfrom, 11, 0, 100);
    put_send(300, 11, A);
    put_send(400, 11, R);
    expect_path(R, 100, 400, 11,
                "cpu 11 100-150\n"
                "loop_busy 11 150-200 other inferred\n"
                "loop_busy 11 200-300 other inferred\n"
                "cpu 11 300-400\n");
}

static void test_request_that_took_no_time(void **state)
{
    struct path_segments path;
    (void)state;
    put_run(50, 11);
    put_receive(100, 11, R);
    const struct flight_window window = {.records = records, .count = count};
    const struct critical_path_request request = {.socket = R, .start_ns = US(100), .end_ns = US(100), .tid = 11};
    assert_int_equal(find_path_in_window(&window, &request, &path), -ENODATA);
    path_segments_clear(&path);
}

/* ---- work of other requests ---- */

/* A pool thread finished R's item and was then given A's: its work for A is not R's work, though R's handler had
 * woken it before. */
static void test_worker_that_was_given_other_work_since(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5000);
    put_run(130, 12);
    put_sleep(300, 12, SYS_futex, 0x5000); /* R's item is done */
    put_receive(350, 11, A);
    put_waking(400, 12, 11, SYS_futex, 0x5000);
    put_run(410, 12);
    put_sleep(450, 11, SYS_futex, 0x8000);
    put_waking(900, 11, 12, SYS_futex, 0x8000); /* A's item is done */
    put_run(910, 11);
    put_send(920, 11, A);
    put_send(950, 11, R);
    expect_path(R, 100, 950, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-300\n"
                "loop_busy 11 300-350 other inferred\n"
                "loop_busy 11 350-450 other inferred\n"
                "loop_busy 12 450-900 other inferred\n" /* its thread waited for that one */
                "run_queue 11 900-910 other inferred\n"
                "loop_busy 11 910-920 other inferred\n"
                "cpu 11 920-950\n");
}

/* The first read takes a part of the arrived bytes, and the thread reads the rest after other work. */
static void test_rest_of_the_request_was_there(void **state)
{
    (void)state;
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_receive(200, 11, A);
    put_send(550, 11, A);
    put_receive(600, 11, R);
    put_send(700, 11, R);
    expect_path(R, 100, 700, 11,
                "cpu 11 100-200\n"
                "unread 11 200-600 other\n"
                "cpu 11 600-700\n");
}

/* The thread that reads the request is stopped, as for garbage collection, which began long before. One of the threads
 * that are woken then wakes the next. */
static void test_unread_while_the_thread_waits_for_another(void **state)
{
    (void)state;
    put_run(20, 13);
    put_arrival(100, R);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    put_run(810, 12);
    put_waking(820, 11, 12, SYS_futex, 0x5000);
    put_sleep(825, 13, SYS_futex, 0x6000);
    put_run(830, 11);
    put_receive(840, 11, R);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "unread 13 100-800 unknown\n"
                "unread 12 800-810 unknown\n"
                "unread 12 810-820 unknown\n"
                "run_queue 11 820-830\n"
                "cpu 11 830-900\n");
}

/* R arrives while a handler runs, which is interrupted. */
static void test_unread_while_a_handler_is_preempted(void **state)
{
    (void)state;
    put_interrupt_waking(40, 11, RECORDER_IN_SOFTIRQ);
    put_run(50, 11);
    put_receive(60, 11, A);
    put_arrival(200, R);
    put_switch(400, 11, 12, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(450, 12, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_send(900, 11, A);
    put_receive(910, 11, R);
    put_send(950, 11, R);
    expect_path(R, 200, 950, 11,
                "unread 11 200-400 other\n"
                "run_queue 11 400-450 other\n"
                "unread 11 450-900 other\n"
                "unread 11 900-910 other\n"
                "cpu 11 910-950\n");
}

/* ---- measured segments ---- */

/* Two packets of one answer interrupt two threads, which have nothing to do with it. */
static void test_answer_in_two_packets(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(150, 11, SERVICE);
    put_sleep(160, 11, SYS_epoll_pwait, 4);
    put(500, RECORDER_READY, RECORDER_IN_SOFTIRQ | RECORDER_TCP, RECORDER_NO_SYSCALL, 31, SERVICE, 77ull << 32);
    put_interrupt_waking(501, 11, RECORDER_IN_SOFTIRQ);
    put(505, RECORDER_READY, RECORDER_IN_SOFTIRQ | RECORDER_TCP, RECORDER_NO_SYSCALL, 32, SERVICE, 78ull << 32);
    put_run(510, 11);
    put_receive(520, 11, SERVICE);
    put_send(600, 11, R);
    expect_path(R, 100, 600, 11,
                "cpu 11 100-150\n"
                "downstream 11 150-505\n"
                "run_queue 11 505-510\n"
                "cpu 11 510-600\n");
}

/* What a peer of this node was sent is delivered later, while a third thread runs: that thread did not send it. */
static void test_delivery_in_the_interrupt_of_a_bystander(void **state)
{
    (void)state;
    put_run(80, CLIENT);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(50, 21, SYS_recvfrom, 3);
    put(149, RECORDER_SEND, RECORDER_TCP, SYS_sendto, 11, SERVICE, 500ull << 32 | 20);
    put(180, RECORDER_READY, RECORDER_IN_SOFTIRQ | RECORDER_TCP, RECORDER_NO_SYSCALL, CLIENT, SERVICE_PEER,
        500ull << 32);
    put_interrupt_waking(180, 21, RECORDER_IN_SOFTIRQ);
    put_sleep(170, 11, SYS_epoll_pwait, 4);
    put_run(190, 21);
    put_receive(200, 21, SERVICE_PEER);
    put_local_send(900, 21, SERVICE_PEER, SERVICE, RECORDER_TCP | RECORDER_IN_SOFTIRQ);
    put_interrupt_waking(900, 11, RECORDER_IN_SOFTIRQ);
    put_run(920, 11);
    put_receive(930, 11, SERVICE);
    put_send(1000, 11, R);
    expect_path(R, 100, 1000, 11,
                "cpu 11 100-170\n"
                "network 21 170-180 inferred\n"
                "run_queue 21 180-190\n"
                "cpu 21 190-900\n"
                "run_queue 11 900-920\n"
                "cpu 11 920-1000\n");
}

/* B asks on the connection after R, and only one answer comes. */
static void test_connection_that_requests_share(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(150, 11, SERVICE);
    put_receive(160, 11, B);
    put_send(200, 11, SERVICE);
    put_arrival(500, SERVICE);
    put_receive(520, 11, SERVICE);
    put_send(600, 11, R);
    expect_path(R, 100, 600, 11,
                "cpu 11 100-160\n"
                "cpu 11 160-200 inferred\n"
                "downstream 11 200-500 inferred\n"
                "loop_busy 11 500-520 other inferred\n"
                "cpu 11 520-600\n");
}

/* The next reply on the connection, by another thread, soon after this one. */
static void test_next_reply_by_another_thread(void **state)
{
    (void)state;
    put_run(90, 11);
    put_run(91, 12);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(400, 11, R);
    put_receive(450, 12, R);
    put_send(500, 12, R);
    expect_path(R, 100, 400, 12, "cpu 11 100-400\n");
}

/* What an unrelated thread did meanwhile is an inference, also its time in the run queue. */
static void test_thread_that_only_woke_the_request(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_run(50, 12);
    put_sleep(200, 11, SYS_read, 5);
    put_switch(300, 12, 31, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(500, 31, 12, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_waking(600, 11, 12, SYS_write, 6);
    put_run(610, 11);
    put_send(700, 11, R);
    expect_path(R, 100, 700, 11,
                "cpu 11 100-200\n"
                "cpu 12 200-300 unknown inferred\n"
                "run_queue 12 300-500 unknown inferred\n"
                "cpu 12 500-600 unknown inferred\n"
                "run_queue 11 600-610\n"
                "cpu 11 610-700\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_busy_loop_with_many_connections, start_large_trace),
        cmocka_unit_test_setup(test_unread_behind_many_connections, start_large_trace),
        cmocka_unit_test_setup(test_many_wakeups_between_threads, start_large_trace),
        cmocka_unit_test_setup(test_many_wakeups_by_one_waker, start_large_trace),
        cmocka_unit_test_setup(test_more_segments_than_are_kept, start_large_trace),
        cmocka_unit_test_setup(test_holder_that_is_preempted_often, start_large_trace),
        cmocka_unit_test_setup(test_body_in_many_reads, start_large_trace),
        cmocka_unit_test_setup(test_socket_of_a_wait, start_large_trace),
        cmocka_unit_test_setup(test_question_that_was_lost, start_large_trace),
        cmocka_unit_test_setup(test_socket_without_a_cookie, start_trace),
        cmocka_unit_test_setup(test_rest_of_the_request_was_there, start_trace),
        cmocka_unit_test_setup(test_unread_while_the_thread_waits_for_another, start_trace),
        cmocka_unit_test_setup(test_unread_while_a_handler_is_preempted, start_trace),
        cmocka_unit_test_setup(test_request_that_took_no_time, start_trace),
        cmocka_unit_test_setup(test_worker_that_was_given_other_work_since, start_trace),
        cmocka_unit_test_setup(test_answer_in_two_packets, start_trace),
        cmocka_unit_test_setup(test_delivery_in_the_interrupt_of_a_bystander, start_trace),
        cmocka_unit_test_setup(test_connection_that_requests_share, start_trace),
        cmocka_unit_test_setup(test_next_reply_by_another_thread, start_trace),
        cmocka_unit_test_setup(test_thread_that_only_woke_the_request, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
