/* What threads did with files, for a report, against what this program does. */
#include "io_fixture.h"
#include "io_requests.h"

#include "sources/io/io_accesses.h"
#include "sources/io/io_path.h"
#include "sources/io/io_uses.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ACCESSES_MAX 64

/* The entry taken last. */
static struct taken {
    char path[PATH_MAX];
    struct io_access_key key;
    struct io_access access;
} taken[ACCESSES_MAX];
static size_t taken_count;
static uint64_t interval_reads, interval_writes;

static void take(void *context, const struct io_access_key *key, const struct io_access *access)
{
    const struct io_file_key file = {key->mount, key->file};
    struct io_name name;
    (void)context;
    if (taken_count == ACCESSES_MAX)
        return;
    struct taken *t = &taken[taken_count++];
    *t = (struct taken){.key = *key, .access = *access};
    if (io_source_file(source, &file, &name))
        io_path_format(&name, t->path, sizeof(t->path));
    for (struct taken *before = taken; before < t && !t->path[0] && key->file; before++)
        if (before->key.mount == key->mount && before->key.file == key->file) /* the name went with its record */
            memcpy(t->path, before->path, sizeof(t->path));
}

static void take_interval(void *context, const struct io_interval_key *key, const struct io_interval *interval)
{
    (void)context, (void)key;
    interval_reads += interval->read_bytes;
    interval_writes += interval->write_bytes;
}

static void take_all(bool is_last)
{
    const struct io_access_reader reader = {.take = take, .take_interval = take_interval};
    taken_count = 0;
    interval_reads = interval_writes = 0;
    assert_int_equal(io_accesses_take(source, clock_monotonic_ns(), is_last, &reader), 0);
}

/* The only one of the file, of any thread. */
static const struct taken *taken_entry(const char *path)
{
    const struct taken *found = NULL;
    for (size_t i = 0; i < taken_count; i++) {
        if (strcmp(taken[i].path, path) != 0)
            continue;
        assert_null(found);
        found = &taken[i];
    }
    assert_non_null(found);
    return found;
}

static const struct io_access *taken_of(const char *path)
{
    return &taken_entry(path)->access;
}

static uint64_t common(const struct io_common *c, uint64_t value)
{
    for (size_t i = 0; i < IO_COMMON; i++)
        if (c->count[i] && c->value[i] == value)
            return c->count[i];
    return 0;
}

static void test_sequential_writes(void **state)
{
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    take_all(true);
    for (int i = 0; i < 10; i++)
        assert_int_equal(write(fd, page, PAGE), PAGE);
    assert_int_equal(write(fd, page, 100), 100);
    assert_int_equal(fsync(fd), 0);
    close(fd);
    take_all(true);
    const struct io_access *a = taken_of("/data");
    assert_int_equal(a->writes.operations, 11);
    assert_int_equal(a->writes.bytes, 10 * PAGE + 100);
    assert_int_equal(a->writes.located, 11);
    assert_int_equal(a->writes.followed, 10);
    assert_int_equal(a->writes.sequential, 10);
    assert_int_equal(a->writes.consecutive, 10);
    assert_int_equal(a->writes.unaligned, 0);
    assert_int_equal(a->writes.end_offset, 10 * PAGE + 100);
    assert_int_equal(a->writes.sizes[2], 10);
    assert_int_equal(a->writes.sizes[0], 1);
    assert_int_equal(common(&a->sizes, PAGE), 10);
    assert_int_equal(a->block_bytes, PAGE);
    assert_int_equal(a->operations[IO_SYNC], 1);
    assert_int_equal(a->operations[IO_CLOSE], 1);
    assert_int_equal(a->reads.operations, 0);
    assert_true(a->writes.time.ns > 0 && a->writes.time.first_ns < a->writes.time.last_ns);
    assert_true(a->writes.slowest_ns > 0 && a->writes.slowest_ns <= a->writes.time.ns);
    assert_true(a->close.first_ns >= a->sync.last_ns && a->metadata.ns == a->sync.ns + a->close.ns);
    assert_int_equal(interval_writes, 10 * PAGE + 100);
    assert_int_equal(interval_reads, 0);
}

static void test_strided_and_random_reads(void **state)
{
    const struct iovec part = {page, 64};
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pread(fd, page, 512, i * 2 * PAGE), 512);
    assert_int_equal(pread(fd, page, 64, 100), 64);       /* back */
    assert_int_equal(preadv(fd, &part, 1, 164), 64);      /* consecutive */
    assert_int_equal(preadv2(fd, &part, 1, 5000, 0), 64); /* forward */
    assert_int_equal(lseek(fd, 8192, SEEK_SET), 8192);
    assert_int_equal(preadv2(fd, &part, 1, -1, 0), 64); /* where the file stands */
    assert_int_equal(write(fd, page, 1), 1);            /* from there on */
    close(fd);
    take_all(true);
    const struct io_access *a = taken_of("/data");
    assert_int_equal(a->reads.operations, 12);
    assert_int_equal(a->reads.sequential, 10);
    assert_int_equal(a->reads.consecutive, 1);
    assert_int_equal(a->reads.unaligned, 3);
    assert_int_equal(a->reads.end_offset, 7 * 2 * PAGE + 512);
    assert_int_equal(common(&a->strides, 2 * PAGE - 512), 7);
    assert_int_equal(a->writes.end_offset, 8192 + 64 + 1);
    assert_int_equal(a->switches, 1);
    assert_int_equal(a->operations[IO_TRUNCATE], 1);
}

static void test_appended_bytes_and_errors(void **state)
{
    const int fd = open_file("data", O_WRONLY | O_APPEND | O_CREAT);
    (void)state;
    assert_int_equal(write(fd, page, 1000), 1000);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(write(fd, page, 1000), 1000);
    assert_int_equal(read(fd, page, 10), -1);
    close(fd);
    take_all(true);
    const struct io_access *a = taken_of("/data");
    assert_int_equal(a->writes.consecutive, 1);
    assert_int_equal(a->writes.end_offset, 2000);
    assert_int_equal(a->reads.operations, 0);
    assert_int_equal(a->operations[IO_READ], 1);
    assert_int_equal(a->errors, 1);
    assert_true(a->reads.time.ns > 0);
}

/* The inode number of a deleted file is used again. */
static void test_files_of_one_inode_number(void **state)
{
    struct stat first, second;
    int fd = open_file("first", O_WRONLY | O_CREAT);
    (void)state;
    assert_int_equal(write(fd, page, 10), 10);
    assert_int_equal(fstat(fd, &first), 0);
    close(fd);
    assert_int_equal(rename(io_mount_file(&m, "first"), io_mount_file(&m, "renamed")), 0);
    assert_int_equal(unlink(io_mount_file(&m, "renamed")), 0);
    fd = open_file("second", O_WRONLY | O_CREAT);
    assert_int_equal(write(fd, page, 20), 20);
    assert_int_equal(fstat(fd, &second), 0);
    close(fd);
    take_all(true);
    assert_int_equal(taken_of("/first")->writes.bytes, 10);
    assert_int_equal(taken_of("/second")->writes.bytes, 20);
    assert_int_equal(taken_of("/second")->operations[IO_STAT], 1);
    assert_int_equal(taken_of("")->operations[IO_RENAME], 1); /* calls that name a path */
    assert_int_equal(taken_of("")->operations[IO_UNLINK], 1);
    if (first.st_ino != second.st_ino)
        print_message("not the same number\n");
}

static void *write_some(void *name)
{
    const int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, page, 300), 300);
    close(fd);
    return NULL;
}

static void test_threads_and_children(void **state)
{
    char path[PATH_MAX], own_name[16];
    pthread_t thread;
    int status;
    prctl(PR_GET_NAME, own_name);
    (void)state;
    take_all(true);
    snprintf(path, sizeof(path), "%s", io_mount_file(&m, "of-thread"));
    assert_int_equal(pthread_create(&thread, NULL, write_some, path), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    const pid_t child = fork();
    if (child == 0) {
        write_some((void *)io_mount_file(&m, "of-child"));
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    take_all(false); /* both are gone */
    assert_int_equal(taken_of("/of-thread")->writes.bytes, 300);
    assert_int_equal(taken_of("/of-child")->writes.bytes, 300);
    for (size_t i = 0; i < taken_count; i++) {
        if (strncmp(taken[i].path, "/of-", 4) != 0)
            continue;
        assert_int_equal(taken[i].key.process, strcmp(taken[i].path, "/of-child") == 0 ? child : getpid());
        assert_int_not_equal(taken[i].key.thread, getpid());
        assert_string_equal(taken[i].access.command, own_name);
    }
}

/* The parent of this process waits for it meanwhile, and may write. */
static void test_other_processes_are_left_out(void **state)
{
    char command[PATH_MAX + 64];
    int status;
    (void)state;
    take_all(true);
    snprintf(command, sizeof(command), "(echo text > %s)", io_mount_file(&m, "own"));
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    take_all(true);
    assert_int_equal(taken_of("/own")->writes.bytes, 5);
    for (size_t i = 0; i < taken_count; i++)
        assert_int_not_equal(taken[i].key.process, getppid());
}

static int block_fd;
static char *block_at;

static void *read_into_block(void *unused)
{
    (void)unused;
    assert_int_equal(pread(block_fd, block_at, 100, 0), 100);
    return NULL;
}

/* A read into memory whose page only this test provides does not end before that. */
static void test_operation_that_goes_on(void **state)
{
    struct uffdio_api api = {.api = UFFD_API};
    pthread_t thread;
    (void)state;
    const int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) < 0) {
        print_message("no userfaultfd\n");
        skip();
    }
    block_fd = open_file("data", O_RDWR | O_CREAT);
    assert_int_equal(write(block_fd, page, 100), 100);
    block_at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)block_at, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    assert_int_equal(ioctl(faults, UFFDIO_REGISTER, &range), 0);
    assert_int_equal(io_accesses_losses(source).pending, 0);
    assert_int_equal(pthread_create(&thread, NULL, read_into_block, NULL), 0);
    struct pollfd fault = {.fd = faults, .events = POLLIN};
    assert_int_equal(poll(&fault, 1, 10000), 1);
    assert_int_equal(io_accesses_losses(source).pending, 1);
    struct uffdio_zeropage zero = {.range = range.range};
    assert_int_equal(ioctl(faults, UFFDIO_ZEROPAGE, &zero), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(io_accesses_losses(source).pending, 0);
    munmap(block_at, PAGE);
    close(faults);
    close(block_fd);
    take_all(true);
}

static void test_mapped_file(void **state)
{
    need("mmap is not seen");
    (void)state;
    const int fd = open_file("data", O_RDWR | O_CREAT);
    assert_int_equal(write(fd, page, 4 * PAGE), 4 * PAGE);
    volatile char *mapped = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(mapped != MAP_FAILED);
    (void)mapped[0];
    munmap((void *)mapped, 4 * PAGE);
    close(fd);
    take_all(true);
    const struct io_access *a = taken_of("/data");
    if (!a->operations[IO_MAP]) { /* tmpfs's own faults have no tracepoint in some kernels */
        print_message("pages of tmpfs are not seen\n");
        skip();
    }
    assert_true(a->mapped_bytes >= PAGE && a->mapped_bytes <= 4 * PAGE);
}

/* The entry of a file whose pages were mapped; NULL: none. */
static const struct taken *taken_mapped(uint64_t file)
{
    for (size_t i = 0; i < taken_count; i++)
        if (taken[i].key.file == file && taken[i].access.operations[IO_MAP])
            return &taken[i];
    return NULL;
}

/* The bind mount, the newest one, shows another part of the file system. */
static void test_mapped_file_is_named_by_a_mount_that_shows_it(void **state)
{
    need("mmap is not seen");
    (void)state;
    char part[PATH_MAX], mount_path[IO_PATH_BYTES] = "";
    struct io_name name;
    snprintf(part, sizeof(part), "%s", io_mount_file(&m, "part"));
    assert_int_equal(mkdir(part, 0700), 0);
    assert_int_equal(mount(part, part, NULL, MS_BIND, NULL), 0);
    const int fd = open_file("data", O_RDWR | O_CREAT);
    assert_int_equal(write(fd, page, PAGE), PAGE);
    volatile char *mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(mapped != MAP_FAILED);
    take_all(true);
    const uint64_t file = taken_entry("/data")->key.file;
    (void)mapped[0];
    munmap((void *)mapped, PAGE);
    take_all(true);
    const struct taken *t = taken_mapped(file);
    if (t && io_source_mount(source, t->key.mount, &name))
        io_path_format(&name, mount_path, sizeof(mount_path));
    umount2(part, MNT_DETACH);
    close(fd);
    if (!t) {
        print_message("pages of tmpfs are not seen\n");
        skip();
    }
    assert_string_equal(mount_path, m.path);
    assert_string_equal(t->path, "/data");
}

static struct io_error_key failed[8];
static uint64_t failed_counts[8];
static size_t failed_count;

static void take_failure(void *context, const struct io_error_key *key, uint64_t count, bool is_final)
{
    (void)context, (void)is_final;
    if (failed_count == array_size(failed))
        return;
    failed[failed_count] = *key;
    failed_counts[failed_count++] = count;
}

/* The only one of this operation and error. */
static const struct io_error_key *failed_of(uint8_t operation, uint32_t error, uint64_t count)
{
    const struct io_error_key *found = NULL;
    for (size_t i = 0; i < failed_count; i++) {
        if (failed[i].key.operation != operation || failed[i].error != error)
            continue;
        assert_null(found);
        assert_int_equal(failed_counts[i], count);
        found = &failed[i];
    }
    assert_non_null(found);
    assert_int_equal(found->key.process, getpid());
    return found;
}

static void test_failures_have_their_error_and_file(void **state)
{
    const struct io_reader reader = {.take_error = take_failure, .ends_errors = true};
    const int fd = open_file("data", O_RDONLY | O_CREAT);
    struct io_path path;
    struct stat status;
    (void)state;
    assert_int_equal(io_source_read_errors(source, &reader), 0);
    take_all(true);
    failed_count = 0;
    assert_int_equal(write(fd, page, 10), -1);
    assert_int_equal(write(fd, page, 10), -1);
    assert_int_equal(open("/no/such/file", O_RDONLY | O_CLOEXEC), -1);
    assert_int_equal(mkdir("/dev/null/folder", 0700), -1);
    assert_int_equal(stat("", &status), -1);
    assert_int_equal(io_source_read_errors(source, &reader), 0);
    take_all(true);
    const struct io_error_key *of_write = failed_of(IO_WRITE, EBADF, 2);
    assert_int_equal(of_write->key.file, taken_entry("/data")->key.file);
    assert_int_equal(of_write->key.mount, taken_entry("/data")->key.mount);
    const struct io_error_key *of_open = failed_of(IO_OPEN, ENOENT, 1);
    assert_int_equal(of_open->key.mount, IO_NO_MOUNT);
    assert_true(io_failed_path(source, of_open->key.file, &path));
    assert_string_equal(path.text, "/no/such/file");
    assert_true(io_failed_path(source, failed_of(IO_MKDIR, ENOTDIR, 1)->key.file, &path));
    assert_string_equal(path.text, "/dev/null/folder");
    assert_int_equal(failed_of(IO_STAT, ENOENT, 1)->key.file, 0); /* it named no path */
    failed_count = 0;
    assert_int_equal(io_source_read_errors(source, &reader), 0);
    assert_int_equal(failed_count, 0);
    close(fd);
    take_all(true);
}

static void test_io_uring_has_offsets(void **state)
{
    need(NO_URING);
    (void)state;
    struct uring u = uring_begin(8, 0);
    const int fd = open_file("data", O_RDWR | O_CREAT);
    for (unsigned i = 0; i < 4; i++)
        uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_WRITE,
                                             .fd = fd,
                                             .addr = (uint64_t)(uintptr_t)page,
                                             .len = PAGE,
                                             .off = (uint64_t)i * 2 * PAGE});
    uring_submit(&u, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(uring_take(&u), PAGE);
    uring_end(&u);
    close(fd);
    take_all(true);
    uint64_t operations = 0, end_offset = 0, located = 0;
    for (size_t i = 0; i < taken_count; i++) { /* several threads may complete them */
        if (strcmp(taken[i].path, "/data") != 0)
            continue;
        const struct io_access_direction *w = &taken[i].access.writes;
        operations += w->operations;
        located += w->located;
        end_offset = w->end_offset > end_offset ? w->end_offset : end_offset;
    }
    assert_int_equal(operations, 4);
    assert_int_equal(located, 4);
    assert_int_equal(end_offset, 7 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sequential_writes, begin, end),
        cmocka_unit_test_setup_teardown(test_strided_and_random_reads, begin, end),
        cmocka_unit_test_setup_teardown(test_appended_bytes_and_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_files_of_one_inode_number, begin, end),
        cmocka_unit_test_setup_teardown(test_threads_and_children, begin, end),
        cmocka_unit_test_setup_teardown(test_other_processes_are_left_out, begin, end),
        cmocka_unit_test_setup_teardown(test_operation_that_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(test_mapped_file, begin, end),
        cmocka_unit_test_setup_teardown(test_failures_have_their_error_and_file, begin, end),
        cmocka_unit_test_setup_teardown(test_mapped_file_is_named_by_a_mount_that_shows_it, begin, end),
        cmocka_unit_test_setup_teardown(test_io_uring_has_offsets, begin, end),
    };
    return run_by_each_method(tests, sizeof(tests) / sizeof(tests[0]),
                              &(struct io_options){.enabled = true, .by_access = true});
}
