/* Evidence of critical paths: files that a disk segment waited for, and who ran while a thread waited for a CPU. */
#include "flight_trace.h"

#include "diagnose/path/path_text.h"

#include <stdio.h>

enum { WEIGHTS = 7001, INDEX = 7002, FORGOTTEN = 7003 };

static void name_file(void *context, uint64_t key, struct path_file_name *out)
{
    (void)context;
    if (key == FORGOTTEN)
        return;
    snprintf(out->name, sizeof(out->name), "%s", key == WEIGHTS ? "weights.bin" : "index");
    snprintf(out->file_system, sizeof(out->file_system), "ext4");
}

static void name_device(void *context, uint32_t device, char *out, size_t size)
{
    (void)context;
    if (recorder_device_major(device) == 8)
        snprintf(out, size, "sd%c", 'a' + (int)recorder_device_minor(device) / 16);
}

static void name_interrupt(void *context, uint32_t number, char out[PATH_INTERRUPT_BYTES])
{
    (void)context;
    snprintf(out, PATH_INTERRUPT_BYTES, "%s", number == 3 ? "NET_RX" : "eth0");
}

static void name_cgroup(void *context, uint64_t id, char out[PATH_CGROUP_BYTES])
{
    (void)context;
    snprintf(out, PATH_CGROUP_BYTES, "%s", id == 7 ? "/shop (memory.high 128 MiB)" : "");
}

static bool knows_waits;

static void name_process(void *context, uint32_t pid, char out[PATH_PROCESS_BYTES])
{
    (void)context;
    snprintf(out, PATH_PROCESS_BYTES, "%s", pid == 300 ? "stress" : pid == 400 ? "backup" : pid >= 600 ? "cc1" : "");
}

static void name_thread(void *context, uint32_t tid, char out[PATH_THREAD_BYTES])
{
    (void)context;
    snprintf(out, PATH_THREAD_BYTES, "%s", tid == 400 ? "backup" : "");
}

static void find_samples(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct code_tally *tally)
{
    static const struct code_place places[] = {{.function = "load()", .file = "app.py", .line = 7, .runs = "hash"},
                                               {.runs = "parse < load < handle"},
                                               {.function = "load()", .file = "app.py", .line = 7, .runs = "hash"},
                                               {.function = "load()", .file = "app.py", .line = 9}};
    (void)context;
    for (size_t i = 0; i < array_size(places) && tid == 11 && from_ns == US(100) && to_ns == US(10100); i++)
        code_tally_add(tally, &places[i]);
}

/* Thread 11 waited half of any interval. */
static bool find_wait(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct path_wait *ret)
{
    (void)context;
    *ret = (struct path_wait){(to_ns - from_ns) / 2, " in recv < query", ": sk_wait_data",
                              "sk_wait_data_[k]\nrecv\nquery"};
    return knows_waits && tid == 11;
}

/* Compares the notes of the path's segments of this kind. */
static void expect_notes(enum request_part_kind kind, const char *detail, const char *expected)
{
    const struct path_names names = {.file = name_file,
                                     .device = name_device,
                                     .interrupt = name_interrupt,
                                     .cgroup = name_cgroup,
                                     .thread = name_thread,
                                     .process = name_process,
                                     .samples = find_samples,
                                     .wait = find_wait};
    const struct critical_path_request request = {.socket = R, .start_ns = US(100), .end_ns = US(10100), .tid = 11};
    struct path_segments path;
    struct path_text *text;
    size_t segment_count;
    qsort(records, count, sizeof(records[0]), compare_times);
    const struct flight_window window = {.records = records, .count = count};
    assert_int_equal(find_path_in_window(&window, &request, &path), 0);
    assert_int_equal(path_text_new(&path, 1, 11, &names, &text), 0);
    const struct request_segment *segments = path_text_segments(text, &segment_count);
    size_t found = 0;
    for (size_t i = 0; i < segment_count; i++) {
        if (segments[i].kind != kind)
            continue;
        found++;
        assert_string_equal(segments[i].notes, expected);
        if (detail)
            assert_string_equal(segments[i].detail, detail);
    }
    assert_int_equal(found, 1);
    path_text_free(text);
    path_segments_clear(&path);
}

/* Thread 11 reads R, sleeps for a disk from 1,100 to 9,100 and answers at 10,100. */
static void put_disk_wait(int syscall)
{
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(101, 11, R);
    put_switch(1100, 11, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, syscall, 5);
    put_interrupt_waking(9100, 11, RECORDER_IN_HARDIRQ);
    put_run(9200, 11);
    put_send(10100, 11, R);
}

static void put_file(uint64_t us, uint32_t tid, unsigned flags, int syscall, uint64_t file, uint64_t page,
                     uint64_t pages)
{
    put(us, RECORDER_FILE, flags, syscall, tid, file, recorder_pages(page, pages));
}

static void test_pages_that_were_read(void **state)
{
    (void)state;
    put_disk_wait(SYS_pread64);
    put_file(1100, 11, 0, SYS_pread64, WEIGHTS, 16, 4);
    put_file(1100, 11, RECORDER_ADDED_PAGES, SYS_pread64, WEIGHTS, 16, 256);
    expect_notes(REQUEST_PART_DISK, "pread64 of weights.bin (ext4)",
                 "weights.bin (ext4): 1.00 MiB at offset 65536, 125 MiB/s");
}

/* A call need not wait for all the pages that it asks for: they have no rate. */
static void test_what_was_asked_for(void **state)
{
    (void)state;
    put_disk_wait(SYS_pread64);
    put_file(1100, 11, 0, SYS_pread64, WEIGHTS, 0, 256);
    expect_notes(REQUEST_PART_DISK, "pread64 of weights.bin (ext4)",
                 "weights.bin (ext4): asked for 1.00 MiB at offset 0");
}

static void test_direct_read(void **state)
{
    (void)state;
    put_disk_wait(SYS_read);
    put_file(1100, 11, RECORDER_DIRECT, SYS_read, WEIGHTS, 0, 256);
    expect_notes(REQUEST_PART_DISK, "read of weights.bin (ext4)",
                 "weights.bin (ext4): 1.00 MiB at offset 0, 125 MiB/s");
}

static void test_page_fault_is_inferred(void **state)
{
    (void)state;
    put_disk_wait(RECORDER_NO_SYSCALL);
    put_file(1100, 11, RECORDER_ADDED_PAGES, RECORDER_NO_SYSCALL, WEIGHTS, 1, 1);
    expect_notes(REQUEST_PART_DISK, "page fault", "weights.bin (ext4): 4.00 KiB at offset 4096, 500 KiB/s (inferred)");
}

static void test_call_without_a_range(void **state)
{
    (void)state;
    put_disk_wait(SYS_fsync);
    put_file(1100, 11, 0, SYS_fsync, INDEX, 0, 0);
    expect_notes(REQUEST_PART_DISK, "fsync of index (ext4)", "index (ext4)");
}

static void put_request(uint64_t us, uint32_t tid, unsigned flags, uint32_t device, uint32_t bytes, uint32_t queue_us,
                        uint32_t device_us)
{
    put(us, RECORDER_DISK, flags, RECORDER_NO_SYSCALL, tid, (uint64_t)device << 32 | bytes / 512,
        (uint64_t)device_us << 32 | queue_us);
}

enum { SDA = 8 << 20, SDB = 8 << 20 | 16, UNNAMED = 259 << 20 | 1 };

static void test_time_at_the_device(void **state)
{
    (void)state;
    put_disk_wait(SYS_pread64);
    put_request(5100, 11, 0, SDA, 4096, 1000, 2000);
    put_request(9090, 11, 0, SDA, 4096, 1000, 2990);
    put_request(1000, 11, 0, SDA, 4096, 0, 10);  /* before */
    put_request(9500, 11, 0, SDA, 4096, 0, 100); /* behind it */
    expect_notes(REQUEST_PART_DISK, "pread64",
                 "sda: 2 requests, 8.00 KiB, 3.50 ms each: 1.00 ms queued, 2.50 ms at the device");
}

static void test_who_else_used_the_disk(void **state)
{
    (void)state;
    put_disk_wait(SYS_pread64);
    put(60, RECORDER_SWITCH, 0, RECORDER_NO_SYSCALL, 300, 0, 300ull << 32);
    put_request(9090, 11, 0, SDA, 4096, 7000, 500);
    for (uint64_t i = 0; i < 10; i++)
        put_request(1200 + i * 700, 300, RECORDER_DISK_WRITES, SDA, 1 << 20, 0, 700);
    put_request(3000, 400, RECORDER_DISK_FAILED, SDA, 512, 0, 100);
    put_request(3000, 300, 0, SDB, 4096, 0, 100); /* another disk */
    expect_notes(REQUEST_PART_DISK, "pread64",
                 "sda: 1 request, 4.00 KiB, 7.50 ms: 7.00 ms queued, 500 us at the device\n"
                 "on sda meanwhile: stress (process 300) 10 requests, 10.0 MiB, 700 us each; "
                 "backup (thread 400) 1 request, 512 B, 100 us, 1 failed");
}

/* fsync waits for requests that threads of the kernel hand in. */
static void test_requests_of_others_only(void **state)
{
    (void)state;
    put_disk_wait(SYS_fsync);
    put_request(3000, 77, RECORDER_DISK_WRITES, UNNAMED, 8192, 0, 1000);
    expect_notes(REQUEST_PART_DISK, "fsync", "on device 259:1 meanwhile: thread 77 1 request, 8.00 KiB, 1.00 ms");
}

static void test_name_that_is_gone(void **state)
{
    (void)state;
    put_disk_wait(SYS_read);
    put_file(1100, 11, 0, SYS_read, FORGOTTEN, 0, 1);
    expect_notes(REQUEST_PART_DISK, "read", "a file whose name is no longer known: asked for 4.00 KiB at offset 0");
}

/* Neither another thread's file, nor one that this thread waited for at another time. */
static void test_files_of_others(void **state)
{
    (void)state;
    put_disk_wait(SYS_read);
    put_file(1100, 12, 0, SYS_read, WEIGHTS, 0, 1);
    put_file(1099, 11, 0, SYS_read, WEIGHTS, 0, 1);
    put_file(9100, 11, 0, SYS_read, WEIGHTS, 0, 1);
    expect_notes(REQUEST_PART_DISK, "read", "");
}

/* Many waits that are shown as one: a page that was asked for twice counts once. */
static void test_waits_add_up(void **state)
{
    (void)state;
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(101, 11, R);
    for (uint64_t i = 0; i < 64; i++) {
        const uint64_t at = 101 + i * 156;
        put_switch(at + 1, 11, 0, RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT, SYS_read, 5);
        put_file(at + 1, 11, RECORDER_ADDED_PAGES, SYS_read, WEIGHTS, i / 2, 1);
        put_file(at + 1, 11, RECORDER_ADDED_PAGES, SYS_read, INDEX, 1000 + 2 * (i / 32), 1);
        put_interrupt_waking(at + 155, 11, RECORDER_IN_HARDIRQ);
        put_run(at + 156, 11);
    }
    put_send(10100, 11, R);
    expect_notes(REQUEST_PART_DISK, NULL,
                 "weights.bin (ext4): 128 KiB at offset 0, 12.5 MiB/s\nindex (ext4): 8.00 KiB in 2 places, 800 KiB/s");
}

/* Thread 11 is woken at 1,100 and gets its CPU at 9,100. */
static void put_queued(void)
{
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(101, 11, R);
    put_sleep(200, 11, SYS_nanosleep, 0);
    put_interrupt_waking(1100, 11, RECORDER_IN_HARDIRQ);
    put_send(10100, 11, R);
}

static void test_who_ran_instead(void **state)
{
    (void)state;
    put_queued();
    put_switch(500, 0, 300, 0, RECORDER_NO_SYSCALL, 0);
    put_switch(3100, 300, 400, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(5100, 400, 300, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(7100, 300, 12, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(7900, 12, 500, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(9100, 500, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    expect_notes(
        REQUEST_PART_RUN_QUEUE, NULL,
        "the CPU ran stress (process 300) for 50 % of the wait, backup (process 400) 25 %, process 500 15 %, its own process 10 %");
}

/* A compiler starts a process for each file. */
static void test_programs_that_ran_are_summed_up(void **state)
{
    (void)state;
    put_queued();
    put_switch(500, 0, 400, 0, RECORDER_NO_SYSCALL, 0);
    put_switch(3100, 400, 601, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(4100, 601, 602, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(6100, 602, 501, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(7100, 501, 502, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(7500, 502, 603, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_switch(9100, 603, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    expect_notes(REQUEST_PART_RUN_QUEUE, NULL,
                 "the CPU ran cc1 (3 processes) for 58 % of the wait, backup (process 400) 25 %, "
                 "2 processes whose names are not known 18 %");
}

/* Who ran before the CPU was idle is not known to have run on that CPU. */
static void test_idle_cpu(void **state)
{
    (void)state;
    put_queued();
    put_switch(500, 0, 300, 0, RECORDER_NO_SYSCALL, 0);
    put_switch(3100, 300, 0, 0, SYS_read, 0);
    put_switch(5100, 0, 400, 0, RECORDER_NO_SYSCALL, 0);
    put_switch(9100, 400, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    expect_notes(REQUEST_PART_RUN_QUEUE, NULL, "the CPU ran backup (process 400) for 50 % of the wait");
}

/* Softirqs ran in ksoftirqd, or interrupted the thread that had the CPU. */
static void test_softirqs_on_the_awaited_cpu(void **state)
{
    (void)state;
    put_queued();
    put_switch(500, 0, 300, 0, RECORDER_NO_SYSCALL, 0);
    put_interrupt(2100, 300, 3, 2000);
    put_interrupt(2900, 12, 3, 800); /* on another CPU */
    put_switch(3100, 300, 400, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_interrupt(6100, 400, 3, 2500);
    put_interrupt(9000, 400, 20, 1500);
    put_switch(9100, 400, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    expect_notes(REQUEST_PART_RUN_QUEUE, NULL,
                 "the CPU ran backup (process 400) for 75 % of the wait, stress (process 300) 25 %\n"
                 "CPU 1 ran NET_RX for 3.50 ms\n"
                 "CPU 1 ran eth0 for 1.50 ms");
}

/* A softirq on an idle CPU, which then went on to the thread; and one on another idle CPU. */
static void test_a_softirq_on_an_idle_cpu(void **state)
{
    (void)state;
    put_queued();
    put_interrupt(8000, 0, 3, 7900);
    put_interrupt(9090, 0, 3, 7990);
    put_run(9100, 11);
    expect_notes(REQUEST_PART_RUN_QUEUE, NULL, "CPU 1 ran NET_RX for 7.99 ms");
}

static void test_a_softirq_on_a_running_thread(void **state)
{
    (void)state;
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(101, 11, R);
    put_interrupt(9000, 11, 3, 7900);
    put_send(10100, 11, R);
    expect_notes(REQUEST_PART_OTHER, "CPU 1 ran NET_RX", "");
}

static void put_reclaiming(unsigned kind)
{
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(101, 11, R);
    put_reclaim(9000, 11, kind, 7900);
    put_send(10100, 11, R);
}

static void test_reclaim_names_its_cgroup_and_limit(void **state)
{
    (void)state;
    put_reclaiming(RECLAIM_LIMIT);
    expect_notes(REQUEST_PART_OTHER, "in direct reclaim of cgroup /shop (memory.high 128 MiB)", "");
}

static void test_reclaim_and_compaction_of_the_node(void **state)
{
    put_reclaiming(RECLAIM_NODE);
    expect_notes(REQUEST_PART_OTHER, "in direct reclaim of the node's memory", "");
    start_trace(state);
    put_reclaiming(RECLAIM_COMPACTION);
    expect_notes(REQUEST_PART_OTHER, "in compaction of the node's memory", "");
}

/* Thread 12 holds the lock that thread 11 waits for. */
static void test_the_holder_of_a_lock_reclaims(void **state)
{
    (void)state;
    put_run(40, 12);
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(101, 11, R);
    put_sleep(1100, 11, SYS_futex, 0x4000);
    put_reclaim(5000, 12, RECLAIM_LIMIT, 2000);
    put_reclaim(7000, 12, RECLAIM_LIMIT, 1000);
    put_waking(9100, 11, 12, SYS_futex, 0x4000);
    put_run(9101, 11);
    put_send(10100, 11, R);
    expect_notes(REQUEST_PART_LOCK, NULL, "3.00 ms of it in direct reclaim of cgroup /shop (memory.high 128 MiB)");
}

/* A program that ran for less than a hundredth of the wait explains nothing. */
static void test_short_runs(void **state)
{
    (void)state;
    put_queued();
    put_switch(500, 0, 300, 0, RECORDER_NO_SYSCALL, 0);
    put_switch(3100, 300, 0, 0, SYS_read, 0);
    put_switch(9060, 0, 400, 0, RECORDER_NO_SYSCALL, 0);
    put_switch(9100, 400, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    expect_notes(REQUEST_PART_RUN_QUEUE, NULL, "");
}

/* It waited for its quota, whatever ran meanwhile. */
static void test_quota(void **state)
{
    (void)state;
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(101, 11, R);
    put_switch(1100, 11, 300, RECORDER_PREEMPTED | RECORDER_THROTTLED, RECORDER_NO_SYSCALL, 0);
    put_switch(9100, 300, 11, RECORDER_PREEMPTED, RECORDER_NO_SYSCALL, 0);
    put_send(10100, 11, R);
    expect_notes(REQUEST_PART_RUN_QUEUE, "its cgroup's CPU quota was used up", "");
}

static void test_nobody_ran(void **state)
{
    (void)state;
    put_queued();
    put_run(9100, 11);
    expect_notes(REQUEST_PART_RUN_QUEUE, NULL, "");
}

static void test_samples_of_a_cpu_segment(void **state)
{
    (void)state;
    put_run(50, 11);
    put_arrival(100, R);
    put_receive(101, 11, R);
    put_send(10100, 11, R);
    expect_notes(REQUEST_PART_CPU, NULL, "3 of 4 CPU samples are in load() app.py:7, running hash");
}

static void test_wait_of_a_segment(void **state)
{
    (void)state;
    put_disk_wait(SYS_pread64);
    put_file(1100, 11, RECORDER_ADDED_PAGES, SYS_pread64, WEIGHTS, 16, 256);
    knows_waits = true;
    expect_notes(REQUEST_PART_DISK, NULL,
                 "weights.bin (ext4): 1.00 MiB at offset 65536, 125 MiB/s\nthread 11 waited 4.00 ms in recv < query");
    knows_waits = false;
}

/* A thread that runs, or is ready to, does not wait for anything. */
static void test_no_wait_where_a_thread_is_ready(void **state)
{
    (void)state;
    put_queued();
    put_run(9100, 11);
    knows_waits = true;
    expect_notes(REQUEST_PART_RUN_QUEUE, NULL, "");
    knows_waits = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_pages_that_were_read, start_trace),
        cmocka_unit_test_setup(test_what_was_asked_for, start_trace),
        cmocka_unit_test_setup(test_direct_read, start_trace),
        cmocka_unit_test_setup(test_page_fault_is_inferred, start_trace),
        cmocka_unit_test_setup(test_call_without_a_range, start_trace),
        cmocka_unit_test_setup(test_time_at_the_device, start_trace),
        cmocka_unit_test_setup(test_who_else_used_the_disk, start_trace),
        cmocka_unit_test_setup(test_requests_of_others_only, start_trace),
        cmocka_unit_test_setup(test_name_that_is_gone, start_trace),
        cmocka_unit_test_setup(test_files_of_others, start_trace),
        cmocka_unit_test_setup(test_waits_add_up, start_trace),
        cmocka_unit_test_setup(test_who_ran_instead, start_trace),
        cmocka_unit_test_setup(test_programs_that_ran_are_summed_up, start_trace),
        cmocka_unit_test_setup(test_idle_cpu, start_trace),
        cmocka_unit_test_setup(test_softirqs_on_the_awaited_cpu, start_trace),
        cmocka_unit_test_setup(test_a_softirq_on_an_idle_cpu, start_trace),
        cmocka_unit_test_setup(test_a_softirq_on_a_running_thread, start_trace),
        cmocka_unit_test_setup(test_reclaim_names_its_cgroup_and_limit, start_trace),
        cmocka_unit_test_setup(test_reclaim_and_compaction_of_the_node, start_trace),
        cmocka_unit_test_setup(test_the_holder_of_a_lock_reclaims, start_trace),
        cmocka_unit_test_setup(test_short_runs, start_trace),
        cmocka_unit_test_setup(test_quota, start_trace),
        cmocka_unit_test_setup(test_nobody_ran, start_trace),
        cmocka_unit_test_setup(test_samples_of_a_cpu_segment, start_trace),
        cmocka_unit_test_setup(test_wait_of_a_segment, start_trace),
        cmocka_unit_test_setup(test_no_wait_where_a_thread_is_ready, start_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
