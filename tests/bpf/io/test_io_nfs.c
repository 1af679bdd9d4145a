/* I/O on NFS, with its server on the same machine: what programs do counts exactly, what the kernel does for that on
 * either side counts for no job. The cases of test_io.c and test_io_requests.c run on NFS, too. */
#include "io_fixture.h"
#include "io_nfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define NO_PAGES "mmap is not seen"

static _Alignas(PAGE) char aligned[64 * PAGE];

/* Path of a file in the test's folder, on the server. */
static const char *server_file(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s%s/%s", io_nfs_exported(), strrchr(m.path, '/'), name);
    return path;
}

static struct io_mount exported_mount(void)
{
    struct io_mount exported = {.type = "tmpfs", .source = source};
    snprintf(exported.path, sizeof(exported.path), "%s", io_nfs_exported());
    return exported;
}

/* What reads and writes return, to compare it with the counters. */
struct results {
    uint64_t operations, bytes;
    uint64_t errors; /* ENOSPC; others fail the test */
};

static void add_result(struct results *r, ssize_t result)
{
    r->operations++;
    if (result >= 0)
        r->bytes += (uint64_t)result;
    else if (errno == ENOSPC)
        r->errors++;
    else
        fail_msg("%s", strerror(errno));
}

static void expect_results(uint8_t operation, const struct results *r)
{
    io_mount_expect(&m, operation, r->operations, r->bytes);
    assert_int_equal(io_mount_counted(&m, operation).errors, r->errors);
    assert_int_equal(io_mount_errors(&m, operation, ENOSPC), r->errors);
}

static void test_buffered_and_direct(void **state)
{
    const int fd = open_file("data", O_RDWR | O_CREAT), direct = open_file("data", O_RDWR | O_DIRECT);
    (void)state;
    assert_int_equal(pwrite(direct, aligned, 2 * PAGE, 0), 2 * PAGE);
    assert_int_equal(pwrite(direct, aligned, 1000, 2 * PAGE), 1000);
    assert_int_equal(pwrite(fd, aligned, 300, 0), 300);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(pread(direct, aligned, 8 * PAGE, PAGE), PAGE + 1000);
    assert_int_equal(pread(direct, aligned, PAGE, 8 * PAGE), 0);
    assert_int_equal(pread(fd, aligned, 8 * PAGE, 0), 2 * PAGE + 1000);
    io_mount_expect(&m, IO_WRITE, 3, 2 * PAGE + 1300);
    io_mount_expect(&m, IO_READ, 3, 3 * PAGE + 2000);
    const struct io_counted writes = io_mount_flagged(&m, IO_WRITE, IO_IS_DIRECT);
    assert_int_equal(writes.operations, 2);
    assert_int_equal(writes.bytes, 2 * PAGE + 1000);
    const struct io_counted reads = io_mount_flagged(&m, IO_READ, IO_IS_DIRECT);
    assert_int_equal(reads.operations, 2);
    assert_int_equal(reads.bytes, PAGE + 1000);
    close(fd);
    close(direct);
    io_mount_expect(&m, IO_CLOSE, 2, 0);
}

/* The client reads ahead and in whole pages; a read counts with the bytes that it returned. */
static void test_short_read_of_bytes_that_the_server_had(void **state)
{
    (void)state;
    const int there = open(server_file("data"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(there, page, 1000), 1000);
    close(there);
    const int fd = open_file("data", O_RDONLY);
    assert_int_equal(read(fd, page, 100), 100);
    assert_int_equal(read(fd, page, PAGE), 900);
    assert_int_equal(read(fd, page, PAGE), 0);
    close(fd);
    io_mount_expect(&m, IO_OPEN, 1, 0);
    io_mount_expect(&m, IO_READ, 3, 1000);
}

static void test_errors(void **state)
{
    const int fd = open_file("data", O_WRONLY | O_CREAT), folder = open(m.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)state;
    assert_int_equal(pread(fd, page, 10, 0), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(read(folder, page, 10), -1);
    assert_int_equal(errno, EISDIR);
    close(fd);
    close(folder);
    io_mount_expect(&m, IO_READ, 2, 0);
    assert_int_equal(io_mount_counted(&m, IO_READ).errors, 2);
    assert_int_equal(io_mount_errors(&m, IO_READ, EBADF), 1);
    assert_int_equal(io_mount_errors(&m, IO_READ, EISDIR), 1);
}

/* The server has no room: a direct write fails, a buffered one only when it is synced. By the page, because the client
 * of Linux 5.10 repeats a partly successful direct write without end. */
static void test_no_space(void **state)
{
    const int fd = open_file("data", O_RDWR | O_CREAT), direct = open_file("data", O_RDWR | O_DIRECT);
    struct results writes = {0}, syncs = {0};
    (void)state;
    while (!writes.errors)
        add_result(&writes, pwrite(direct, aligned, PAGE, (off_t)writes.bytes));
    assert_int_equal(writes.errors, 1);
    expect_results(IO_WRITE, &writes);
    add_result(&writes, pwrite(fd, aligned, sizeof(aligned), (off_t)writes.bytes));
    add_result(&syncs, fsync(fd));
    assert_int_equal(writes.errors, 1);
    assert_int_equal(syncs.errors, 1);
    add_result(&syncs, syncfs(fd)); /* some kernels report it again here, and then no more */
    expect_results(IO_WRITE, &writes);
    expect_results(IO_SYNC, &syncs);
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    close(direct);
}

/* What the client sends to the server then is counted once, as it was written. */
static void test_syncs(void **state)
{
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pwrite(fd, page, 100, i * PAGE), 100);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(pwrite(fd, page, 100, 50), 100);
    assert_int_equal(fdatasync(fd), 0);
    assert_int_equal(fdatasync(fd), 0);
    assert_int_equal(syncfs(fd), 0);
    close(fd);
    io_mount_expect(&m, IO_SYNC, 4, 0);
    io_mount_expect(&m, IO_WRITE, 9, 900);
}

static void test_mapped_pages(void **state)
{
    need(NO_PAGES);
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    assert_int_equal(write(fd, page, 4 * PAGE), 4 * PAGE);
    volatile char *mapped = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(mapped != MAP_FAILED);
    (void)mapped[0];
    mapped[PAGE] = 1;
    assert_int_equal(msync((void *)mapped, 4 * PAGE, MS_SYNC), 0);
    munmap((void *)mapped, 4 * PAGE);
    close(fd);
    const struct io_counted maps = io_mount_counted(&m, IO_MAP);
    assert_true(maps.operations >= 1 && maps.operations <= 4);
    assert_true(maps.bytes >= 2 * PAGE && maps.bytes <= 4 * PAGE);
    io_mount_expect(&m, IO_WRITE, 1, 4 * PAGE);
    io_mount_expect(&m, IO_READ, 0, 0);
}

/* ---- operations that name a path, of this process ---- */

static void add_by_path(void *context, const struct io_key *key, const struct io_counters *counters, bool is_final)
{
    uint64_t *operations = context;
    (void)is_final;
    if (key->mount != IO_NO_MOUNT || key->process != (uint32_t)getpid())
        return;
    operations[key->operation] += counters->untimed;
    for (size_t i = 0; i < IO_BUCKETS; i++)
        operations[key->operation] += counters->durations[i];
}

static bool keep(void *context, const struct io_key *key, const struct io_counters *counters)
{
    (void)context, (void)key, (void)counters;
    return false;
}

static void count_by_path(uint64_t operations[IO_OPERATIONS])
{
    memset(operations, 0, IO_OPERATIONS * sizeof(*operations));
    assert_int_equal(io_source_read(source, &(struct io_reader){operations, keep, add_by_path, NULL, false}), 0);
}

static void expect_by_path(const uint64_t before[IO_OPERATIONS], const uint64_t expected[IO_OPERATIONS])
{
    uint64_t now[IO_OPERATIONS];
    count_by_path(now);
    for (size_t i = 0; i < IO_OPERATIONS; i++)
        if (now[i] - before[i] != expected[i])
            fail_msg("operation %zu: %llu were counted, not %llu", i, (unsigned long long)(now[i] - before[i]),
                     (unsigned long long)expected[i]);
}

/* The client renames a file that is unlinked while it is open, and removes it when it is closed: neither counts. */
static void test_rename_and_unlink(void **state)
{
    const int fd = open_file("data", O_RDWR | O_CREAT);
    uint64_t before[IO_OPERATIONS];
    (void)state;
    count_by_path(before);
    assert_int_equal(mkdir(io_mount_file(&m, "folder"), 0700), 0);
    assert_int_equal(rename(io_mount_file(&m, "data"), io_mount_file(&m, "folder/data")), 0);
    assert_int_equal(link(io_mount_file(&m, "folder/data"), io_mount_file(&m, "second")), 0);
    assert_int_equal(symlink("second", io_mount_file(&m, "symbolic")), 0);
    assert_int_equal(unlink(io_mount_file(&m, "second")), 0);
    assert_int_equal(unlink(io_mount_file(&m, "folder/data")), 0);
    assert_int_equal(rmdir(io_mount_file(&m, "folder")), -1); /* the renamed file is in it */
    assert_int_equal(unlink(io_mount_file(&m, "data")), -1);
    assert_int_equal(pwrite(fd, page, 100, 0), 100);
    close(fd);
    assert_int_equal(rmdir(io_mount_file(&m, "folder")), 0);
    expect_by_path(before, (uint64_t[IO_OPERATIONS]){
                               [IO_MKDIR] = 1, [IO_RENAME] = 1, [IO_LINK] = 2, [IO_UNLINK] = 3, [IO_RMDIR] = 2});
    io_mount_expect(&m, IO_WRITE, 1, 100);
    io_mount_expect(&m, IO_CLOSE, 1, 0);
}

/* ---- the server ---- */

/* Its threads read and write the file system that it exports: nothing of that is a job's. */
static void test_server_counts_for_no_job(void **state)
{
    struct io_mount exported = exported_mount();
    const struct io_counted before = io_mount_counted(&exported, IO_OPERATIONS);
    (void)state;
    const int there = open(server_file("local"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(there, page, 100), 100);
    close(there);
    const int fd = open_file("data", O_RDWR | O_CREAT), direct = open_file("data", O_RDWR | O_DIRECT);
    for (int i = 0; i < 4; i++)
        assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
    assert_int_equal(fsync(fd), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(read(direct, aligned, sizeof(aligned)), sizeof(aligned));
    close(fd);
    close(direct);
    io_mount_expect(&m, IO_WRITE, 4, 4 * sizeof(page));
    io_mount_expect(&m, IO_READ, 4, 4 * sizeof(aligned));
    const struct io_counted after = io_mount_counted(&exported, IO_OPERATIONS);
    assert_int_equal(after.operations - before.operations, 3); /* on "local" */
    assert_int_equal(after.bytes - before.bytes, 100);
    assert_int_equal(unlink(io_mount_file(&m, "data")), 0);
}

static void test_configuration_of_the_server_is_no_file(void **state)
{
    struct io_mount control = {.type = "nfsd", .source = source};
    char path[PATH_MAX];
    (void)state;
    snprintf(control.path, sizeof(control.path), "%s", io_nfs_control());
    snprintf(path, sizeof(path), "%s/versions", control.path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, page, 100) > 0);
    close(fd);
    assert_int_equal(io_mount_counted(&control, IO_OPERATIONS).operations, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_buffered_and_direct, begin, end),
        cmocka_unit_test_setup_teardown(test_short_read_of_bytes_that_the_server_had, begin, end),
        cmocka_unit_test_setup_teardown(test_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_no_space, begin, end),
        cmocka_unit_test_setup_teardown(test_syncs, begin, end),
        cmocka_unit_test_setup_teardown(test_mapped_pages, begin, end),
        cmocka_unit_test_setup_teardown(test_rename_and_unlink, begin, end),
        cmocka_unit_test_setup_teardown(test_server_counts_for_no_job, begin, end),
        cmocka_unit_test_setup_teardown(test_configuration_of_the_server_is_no_file, begin, end),
    };
    if (!io_nfs_begin())
        return 77;
    return run_by_each_method(tests, sizeof(tests) / sizeof(tests[0]),
                              &(struct io_options){.enabled = true, .by_process = true});
}
