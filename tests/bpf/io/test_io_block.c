/* Requests of block devices against what this program does with loop devices of its own, and against the kernel's
 * statistics: operations and bytes must be equal. */
#include "../cgroups.h"
#include "loop_device.h"

#include "base/clock.h"
#include "sources/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOCK  4096
#define BLOCKS 16

static void *source;
static struct loop_device loop;
static char *page; /* BLOCKS blocks */

static uint64_t lost(void)
{
    struct losses losses = {0};
    source_io.losses(source, &losses);
    return losses.count[LOSS_MAP_FULL] + losses.count[LOSS_MISSED];
}

static int open_source(void **state)
{
    const struct io_options options = {.enabled = true, .devices = true, .by_process = true};
    struct attach_report report = {0};
    (void)state;
    if (posix_memalign((void **)&page, BLOCK, BLOCKS * BLOCK) != 0 ||
        source_io.open(&(const struct source_services){0}, &options, &report, &source) < 0)
        return -1;
    memset(page, 'x', BLOCKS * BLOCK);
    for (size_t i = 0; i < report.count; i++)
        print_message("%s: %s %s %s\n", report.entries[i].probe, report.entries[i].method,
                      report.entries[i].fallback_reason, report.entries[i].limitation);
    if (report.count != 2 || strcmp(report.entries[1].probe, "block devices") != 0 || !report.entries[1].attached)
        return -1;
    return source_io.start(source);
}

static int close_source(void **state)
{
    (void)state;
    source_io.free(source);
    free(page);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    loop = loop_begin(0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    loop_end(&loop);
    return lost() == 0 ? 0 : -1;
}

/* ---- counters ---- */

#define WAIT_MS 10
#define WAITS   300

struct counted {
    uint64_t cgroup_id; /* 0: of all */
    uint8_t operation;
    uint64_t operations, queued, bytes, errors, queue_ns, service_ns;
};

static bool keep(void *context, const struct io_device_key *key, const struct io_device_counters *counters)
{
    (void)context, (void)key, (void)counters;
    return false;
}

static void add(void *context, const struct io_device_key *key, const struct io_device_counters *counters,
                bool is_final)
{
    struct counted *c = context;
    (void)is_final;
    if (key->device != loop.number || key->operation != c->operation ||
        (c->cgroup_id && key->cgroup_id != c->cgroup_id))
        return;
    c->bytes += counters->bytes;
    c->errors += counters->errors;
    c->queue_ns += counters->queue_ns;
    c->service_ns += counters->service_ns;
    for (size_t i = 0; i < IO_BUCKETS; i++) {
        c->operations += counters->served[i];
        c->queued += counters->queued[i];
    }
}

static struct counted count_of(uint8_t operation, uint64_t cgroup_id)
{
    struct counted c = {.operation = operation, .cgroup_id = cgroup_id};
    const struct io_device_reader reader = {.context = &c, .is_final = keep, .take = add};
    assert_int_equal(io_source_read_devices(source, &reader), 0);
    return c;
}

static struct loop_stat count_all(void)
{
    const struct counted read = count_of(IO_DEVICE_READ, 0), written = count_of(IO_DEVICE_WRITE, 0);
    return (struct loop_stat){.reads = read.operations,
                              .read_bytes = read.bytes,
                              .writes = written.operations,
                              .write_bytes = written.bytes,
                              .discards = count_of(IO_DEVICE_DISCARD, 0).operations,
                              .flushes = count_of(IO_DEVICE_FLUSH, 0).operations};
}

static struct loop_stat difference(struct loop_stat after, struct loop_stat before)
{
    return (struct loop_stat){.reads = after.reads - before.reads,
                              .read_bytes = after.read_bytes - before.read_bytes,
                              .writes = after.writes - before.writes,
                              .write_bytes = after.write_bytes - before.write_bytes,
                              .discards = after.discards - before.discards,
                              .flushes = after.flushes - before.flushes};
}

static void print_stat(const char *name, const struct loop_stat *s)
{
    print_message("%s: %llu reads of %llu bytes, %llu writes of %llu bytes, %llu discards, %llu flushes\n", name,
                  (unsigned long long)s->reads, (unsigned long long)s->read_bytes, (unsigned long long)s->writes,
                  (unsigned long long)s->write_bytes, (unsigned long long)s->discards, (unsigned long long)s->flushes);
}

/* Since `counted` and `known` were read. The kernel counts a sync also as a write of no bytes, which the device does
 * not get. Read-ahead may end between the two readings. */
static struct loop_stat expect_as_the_kernel(struct loop_stat counted, struct loop_stat known, unsigned syncs)
{
    struct loop_stat mine, its;
    for (int i = 0; i < WAITS; i++) {
        mine = difference(count_all(), counted);
        its = difference(loop_stat(&loop), known);
        its.writes -= syncs;
        if (memcmp(&mine, &its, sizeof(mine)) == 0)
            return mine;
        poll(NULL, 0, WAIT_MS);
    }
    print_stat("counted", &mine);
    print_stat("by the kernel", &its);
    fail_msg("not equal");
    return mine;
}

static bool keep_file(void *context, const struct io_key *key, const struct io_counters *counters)
{
    (void)context, (void)key, (void)counters;
    return false;
}

static void add_missed(void *context, const struct io_key *key, const struct io_counters *counters, bool is_final)
{
    (void)is_final;
    if (key->process == (uint32_t)getpid())
        *(uint64_t *)context += counters->missed;
}

/* Bytes that this process has read, but were not in the page cache. */
static uint64_t count_missed(void)
{
    uint64_t missed = 0;
    const struct io_reader reader = {.context = &missed, .is_final = keep_file, .take = add_missed};
    assert_int_equal(io_source_read(source, &reader), 0);
    return missed;
}

/* ---- tests ---- */

static void write_blocks(int fd, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pwrite(fd, page, BLOCK, BLOCK * i), BLOCK);
}

static void test_requests_are_those_of_the_kernels_statistics(void **state)
{
    const struct loop_stat counted = count_all(), known = loop_stat(&loop);
    const uint64_t range[] = {1 << 20, 1 << 20};
    struct io_device_name name;
    (void)state;
    write_blocks(loop.direct, 100);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(pread(loop.direct, page, 2 * BLOCK, 2 * BLOCK * i), 2 * BLOCK);
    assert_int_equal(fsync(loop.direct), 0);
    const bool has_discard = ioctl(loop.direct, BLKDISCARD, range) == 0;
    const struct loop_stat done = expect_as_the_kernel(counted, known, 1);
    assert_int_equal(done.writes, 100);
    assert_int_equal(done.write_bytes, 100 * BLOCK);
    assert_int_equal(done.reads, 50);
    assert_int_equal(done.read_bytes, 100 * BLOCK);
    assert_int_equal(done.flushes, 1);
    assert_true(!has_discard || done.discards >= 1);
    assert_true(io_source_device(source, loop.number, &name));
    assert_string_equal(name.text, loop.name);
}

/* Many at once, some of them merged. */
static void test_buffered_writes(void **state)
{
    const struct loop_stat counted = count_all(), known = loop_stat(&loop);
    (void)state;
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(pwrite(loop.buffered, page, BLOCKS * BLOCK, BLOCKS * BLOCK * i), BLOCKS * BLOCK);
    assert_int_equal(fsync(loop.buffered), 0);
    assert_int_equal(expect_as_the_kernel(counted, known, 1).write_bytes, 64 * BLOCKS * BLOCK);
}

/* Since `known`, the device was read for the missed bytes and `further` bytes; read-ahead may still be under way.
 */
static void expect_missed(uint64_t missed, struct loop_stat known, uint64_t further)
{
    for (int i = 0; i < WAITS && count_missed() - missed + further != difference(loop_stat(&loop), known).read_bytes;
         i++)
        poll(NULL, 0, WAIT_MS);
    assert_int_equal(count_missed() - missed + further, difference(loop_stat(&loop), known).read_bytes);
}

static void test_reads_that_miss_the_page_cache(void **state)
{
    const struct loop_stat counted = count_all(), known = loop_stat(&loop);
    const uint64_t missed = count_missed();
    (void)state;
    assert_true(io_source_counts_misses(source));
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 64; i++)
            assert_int_equal(pread(loop.buffered, page, BLOCKS * BLOCK, BLOCKS * BLOCK * i), BLOCKS * BLOCK);
    assert_true(expect_as_the_kernel(counted, known, 0).read_bytes >= 64 * BLOCKS * BLOCK);
    expect_missed(missed, known, 0);
    assert_int_equal(pwrite(loop.buffered, page, BLOCK, LOOP_IMAGE_BYTES - BLOCK), BLOCK);
    assert_int_equal(pread(loop.direct, page, BLOCK, LOOP_IMAGE_BYTES / 2), BLOCK);
    expect_missed(missed, known, BLOCK);
}

static void test_times(void **state)
{
    const struct counted before = count_of(IO_DEVICE_WRITE, 0);
    (void)state;
    assert_true(loop_set(&loop, "iostats", "1"));
    const uint64_t start_ns = clock_monotonic_ns();
    write_blocks(loop.direct, 100);
    const uint64_t ns = clock_monotonic_ns() - start_ns;
    const struct counted timed = count_of(IO_DEVICE_WRITE, 0);
    assert_int_equal(timed.operations - before.operations, 100);
    assert_int_equal(timed.queued - before.queued, 100);
    const uint64_t queue_ns = timed.queue_ns - before.queue_ns, service_ns = timed.service_ns - before.service_ns;
    assert_true(service_ns >= 100 * 500); /* through another thread */
    assert_true(queue_ns + service_ns <= ns);
}

/* Without them, the kernel notes no start time of requests. */
static void test_without_the_kernels_statistics(void **state)
{
    const struct counted before = count_of(IO_DEVICE_WRITE, 0);
    (void)state;
    if (!loop_set(&loop, "scheduler", "none") || !loop_set(&loop, "iostats", "0"))
        skip();
    write_blocks(loop.direct, 10);
    const struct counted after = count_of(IO_DEVICE_WRITE, 0);
    assert_true(loop_set(&loop, "iostats", "1"));
    assert_int_equal(after.operations - before.operations, 10);
    assert_int_equal(after.queued - before.queued, 0);
    assert_int_equal(after.queue_ns - before.queue_ns, 0);
}

static void test_scheduler(void **state)
{
    const struct loop_stat counted = count_all(), known = loop_stat(&loop);
    const uint64_t queued = count_of(IO_DEVICE_WRITE, 0).queued;
    (void)state;
    if (!loop_set(&loop, "scheduler", "mq-deadline")) {
        print_message("no mq-deadline here\n");
        skip();
    }
    write_blocks(loop.direct, 50);
    assert_true(loop_set(&loop, "scheduler", "none"));
    assert_int_equal(expect_as_the_kernel(counted, known, 0).writes, 50);
    assert_int_equal(count_of(IO_DEVICE_WRITE, 0).queued - queued, 50);
}

/* The file system of the image is full. */
static void test_errors(void **state)
{
    (void)state;
    loop_end(&loop);
    loop = loop_begin(1 << 20);
    const struct counted before = count_of(IO_DEVICE_WRITE, 0);
    unsigned failed = 0;
    for (unsigned i = 0; i < 40; i++)
        failed += pwrite(loop.direct, page, BLOCKS * BLOCK, BLOCKS * BLOCK * i) < 0;
    const struct counted after = count_of(IO_DEVICE_WRITE, 0);
    assert_true(failed > 20);
    assert_int_equal(after.errors - before.errors, failed);
    assert_int_equal(after.operations - before.operations, 40);
    assert_int_equal(after.bytes - before.bytes, (40 - failed) * BLOCKS * BLOCK);
}

static void test_nothing_is_counted_while_shed(void **state)
{
    const struct counted before = count_of(IO_DEVICE_WRITE, 0);
    (void)state;
    assert_int_equal(source_io.shed(source, SOURCE_DETAIL_LEAST), 0);
    write_blocks(loop.direct, 10);
    assert_int_equal(source_io.shed(source, SOURCE_DETAIL_FULL), 0);
    assert_int_equal(count_of(IO_DEVICE_WRITE, 0).operations, before.operations);
    write_blocks(loop.direct, 10);
    assert_int_equal(count_of(IO_DEVICE_WRITE, 0).operations, before.operations + 10);
}

/* ---- cgroups ---- */

#define CGROUP "sonde-io-block"

struct block_cgroup {
    char path[64];
    bool is_v2;
    uint64_t id; /* as in struct io_device_key */
};

/* Cgroups of version 2 get the controllers. */
static bool enable_controllers(void)
{
    static const char line[] = "+io +memory";
    const int fd = open("/sys/fs/cgroup/cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
    const bool is_written = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line);
    if (fd >= 0)
        close(fd);
    return is_written;
}

static struct block_cgroup make_block_cgroup(void)
{
    static const char v1[] = "/sys/fs/cgroup/blkio", v2[] = "/sys/fs/cgroup";
    struct block_cgroup c = {.is_v2 = access(v1, F_OK) < 0};
    snprintf(c.path, sizeof(c.path), "%s/" CGROUP, c.is_v2 ? v2 : v1);
    if (c.is_v2 && !enable_controllers()) {
        print_message("no controller for block I/O here: %s\n", strerror(errno));
        skip();
    }
    c.id = cgroup_make(c.path);
    assert_true(c.id);
    c.id |= IO_BLOCK_CGROUP;
    return c;
}

static void write_directly(void)
{
    for (unsigned i = 0; i < 30; i++)
        if (pwrite(loop.direct, page, BLOCK, BLOCK * i) != BLOCK)
            _exit(1);
}

static void write_into_memory(void)
{
    if (pwrite(loop.buffered, page, BLOCKS * BLOCK, 0) != BLOCKS * BLOCK)
        _exit(1);
}

static void write_and_sync(void)
{
    write_into_memory();
    if (fsync(loop.buffered) < 0)
        _exit(1);
}

static void test_cgroup_of_requests(void **state)
{
    const struct block_cgroup c = make_block_cgroup();
    struct io_name name;
    (void)state;
    cgroup_run(c.path, write_directly);
    assert_int_equal(count_of(IO_DEVICE_WRITE, c.id).operations, 30);
    assert_int_equal(count_of(IO_DEVICE_WRITE, c.id).bytes, 30 * BLOCK);
    cgroup_run(c.path, write_and_sync);
    assert_int_equal(count_of(IO_DEVICE_WRITE, c.id).bytes, (30 + BLOCKS) * BLOCK);
    assert_true(io_source_cgroup(source, c.id, &name));
    assert_string_equal(name.names, CGROUP);
    write_blocks(loop.direct, 5); /* of another cgroup */
    assert_int_equal(count_of(IO_DEVICE_WRITE, c.id).bytes, (30 + BLOCKS) * BLOCK);
    cgroup_remove(c.path);
}

static bool is_of_cgroup(void *context, const struct io_device_key *key, const struct io_device_counters *counters)
{
    (void)counters;
    return key->cgroup_id == *(const uint64_t *)context;
}

static void expect_final(void *context, const struct io_device_key *key, const struct io_device_counters *counters,
                         bool is_final)
{
    const bool is_wanted = key->cgroup_id == *(const uint64_t *)context;
    assert_int_equal(is_final, is_wanted);
    assert_true(!is_wanted || counters->bytes == 30 * BLOCK);
}

/* As when a cgroup is gone. More requests of it make new counters. */
static void test_counters_that_are_taken_out(void **state)
{
    struct block_cgroup c = make_block_cgroup();
    const struct io_device_reader reader = {.context = &c.id, .is_final = is_of_cgroup, .take = expect_final};
    (void)state;
    cgroup_run(c.path, write_directly);
    assert_int_equal(io_source_read_devices(source, &reader), 0);
    assert_int_equal(count_of(IO_DEVICE_WRITE, c.id).operations, 0);
    cgroup_run(c.path, write_directly);
    assert_int_equal(count_of(IO_DEVICE_WRITE, c.id).operations, 30);
    cgroup_remove(c.path);
}

/* Pages are written by another process than the one that dirtied them. Cgroup v2 knows whose they are. */
static void test_cgroup_of_write_back(void **state)
{
    const struct block_cgroup c = make_block_cgroup();
    (void)state;
    const uint64_t before = count_of(IO_DEVICE_WRITE, 0).bytes;
    cgroup_run(c.path, write_into_memory);
    assert_int_equal(fsync(loop.buffered), 0);
    assert_int_equal(count_of(IO_DEVICE_WRITE, 0).bytes - before, BLOCKS * BLOCK);
    assert_int_equal(count_of(IO_DEVICE_WRITE, c.id).bytes, c.is_v2 ? BLOCKS * BLOCK : 0);
    cgroup_remove(c.path);
}

/* Where there is little memory the tables hold less, and count all the same. */
static void test_tables_follow_the_memory(void **state)
{
    const struct io_options options = {.enabled = true, .devices = true};
    struct attach_report report = {0};
    void *small, *smallest;
    (void)state;
    assert_int_equal(io_source_counters_max(source), IO_MAX_FINE_COUNTERS); /* by process */
    assert_int_equal(
        source_io.open(&(const struct source_services){.table_bytes = 6u << 20}, &options, &report, &small), 0);
    assert_int_equal(source_io.open(&(const struct source_services){.table_bytes = 1}, &options, &report, &smallest),
                     0);
    assert_in_range(io_source_counters_max(small), IO_MIN_COUNTERS * 2, IO_MAX_COUNTERS / 2);
    assert_in_range(source_io.memory_bytes(small), 1u << 20, 8u << 20);
    assert_int_equal(io_source_counters_max(smallest), IO_MIN_COUNTERS);
    assert_true(io_source_device_counters_max(smallest) < io_source_device_counters_max(small));
    source_io.free(small);
    source_io.free(smallest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests_are_those_of_the_kernels_statistics, begin, end),
        cmocka_unit_test_setup_teardown(test_buffered_writes, begin, end),
        cmocka_unit_test_setup_teardown(test_reads_that_miss_the_page_cache, begin, end),
        cmocka_unit_test_setup_teardown(test_times, begin, end),
        cmocka_unit_test_setup_teardown(test_without_the_kernels_statistics, begin, end),
        cmocka_unit_test_setup_teardown(test_scheduler, begin, end),
        cmocka_unit_test_setup_teardown(test_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_counted_while_shed, begin, end),
        cmocka_unit_test_setup_teardown(test_cgroup_of_requests, begin, end),
        cmocka_unit_test_setup_teardown(test_counters_that_are_taken_out, begin, end),
        cmocka_unit_test_setup_teardown(test_cgroup_of_write_back, begin, end),
        cmocka_unit_test(test_tables_follow_the_memory),
    };
    return cmocka_run_group_tests(tests, open_source, close_source);
}
