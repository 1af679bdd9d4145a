/* Owners of work: traces whose wake-ups alone would name the wrong thread or request. */
#include "flight_trace.h"

#include "diagnose/flight/futex_words.h"

static void put_client_close(uint64_t us, uint32_t tid, uint64_t socket)
{
    put(us, RECORDER_RECEIVE, RECORDER_TCP | RECORDER_REQUESTS, SYS_recvfrom, tid, socket, 0);
}

static void put_connect(uint64_t us, uint32_t tid, uint64_t socket)
{
    put(us, RECORDER_SEND, RECORDER_TCP, SYS_connect, tid, socket, 0);
}

/* The end of a connection is no request. */
static void test_closed_connection_is_no_work(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_receive(50, 11, A);
    put_client_close(200, 11, A);
    put_send(300, 11, R);
    expect_path(R, 100, 300, 11, "cpu 11 100-300\n");
}

/* The loop connects for R, serves A, sends to the service, and reads the answer just before another answer to A. */
static void test_answer_on_a_connection_that_the_request_made(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_connect(120, 11, SERVICE);
    put_receive(130, 11, A);
    put_send(150, 11, SERVICE);
    put_send(160, 11, A);
    put_sleep(170, 11, SYS_epoll_pwait, 4);
    put_arrival(500, SERVICE);
    put_interrupt_waking(501, 11, RECORDER_IN_SOFTIRQ);
    put_run(510, 11);
    put_receive(520, 11, SERVICE);
    put_receive(530, 11, B);
    put_send(700, 11, B);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-130\n"
                "cpu 11 130-150 inferred\n"
                "downstream 11 150-500\n"
                "run_queue 11 500-510\n"
                "cpu 11 510-530\n"
                "loop_busy 11 530-700 other inferred\n"
                "cpu 11 700-800\n");
}

/* The loop slept and was woken by a pool thread that was busy when the request was handed on: its last piece of work.
 */
static void test_busy_worker_wakes_the_loop(void **state)
{
    (void)state;
    put_run(10, 12);
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(120, 11, SYS_epoll_pwait, 4);
    put_waking(400, 11, 12, SYS_write, 9);
    put_run(405, 11);
    put_sleep(420, 11, SYS_epoll_pwait, 4);
    put_waking(900, 11, 12, SYS_write, 9);
    put_run(910, 11);
    put_send(950, 11, R);
    expect_path(R, 100, 950, 11,
                "cpu 11 100-120\n"
                "cpu 12 120-400 unknown inferred\n"
                "run_queue 11 400-405\n"
                "cpu 11 405-420\n"
                "cpu 12 420-900 unknown inferred\n"
                "run_queue 11 900-910\n"
                "cpu 11 910-950\n");
}

/* CPython's GIL has a second condition variable, which the loop signals and never waits for: no hand-off of work, as
 * the pool thread was given its work before by another word. */
static void test_second_word_of_the_gil(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5000);
    put_run(130, 12);
    put_sleep(140, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(300, 11, RECORDER_IN_HARDIRQ);
    put_run(305, 11);
    put_sleep(310, 12, SYS_futex, 0x9058);
    put_waking(330, 12, 11, SYS_futex, 0x9058);
    put_run(335, 12);
    put_sleep(340, 11, SYS_epoll_pwait, 4);
    put_local_send(900, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(900, 11, 12, SYS_sendto, 9);
    put_run(905, 11);
    put_receive(906, 11, PIPE);
    put_send(950, 11, R);
    expect_path(R, 100, 950, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-310\n"
                "lock 11 310-330 other\n"
                "run_queue 12 330-335\n"
                "cpu 12 335-900\n"
                "run_queue 11 900-905\n"
                "cpu 11 905-950\n");
}

/* A lock of a file, held by another process, is a lock. */
static void test_file_lock(void **state)
{
    (void)state;
    put_run(50, 210);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(200, 11, SYS_flock, 3);
    put_waking(600, 11, 210, SYS_flock, 3);
    put_run(610, 11);
    put_send(700, 11, R);
    expect_path(R, 100, 700, 11,
                "cpu 11 100-200\n"
                "lock 210 200-600 unknown\n"
                "run_queue 11 600-610\n"
                "cpu 11 610-700\n");
}

/* A worker process that answers by a futex in shared memory, which both also wait for: messages, no lock. */
static void test_worker_process_behind_shared_memory(void **state)
{
    (void)state;
    put_sleep(10, 210, SYS_futex, 0x7000);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 210, 11, SYS_futex, 0x5000);
    put_run(130, 210);
    put_sleep(140, 11, SYS_futex, 0x5008);
    put_switch(300, 210, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, SYS_pread64, 8);
    put_interrupt_waking(700, 210, RECORDER_IN_SOFTIRQ);
    put_run(710, 210);
    put_waking(800, 11, 210, SYS_futex, 0x7008);
    put_sleep(810, 210, SYS_futex, 0x7000);
    put_run(820, 11);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-120\n"
                "run_queue 210 120-130\n"
                "cpu 210 130-300\n"
                "disk 210 300-700\n"
                "run_queue 210 700-710\n"
                "cpu 210 710-800\n"
                "run_queue 11 800-820\n"
                "cpu 11 820-900\n");
}

/* The loop read A after R, and ran R's handler then: the thread that it woke had slept since before the request. */
static void test_work_for_a_thread_that_slept_before(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_receive(110, 11, A);
    put_waking(150, 12, 11, SYS_futex, 0x5000);
    put_run(160, 12);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_local_send(600, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(600, 11, 12, SYS_sendto, 9);
    put_run(610, 11);
    put_receive(620, 11, PIPE);
    put_send(700, 11, R);
    expect_path(R, 100, 700, 11,
                "cpu 11 100-110 inferred\n"
                "cpu 11 110-150 inferred\n"
                "run_queue 12 150-160\n"
                "cpu 12 160-600\n"
                "run_queue 11 600-610\n"
                "cpu 11 610-700\n");
}

static void find_go_path(struct path_segments *ret)
{
    const struct flight_window window = {.records = records, .count = count};
    const struct critical_path_request request = {
        .socket = R, .start_ns = US(100), .end_ns = US(900), .tid = 11, .schedules_itself = true};
    qsort(records, count, sizeof(records[0]), compare_times);
    assert_int_equal(find_path_in_window(&window, &request, ret), 0);
}

/* A Go program's thread waits for any goroutine: its timer is not the request's. */
static void test_program_with_its_own_scheduler(void **state)
{
    (void)state;
    struct path_segments path;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 11, RECORDER_IN_HARDIRQ);
    put_run(810, 11);
    put_send(900, 11, R);
    find_go_path(&path);
    assert_int_equal(path.count, 4);
    assert_int_equal(path.items[1].kind, REQUEST_PART_UNATTRIBUTED);
    assert_int_equal(path.items[1].end_ns - path.items[1].start_ns, 600000);
    path_segments_clear(&path);
}

static void test_futex_words(void **state)
{
    struct futex_words *words;
    (void)state;
    put_sleep(10, 11, SYS_futex, 0x4000);
    put_waking(20, 12, 11, SYS_futex, 0x4028); /* near it: one condition variable */
    put_sleep(25, 11, SYS_futex, 0x6028);
    put_waking(26, 12, 11, SYS_futex, 0x6014); /* the signalling thread waits here */
    put_sleep(30, 12, SYS_futex, 0x8000);
    put_waking(40, 11, 12, SYS_futex, 0x9000);
    put(50, RECORDER_WAKING, RECORDER_IN_SOFTIRQ, SYS_futex, 11, 0x8000, 12); /* an interrupt, not thread 12 */
    const struct flight_window window = {.records = records, .count = count};
    assert_int_equal(futex_words_new(&window, &words), 0);
    assert_true(futex_words_are_lock(words, 11, 0x4000));
    assert_true(futex_words_are_lock(words, 11, 0x4028));
    assert_false(futex_words_are_lock(words, 11, 0x6028));
    assert_false(futex_words_are_lock(words, 12, 0x8000));
    assert_false(futex_words_are_lock(words, 12, 0x9000));
    assert_false(futex_words_are_lock(words, 13, 0x4000));
    futex_words_free(words);
}

/* A's handler computes when R arrives, and loses its CPU meanwhile: all of that is A's. */
static void test_loop_that_is_preempted_while_it_serves_others(void **state)
{
    (void)state;
    put_run(40, 11);
    put_receive(50, 11, A);
    put_arrival(100, R);
    put_switch(200, 11, 0, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_run(500, 11);
    put_send(700, 11, A);
    put_receive(720, 11, R);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "unread 11 100-200 other\n"
                "run_queue 11 200-500 other\n"
                "unread 11 500-700 other\n"
                "unread 11 700-720 other\n"
                "cpu 11 720-900\n");
}

/* The loop reads three requests and then handles them in that order: each goes to a thread of the pool. */
static void test_three_requests_read_at_once(void **state)
{
    (void)state;
    for (uint32_t tid = 21; tid < 24; tid++)
        put_sleep(10, tid, SYS_futex, 0x1000 * tid);
    put_sleep(20, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(90, 11, RECORDER_IN_SOFTIRQ);
    put_run(95, 11);
    put_arrival(89, A);
    put_arrival(90, R);
    put_arrival(91, B);
    put_receive(100, 11, A);
    put_receive(101, 11, R);
    put_receive(102, 11, B);
    for (uint32_t tid = 21; tid < 24; tid++) {
        put_waking(90 + tid, tid, 11, SYS_futex, 0x1000 * tid);
        put_run(95 + tid, tid);
    }
    put_sleep(130, 11, SYS_epoll_pwait, 4);
    put_sleep(140, 21, SYS_clock_nanosleep, 0);
    put_switch(141, 22, 0, RECORDER_IO_WAIT, SYS_pread64, 7);
    put_sleep(142, 23, SYS_clock_nanosleep, 0);
    put_interrupt_waking(500, 22, RECORDER_IN_SOFTIRQ);
    put_run(510, 22);
    put_local_send(520, 22, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(520, 11, 22, SYS_sendto, 9);
    put_run(525, 11);
    put_receive(526, 11, PIPE);
    put_send(540, 11, R);
    expect_path(R, 90, 540, 11,
                "run_queue 11 90-95 inferred\n"
                "unread 11 95-100 other inferred\n"
                "unread 11 100-101 other inferred\n"
                "cpu 11 101-102 inferred\n"
                "cpu 11 102-112 inferred\n"
                "run_queue 22 112-117\n"
                "cpu 22 117-141\n"
                "disk 22 141-500\n"
                "run_queue 22 500-510\n"
                "cpu 22 510-520\n"
                "run_queue 11 520-525\n"
                "cpu 11 525-540\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_closed_connection_is_no_work, start_trace),
        cmocka_unit_test_setup(test_answer_on_a_connection_that_the_request_made, start_trace),
        cmocka_unit_test_setup(test_busy_worker_wakes_the_loop, start_trace),
        cmocka_unit_test_setup(test_second_word_of_the_gil, start_trace),
        cmocka_unit_test_setup(test_file_lock, start_trace),
        cmocka_unit_test_setup(test_worker_process_behind_shared_memory, start_trace),
        cmocka_unit_test_setup(test_work_for_a_thread_that_slept_before, start_trace),
        cmocka_unit_test_setup(test_program_with_its_own_scheduler, start_trace),
        cmocka_unit_test_setup(test_loop_that_is_preempted_while_it_serves_others, start_trace),
        cmocka_unit_test_setup(test_three_requests_read_at_once, start_trace),
        cmocka_unit_test_setup(test_futex_words, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
