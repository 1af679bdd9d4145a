/* Which waits were for reads by other threads. */
#include "diagnose/path/read_waits.h"

#include "flight_trace.h"

enum { CONSUMER = 1, LOADER = 2, OTHER_LOADER = 3, STRANGER = 500, DEVICE = 0 };

#define FILE_KEY 77ull

static bool is_first_process(void *context, uint32_t pid)
{
    (void)context;
    return pid == 1;
}

/* By a window that has the records since `first`. */
static void add_window(struct read_waits *w, uint64_t first_us, uint64_t from_us, uint64_t to_us)
{
    _cleanup_(flight_index_freep) struct flight_index *index = NULL;
    struct flight_window window = {records, count, US(complete_from_us > first_us ? complete_from_us : first_us)};
    qsort(records, count, sizeof(records[0]), compare_times);
    while (window.count && window.records->time_ns < US(first_us)) {
        window.records++;
        window.count--;
    }
    assert_int_equal(flight_index_new(&window, &index), 0);
    read_waits_add(w, index, US(from_us), US(to_us), is_first_process, NULL);
}

static void add_between(struct read_waits *w, uint64_t from_us, uint64_t to_us)
{
    add_window(w, 0, from_us, to_us);
}

static struct read_waits *sum_up_to(uint64_t to_us)
{
    struct read_waits *w;
    assert_int_equal(read_waits_new(&w), 0);
    add_between(w, 0, to_us);
    return w;
}

/* All zero if the thread is not known. Times in microseconds. */
static struct read_waits_thread thread_in(const struct read_waits *w, uint32_t tid)
{
    size_t n;
    const struct read_waits_thread *threads = read_waits_threads(w, &n);
    for (size_t i = 0; i < n; i++)
        if (threads[i].tid == tid)
            return (struct read_waits_thread){tid,
                                              threads[i].pid,
                                              threads[i].ran_ns / 1000,
                                              threads[i].for_reads_ns / 1000,
                                              threads[i].inferred_ns / 1000,
                                              threads[i].unknown_ns / 1000};
    return (struct read_waits_thread){0};
}

static void expect_waits(const struct read_waits *w, uint32_t tid, uint64_t for_reads_us, uint64_t unknown_us)
{
    assert_int_equal(thread_in(w, tid).for_reads_ns, for_reads_us);
    assert_int_equal(thread_in(w, tid).unknown_ns, unknown_us);
}

/* A thread reads: sleeps for a disk until an interrupt wakes it. */
static void put_sleep_in_call(uint64_t from_us, uint64_t to_us, uint32_t tid, int syscall, unsigned flags,
                              bool has_file)
{
    put_switch(from_us, tid, 0, flags, syscall, 5);
    if (has_file)
        put(from_us, RECORDER_FILE, syscall == RECORDER_NO_SYSCALL ? RECORDER_ADDED_PAGES : 0, syscall, tid, FILE_KEY,
            0);
    put_interrupt_waking(to_us, tid, RECORDER_IN_HARDIRQ);
    put_run(to_us, tid);
}

static void put_read(uint64_t from_us, uint64_t to_us, uint32_t tid)
{
    put_sleep_in_call(from_us, to_us, tid, SYS_pread64, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, true);
}

/* Waits from `from` until `waker` wakes it at `to`. */
static void put_wait_for(uint64_t from_us, uint64_t to_us, uint32_t tid, uint32_t waker)
{
    put_sleep(from_us, tid, SYS_futex, 0x1000);
    put_waking(to_us, tid, waker, SYS_futex, 0x1000);
    put_run(to_us, tid);
}

static void test_time_of_the_read_counts(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_read(200, 700, LOADER); /* then computes until 900 */
    put_sleep(1000, LOADER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    size_t n;
    expect_waits(w, CONSUMER, 500, 0);
    assert_int_equal(thread_in(w, LOADER).for_reads_ns, 0); /* its own */
    const struct read_waits_pair *pairs = read_waits_pairs(w, &n);
    assert_int_equal(n, 1);
    assert_int_equal(pairs[0].tid, CONSUMER);
    assert_int_equal(pairs[0].reader, LOADER);
    assert_int_equal(pairs[0].reader_pid, 1);
    assert_int_equal(pairs[0].ns, 500000);
    bool is_complete;
    const struct read_waits_file *files = read_waits_files(w, &n, &is_complete);
    assert_int_equal(n, 1);
    assert_true(is_complete);
    assert_int_equal(files[0].file, FILE_KEY);
    assert_int_equal(files[0].tid, CONSUMER);
    assert_int_equal(files[0].reader_pid, 1);
    assert_int_equal(files[0].ns, 500000);
    assert_int_equal(read_waits_observed_ns(w), US(2000) - US(0));
}

static void test_read_that_began_before_the_wait(void **state)
{
    (void)state;
    put_read(50, 700, LOADER);
    put_wait_for(300, 800, CONSUMER, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 400, 0);
}

static void test_several_reads_in_one_wait(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_read(150, 250, LOADER);
    put_read(300, 400, LOADER);
    put_read(650, 850, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 400, 0);
}

/* The loader passes its batch on to a thread that passes it on to the consumer. */
static void test_thread_in_between(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, OTHER_LOADER);
    put_wait_for(110, 850, OTHER_LOADER, LOADER);
    put_read(200, 800, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 600, 0);
    assert_int_equal(thread_in(w, OTHER_LOADER).for_reads_ns, 600);
}

/* The loader waits shortly for a thread that did something else before: the loader's own earlier activity counts. For
 * example, a server closes a file for it that it has just read. */
static void test_before_a_wait_of_the_waker(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_read(150, 700, LOADER);
    put_sleep(750, LOADER, SYS_close, 7);
    put_sleep_in_call(300, 500, STRANGER, SYS_nanosleep, 0, false);
    put_waking(800, LOADER, STRANGER, SYS_write, 3);
    put_run(800, LOADER);
    put_sleep(850, STRANGER, SYS_read, 3);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 550, 0);
}

/* What cannot be followed is only that wait of the loader's. */
static void test_unknown_wait_of_the_waker(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_read(150, 500, LOADER);
    put_sleep(600, LOADER, SYS_futex, 0x2000);
    put(700, RECORDER_WAKING, 0, SYS_futex, LOADER, 0x2000, 0);
    put_run(700, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 350, 100);
}

static void test_other_work_of_the_loader_does_not_count(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_sleep_in_call(150, 250, LOADER, SYS_fsync, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, true);
    put_sleep_in_call(300, 400, LOADER, SYS_pwrite64, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, true);
    put_sleep_in_call(450, 500, LOADER, SYS_nanosleep, 0, false);
    put_sleep_in_call(550, 600, LOADER, SYS_read, 0, false); /* of a pipe or terminal */
    put_switch(650, LOADER, STRANGER, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(700, STRANGER, LOADER, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

static void test_calls_that_find_files_count(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_sleep_in_call(150, 250, LOADER, SYS_openat, 0, false);
    put_sleep_in_call(300, 400, LOADER, SYS_statx, RECORDER_UNINTERRUPTIBLE, false);
    put_sleep_in_call(450, 550, LOADER, SYS_getdents64, RECORDER_UNINTERRUPTIBLE, true);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 300, 0);
}

static void test_page_faults_count_if_they_read(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_sleep_in_call(150, 250, LOADER, RECORDER_NO_SYSCALL, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, true);
    put_sleep_in_call(300, 400, LOADER, RECORDER_NO_SYSCALL, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, false);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 100, 0);
}

/* As the call of a read() of FUSE does, whose sleep is an ordinary one. */
static void test_ordinary_sleep_in_a_read_of_a_file(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_sleep_in_call(150, 250, LOADER, SYS_read, 0, true);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 100, 0);
}

static void test_stopped_in_a_read(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_sleep_in_call(150, 250, LOADER, SYS_pread64, RECORDER_STOPPED, true);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

/* Some kernels do not say which file. */
static void test_disk_without_a_file(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_sleep_in_call(150, 250, LOADER, SYS_read, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, false);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 100, 0);
}

/* On an overlayfs the pages belong to another file. */
static void test_file_is_that_of_the_call(void **state)
{
    (void)state;
    size_t n;
    bool is_complete;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_read(200, 700, LOADER);
    put(200, RECORDER_FILE, RECORDER_ADDED_PAGES, SYS_pread64, LOADER, FILE_KEY + 1, 0);
    put(710, RECORDER_FILE, RECORDER_ADDED_PAGES, SYS_pread64, LOADER, FILE_KEY + 1, 0);
    put_read(710, 720, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    assert_int_equal(read_waits_files(w, &n, &is_complete)[0].file, FILE_KEY);
    assert_int_equal(n, 1);
}

/* As of FUSE, whose daemon wakes the reader. */
static void test_own_read_that_a_thread_ends(void **state)
{
    (void)state;
    put_switch(100, CONSUMER, 0, 0, SYS_read, 5);
    put(100, RECORDER_FILE, 0, SYS_read, CONSUMER, FILE_KEY, 0);
    put_read(200, 700, STRANGER);
    put_waking(800, CONSUMER, STRANGER, SYS_write, 3);
    put_run(800, CONSUMER);
    put_sleep(900, STRANGER, SYS_read, 3);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

static void test_own_reads_are_no_waits_for_others(void **state)
{
    (void)state;
    put_read(100, 900, CONSUMER);
    put_sleep(1000, CONSUMER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

static void test_timers_and_the_network_are_known_waits(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_futex, 0x1000);
    put_interrupt_waking(400, CONSUMER, RECORDER_IN_HARDIRQ);
    put_run(400, CONSUMER);
    put_sleep(500, CONSUMER, SYS_read, 7);
    put_interrupt_waking(600, CONSUMER, RECORDER_IN_SOFTIRQ); /* CLIENT was interrupted, which is of another process */
    put_run(600, CONSUMER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

/* The consumer receives; a packet wakes it that interrupts the loader, in system call `interrupted`. */
static void put_wake_up_by_packet(int interrupted, uint32_t loader)
{
    put_sleep(100, CONSUMER, SYS_recvfrom, 7);
    put_read(200, 700, loader);
    put(800, RECORDER_WAKING, RECORDER_IN_SOFTIRQ, interrupted, CONSUMER, 0,
        (uint64_t)process_of(loader) << 32 | loader);
    put_run(800, CONSUMER);
    put_sleep(900, loader, SYS_futex, 1);
}

/* Over loopback the sender itself is interrupted. */
static void test_sender_over_tcp_is_inferred(void **state)
{
    (void)state;
    put_wake_up_by_packet(SYS_sendto, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 500, 0);
    assert_int_equal(thread_in(w, CONSUMER).inferred_ns, 500);
}

/* Packets from another node interrupt any thread. */
static void test_packets_of_other_nodes(void **state)
{
    (void)state;
    put_wake_up_by_packet(RECORDER_NO_SYSCALL, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

static void test_packets_that_interrupt_other_processes(void **state)
{
    (void)state;
    put_wake_up_by_packet(SYS_sendto, STRANGER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

/* What rests on an inference is inferred. */
static void test_reader_behind_an_inferred_sender(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_recvfrom, 7);
    put_wait_for(150, 750, LOADER, OTHER_LOADER);
    put_read(200, 700, OTHER_LOADER);
    put(800, RECORDER_WAKING, RECORDER_IN_SOFTIRQ, SYS_sendto, CONSUMER, 0, 1ull << 32 | LOADER);
    put_run(800, CONSUMER);
    put_sleep(900, LOADER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 500, 0);
    assert_int_equal(thread_in(w, CONSUMER).inferred_ns, 500);
}

/* Kernels before 5.15 do not mark wake-ups by interrupts: a timer seems to be the thread that it interrupts. */
static void test_timer_without_the_mark_of_an_interrupt(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_clock_nanosleep, 0);
    put_read(200, 700, LOADER);
    put_waking(800, CONSUMER, LOADER, RECORDER_NO_SYSCALL, 0);
    put_run(800, CONSUMER);
    put_sleep(900, LOADER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

/* As a shell waits for the programs that it starts. */
static void test_end_of_a_child_is_no_data(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_wait4, 0);
    put_read(200, 700, STRANGER);
    put_waking(800, CONSUMER, STRANGER, SYS_exit_group, 0);
    put_run(800, CONSUMER);
    put_sleep(900, STRANGER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 0);
}

/* The next window no longer has the switches that put the two threads to sleep: the time before it is unknown. */
static void test_wait_longer_than_a_window(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_futex, 0x1000);
    put_read(200, 1700, LOADER);
    put_waking(1800, CONSUMER, LOADER, SYS_futex, 0x1000);
    put_run(1800, CONSUMER);
    put_sleep(1900, LOADER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(1000);
    add_window(w, 600, 1000, 2000);
    expect_waits(w, CONSUMER, 1100, 500);
}

/* The same of a wait for a read of its own, as of a server that hangs. */
static void test_own_read_longer_than_a_window(void **state)
{
    (void)state;
    put_sleep_in_call(100, 1700, CONSUMER, SYS_read, 0, true);
    put_sleep(1900, CONSUMER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(1000);
    add_window(w, 600, 1000, 2000);
    expect_waits(w, CONSUMER, 0, 0);
}

/* It may have run and slept again where nothing was recorded. */
static void test_nothing_is_known_over_a_gap(void **state)
{
    (void)state;
    put_read(100, 1700, CONSUMER);
    put_sleep(1900, CONSUMER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(500);
    add_window(w, 600, 600, 2000);
    expect_waits(w, CONSUMER, 0, 1100);
}

/* Another process gets the thread's ID, and only begins in the third window. */
static void test_thread_that_ends_is_forgotten(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_futex, 0x1000);
    put_waking(1100, CONSUMER, STRANGER, SYS_futex, 0x1000);
    put_run(1100, CONSUMER);
    put_switch(1200, CONSUMER, 0, RECORDER_DEAD, RECORDER_NO_SYSCALL, 0);
    put_waking(2100, CONSUMER, STRANGER, SYS_clone, 0);
    put_run(2100, CONSUMER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(1000);
    add_window(w, 600, 1000, 2000);
    add_window(w, 2000, 2000, 3000);
    assert_int_equal(thread_in(w, CONSUMER).ran_ns, 200);
}

/* In the second window it only wakes up, which does not say whose thread it is. */
static void test_process_of_a_thread_is_known_from_the_last_window(void **state)
{
    (void)state;
    put_wait_for(100, 1800, CONSUMER, LOADER);
    put_read(200, 1700, LOADER);
    put_sleep(1900, LOADER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(1000);
    add_window(w, 600, 1000, 2000);
    assert_int_equal(thread_in(w, CONSUMER).for_reads_ns, 1100);
}

static void test_waits_count_once(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_read(200, 700, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(900);
    add_between(w, 900, 2000);
    expect_waits(w, CONSUMER, 500, 0);
    assert_int_equal(read_waits_observed_ns(w), US(2000) - US(0));
}

/* A wait that ends in this part has begun in an earlier one. */
static void test_wait_from_an_earlier_part(void **state)
{
    (void)state;
    struct read_waits *w;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_read(200, 700, LOADER);
    assert_int_equal(read_waits_new(&w), 0);
    add_between(w, 0, 600);
    expect_waits(w, CONSUMER, 0, 0);
    add_between(w, 600, 2000);
    expect_waits(w, CONSUMER, 500, 0);
    read_waits_free(w);
}

static void test_what_is_not_recorded_is_unknown(void **state)
{
    (void)state;
    complete_from_us = 400;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_read(200, 700, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 300, 300);
    assert_int_equal(read_waits_observed_ns(w), US(2000) - US(400));
}

/* Nothing is recorded of the waker. */
static void test_unknown_waker(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_futex, 0x1000);
    put(900, RECORDER_WAKING, 0, SYS_futex, CONSUMER, 0x1000, 0);
    put_run(900, CONSUMER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 800);
}

/* A loader reads before it creates the thread that goes on. */
static void test_thread_that_is_created_meanwhile(void **state)
{
    (void)state;
    put_wait_for(100, 900, CONSUMER, LOADER);
    put_waking(400, LOADER, OTHER_LOADER, SYS_clone, 0);
    put_run(400, LOADER);
    put_read(500, 800, LOADER);
    put_read(200, 300, OTHER_LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 400, 0);
    expect_waits(w, LOADER, 0, 0); /* it did not wait */
}

static void test_other_processes_do_not_count(void **state)
{
    (void)state;
    put_wait_for(100, 900, STRANGER, LOADER);
    put_read(200, 700, LOADER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    assert_int_equal(thread_in(w, STRANGER).tid, 0);
    expect_waits(w, STRANGER, 0, 0);
}

/* But they may read for the selected ones: the loader of another process. */
static void test_reader_of_another_process(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_read, 7); /* a pipe */
    put_read(200, 700, STRANGER);
    put_waking(800, CONSUMER, STRANGER, SYS_write, 8);
    put_run(800, CONSUMER);
    put_sleep(900, STRANGER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    size_t n;
    expect_waits(w, CONSUMER, 500, 0);
    assert_int_equal(read_waits_pairs(w, &n)[0].reader_pid, STRANGER);
}

static void test_cpu_time_of_threads(void **state)
{
    (void)state;
    put_run(100, CONSUMER);
    put_sleep(400, CONSUMER, SYS_futex, 0x1000);
    put_waking(500, CONSUMER, STRANGER, SYS_futex, 0x1000);
    put_run(600, CONSUMER);
    put_sleep(700, CONSUMER, SYS_futex, 0x1000);
    put_run(1900, CONSUMER);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(650);
    assert_int_equal(thread_in(w, CONSUMER).ran_ns, 350);
    add_between(w, 650, 2000);
    assert_int_equal(thread_in(w, CONSUMER).ran_ns, 500);
}

/* Two loaders that wait for each other, as far as their records show. */
static void test_wakers_in_a_circle_end(void **state)
{
    (void)state;
    put_sleep(100, CONSUMER, SYS_futex, 1);
    put_sleep(100, LOADER, SYS_futex, 1);
    put_sleep(100, OTHER_LOADER, SYS_futex, 1);
    put_waking(500, LOADER, OTHER_LOADER, SYS_futex, 1);
    put_waking(500, OTHER_LOADER, LOADER, SYS_futex, 1);
    put_waking(500, CONSUMER, LOADER, SYS_futex, 1);
    _cleanup_(read_waits_freep) struct read_waits *w = sum_up_to(2000);
    expect_waits(w, CONSUMER, 0, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_time_of_the_read_counts, start_trace),
        cmocka_unit_test_setup(test_read_that_began_before_the_wait, start_trace),
        cmocka_unit_test_setup(test_several_reads_in_one_wait, start_trace),
        cmocka_unit_test_setup(test_thread_in_between, start_trace),
        cmocka_unit_test_setup(test_before_a_wait_of_the_waker, start_trace),
        cmocka_unit_test_setup(test_unknown_wait_of_the_waker, start_trace),
        cmocka_unit_test_setup(test_other_work_of_the_loader_does_not_count, start_trace),
        cmocka_unit_test_setup(test_calls_that_find_files_count, start_trace),
        cmocka_unit_test_setup(test_page_faults_count_if_they_read, start_trace),
        cmocka_unit_test_setup(test_ordinary_sleep_in_a_read_of_a_file, start_trace),
        cmocka_unit_test_setup(test_own_reads_are_no_waits_for_others, start_trace),
        cmocka_unit_test_setup(test_timers_and_the_network_are_known_waits, start_trace),
        cmocka_unit_test_setup(test_sender_over_tcp_is_inferred, start_trace),
        cmocka_unit_test_setup(test_packets_of_other_nodes, start_trace),
        cmocka_unit_test_setup(test_timer_without_the_mark_of_an_interrupt, start_trace),
        cmocka_unit_test_setup(test_end_of_a_child_is_no_data, start_trace),
        cmocka_unit_test_setup(test_wait_longer_than_a_window, start_trace),
        cmocka_unit_test_setup(test_own_read_longer_than_a_window, start_trace),
        cmocka_unit_test_setup(test_nothing_is_known_over_a_gap, start_trace),
        cmocka_unit_test_setup(test_process_of_a_thread_is_known_from_the_last_window, start_trace),
        cmocka_unit_test_setup(test_stopped_in_a_read, start_trace),
        cmocka_unit_test_setup(test_disk_without_a_file, start_trace),
        cmocka_unit_test_setup(test_file_is_that_of_the_call, start_trace),
        cmocka_unit_test_setup(test_own_read_that_a_thread_ends, start_trace),
        cmocka_unit_test_setup(test_packets_that_interrupt_other_processes, start_trace),
        cmocka_unit_test_setup(test_reader_behind_an_inferred_sender, start_trace),
        cmocka_unit_test_setup(test_thread_that_ends_is_forgotten, start_trace),
        cmocka_unit_test_setup(test_waits_count_once, start_trace),
        cmocka_unit_test_setup(test_wait_from_an_earlier_part, start_trace),
        cmocka_unit_test_setup(test_what_is_not_recorded_is_unknown, start_trace),
        cmocka_unit_test_setup(test_unknown_waker, start_trace),
        cmocka_unit_test_setup(test_thread_that_is_created_meanwhile, start_trace),
        cmocka_unit_test_setup(test_other_processes_do_not_count, start_trace),
        cmocka_unit_test_setup(test_reader_of_another_process, start_trace),
        cmocka_unit_test_setup(test_cpu_time_of_threads, start_trace),
        cmocka_unit_test_setup(test_wakers_in_a_circle_end, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
