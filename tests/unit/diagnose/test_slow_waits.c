/* Long waits in system calls are found in the records of the flight recorder, also across windows; waits for events,
 * and those that did not happen, are not. */
#include "diagnose/slow_waits.h"

#include "flight_trace.h"

#include <stdio.h>

#define THRESHOLD_US 100000
#define WORKER       7
#define JOURNAL      50
#define FILE_KEY     4711

static struct slow_waits *waits;
static struct buf found;

static void describe_wait(void *context, const struct slow_wait *wait)
{
    (void)context;
    buf_printf(&found, "%u of %u in %d: %llu-%llu file %llu%s\n", wait->tid, wait->pid, wait->syscall,
               (unsigned long long)(wait->start_ns - BASE_NS) / 1000,
               (unsigned long long)(wait->end_ns - BASE_NS) / 1000, (unsigned long long)wait->file,
               wait->is_memory_stall ? " memory" : "");
}

static int begin(void **state)
{
    start_trace(state);
    buf_clear(&found);
    return slow_waits_new(THRESHOLD_US * 1000ull, &waits);
}

static int end(void **state)
{
    (void)state;
    slow_waits_free(waits);
    buf_clear(&found);
    return 0;
}

/* Passes the records so far as the window from `from_us` on; the next ones are of the next window. */
static void follow(uint64_t from_us, uint64_t complete_us)
{
    const struct flight_window window = {.records = records, .count = count, .complete_from_ns = US(complete_us)};
    slow_waits_follow(waits, &window, US(from_us), describe_wait, NULL);
    count = 0;
}

static void expect(const char *text)
{
    assert_string_equal(found.size ? found.data : "", text);
}

/* The thread sleeps in the call at 1000, and thread `waker`, in its own call, wakes it 200 ms later. */
static void put_wait_ended_in(unsigned flags, int call, uint32_t waker, int waker_call)
{
    put_switch(1000, WORKER, 0, flags, call, 3);
    put_waking(201000, WORKER, waker, waker_call, 0);
    put_run(260000, WORKER);
}

static void put_wait(unsigned flags, int call)
{
    put_wait_ended_in(flags, call, JOURNAL, RECORDER_NO_SYSCALL);
}

static void expect_slow(unsigned flags, int call, bool is_slow)
{
    char text[64] = "";
    put_wait(flags, call);
    follow(0, 0);
    if (is_slow)
        snprintf(text, sizeof(text), "7 of 1 in %d: 1000-201000 file 0\n", call);
    expect(text);
    buf_clear(&found);
}

static void test_a_wait_ends_with_the_wake_up(void **state)
{
    (void)state;
    put_wait(RECORDER_UNINTERRUPTIBLE, SYS_fsync);
    put_switch(300000, WORKER, 0, RECORDER_UNINTERRUPTIBLE, SYS_fsync, 3);
    put_waking(399999, WORKER, JOURNAL, RECORDER_NO_SYSCALL, 0); /* one microsecond too short */
    follow(0, 0);
    char text[64];
    snprintf(text, sizeof(text), "7 of 1 in %d: 1000-201000 file 0\n", SYS_fsync);
    expect(text);
}

static void test_an_uninterruptible_sleep_counts_in_any_call_that_is_not_made_to_wait(void **state)
{
    static const int slow[] = {SYS_read, SYS_write, SYS_ioctl, SYS_munmap, SYS_execve, SYS_clone, SYS_recvfrom},
                     waiting[] = {
                         SYS_futex,
                         SYS_flock,
                         SYS_nanosleep,
                         SYS_wait4,
                         SYS_exit_group,
                         SYS_accept4,
                         SYS_pselect6,
                         SYS_io_uring_enter,
                         SYS_waitid,
                         SYS_epoll_pwait,
                         SYS_ppoll,
#if defined(__x86_64__)
                         SYS_poll,
                         SYS_select,
                         SYS_vfork,
                         SYS_epoll_wait,
#endif
                     };
    (void)state;
    for (size_t i = 0; i < array_size(slow); i++)
        expect_slow(RECORDER_UNINTERRUPTIBLE, slow[i], true);
    for (size_t i = 0; i < array_size(waiting); i++)
        expect_slow(RECORDER_UNINTERRUPTIBLE, waiting[i], false);
    expect_slow(RECORDER_UNINTERRUPTIBLE, RECORDER_NO_SYSCALL, false); /* a page fault */
}

static void test_an_interruptible_sleep_counts_in_calls_that_wait_for_no_event(void **state)
{
    static const int slow[] = {SYS_openat, SYS_unlinkat, SYS_fsync, SYS_statx, SYS_connect}, waiting[] = {
        SYS_read,
        SYS_write,
        SYS_recvmsg,
        SYS_sendto,
        SYS_ioctl,
        SYS_epoll_pwait,
        SYS_futex,
        SYS_rt_sigtimedwait,
        SYS_msgrcv,
        SYS_io_getevents,
        SYS_accept,
#if defined(__x86_64__)
        SYS_pause,
        SYS_epoll_wait,
#endif
    };
    (void)state;
    for (size_t i = 0; i < array_size(slow); i++)
        expect_slow(0, slow[i], true);
    for (size_t i = 0; i < array_size(waiting); i++)
        expect_slow(0, waiting[i], false);
}

static void test_threads_that_are_stopped_or_preempted_do_not_count(void **state)
{
    (void)state;
    expect_slow(RECORDER_STOPPED, SYS_openat, false);
    expect_slow(RECORDER_PREEMPTED, SYS_fsync, false);
}

static void test_a_wait_for_the_thread_at_the_other_end_does_not_count(void **state)
{
    char text[64];
    (void)state;
    put_wait_ended_in(0, SYS_openat, 8, SYS_openat); /* of a FIFO */
    put_wait_ended_in(0, SYS_openat, 8, SYS_kill);
    put_switch(1000, 9, 0, 0, SYS_openat, 3);
    put_interrupt_waking(201000, 9, RECORDER_IN_HARDIRQ);
    put_wait_ended_in(RECORDER_UNINTERRUPTIBLE, SYS_clone, 8, SYS_execve);
    put_wait_ended_in(RECORDER_UNINTERRUPTIBLE, SYS_clone3, 8, SYS_exit_group);
    follow(0, 0);
    expect("");
    put_wait_ended_in(RECORDER_UNINTERRUPTIBLE, SYS_openat, 8, SYS_openat); /* for the lock of a directory */
    follow(0, 0);
    snprintf(text, sizeof(text), "7 of 1 in %d: 1000-201000 file 0\n", SYS_openat);
    expect(text);
}

static void test_a_wait_is_followed_across_windows(void **state)
{
    char text[80];
    (void)state;
    put_switch(1000, WORKER, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_MEMSTALL, SYS_write, 3);
    put(1000, RECORDER_FILE, RECORDER_DIRECT, SYS_write, WORKER, FILE_KEY, 0);
    put(1000, RECORDER_FILE, RECORDER_ADDED_PAGES, SYS_write, WORKER, FILE_KEY + 1, 0); /* that it read */
    put(2000, RECORDER_FILE, 0, SYS_write, WORKER, FILE_KEY + 2, 0);                    /* of no switch that is known */
    follow(0, 0);
    follow(50000, 0);
    put_waking(301000, WORKER, JOURNAL, RECORDER_NO_SYSCALL, 0);
    follow(100000, 0);
    snprintf(text, sizeof(text), "7 of 1 in %d: 1000-301000 file %u memory\n", SYS_write, FILE_KEY);
    expect(text);
}

static void test_a_wait_is_forgotten_where_records_are_missing(void **state)
{
    (void)state;
    put_switch(1000, WORKER, 0, RECORDER_UNINTERRUPTIBLE, SYS_fsync, 3);
    follow(0, 0);
    put_switch(55000, 8, 0, RECORDER_UNINTERRUPTIBLE, SYS_fsync, 3); /* before the window is complete */
    put_waking(301000, WORKER, JOURNAL, RECORDER_NO_SYSCALL, 0);
    put_waking(302000, 8, JOURNAL, RECORDER_NO_SYSCALL, 0);
    follow(50000, 60000);
    put_switch(400000, WORKER, 0, RECORDER_UNINTERRUPTIBLE, SYS_fsync, 3);
    follow(350000, 0);
    slow_waits_forget(waits);
    put_waking(700000, WORKER, JOURNAL, RECORDER_NO_SYSCALL, 0);
    follow(650000, 0);
    expect("");
}

static void test_a_thread_that_did_not_sleep_did_not_wait(void **state)
{
    (void)state;
    put_waking(999, WORKER, JOURNAL, RECORDER_NO_SYSCALL, 0); /* before it left its CPU */
    put_switch(1000, WORKER, 0, RECORDER_UNINTERRUPTIBLE, SYS_fsync, 3);
    put_run(150000, WORKER);
    put_switch(160000, WORKER, 0, 0, SYS_futex, 0);
    put_waking(400000, WORKER, JOURNAL, RECORDER_NO_SYSCALL, 0);
    put_switch(500000, WORKER, 0, RECORDER_UNINTERRUPTIBLE, SYS_fsync, 3);
    put_switch(510000, WORKER, 0, 0, SYS_futex, 0); /* its return was not recorded */
    put_waking(800000, WORKER, JOURNAL, RECORDER_NO_SYSCALL, 0);
    follow(0, 0);
    expect("");
}

/* Thread IDs whose slots collide, too: each wait is found again, and none beyond the bound. */
static void test_many_waits_are_bounded_and_counted(void **state)
{
    enum { THREADS = 1500, KEPT = 1024 };
    size_t lines = 0;
    (void)state;
    for (uint32_t i = 0; i < THREADS; i++)
        put_switch(1000 + i, 100 + 256 * i, 0, RECORDER_UNINTERRUPTIBLE, SYS_fsync, 3);
    follow(0, 0);
    assert_int_equal(slow_waits_lost(waits), THREADS - KEPT);
    for (uint32_t i = 0; i < THREADS; i++)
        put_waking(400000 + i, 100 + 256 * i, JOURNAL, RECORDER_NO_SYSCALL, 0);
    follow(350000, 0);
    for (size_t i = 0; i < found.size; i++)
        lines += found.data[i] == '\n';
    assert_int_equal(lines, KEPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_wait_ends_with_the_wake_up, begin, end),
        cmocka_unit_test_setup_teardown(test_an_uninterruptible_sleep_counts_in_any_call_that_is_not_made_to_wait,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_an_interruptible_sleep_counts_in_calls_that_wait_for_no_event, begin, end),
        cmocka_unit_test_setup_teardown(test_threads_that_are_stopped_or_preempted_do_not_count, begin, end),
        cmocka_unit_test_setup_teardown(test_a_wait_for_the_thread_at_the_other_end_does_not_count, begin, end),
        cmocka_unit_test_setup_teardown(test_a_wait_is_followed_across_windows, begin, end),
        cmocka_unit_test_setup_teardown(test_a_wait_is_forgotten_where_records_are_missing, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_that_did_not_sleep_did_not_wait, begin, end),
        cmocka_unit_test_setup_teardown(test_many_waits_are_bounded_and_counted, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
