/* The critical path in programs that schedule tasks on their threads themselves: what the request's task waited for. */
#include "flight_trace.h"

enum { TASK = 501, OTHER_TASK = 502, SLEEPING_TASK = 503 };

static void put_task(uint64_t us, uint32_t tid, uint64_t task, unsigned state)
{
    put(us, RECORDER_TASK, state, RECORDER_NO_SYSCALL, tid, task, (uint64_t)process_of(tid) << 32);
}

/* As put_task, with the task that created it, and by which statement. */
static void put_created_at(uint64_t us, uint32_t tid, uint64_t task, unsigned state, uint64_t creator, int site)
{
    put(us, RECORDER_TASK, state, site, tid, task, (uint64_t)process_of(tid) << 32 | recorder_creator(creator));
}

static void put_created(uint64_t us, uint32_t tid, uint64_t task, unsigned state, uint64_t creator)
{
    put_created_at(us, tid, task, state, creator, RECORDER_NO_SYSCALL);
}

static void put_operation(uint64_t us, uint32_t tid, uint64_t task, uint64_t socket, bool is_send)
{
    put_task(us, tid, task, RECORDER_TASK_RUNS);
    if (is_send)
        put_send(us, tid, socket);
    else
        put_receive(us, tid, socket);
}

/* The request of R, answered by thread `tid`. */
static void expect_task_path_between(uint64_t start_us, uint64_t end_us, uint32_t tid, const char *expected)
{
    struct path_segments path;
    _cleanup_buf_ struct buf text = {0};
    const struct flight_window window = {.records = records, .count = count};
    const struct critical_path_request request = {.socket = R,
                                                  .start_ns = US(start_us),
                                                  .read_ns = US(start_us),
                                                  .end_ns = US(end_us),
                                                  .tid = tid,
                                                  .schedules_itself = true};
    qsort(records, count, sizeof(records[0]), compare_times);
    assert_int_equal(find_path_in_window(&window, &request, &path), 0);
    describe(&path, &text);
    assert_string_equal(text.data ? text.data : "", expected);
    path_segments_clear(&path);
}

static void expect_task_path(uint32_t tid, const char *expected)
{
    expect_task_path_between(100, 900, tid, expected);
}

/* The task reads on thread 11, which goes idle when the task waits; thread 12, woken at 800, gets it at the end. */
static void put_wait_of_task(unsigned state)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(200, 11, TASK, state);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_run(810, 12);
    put_operation(900, 12, TASK, R, true);
}

static void put_move_to_other_thread(unsigned state)
{
    put_wait_of_task(state);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
}

static void test_task_sleeps(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TIMER);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

static void test_task_waits_for_a_lock(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_LOCK);
    expect_task_path(12, "cpu 11 100-200\nlock 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* Which one is not recorded. */
static void test_task_waits_for_another(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TASK);
    expect_task_path(
        12, "cpu 11 100-200\nunattributed 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* A task that this one has woken asks a service, on thread 14, and another one reads the answer, on thread 13. */
static void put_call_by_other_tasks(uint64_t asked_us)
{
    put_move_to_other_thread(RECORDER_TASK_WAITS_TASK);
    put_sleep(30, 13, SYS_epoll_pwait, 4);
    put_run(asked_us - 10, 14);
    put_operation(asked_us, 14, OTHER_TASK, SERVICE, true);
    put_sleep(asked_us + 10, 14, SYS_futex, 0x7000);
    put_arrival(780, SERVICE);
    put_interrupt_waking(780, 13, RECORDER_IN_SOFTIRQ);
    put_run(785, 13);
    put_operation(790, 13, SLEEPING_TASK, SERVICE, false);
}

static void test_task_waits_for_another_that_calls_a_service(void **state)
{
    (void)state;
    put_call_by_other_tasks(220);
    expect_task_path(
        12, "cpu 11 100-200 inferred\nunattributed 13 200-220 unknown inferred\ndownstream 13 220-780 inferred\n"
            "run_queue 13 780-785 inferred\ncpu 13 785-790 inferred\nqueue_behind 12 790-800 unknown inferred\n"
            "run_queue 12 800-810\ncpu 12 810-900\n");
}

/* The task sent it before it waited, on a thread that others then used. */
static void test_task_asks_before_it_waits(void **state)
{
    (void)state;
    put_call_by_other_tasks(190);
    expect_task_path(12, "cpu 11 100-190 inferred\ndownstream 13 190-780 inferred\nrun_queue 13 780-785 inferred\n"
                         "cpu 13 785-790 inferred\nqueue_behind 12 790-800 unknown inferred\nrun_queue 12 800-810\n"
                         "cpu 12 810-900\n");
}

/* Asked before the request, or long after the task began to wait. */
static void test_answers_to_other_tasks(void **state)
{
    (void)state;
    put_call_by_other_tasks(95);
    expect_task_path(
        12, "cpu 11 100-200\nunattributed 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* A task on thread 13, which sleeps meanwhile, and then lets the request's task go on. */
static void put_task_that_helps(unsigned state)
{
    put_wait_of_task(RECORDER_TASK_WAITS_TASK);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_waking(205, 13, 11, SYS_futex, 0x6000);
    put_run(210, 13);
    put_task(250, 13, OTHER_TASK, state);
    put_sleep(250, 13, SYS_futex, 0x6000);
    put_interrupt_waking(700, 13, RECORDER_IN_HARDIRQ);
    put_run(705, 13);
    put_task(800, 13, OTHER_TASK, RECORDER_TASK_RUNS);
}

static void test_task_waits_for_another_that_wakes_its_thread(void **state)
{
    (void)state;
    put_task_that_helps(RECORDER_TASK_WAITS_TIMER);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    expect_task_path(12, "cpu 11 100-200\nunattributed 13 200-205 unknown inferred\nrun_queue 13 205-210 inferred\n"
                         "cpu 13 210-250 inferred\nsleep 13 250-700 inferred\nrun_queue 13 700-705 inferred\n"
                         "cpu 13 705-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* On the same thread, one after the other. */
static void test_task_runs_after_the_one_that_it_waited_for(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TASK);
    put_task(210, 11, OTHER_TASK, RECORDER_TASK_WAITS_LOCK);
    put_sleep(210, 11, SYS_futex, 0x5000);
    put_interrupt_waking(800, 11, RECORDER_IN_HARDIRQ);
    put_run(810, 11);
    put_task(820, 11, OTHER_TASK, RECORDER_TASK_RUNS);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-200\ncpu 11 200-210 inferred\nlock 11 210-800 unknown inferred\n"
                         "run_queue 11 800-810 inferred\ncpu 11 810-900 inferred\n");
}

/* It had waited for work since before the request: how long this request was in its queue is not known. */
static void test_task_waits_for_another_of_which_nothing_is_known(void **state)
{
    (void)state;
    put_wait_of_task(RECORDER_TASK_WAITS_TASK);
    put_task(30, 13, OTHER_TASK, RECORDER_TASK_WAITS_TASK);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_waking(300, 13, 11, SYS_futex, 0x6000);
    put_run(310, 13);
    put_task(800, 13, OTHER_TASK, RECORDER_TASK_RUNS);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    expect_task_path(12, "cpu 11 100-200\nunattributed 13 200-300 unknown inferred\nrun_queue 13 300-310 inferred\n"
                         "cpu 13 310-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The thread that it runs on was woken on behalf of a task that serves another request. */
static void test_task_that_serves_another_request(void **state)
{
    (void)state;
    put_task_that_helps(RECORDER_TASK_WAITS_TIMER);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    put_operation(220, 13, OTHER_TASK, A, false);
    expect_task_path(
        12, "cpu 11 100-200\nunattributed 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* Another thread sees it waiting still. */
static void test_wait_that_is_seen_twice(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TIMER);
    put_task(500, 13, TASK, RECORDER_TASK_WAITS_TIMER);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* A request sent long before the wait is no reason for the wait: the walk does not leave the wait, either. */
static void test_answer_to_an_old_question(void **state)
{
    (void)state;
    put_wait_of_task(RECORDER_TASK_WAITS_TASK);
    put_operation(150, 11, TASK, SERVICE, true);
    put_sleep(30, 13, SYS_epoll_pwait, 4);
    put_arrival(500, SERVICE);
    put_interrupt_waking(500, 13, RECORDER_IN_SOFTIRQ);
    put_run(505, 13);
    put_operation(510, 13, OTHER_TASK, SERVICE, false);
    put_task(800, 13, OTHER_TASK, RECORDER_TASK_RUNS);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    for (size_t i = 0; i < count; i++) /* more than a millisecond between the question and the wait */
        records[i].time_ns = BASE_NS + (records[i].time_ns - BASE_NS) * 100;
    expect_task_path_between(10000, 90000, 12,
                             "cpu 11 10000-20000\ndownstream 13 20000-50000 inferred\n"
                             "run_queue 13 50000-50500 inferred\ncpu 13 50500-80000 inferred\n"
                             "run_queue 12 80000-81000\ncpu 12 81000-90000\n");
}

/* The task sends by itself, on a thread that it left unseen; it is next seen waiting elsewhere. */
static void test_task_that_asks_by_itself(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_operation(190, 11, TASK, SERVICE, true);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_run(220, 12);
    put_task(235, 12, TASK, RECORDER_TASK_WAITS_IO);
    put_sleep(235, 12, SYS_futex, 0x5000);
    put_arrival(780, SERVICE);
    put_interrupt_waking(780, 11, RECORDER_IN_SOFTIRQ);
    put_run(790, 11);
    put_operation(800, 11, TASK, SERVICE, false);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-190\ndownstream 11 190-780\nrun_queue 11 780-790\ncpu 11 790-900\n");
}

/* A wait is recorded with its thread's next action, for another task. */
static void test_wait_that_is_seen_with_the_work_of_another(void **state)
{
    (void)state;
    put_task_that_helps(RECORDER_TASK_WAITS_TIMER);
    put_waking(800, 12, 13, SYS_futex, 0x5000);
    put_task(240, 13, OTHER_TASK, RECORDER_TASK_WAITS_TIMER);
    put_operation(240, 13, SLEEPING_TASK, A, false);
    expect_task_path(12, "cpu 11 100-200\nunattributed 13 200-205 unknown inferred\nrun_queue 13 205-210 inferred\n"
                         "cpu 13 210-240 inferred\nsleep 13 240-700 inferred\nrun_queue 13 700-705 inferred\n"
                         "cpu 13 705-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* It sends its reply in two parts, on a thread that did not sleep meanwhile. */
static void test_task_is_seen_twice_after_its_wait(void **state)
{
    (void)state;
    put_sleep(20, 11, SYS_futex, 0x5000);
    put_interrupt_waking(80, 11, RECORDER_IN_HARDIRQ);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(210, 11, TASK, RECORDER_TASK_WAITS_TIMER);
    put_task(210, 11, OTHER_TASK, RECORDER_TASK_RUNS);
    put_task(790, 11, OTHER_TASK, RECORDER_TASK_RUNS);
    put_operation(850, 11, TASK, R, true);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-210\nsleep 11 210-790 inferred\ncpu 11 790-850 inferred\ncpu 11 850-900\n");
}

/* Another task sends the reply. */
static void test_reply_by_another_task(void **state)
{
    (void)state;
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TIMER);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
    put_run(810, 12);
    put_operation(900, 12, OTHER_TASK, R, true);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The connection's tasks in Go's server of HTTP/2: MAIN creates one that reads frames on thread 11, and one for each
 * request, and one for each write on thread 12. */
enum { MAIN = 600, READER, WRITER, HANDLER, OTHER_HANDLER };

/* The request's own task, which sleeps, was created by `creator`. */
static void put_stream(uint64_t creator)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created(100, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(100, 11, R);
    put_created(150, 11, READER, RECORDER_TASK_WAITS_IO, MAIN);
    put_created(200, 11, HANDLER, RECORDER_TASK_WAITS_TIMER, creator);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
    put_run(810, 12);
    put_created(900, 12, WRITER, RECORDER_TASK_RUNS, MAIN);
    put_send(900, 12, R);
}

static void expect_sleep_of_handler(void)
{
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-800 inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The walk follows the task that reads. */
static void expect_unknown_handler(void)
{
    expect_task_path(
        12, "cpu 11 100-150\nunattributed 12 150-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

static void test_task_that_was_created_for_the_request(void **state)
{
    (void)state;
    put_stream(MAIN);
    expect_sleep_of_handler();
}

/* grpc-go: by the task that reads. */
static void test_task_that_the_reader_created(void **state)
{
    (void)state;
    put_stream(READER);
    expect_sleep_of_handler();
}

static void test_task_that_another_task_created(void **state)
{
    (void)state;
    put_stream(MAIN + 50);
    expect_unknown_handler();
}

static void test_task_that_was_there_before_the_request(void **state)
{
    (void)state;
    put_created(50, 11, HANDLER, RECORDER_TASK_WAITS_TIMER, MAIN);
    put_stream(MAIN);
    expect_unknown_handler();
}

/* The second request comes at 300 on the same connection. */
static void test_task_of_a_later_request_of_the_connection(void **state)
{
    (void)state;
    put_stream(MAIN);
    put_interrupt_waking(295, 11, RECORDER_IN_SOFTIRQ);
    put_run(298, 11);
    put_created(300, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(300, 11, R);
    put_created(320, 11, OTHER_HANDLER, RECORDER_TASK_WAITS_LOCK, MAIN);
    put_sleep(320, 11, SYS_epoll_pwait, 4);
    expect_sleep_of_handler();
}

/* Both were first seen before more was received: whose request each serves is not known. */
static void test_two_new_tasks(void **state)
{
    (void)state;
    put_stream(MAIN);
    put_created(180, 11, OTHER_HANDLER, RECORDER_TASK_WAITS_LOCK, MAIN);
    expect_unknown_handler();
}

/* The request's own task, and one that only fills a buffer, of which another one sends the content. */
static void put_writer_that_does_not_send(int handler_site, int writer_site)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created(100, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(100, 11, R);
    put_created(150, 11, READER, RECORDER_TASK_WAITS_IO, MAIN);
    put_created_at(200, 11, HANDLER, RECORDER_TASK_WAITS_TIMER, MAIN, handler_site);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(800, 12, RECORDER_IN_HARDIRQ);
    put_run(810, 12);
    put_created_at(850, 12, OTHER_HANDLER, RECORDER_TASK_RUNS, MAIN, writer_site);
    put_created_at(900, 12, WRITER, RECORDER_TASK_RUNS, MAIN, writer_site);
    put_send(900, 12, R);
}

static void test_new_task_that_writes(void **state)
{
    (void)state;
    put_writer_that_does_not_send(7, 8);
    expect_task_path(12, "cpu 11 100-200\nsleep 12 200-850 inferred\ncpu 12 850-900 inferred\n");
}

/* Nothing distinguishes the request's own task from one that writes. */
static void test_task_like_those_that_write(void **state)
{
    (void)state;
    put_writer_that_does_not_send(8, 8);
    expect_task_path(12, "cpu 11 100-150\nunattributed 12 150-850 unknown inferred\ncpu 12 850-900 inferred\n");
}

/* The one that reads the next request from the connection. */
static void test_new_task_that_reads(void **state)
{
    (void)state;
    put_stream(MAIN);
    put_created(180, 11, OTHER_HANDLER, RECORDER_TASK_WAITS_IO, MAIN);
    expect_sleep_of_handler();
}

/* On thread 13, which thread 11 woke as the request was read, and which wakes thread 12 to write. */
static void test_created_task_computes(void **state)
{
    (void)state;
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_sleep(25, 13, SYS_futex, 0x6000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created(100, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(100, 11, R);
    put_waking(110, 13, 11, SYS_futex, 0x6000);
    put_run(120, 13);
    put_created(790, 13, HANDLER, RECORDER_TASK_RUNS, MAIN);
    put_waking(790, 12, 13, SYS_futex, 0x5000);
    put_run(810, 12);
    put_created(900, 12, WRITER, RECORDER_TASK_RUNS, MAIN);
    put_send(900, 12, R);
    expect_task_path(12,
                     "cpu 11 100-110\nrun_queue 13 110-120\ncpu 13 120-790\nrun_queue 12 790-810\ncpu 12 810-900\n");
}

/* Go takes the thread away from the task that serves the request, and gives it back by another thread. That thread has
 * been woken by the task's before, and has waited for something else since. */
static void test_created_task_gets_its_thread_back(void **state)
{
    (void)state;
    put_sleep(25, 13, SYS_futex, 0x6000);
    put_run(90, 11);
    put_arrival(100, R);
    put_created(100, 11, READER, RECORDER_TASK_RUNS, MAIN);
    put_receive(100, 11, R);
    put_switch(300, 11, 0, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_created(300, 11, HANDLER, RECORDER_TASK_RUNS, MAIN);
    put_run(310, 11);
    put_waking(390, 13, 11, SYS_futex, 0x6000);
    put_run(397, 13);
    put_sleep(410, 13, SYS_epoll_pwait, 4);
    put_interrupt_waking(595, 13, RECORDER_IN_SOFTIRQ);
    put_run(598, 13);
    put_sleep(600, 11, SYS_futex, 0x7000);
    put_waking(610, 11, 13, SYS_futex, 0x7000);
    put_run(620, 11);
    put_created(900, 11, WRITER, RECORDER_TASK_RUNS, MAIN);
    put_send(900, 11, R);
    expect_task_path(11, "cpu 11 100-300\nrun_queue 11 300-310\ncpu 11 310-600\nunattributed 11 600-610 unknown\n"
                         "run_queue 11 610-620\ncpu 11 620-900\n");
}

static void test_task_waits_for_the_collector(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_GC);
    expect_task_path(12, "cpu 11 100-200\nlock 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* What tasks of others wait for, in this process and another with the same ids, says nothing. */
static void test_waits_of_other_tasks(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_LOCK);
    put_task(300, 11, SLEEPING_TASK, RECORDER_TASK_WAITS_TIMER);
    put_task(310, 200, TASK, RECORDER_TASK_WAITS_TIMER);
    expect_task_path(12, "cpu 11 100-200\nlock 12 200-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The task was seen to run after its wait: the reason of a later wait is not known. */
static void test_wait_that_has_ended(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TIMER);
    put_task(400, 13, TASK, RECORDER_TASK_RUNS);
    expect_task_path(12, "unattributed 12 100-800 unknown\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The task goes on on thread 13, and is seen there. Its wait after that is not seen. Thread 12, which replies,
 * reads another request at `served_us`; 0: it does not. */
static void put_run_elsewhere(uint64_t served_us)
{
    put_sleep(20, 12, SYS_futex, 0x5000);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(300, 13, RECORDER_IN_HARDIRQ);
    put_run(310, 13);
    put_switch(400, 13, 0, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_task(400, 13, TASK, RECORDER_TASK_RUNS);
    put_run(410, 13);
    put_sleep(500, 13, SYS_futex, 0x6000);
    put_interrupt_waking(700, 12, RECORDER_IN_SOFTIRQ);
    put_run(710, 12);
    if (served_us)
        put_operation(served_us, 12, OTHER_TASK, A, false);
    put_operation(900, 12, TASK, R, true);
}

static void test_task_that_was_seen_running_before_its_wait(void **state)
{
    (void)state;
    put_run_elsewhere(0);
    expect_task_path(12, "unattributed 13 100-300 unknown\nrun_queue 13 300-310\ncpu 13 310-400\nrun_queue 13 400-410\n"
                         "cpu 13 410-500\nunattributed 12 500-700 unknown\nrun_queue 12 700-710\ncpu 12 710-900\n");
}

/* What the thread did for others meanwhile says nothing about the task. */
static void test_task_whose_thread_served_others_before(void **state)
{
    (void)state;
    put_run_elsewhere(800);
    expect_task_path(12, "unattributed 13 100-300 unknown\nrun_queue 13 300-310\ncpu 13 310-400\nrun_queue 13 400-410\n"
                         "cpu 13 410-500\nunattributed 12 500-800 unknown\ncpu 12 800-900 inferred\n");
}

static void test_two_waits(void **state)
{
    (void)state;
    put_move_to_other_thread(RECORDER_TASK_WAITS_TIMER);
    put_sleep(30, 13, SYS_futex, 0x6000);
    put_interrupt_waking(400, 13, RECORDER_IN_HARDIRQ);
    put_run(410, 13);
    put_task(430, 13, TASK, RECORDER_TASK_RUNS);
    put_task(500, 13, TASK, RECORDER_TASK_WAITS_LOCK);
    put_sleep(500, 13, SYS_futex, 0x6000);
    expect_task_path(12, "cpu 11 100-200\nsleep 13 200-400 inferred\nrun_queue 13 400-410\ncpu 13 410-500\n"
                         "lock 12 500-800 unknown inferred\nrun_queue 12 800-810\ncpu 12 810-900\n");
}

/* The thread that answers it has served another request meanwhile, without sleeping. */
static void test_thread_serves_others_meanwhile(void **state)
{
    (void)state;
    put_sleep(20, 11, SYS_futex, 0x5000);
    put_interrupt_waking(80, 11, RECORDER_IN_HARDIRQ);
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_task(200, 11, TASK, RECORDER_TASK_WAITS_TIMER);
    put_arrival(190, A);
    put_operation(200, 11, OTHER_TASK, A, false);
    put_operation(850, 11, OTHER_TASK, A, true);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-200\nsleep 11 200-850 inferred\ncpu 11 850-900 inferred\n");
}

/* In a system call the task keeps its thread: as for any thread. */
static void test_task_in_a_system_call(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_operation(100, 11, TASK, R, false);
    put_switch(200, 11, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, SYS_pread64, 5);
    put_interrupt_waking(800, 11, RECORDER_IN_HARDIRQ);
    put_run(810, 11);
    put_operation(900, 11, TASK, R, true);
    expect_task_path(11, "cpu 11 100-200\ndisk 11 200-800\nrun_queue 11 800-810\ncpu 11 810-900\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_task_sleeps, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_a_lock, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_another, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_another_that_calls_a_service, start_trace),
        cmocka_unit_test_setup(test_task_asks_before_it_waits, start_trace),
        cmocka_unit_test_setup(test_answers_to_other_tasks, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_another_that_wakes_its_thread, start_trace),
        cmocka_unit_test_setup(test_task_runs_after_the_one_that_it_waited_for, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_another_of_which_nothing_is_known, start_trace),
        cmocka_unit_test_setup(test_task_that_serves_another_request, start_trace),
        cmocka_unit_test_setup(test_wait_that_is_seen_twice, start_trace),
        cmocka_unit_test_setup(test_answer_to_an_old_question, start_trace),
        cmocka_unit_test_setup(test_task_that_asks_by_itself, start_trace),
        cmocka_unit_test_setup(test_wait_that_is_seen_with_the_work_of_another, start_trace),
        cmocka_unit_test_setup(test_task_is_seen_twice_after_its_wait, start_trace),
        cmocka_unit_test_setup(test_reply_by_another_task, start_trace),
        cmocka_unit_test_setup(test_task_that_was_created_for_the_request, start_trace),
        cmocka_unit_test_setup(test_task_that_the_reader_created, start_trace),
        cmocka_unit_test_setup(test_task_that_another_task_created, start_trace),
        cmocka_unit_test_setup(test_task_that_was_there_before_the_request, start_trace),
        cmocka_unit_test_setup(test_task_of_a_later_request_of_the_connection, start_trace),
        cmocka_unit_test_setup(test_two_new_tasks, start_trace),
        cmocka_unit_test_setup(test_new_task_that_writes, start_trace),
        cmocka_unit_test_setup(test_task_like_those_that_write, start_trace),
        cmocka_unit_test_setup(test_new_task_that_reads, start_trace),
        cmocka_unit_test_setup(test_created_task_computes, start_trace),
        cmocka_unit_test_setup(test_created_task_gets_its_thread_back, start_trace),
        cmocka_unit_test_setup(test_task_waits_for_the_collector, start_trace),
        cmocka_unit_test_setup(test_waits_of_other_tasks, start_trace),
        cmocka_unit_test_setup(test_wait_that_has_ended, start_trace),
        cmocka_unit_test_setup(test_task_that_was_seen_running_before_its_wait, start_trace),
        cmocka_unit_test_setup(test_task_whose_thread_served_others_before, start_trace),
        cmocka_unit_test_setup(test_two_waits, start_trace),
        cmocka_unit_test_setup(test_thread_serves_others_meanwhile, start_trace),
        cmocka_unit_test_setup(test_task_in_a_system_call, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
