/* Counting while the kernel's table of counters is full: operations keep their job and mount, syncs also their process
 * and file. */
#include "sources/io/io.h"
#include "sources/io/io_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void *source;
static char folder[] = "/tmp/sonde-io-reserve-XXXXXX";
static char page[4096];

/* With the smallest table, of IO_MIN_COUNTERS. */
static int open_source(void **state)
{
    const struct io_options options = {.enabled = true, .by_process = true, .by_file = true};
    struct attach_report report = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(mount("sonde-test", folder, "tmpfs", 0, NULL), 0);
    assert_int_equal(source_io.open(&(const struct source_services){.table_bytes = 1}, &options, &report, &source), 0);
    return source_io.start(source);
}

static int close_source(void **state)
{
    (void)state;
    source_io.free(source);
    umount2(folder, MNT_DETACH);
    return rmdir(folder);
}

/* The sums of this operation and process on the mount of the test. */
struct sums {
    uint32_t process;
    uint8_t operation;
    bool by_file; /* with a file, or without */
    uint64_t operations, bytes;
};

static bool keep(void *context, const struct io_key *key, const struct io_counters *counters)
{
    (void)context, (void)key, (void)counters;
    return false;
}

static void add(void *context, const struct io_key *key, const struct io_counters *counters, bool is_final)
{
    struct sums *s = context;
    struct io_name name;
    (void)is_final;
    if (key->operation != s->operation || key->process != s->process || (key->file != 0) != s->by_file ||
        !io_source_mount(source, key->mount, &name) || strcmp(name.names, folder + strlen("/tmp/")) != 0)
        return;
    s->operations += io_counters_operations(counters);
    s->bytes += counters->bytes;
}

static struct sums count(uint32_t process, uint8_t operation, bool by_file)
{
    struct sums s = {.process = process, .operation = operation, .by_file = by_file};
    const struct io_reader reader = {.context = &s, .is_final = keep, .take = add};
    assert_int_equal(io_source_read(source, &reader), 0);
    return s;
}

static int open_file(const char *name, int number)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s%d", folder, name, number);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void test_full_table_keeps_jobs_and_syncs(void **state)
{
    const uint32_t self = (uint32_t)getpid();
    (void)state;
    for (int i = 0; i < IO_MIN_COUNTERS + 10; i++)
        close(open_file("filler", i));
    assert_true(io_source_stats(source).coarse > 0);
    const int fd = open_file("late", 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(write(fd, page, 100), 100);
        assert_int_equal(fsync(fd), 0);
    }
    close(fd);
    const struct sums writes = count(0, IO_WRITE, false), syncs = count(self, IO_SYNC, true);
    assert_int_equal(writes.operations, 3);
    assert_int_equal(writes.bytes, 300);
    assert_int_equal(syncs.operations, 3);
    assert_int_equal(count(self, IO_WRITE, true).operations, 0);
    assert_int_equal(io_source_stats(source).counters_full, 0);
}

static bool is_process(void *context, uint32_t process)
{
    return process == ((const struct sums *)context)->process;
}

/* Counters of a process that has ended are taken out, and its last name is known. */
static void test_processes_that_have_ended(void **state)
{
    int status = -1;
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, "io-reserve-end");
        const int fd = open_file("child", 0);
        _exit(write(fd, page, 77) == 77 && fsync(fd) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct sums s = {.process = (uint32_t)child, .operation = IO_SYNC, .by_file = true};
    const struct io_reader reader = {.context = &s, .take = add};
    struct io_command command;
    assert_int_equal(count(s.process, IO_SYNC, true).operations, 1);
    assert_int_equal(io_source_take_ended(source, &reader, is_process), 0);
    assert_int_equal(s.operations, 1);
    assert_int_equal(count(s.process, IO_SYNC, true).operations, 0);
    assert_true(io_source_command(source, s.process, &command));
    assert_string_equal(command.text, "io-reserve-end");
    assert_false(io_source_command(source, UINT32_MAX, &command));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_table_keeps_jobs_and_syncs),
        cmocka_unit_test(test_processes_that_have_ended),
    };
    return cmocka_run_group_tests(tests, open_source, close_source);
}
