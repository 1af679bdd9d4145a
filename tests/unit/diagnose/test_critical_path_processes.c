/* Requests that pass through several threads and processes: proxies, worker processes, databases. Traces of real
 * servers, reduced to the decisive records. */
#include "flight_trace.h"

#define WORKER       210 /* each of a process of its own */
#define READER       310
#define HOLDER       410
#define OTHER_WORKER 510

/* One backend of a database waits for a row that another one has changed, which ends its transaction and signals. */
static void test_lock_released_by_a_signal(void **state)
{
    (void)state;
    put_run(90, WORKER);
    put_arrival(100, R);
    put_receive(100, WORKER, R);
    put_sleep(150, WORKER, SYS_epoll_pwait, 5);
    put_sleep(160, HOLDER, SYS_epoll_pwait, 6);
    put_interrupt_waking(700, HOLDER, RECORDER_IN_HARDIRQ);
    put_run(710, HOLDER);
    put_waking(800, WORKER, HOLDER, SYS_kill, WORKER);
    put_run(810, WORKER);
    put_send(900, WORKER, R);
    expect_path(R, 100, 900, WORKER,
                "cpu 210 100-150\n"
                "lock 410 150-160 unknown inferred\n"
                "lock 410 160-700 unknown inferred\n"
                "lock 410 700-710 unknown inferred\n"
                "lock 410 710-800 unknown inferred\n"
                "run_queue 210 800-810\n"
                "cpu 210 810-900\n");
}

/* The proxy's connection to the service is older than the window, which begins with an answer on it. */
static void test_kept_connection_to_a_service(void **state)
{
    (void)state;
    put_run(10, 11);
    put_receive(20, 11, SERVICE);
    put_send(30, 11, A);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(120, 11, SERVICE);
    put_sleep(130, 11, SYS_epoll_pwait, 4);
    put_arrival(700, SERVICE);
    put_interrupt_waking(701, 11, RECORDER_IN_SOFTIRQ);
    put_run(710, 11);
    put_receive(720, 11, SERVICE);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-120\n"
                "downstream 11 120-700\n"
                "run_queue 11 700-710\n"
                "cpu 11 710-800\n");
}

/* The request asks a service of this node, whose answer is sent at 600. */
static void put_answer_of_a_service(void)
{
    put_run(90, 11);
    put_sleep(90, WORKER, SYS_recvfrom, 7);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_local_send(150, 11, SERVICE, SERVICE_PEER, RECORDER_IN_SOFTIRQ);
    put_waking(152, WORKER, 11, SYS_sendto, 9);
    put_sleep(160, 11, SYS_recvfrom, 9);
    put_run(170, WORKER);
    put_receive(180, WORKER, SERVICE_PEER);
    put_local_send(600, WORKER, SERVICE_PEER, SERVICE, RECORDER_IN_SOFTIRQ);
}

/* A service of this node answers, and then closes the connection: the thread reads until that. */
static void test_answer_that_ends_with_its_connection(void **state)
{
    (void)state;
    put_answer_of_a_service();
    put_waking(602, 11, WORKER, SYS_sendto, 7);
    put_run(610, 11);
    put_receive(620, 11, SERVICE);
    put_sleep(630, 11, SYS_recvfrom, 9);
    put(700, RECORDER_READY, RECORDER_IN_SOFTIRQ, RECORDER_NO_SYSCALL, WORKER, SERVICE, 501ull << 32);
    put_waking(701, 11, WORKER, SYS_close, 7);
    put_run(710, 11);
    put(720, RECORDER_RECEIVE, 0, SYS_recvfrom, 11, SERVICE, 0);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-150\n"
                "run_queue 210 150-170\n"
                "cpu 210 170-600\n"
                "downstream 11 600-700\n"
                "run_queue 11 700-710\n"
                "cpu 11 710-800\n");
}

/* A service of this node answers, and the thread that it woke is preempted before its read ends. */
static void test_answer_to_a_thread_that_is_preempted_in_its_read(void **state)
{
    (void)state;
    put_answer_of_a_service();
    put_interrupt_waking(602, 11, RECORDER_IN_SOFTIRQ);
    put_run(610, 11);
    put_switch(612, 11, 0, RECORDER_PREEMPTED, SYS_recvfrom, 9);
    put_run(618, 11);
    put_receive(620, 11, SERVICE);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-150\n"
                "run_queue 210 150-170\n"
                "cpu 210 170-600\n"
                "run_queue 11 600-610\n"
                "cpu 11 610-612\n"
                "run_queue 11 612-618\n"
                "cpu 11 618-800\n");
}

/* The rest of an answer arrives while the thread sleeps of its own accord, and it reads that afterwards: the answer did
 * not delay it. */
static void test_own_work_before_the_rest_of_an_answer(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(120, 11, SERVICE);
    put_sleep(130, 11, SYS_recvfrom, 4);
    put_arrival(190, SERVICE);
    put_interrupt_waking(191, 11, RECORDER_IN_SOFTIRQ);
    put_run(195, 11);
    put_receive(200, 11, SERVICE);
    put_sleep(210, 11, SYS_clock_nanosleep, 0);
    put_arrival(220, SERVICE);
    put_interrupt_waking(500, 11, RECORDER_IN_HARDIRQ);
    put_run(505, 11);
    put_receive(510, 11, SERVICE);
    put_send(600, 11, R);
    expect_path(R, 100, 600, 11,
                "cpu 11 100-120\n"
                "downstream 11 120-190\n"
                "run_queue 11 190-195\n"
                "cpu 11 195-210\n"
                "sleep 11 210-500\n"
                "run_queue 11 500-505\n"
                "cpu 11 505-600\n");
}

/* An event loop sends as much as the client's buffer takes, and waits until it may send the rest. */
static void test_loop_waits_for_the_client_between_sends(void **state)
{
    (void)state;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(150, 11, R);
    put_sleep(160, 11, SYS_epoll_pwait, 4);
    put_interrupt_waking(700, 11, RECORDER_IN_SOFTIRQ);
    put_run(710, 11);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-160\n"
                "network 11 160-700 inferred\n"
                "run_queue 11 700-710\n"
                "cpu 11 710-800\n");
}

/* The loop gives the request to a thread that passes it on to a worker process. It sleeps until that has answered, by
 * way of a thread that reads for it. */
static void put_worker_process(void)
{
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_sleep(20, WORKER, SYS_read, 7);
    put_sleep(30, 13, SYS_read, 8);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5000);
    put_run(130, 12);
    put_waking(150, WORKER, 12, SYS_write, 9);
    put_run(160, WORKER);
    put_sleep(170, 12, SYS_futex, 0x5000);
    put_waking(800, 13, WORKER, SYS_write, 10);
    put_run(810, 13);
    put_sleep(820, WORKER, SYS_read, 7);
}

static void test_worker_process_of_an_event_loop(void **state)
{
    (void)state;
    put_worker_process();
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_waking(830, 11, 13, SYS_write, 5);
    put_run(840, 11);
    put_sleep(845, 13, SYS_read, 8);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-150\n"
                "run_queue 210 150-160\n"
                "cpu 210 160-800\n"
                "run_queue 13 800-810\n"
                "cpu 13 810-830\n"
                "run_queue 11 830-840\n"
                "cpu 11 840-900\n");
}

/* It served another request meanwhile: the thread that only passed the request on was done long before. */
static void test_worker_process_of_an_event_loop_that_served_others(void **state)
{
    (void)state;
    put_worker_process();
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_waking(830, 11, 13, SYS_write, 5);
    put_run(840, 11);
    put_sleep(845, 13, SYS_read, 8);
    put_receive(850, 11, A);
    put_send(860, 11, A);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-150\n"
                "run_queue 210 150-160\n"
                "cpu 210 160-800\n"
                "run_queue 13 800-810\n"
                "cpu 13 810-830\n"
                "run_queue 11 830-840 inferred\n"
                "loop_busy 11 840-850 other inferred\n"
                "loop_busy 11 850-860 other inferred\n"
                "cpu 11 860-900\n");
}

/* The loop had just been woken for another request: that the work was done did not wake it. */
static void test_worker_process_that_is_done_while_the_loop_runs(void **state)
{
    (void)state;
    put_worker_process();
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_arrival(790, A);
    put_interrupt_waking(791, 11, RECORDER_IN_SOFTIRQ);
    put_run(795, 11);
    put_sleep(845, 13, SYS_read, 8);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-120 inferred\n"
                "run_queue 12 120-130 inferred\n"
                "cpu 12 130-150 inferred\n"
                "run_queue 210 150-160 inferred\n"
                "cpu 210 160-791 inferred\n"
                "run_queue 11 791-795\n"
                "cpu 11 795-900\n");
}

/* Another worker process woke the thread that reads the answers; R's came while it ran. */
static void test_answer_read_by_a_thread_that_another_worker_woke(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_sleep(20, WORKER, SYS_epoll_pwait, 7);
    put_sleep(30, 13, SYS_read, 8);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5000);
    put_run(130, 12);
    put_waking(150, WORKER, 12, SYS_write, 9);
    put_run(160, WORKER);
    put_sleep(170, 12, SYS_futex, 0x5000);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_waking(780, 13, OTHER_WORKER, SYS_write, 10);
    put_run(785, 13);
    put_sleep(790, WORKER, SYS_epoll_pwait, 7);
    put_waking(830, 11, 13, SYS_write, 5);
    put_run(840, 11);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-120 inferred\n"
                "run_queue 12 120-130 inferred\n"
                "cpu 12 130-150 inferred\n"
                "run_queue 210 150-160 inferred\n"
                "cpu 210 160-790 inferred\n"
                "queue_behind 11 790-830 unknown inferred\n"
                "run_queue 11 830-840\n"
                "cpu 11 840-900\n");
}

/* R and A are read one after the other, and handled then: who got R is not known for sure. */
static void test_burst_handed_to_worker_processes(void **state)
{
    (void)state;
    put_worker_process();
    put_receive(110, 11, A);
    put_sleep(200, 11, SYS_epoll_pwait, 4);
    put_waking(830, 11, 13, SYS_write, 5);
    put_run(840, 11);
    put_sleep(845, 13, SYS_read, 8);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-110 inferred\n"
                "cpu 11 110-120 inferred\n"
                "run_queue 12 120-130 inferred\n"
                "cpu 12 130-150 inferred\n"
                "run_queue 210 150-160 inferred\n"
                "cpu 210 160-800 inferred\n"
                "run_queue 13 800-810 inferred\n"
                "cpu 13 810-830 inferred\n"
                "run_queue 11 830-840\n"
                "cpu 11 840-900\n");
}

/* The requests before have a chain of eight threads. */
static void test_many_hand_overs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        put_sleep(10 + i, 200 + i, SYS_read, 7);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    for (uint32_t i = 0; i < 8; i++) {
        put_waking(110 + 10 * i, 200 + i, i ? 199 + i : 11, SYS_write, 9);
        put_run(115 + 10 * i, 200 + i);
    }
    put_sleep(130, 11, SYS_epoll_pwait, 4);
    put_waking(800, 11, 207, SYS_write, 5);
    put_run(810, 11);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-110\n"
                "run_queue 200 110-115\n"
                "cpu 200 115-120\n"
                "run_queue 201 120-125\n"
                "cpu 201 125-130\n"
                "run_queue 202 130-135\n"
                "cpu 202 135-140\n"
                "run_queue 203 140-145\n"
                "cpu 203 145-150\n"
                "run_queue 204 150-155\n"
                "cpu 204 155-160\n"
                "run_queue 205 160-165\n"
                "cpu 205 165-170\n"
                "run_queue 206 170-175\n"
                "cpu 206 175-180\n"
                "run_queue 207 180-185\n"
                "cpu 207 185-800\n"
                "run_queue 11 800-810\n"
                "cpu 11 810-900\n");
}

/* A pool's thread that is woken by a condition variable waits for it by other words than who signals it does. */
static void test_signaller_of_a_condition_variable_waits_for_its_waiters(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5028);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5028);
    put_sleep(125, 11, SYS_futex, 0x5014);
    put_run(130, 12);
    put_waking(140, 11, 12, SYS_futex, 0x5014);
    put_run(150, 11);
    put_sleep(160, 11, SYS_epoll_pwait, 4);
    put_waking(200, WORKER, 12, SYS_futex, 0x7000); /* shared memory */
    put_run(210, WORKER);
    put_sleep(220, 12, SYS_futex, 0x6000);
    put_waking(800, 12, WORKER, SYS_futex, 0x8000);
    put_run(810, 12);
    put_waking(830, 11, 12, SYS_write, 5);
    put_run(840, 11);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-200\n"
                "run_queue 210 200-210\n"
                "cpu 210 210-800\n"
                "run_queue 12 800-810\n"
                "cpu 12 810-830\n"
                "run_queue 11 830-840\n"
                "cpu 11 840-900\n");
}

/* Threads of a pool wake each other by the queue that they wait for, as they would by a lock. The one that slept since
 * before the request did not sleep for a lock. */
static void test_pool_whose_threads_wake_each_other(void **state)
{
    (void)state;
    put_run(2, 12);
    put_sleep(3, 13, SYS_futex, 0x5000);
    put_waking(5, 13, 12, SYS_futex, 0x5000);
    put_run(6, 13);
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5000);
    put_run(130, 12);
    put_sleep(140, 11, SYS_epoll_pwait, 4);
    put_switch(300, 12, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, SYS_pread64, 8);
    put_interrupt_waking(700, 12, RECORDER_IN_HARDIRQ);
    put_run(710, 12);
    put_waking(800, 11, 12, SYS_write, 5);
    put_run(810, 11);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-300\n"
                "disk 12 300-700\n"
                "run_queue 12 700-710\n"
                "cpu 12 710-800\n"
                "run_queue 11 800-810\n"
                "cpu 11 810-900\n");
}

/* A thread of the pool gives work to another one and waits for its result, by words of their own. */
static void test_result_of_a_thread_that_was_given_work(void **state)
{
    (void)state;
    put_sleep(10, 12, SYS_futex, 0x5000);
    put_sleep(20, 13, SYS_futex, 0x6000);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_waking(120, 12, 11, SYS_futex, 0x5000);
    put_run(130, 12);
    put_sleep(140, 11, SYS_epoll_pwait, 4);
    put_waking(150, 13, 12, SYS_futex, 0x6000);
    put_run(160, 13);
    put_sleep(200, 12, SYS_futex, 0x7000);
    put_switch(300, 13, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, SYS_pread64, 8);
    put_interrupt_waking(700, 13, RECORDER_IN_HARDIRQ);
    put_run(710, 13);
    put_waking(750, 12, 13, SYS_futex, 0x7000);
    put_run(760, 12);
    put_waking(800, 11, 12, SYS_write, 5);
    put_run(810, 11);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-120\n"
                "run_queue 12 120-130\n"
                "cpu 12 130-150\n"
                "run_queue 13 150-160\n"
                "cpu 13 160-300\n"
                "disk 13 300-700\n"
                "run_queue 13 700-710\n"
                "cpu 13 710-750\n"
                "run_queue 12 750-760\n"
                "cpu 12 760-800\n"
                "run_queue 11 800-810\n"
                "cpu 11 810-900\n");
}

/* The thread of a pool waits for a worker process when the request is queued, finishes that work, and takes R next. */
static void test_queue_behind_work_of_another_process(void **state)
{
    (void)state;
    put_run(5, 12);
    put_sleep(10, 12, SYS_futex, 0x6000);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(130, 11, SYS_epoll_pwait, 4);
    put_waking(500, 12, WORKER, SYS_futex, 0x8000);
    put_run(510, 12);
    put_local_send(520, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(520, 11, 12, SYS_sendto, 9);
    put_run(525, 11);
    put_receive(526, 11, PIPE);
    put_send(530, 11, A);
    put_sleep(540, 11, SYS_epoll_pwait, 4);
    put_local_send(800, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(800, 11, 12, SYS_sendto, 9);
    put_run(810, 11);
    put_receive(811, 11, PIPE);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-130\n"
                "queue_behind 12 130-500 other inferred\n"
                "run_queue 12 500-510 other inferred\n"
                "queue_behind 12 510-521 other inferred\n"
                "cpu 12 521-800\n"
                "run_queue 11 800-810\n"
                "cpu 11 810-900\n");
}

static void test_queue_behind_work_that_went_to_another_process_later(void **state)
{
    (void)state;
    put_run(5, 12);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(130, 11, SYS_epoll_pwait, 4);
    put_sleep(140, 12, SYS_futex, 0x6000);
    put_waking(500, 12, WORKER, SYS_futex, 0x8000);
    put_run(510, 12);
    put_local_send(520, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(520, 11, 12, SYS_sendto, 9);
    put_run(525, 11);
    put_receive(526, 11, PIPE);
    put_send(530, 11, A);
    put_sleep(540, 11, SYS_epoll_pwait, 4);
    put_local_send(800, 12, PIPE_WRITER, PIPE, RECORDER_UNIX);
    put_waking(800, 11, 12, SYS_sendto, 9);
    put_run(810, 11);
    put_receive(811, 11, PIPE);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-130\n"
                "queue_behind 12 130-500 other inferred\n"
                "run_queue 12 500-510 other inferred\n"
                "queue_behind 12 510-521 other inferred\n"
                "cpu 12 521-800\n"
                "run_queue 11 800-810\n"
                "cpu 11 810-900\n");
}

/* A thread that slept since before the window is woken by another process: what that one did is known. */
static void test_reader_that_slept_since_before_the_window(void **state)
{
    (void)state;
    put_run(50, WORKER);
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_receive(110, 11, A);
    put_send(120, 11, A);
    put_sleep(130, 11, SYS_epoll_pwait, 4);
    put_waking(700, READER, WORKER, SYS_write, 10);
    put_run(710, READER);
    put_waking(800, 11, READER, SYS_write, 5);
    put_run(810, 11);
    put_send(900, 11, R);
    expect_path(R, 100, 900, 11,
                "cpu 11 100-110\n"
                "cpu 210 110-700 unknown inferred\n"
                "run_queue 310 700-710 unknown inferred\n"
                "cpu 310 710-800 unknown inferred\n"
                "run_queue 11 800-810\n"
                "cpu 11 810-900\n");
}

/* The work of the service that a server calls, and of the service behind that one, is of the server's call. */
static void test_work_of_a_service_is_of_its_call(void **state)
{
    (void)state;
    struct path_segments path;
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_sleep(50, 21, SYS_recvfrom, 3);
    put_local_send(150, 11, SERVICE, SERVICE_PEER, RECORDER_TCP | RECORDER_IN_SOFTIRQ);
    put_interrupt_waking(150, 21, RECORDER_IN_SOFTIRQ);
    put_sleep(170, 11, SYS_epoll_pwait, 4);
    put_run(180, 21);
    put_receive(181, 21, SERVICE_PEER);
    put_local_send(900, 21, SERVICE_PEER, SERVICE, RECORDER_TCP | RECORDER_IN_SOFTIRQ);
    put_interrupt_waking(900, 11, RECORDER_IN_SOFTIRQ);
    put_run(920, 11);
    put_receive(930, 11, SERVICE);
    put_send(1000, 11, R);
    find_path_of(R, 100, 1000, 11, &path);
    assert_true(path.count >= 3);
    for (size_t i = 0; i < path.count; i++)
        assert_int_equal(path.items[i].call, path.items[i].tid == 21 ? SERVICE : 0);
    path_segments_clear(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_lock_released_by_a_signal, start_trace),
        cmocka_unit_test_setup(test_kept_connection_to_a_service, start_trace),
        cmocka_unit_test_setup(test_answer_that_ends_with_its_connection, start_trace),
        cmocka_unit_test_setup(test_answer_to_a_thread_that_is_preempted_in_its_read, start_trace),
        cmocka_unit_test_setup(test_own_work_before_the_rest_of_an_answer, start_trace),
        cmocka_unit_test_setup(test_loop_waits_for_the_client_between_sends, start_trace),
        cmocka_unit_test_setup(test_worker_process_of_an_event_loop, start_trace),
        cmocka_unit_test_setup(test_worker_process_of_an_event_loop_that_served_others, start_trace),
        cmocka_unit_test_setup(test_worker_process_that_is_done_while_the_loop_runs, start_trace),
        cmocka_unit_test_setup(test_answer_read_by_a_thread_that_another_worker_woke, start_trace),
        cmocka_unit_test_setup(test_burst_handed_to_worker_processes, start_trace),
        cmocka_unit_test_setup(test_many_hand_overs, start_trace),
        cmocka_unit_test_setup(test_signaller_of_a_condition_variable_waits_for_its_waiters, start_trace),
        cmocka_unit_test_setup(test_pool_whose_threads_wake_each_other, start_trace),
        cmocka_unit_test_setup(test_result_of_a_thread_that_was_given_work, start_trace),
        cmocka_unit_test_setup(test_queue_behind_work_of_another_process, start_trace),
        cmocka_unit_test_setup(test_queue_behind_work_that_went_to_another_process_later, start_trace),
        cmocka_unit_test_setup(test_reader_that_slept_since_before_the_window, start_trace),
        cmocka_unit_test_setup(test_work_of_a_service_is_of_its_call, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
