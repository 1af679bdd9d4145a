/* I/O counters against what this program does on a file system of its own: operations and bytes must be equal. */
#include "io_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_reads_and_writes_of_all_forms(void **state)
{
    const struct iovec parts[] = {{page, 100}, {page + 100, 900}};
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    assert_int_equal(write(fd, page, 10000), 10000);
    assert_int_equal(pwrite(fd, page, 500, 10000), 500);
    assert_int_equal(writev(fd, parts, 2), 1000);
    assert_int_equal(pwritev(fd, parts, 2, 20000), 1000);
    assert_int_equal(pwritev2(fd, parts, 1, 30000, 0), 100);
    io_mount_expect(&m, IO_WRITE, 5, 12600);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(read(fd, page, 4096), 4096);
    assert_int_equal(pread(fd, page, 64, 1), 64);
    assert_int_equal(readv(fd, parts, 2), 1000);
    assert_int_equal(preadv(fd, parts, 2, 0), 1000);
    assert_int_equal(preadv2(fd, parts, 1, 0, 0), 100);
    io_mount_expect(&m, IO_READ, 5, 6260);
    const struct io_counted reads = io_mount_counted(&m, IO_READ);
    assert_int_equal(reads.sizes[0], 2); /* 64 and 100 */
    assert_int_equal(reads.sizes[1], 2);
    assert_int_equal(reads.sizes[2], 1);
    assert_true(reads.sum_ns > 0);
    close(fd);
    io_mount_expect(&m, IO_CREATE, 1, 0);
    io_mount_expect(&m, IO_CLOSE, 1, 0);
}

static void test_short_reads_and_errors(void **state)
{
    const int fd = open_file("data", O_RDWR | O_CREAT), only_write = open_file("data", O_WRONLY);
    (void)state;
    assert_int_equal(write(fd, page, 1000), 1000);
    assert_int_equal(pread(fd, page, 4096, 900), 100);
    assert_int_equal(pread(fd, page, 4096, 5000), 0);
    assert_int_equal(read(only_write, page, 10), -1);
    assert_int_equal(syscall(SYS_pread64, fd, page, 10l, -1l), -1);
    assert_int_equal(syscall(SYS_pread64, fd, 8l, 10l, 0l), -1); /* to an address that is not mapped */
    assert_int_equal(read(1000, page, 10), -1);                  /* of no file */
    io_mount_expect(&m, IO_READ, 5, 100);
    assert_int_equal(io_mount_counted(&m, IO_READ).errors, 3);
    assert_int_equal(io_mount_errors(&m, IO_READ, EBADF), 1);
    assert_int_equal(io_mount_errors(&m, IO_READ, EINVAL), 1);
    assert_int_equal(io_mount_errors(&m, IO_READ, EFAULT), 1);
    const struct io_counted reads = io_mount_counted(&m, IO_READ);
    uint64_t sized = 0;
    for (size_t i = 0; i < IO_SIZES; i++)
        sized += reads.sizes[i];
    assert_int_equal(sized, 2); /* those that succeeded */
    close(fd);
    close(only_write);
}

static void test_bytes_between_two_files(void **state)
{
    const int from = open_file("from", O_RDWR | O_CREAT), to = open_file("to", O_RDWR | O_CREAT);
    int ends[2];
    off_t offset = 0;
    (void)state;
    assert_int_equal(pwrite(from, page, 20000, 0), 20000);
    io_mount_expect(&m, IO_WRITE, 1, 20000);
    assert_int_equal(copy_file_range(from, &offset, to, NULL, 3000, 0), 3000);
    io_mount_expect(&m, IO_READ, 1, 3000);
    io_mount_expect(&m, IO_WRITE, 2, 23000);
    assert_int_equal(sendfile(to, from, &offset, 5000), 5000);
    io_mount_expect(&m, IO_READ, 2, 8000);
    io_mount_expect(&m, IO_WRITE, 3, 28000);
    assert_int_equal(pipe(ends), 0);
    offset = 0;
    const ssize_t in_pipe = splice(from, &offset, ends[1], NULL, 4000, 0);
    assert_true(in_pipe > 0);
    io_mount_expect(&m, IO_READ, 3, 8000 + (uint64_t)in_pipe);
    io_mount_expect(&m, IO_WRITE, 3, 28000);
    assert_int_equal(splice(ends[0], NULL, to, NULL, (size_t)in_pipe, 0), in_pipe);
    io_mount_expect(&m, IO_READ, 3, 8000 + (uint64_t)in_pipe);
    io_mount_expect(&m, IO_WRITE, 4, 28000 + (uint64_t)in_pipe);
    close(ends[0]);
    close(ends[1]);
    close(from);
    close(to);
    io_mount_expect(&m, IO_CLOSE, 2, 0); /* not those of the pipe */
}

static void test_other_operations_on_descriptors(void **state)
{
    struct stat status;
    const int folder = open(m.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int fd = openat(folder, "data", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    (void)state;
    assert_true(folder >= 0 && fd >= 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(fdatasync(fd), 0);
    assert_int_equal(posix_fallocate(fd, 0, PAGE), 0);
    assert_int_equal(ftruncate(fd, 10), 0);
    assert_int_equal(syscall(SYS_fstat, fd, &status), 0);
    while (syscall(SYS_getdents64, folder, page, sizeof(page)) > 0)
        ;
    close(fd);
    close(folder);
    const int again = open_file("data", O_RDWR);
    close(again);
    io_mount_expect(&m, IO_OPEN, 2, 0); /* the folder, and again */
    io_mount_expect(&m, IO_CREATE, 1, 0);
    io_mount_expect(&m, IO_SYNC, 2, 0);
    io_mount_expect(&m, IO_ALLOCATE, 1, 0);
    io_mount_expect(&m, IO_TRUNCATE, 1, 0);
    io_mount_expect(&m, IO_STAT, 1, 0);
    io_mount_expect(&m, IO_LIST, 2, 0);
    io_mount_expect(&m, IO_CLOSE, 3, 0);
}

static void send_descriptor(int socket, int fd)
{
    char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    assert_int_equal(sendmsg(socket, &message, 0), 1);
}

static int receive_descriptor(int socket)
{
    char byte, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    int fd;
    if (recvmsg(socket, &message, 0) != 1)
        return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

/* Inherited, duplicated, and passed to another process over a socket. */
static void test_descriptors_from_elsewhere(void **state)
{
    int sockets[2];
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    const pid_t child = fork();
    if (child == 0) {
        const int passed = receive_descriptor(sockets[1]), copy = dup2(fd, 900);
        _exit(write(fd, page, 100) == 100 && write(copy, page, 200) == 200 && write(passed, page, 300) == 300 ? 0 : 1);
    }
    const int second = open_file("second", O_RDWR | O_CREAT);
    send_descriptor(sockets[0], second);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    io_mount_expect(&m, IO_WRITE, 3, 600);
    close(fd);
    close(second);
    close(sockets[0]);
    close(sockets[1]);
}

static void *write_often(void *fd)
{
    for (int i = 0; i < 1000; i++)
        assert_int_equal(pwrite(*(int *)fd, page, 1 + i % 7, 0), 1 + i % 7);
    return NULL;
}

static void test_threads_at_one_file(void **state)
{
    pthread_t threads[8];
    int fd = open_file("data", O_RDWR | O_CREAT);
    uint64_t bytes = 0;
    (void)state;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, &fd), 0);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 1000; i++)
        bytes += 8 * (1 + (uint64_t)i % 7);
    io_mount_expect(&m, IO_WRITE, 8000, bytes);
    close(fd);
}

static void test_files_that_are_gone_or_replaced(void **state)
{
    const int deleted = open_file("deleted", O_RDWR | O_CREAT), replaced = open_file("replaced", O_RDWR | O_CREAT);
    const int new = open_file("new", O_RDWR | O_CREAT);
    (void)state;
    assert_int_equal(unlink(io_mount_file(&m, "deleted")), 0);
    assert_int_equal(rename(io_mount_file(&m, "new"), io_mount_file(&m, "replaced")), 0);
    assert_int_equal(write(deleted, page, 10), 10);
    assert_int_equal(write(replaced, page, 20), 20);
    assert_int_equal(write(new, page, 40), 40);
    io_mount_expect(&m, IO_WRITE, 3, 70);
    close(deleted);
    close(replaced);
    close(new);
}

/* ---- other views of the file system ---- */

static int write_to(const char *path, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && write(fd, page, size) == (ssize_t)size ? 0 : 1;
}

static int write_in_container(void)
{
    char old[128];
    snprintf(old, sizeof(old), "%s/old", m.path);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return 1;
    const int root = open(m.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* as container runtimes do */
    if (root < 0 || mkdir(old, 0700) < 0)
        return 1;
    if (syscall(SYS_pivot_root, m.path, old) < 0)
        return 77; /* not from an initramfs */
    if (chdir("/") < 0 || mkdir("/sonde-io-data", 0700) < 0 ||
        mount("sonde-io", "/sonde-io-data", "tmpfs", 0, NULL) < 0)
        return 1;
    return write_to("/file", 100) || write_to("/sonde-io-data/file", 200);
}

/* Another root directory and mounts of its own: they are named as the program sees them. */
static void test_mounts_of_a_container(void **state)
{
    struct io_mount inside = {.path = "/sonde-io-data", .source = source}, root = {.path = "/", .source = source};
    (void)state;
    in_child(write_in_container);
    io_mount_expect(&inside, IO_WRITE, 1, 200);
    io_mount_expect(&root, IO_WRITE, 1, 100);
    io_mount_expect(&root, IO_OPEN, 1, 0); /* before it was the root */
    io_mount_expect(&m, IO_WRITE, 0, 0);
}

static int write_in_chroot(void)
{
    if (mkdir(io_mount_file(&m, "bound"), 0700) < 0 || chroot(m.path) < 0 || chdir("/") < 0)
        return 1;
    return write_to("/file", 100);
}

static void test_other_root_directory(void **state)
{
    (void)state;
    in_child(write_in_chroot);
    io_mount_expect(&m, IO_WRITE, 1, 100);
}

static void test_bind_mount_has_counters_of_its_own(void **state)
{
    struct io_mount bound = {.source = source};
    (void)state;
    assert_int_equal(mkdir(io_mount_file(&m, "bound"), 0700), 0);
    snprintf(bound.path, sizeof(bound.path), "%.32s/bound", m.path);
    assert_int_equal(mount(m.path, bound.path, NULL, MS_BIND, NULL), 0);
    assert_int_equal(write_to(io_mount_file(&m, "file"), 100), 0);
    assert_int_equal(write_to(io_mount_file(&bound, "file"), 200), 0);
    io_mount_expect(&m, IO_WRITE, 1, 100);
    io_mount_expect(&bound, IO_WRITE, 1, 200);
    umount2(bound.path, MNT_DETACH);
}

#if defined(__x86_64__)
/* As a 32-bit program does, whose system calls have other numbers: 4 is write there, and stat here. */
static long call_32(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static int write_as_32_bit(void)
{
    char *low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    const int fd = open(io_mount_file(&m, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (low == MAP_FAILED || fd < 0)
        return 1;
    signal(SIGSEGV, SIG_DFL);
    return call_32(4, fd, (long)low, 300) == 300 && call_32(6, fd, 0, 0) == 0 ? 0 : 1;
}

static void test_32_bit_program(void **state)
{
    int status = -1;
    (void)state;
    const pid_t child = fork();
    if (child == 0)
        _exit(write_as_32_bit());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        print_message("no 32-bit programs here\n");
        skip();
    }
    assert_int_equal(status, 0);
    io_mount_expect(&m, IO_WRITE, 1, 300);
    io_mount_expect(&m, IO_CLOSE, 1, 0);
    io_mount_expect(&m, IO_STAT, 0, 0);
}
#endif

/* The source tries some of this itself when it is opened. */
static void test_of_the_source_itself(void **state)
{
    (void)state;
    assert_null(strstr(limitation, "write"));
    if (!strstr(limitation, NO_URING))
        assert_null(strstr(limitation, "not counted"));
}

static void test_nothing_is_counted_while_shed(void **state)
{
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    assert_int_equal(source_io.shed(source, SOURCE_DETAIL_LEAST), 0);
    assert_int_equal(write(fd, page, 10), 10);
    assert_int_equal(source_io.shed(source, SOURCE_DETAIL_FULL), 0);
    assert_int_equal(write(fd, page, 20), 20);
    io_mount_expect(&m, IO_WRITE, 1, 20);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads_and_writes_of_all_forms, begin, end),
        cmocka_unit_test_setup_teardown(test_short_reads_and_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_bytes_between_two_files, begin, end),
        cmocka_unit_test_setup_teardown(test_other_operations_on_descriptors, begin, end),
        cmocka_unit_test_setup_teardown(test_descriptors_from_elsewhere, begin, end),
        cmocka_unit_test_setup_teardown(test_threads_at_one_file, begin, end),
        cmocka_unit_test_setup_teardown(test_files_that_are_gone_or_replaced, begin, end),
        cmocka_unit_test_setup_teardown(test_mounts_of_a_container, begin, end),
        cmocka_unit_test_setup_teardown(test_other_root_directory, begin, end),
        cmocka_unit_test_setup_teardown(test_bind_mount_has_counters_of_its_own, begin, end),
#if defined(__x86_64__)
        cmocka_unit_test_setup_teardown(test_32_bit_program, begin, end),
#endif
        cmocka_unit_test_setup_teardown(test_of_the_source_itself, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_counted_while_shed, begin, end),
    };
    return cmocka_run_group_tests(tests, open_source, close_source);
}
