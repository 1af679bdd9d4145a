/* Time on a CPU that the CPU did not give to the thread: stolen by the hypervisor, or spent on interrupts; and time
 * that the thread spent on memory instead of its work. */
#include "flight_trace.h"

static void put_taken(uint64_t us, uint32_t tid, uint64_t taken_us, uint64_t stolen_us)
{
    put(us, RECORDER_TAKEN, 0, RECORDER_NO_SYSCALL, tid, 0, stolen_us * 1000 << 32 | taken_us * 1000);
}

/* Thread 11 runs from 90 to 510 and answers at 500: 20 us of that are not the request's. */
static void put_computing(uint64_t taken_us, uint64_t stolen_us)
{
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_send(500, 11, R);
    put_taken(510, 11, taken_us, stolen_us);
    put_sleep(510, 11, SYS_recvfrom, 5);
}

static void test_stolen_time_is_not_cpu(void **state)
{
    (void)state;
    put_computing(220, 220);
    expect_path(R, 100, 500, 11,
                "cpu 11 100-300\n"
                "steal 11 300-500\n");
}

static void test_interrupts_are_not_cpu(void **state)
{
    (void)state;
    put_computing(120, 50);
    expect_path(R, 100, 500, 11,
                "cpu 11 100-400\n"
                "other 11 400-450\n"
                "steal 11 450-500\n");
}

/* It may all have been before the request, or after it. */
static void test_time_taken_elsewhere(void **state)
{
    (void)state;
    put_computing(20, 20);
    expect_path(R, 100, 500, 11, "cpu 11 100-500\n");
}

/* Accounts that do not match. */
static void test_more_taken_than_there_was(void **state)
{
    (void)state;
    put_computing(4000000, 4000000);
    expect_path(R, 100, 500, 11, "steal 11 100-500\n");
}

static void test_time_taken_from_another_thread(void **state)
{
    (void)state;
    put_run(80, 12);
    put_taken(480, 12, 300, 300);
    put_sleep(480, 12, SYS_futex, 0x4000);
    put_computing(20, 0);
    expect_path(R, 100, 500, 11, "cpu 11 100-500\n");
}

/* A long interrupt has its own record. The scheduler's accounts have its time, too, which is not taken twice. */
static void test_a_long_interrupt_is_where_it_was(void **state)
{
    (void)state;
    put_interrupt(300, 11, 3, 100);
    put_computing(120, 0);
    expect_path(R, 100, 500, 11,
                "cpu 11 100-200\n"
                "other 11 200-300\n"
                "cpu 11 300-500\n");
}

static void test_interrupts_at_the_ends_of_a_request(void **state)
{
    (void)state;
    put_interrupt(150, 11, 3, 1000);
    put_interrupt(490, 11, 3, 90);
    put_computing(0, 0);
    expect_path(R, 100, 500, 11,
                "other 11 100-150\n"
                "cpu 11 150-400\n"
                "other 11 400-490\n"
                "cpu 11 490-500\n");
}

static void test_an_interrupt_of_another_thread_and_one_without_a_duration(void **state)
{
    (void)state;
    put_interrupt(310, 11, 3, 0);
    put_interrupt(300, 12, 3, 100);
    put_computing(0, 0);
    expect_path(R, 100, 500, 11, "cpu 11 100-500\n");
}

/* Thread 11 runs from 90 to 510, except for a wait from 200 to 300. */
static void put_computing_with_wait(unsigned flags)
{
    put_run(90, 11);
    put_arrival(100, R);
    put_receive(100, 11, R);
    put_switch(200, 11, 0, flags, SYS_read, 5);
    put_interrupt_waking(300, 11, RECORDER_IN_HARDIRQ);
    put_run(300, 11);
    put_send(500, 11, R);
    put_sleep(510, 11, SYS_recvfrom, 5);
}

/* A thread also sleeps in reclaim. */
static void test_reclaim_is_no_work_of_the_request(void **state)
{
    (void)state;
    put_computing_with_wait(RECORDER_UNINTERRUPTIBLE);
    put_reclaim(400, 11, RECLAIM_LIMIT, 220);
    put_reclaim(450, 12, RECLAIM_LIMIT, 50); /* another thread */
    expect_path(R, 100, 500, 11,
                "cpu 11 100-180\n"
                "other 11 180-200\n"
                "other 11 200-300\n"
                "other 11 300-400\n"
                "cpu 11 400-500\n");
}

static void test_reclaim_at_the_ends_of_a_request(void **state)
{
    (void)state;
    put_computing_with_wait(RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT);
    put_reclaim(120, 11, RECLAIM_NODE, 1000);
    put_reclaim(250, 11, RECLAIM_KINDS, 40);     /* damaged */
    put_reclaim(490, 11, RECLAIM_COMPACTION, 0); /* likewise */
    put_reclaim(499, 11, RECLAIM_COMPACTION, 9);
    expect_path(R, 100, 500, 11,
                "other 11 100-120\n"
                "cpu 11 120-200\n"
                "disk 11 200-300\n"
                "cpu 11 300-490\n"
                "other 11 490-499\n"
                "cpu 11 499-500\n");
}

/* An interrupt during reclaim stays an interrupt. */
static void test_an_interrupt_in_reclaim(void **state)
{
    (void)state;
    put_computing(0, 0);
    put_interrupt(300, 11, 3, 100);
    put_reclaim(400, 11, RECLAIM_NODE, 300);
    expect_path(R, 100, 500, 11,
                "other 11 100-200\n"
                "other 11 200-300\n"
                "other 11 300-400\n"
                "cpu 11 400-500\n");
}

static void expect_wait(unsigned flags, const char *expected, const char *reason)
{
    struct path_segments path;
    put_computing_with_wait(flags);
    expect_path(R, 100, 500, 11, expected);
    find_path_of(R, 100, 500, 11, &path);
    assert_string_equal(path.items[1].reason, reason);
    path_segments_clear(&path);
}

static void test_a_throttled_thread_does_not_wait_for_a_disk(void **state)
{
    (void)state;
    expect_wait(RECORDER_UNINTERRUPTIBLE | RECORDER_MEMSTALL,
                "cpu 11 100-200\n"
                "other 11 200-300\n"
                "cpu 11 300-500\n",
                "stalled on memory");
}

static void test_reclaimed_memory_is_read_from_a_disk(void **state)
{
    (void)state;
    expect_wait(RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT | RECORDER_MEMSTALL,
                "cpu 11 100-200\n"
                "disk 11 200-300\n"
                "cpu 11 300-500\n",
                "reads back memory that was reclaimed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_stolen_time_is_not_cpu, start_trace),
        cmocka_unit_test_setup(test_interrupts_are_not_cpu, start_trace),
        cmocka_unit_test_setup(test_time_taken_elsewhere, start_trace),
        cmocka_unit_test_setup(test_more_taken_than_there_was, start_trace),
        cmocka_unit_test_setup(test_time_taken_from_another_thread, start_trace),
        cmocka_unit_test_setup(test_a_long_interrupt_is_where_it_was, start_trace),
        cmocka_unit_test_setup(test_interrupts_at_the_ends_of_a_request, start_trace),
        cmocka_unit_test_setup(test_an_interrupt_of_another_thread_and_one_without_a_duration, start_trace),
        cmocka_unit_test_setup(test_reclaim_is_no_work_of_the_request, start_trace),
        cmocka_unit_test_setup(test_reclaim_at_the_ends_of_a_request, start_trace),
        cmocka_unit_test_setup(test_an_interrupt_in_reclaim, start_trace),
        cmocka_unit_test_setup(test_a_throttled_thread_does_not_wait_for_a_disk, start_trace),
        cmocka_unit_test_setup(test_reclaimed_memory_is_read_from_a_disk, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
