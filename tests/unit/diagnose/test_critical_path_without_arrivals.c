/* Services of this node where arrivals at sockets are not recorded, before Linux 6.3: the wake-up by a send leads into
 * them, and a send back to who asked. */
#include "flight_trace.h"

#define WORKER 210 /* of a process of its own */

/* The service closes the connection after its answer, if that is its `last_call`. */
static void put_service_without_arrivals(int last_call)
{
    put_run(90, 11);
    put_receive(100, 11, R);
    put_waking(149, WORKER, 11, SYS_sendto, 9);
    put_send(150, 11, SERVICE);
    put_sleep(160, 11, SYS_recvfrom, 9);
    put_run(170, WORKER);
    put(180, RECORDER_RECEIVE, RECORDER_TCP | RECORDER_REQUESTS, SYS_recvfrom, WORKER, SERVICE_PEER, 100);
    put_sleep(190, WORKER, SYS_clock_nanosleep, 0);
    put_interrupt_waking(600, WORKER, RECORDER_IN_HARDIRQ);
    put_run(610, WORKER);
    if (last_call == SYS_sendto)
        put_waking(699, 11, WORKER, SYS_sendto, 7);
    put(700, RECORDER_SEND, RECORDER_TCP | RECORDER_REQUESTS, SYS_sendto, WORKER, SERVICE_PEER, 100);
    if (last_call == SYS_close)
        put_waking(705, 11, WORKER, SYS_close, 7);
    put_run(710, 11);
    put_receive(720, 11, SERVICE);
    put_send(800, 11, R);
}

static void test_service_without_arrivals(void **state)
{
    (void)state;
    put_service_without_arrivals(SYS_sendto);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-160\n"
                "network 210 160-180 inferred\n"
                "cpu 210 180-190\n"
                "sleep 210 190-600\n"
                "run_queue 210 600-610\n"
                "cpu 210 610-699\n"
                "run_queue 11 699-710\n"
                "cpu 11 710-800\n");
}

/* It slept before it asked. */
static void test_service_that_is_asked_late_without_arrivals(void **state)
{
    (void)state;
    put_service_without_arrivals(SYS_sendto);
    put_sleep(110, 11, SYS_clock_nanosleep, 0);
    put_interrupt_waking(140, 11, RECORDER_IN_HARDIRQ);
    put_run(141, 11);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-110\n"
                "sleep 11 110-140\n"
                "run_queue 11 140-141\n"
                "cpu 11 141-150\n"
                "network 210 150-180 inferred\n"
                "cpu 210 180-190\n"
                "sleep 210 190-600\n"
                "run_queue 210 600-610\n"
                "cpu 210 610-699\n"
                "run_queue 11 699-710\n"
                "cpu 11 710-800\n");
}

static void test_service_that_closes_without_arrivals(void **state)
{
    (void)state;
    put_service_without_arrivals(SYS_close);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-160\n"
                "network 210 160-180 inferred\n"
                "cpu 210 180-190\n"
                "sleep 210 190-600\n"
                "run_queue 210 600-610\n"
                "cpu 210 610-705\n"
                "run_queue 11 705-710\n"
                "cpu 11 710-800\n");
}

/* It waits for the connection, and the service has read the request before the send ends. */
static void test_service_that_reads_before_the_send_ends(void **state)
{
    (void)state;
    put_run(90, 11);
    put_receive(100, 11, R);
    put(150, RECORDER_SEND, RECORDER_TCP, SYS_connect, 11, SERVICE, 0);
    put_sleep(160, 11, SYS_connect, 9);
    put(500, RECORDER_WAKING, RECORDER_KERNEL_THREAD, RECORDER_NO_SYSCALL, 11, 0, 17ull << 32 | 17);
    put_run(510, 11);
    put_waking(520, WORKER, 11, SYS_sendto, 9);
    put_run(522, WORKER);
    put(525, RECORDER_RECEIVE, RECORDER_TCP | RECORDER_REQUESTS, SYS_recvfrom, WORKER, SERVICE_PEER, 100);
    put_send(530, 11, SERVICE);
    put_sleep(540, 11, SYS_recvfrom, 9);
    put_waking(599, 11, WORKER, SYS_sendto, 7);
    put(600, RECORDER_SEND, RECORDER_TCP | RECORDER_REQUESTS, SYS_sendto, WORKER, SERVICE_PEER, 100);
    put_run(610, 11);
    put_receive(620, 11, SERVICE);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-160\n"
                "downstream 11 160-500 inferred\n"
                "run_queue 11 500-510\n"
                "cpu 11 510-525\n"
                "cpu 210 525-599\n"
                "run_queue 11 599-610\n"
                "cpu 11 610-800\n");
}

/* The answer to a connection that was asked for a second time comes in a thread of the kernel. */
static void test_connection_that_a_thread_of_the_kernel_ends(void **state)
{
    (void)state;
    put_run(90, 11);
    put_receive(100, 11, R);
    put(150, RECORDER_SEND, RECORDER_TCP, SYS_connect, 11, SERVICE, 0);
    put_sleep(160, 11, SYS_connect, 9);
    put(700, RECORDER_WAKING, RECORDER_KERNEL_THREAD, RECORDER_NO_SYSCALL, 11, 0, 17ull << 32 | 17);
    put_run(710, 11);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-160\n"
                "downstream 11 160-700 inferred\n"
                "run_queue 11 700-710\n"
                "cpu 11 710-800\n");
}

/* Likewise the answer to a read, whose file may be anything: what it then receives shows that it is a socket. */
static void test_read_of_a_socket_that_a_thread_of_the_kernel_ends(void **state)
{
    (void)state;
    put_run(90, 11);
    put_receive(100, 11, R);
    put_send(150, 11, SERVICE);
    put_sleep(160, 11, SYS_read, 9);
    put(700, RECORDER_WAKING, RECORDER_KERNEL_THREAD, RECORDER_NO_SYSCALL, 11, 0, 17ull << 32 | 17);
    put_run(710, 11);
    put_receive(720, 11, SERVICE);
    put_send(800, 11, R);
    expect_path(R, 100, 800, 11,
                "cpu 11 100-160\n"
                "downstream 11 160-700 inferred\n"
                "run_queue 11 700-710\n"
                "cpu 11 710-800\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_service_without_arrivals, start_trace),
        cmocka_unit_test_setup(test_service_that_is_asked_late_without_arrivals, start_trace),
        cmocka_unit_test_setup(test_service_that_closes_without_arrivals, start_trace),
        cmocka_unit_test_setup(test_service_that_reads_before_the_send_ends, start_trace),
        cmocka_unit_test_setup(test_connection_that_a_thread_of_the_kernel_ends, start_trace),
        cmocka_unit_test_setup(test_read_of_a_socket_that_a_thread_of_the_kernel_ends, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
