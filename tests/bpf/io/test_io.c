/* I/O counters against what this program does on a file system of its own: operations and bytes must be equal. */
#include "../watch.h"
#include "io_mount.h"
#include "io_requests.h"

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

#define PAGE 4096

static const struct io_options io = {.enabled = true};
static struct shared_tables *tables;
static void *source;
static struct io_mount m;
static uint64_t lost; /* as the test expects it */
static char limitation[256];
static char page[64 * PAGE];

static int begin(void **state)
{
    struct watch_options options = watch_defaults;
    struct attach_report report = {0};
    (void)state;
    lost = 0;
    tables = watch_tables(&options, false);
    const struct source_services services = watch_services(&options, tables);
    if (source_io.open(&services, &io, &report, &source) < 0)
        return -1;
    snprintf(limitation, sizeof(limitation), "%s", report.entries[0].limitation);
    m = io_mount_begin(source);
    return source_io.start(source);
}

static int end(void **state)
{
    struct losses losses = {0};
    (void)state;
    source_io.losses(source, &losses);
    io_mount_end(&m);
    source_io.free(source);
    shared_tables_free(tables);
    return losses.count[LOSS_MAP_FULL] + losses.count[LOSS_MISSED] == lost ? 0 : -1;
}

/* Skips the test where the kernel does not show that. */
static void need(const char *unseen)
{
    if (!strstr(limitation, unseen))
        return;
    print_message("%s\n", unseen);
    skip();
}

#define NO_URING "io_uring is not seen"
#define NO_AIO   "Linux AIO is not seen"

static int open_file(const char *name, int flags)
{
    const int fd = open(io_mount_file(&m, name), flags | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

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

/* Runs `work` in a child, and fails unless it returns 0; 77: skips. */
static void in_child(int (*work)(void))
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        _exit(work());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

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

/* ---- io_uring ---- */

static void test_io_uring(void **state)
{
    need(NO_URING);
    struct uring u = uring_begin(8, 0);
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = fd, .addr = (uintptr_t)page, .len = 9000});
    uring_submit(&u, 1);
    assert_int_equal(uring_take(&u), 9000);
    uring_put(&u, &(struct io_uring_sqe){
                      .opcode = IORING_OP_READ, .fd = fd, .off = 8000, .addr = (uintptr_t)page, .len = 9000});
    uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_FSYNC, .fd = fd});
    uring_submit(&u, 2);
    const int one = uring_take(&u), other = uring_take(&u);
    assert_int_equal(one + other, 1000);
    uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = 1000, .addr = (uintptr_t)page, .len = 1});
    uring_submit(&u, 1);
    assert_int_equal(uring_take(&u), -EBADF);
    io_mount_expect(&m, IO_WRITE, 1, 9000);
    io_mount_expect(&m, IO_READ, 1, 1000);
    io_mount_expect(&m, IO_SYNC, 1, 0);
    close(fd);
    uring_end(&u);
}

/* By path and by descriptor; a socket is no file. */
static void test_io_uring_opens_and_closes(void **state)
{
    need(NO_URING);
    struct uring u = uring_begin(8, 0);
    int sockets[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_OPENAT,
                                         .fd = AT_FDCWD,
                                         .addr = (uintptr_t)io_mount_file(&m, "data"),
                                         .len = 0600,
                                         .open_flags = O_RDWR | O_CREAT});
    uring_submit(&u, 1);
    const int fd = uring_take(&u);
    assert_true(fd >= 0);
    uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_CLOSE, .fd = fd});
    uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_CLOSE, .fd = sockets[0]});
    uring_submit(&u, 2);
    assert_int_equal(uring_take(&u) + uring_take(&u), 0);
    io_mount_expect(&m, IO_CREATE, 1, 0);
    io_mount_expect(&m, IO_CLOSE, 1, 0);
    close(sockets[1]);
    uring_end(&u);
}

/* The kernel's thread takes what is submitted; it counts for the process that owns the queue. */
static void test_io_uring_with_a_polling_thread(void **state)
{
    need(NO_URING);
    struct uring u = uring_begin(8, IORING_SETUP_SQPOLL);
    int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    assert_int_equal(syscall(SYS_io_uring_register, u.fd, IORING_REGISTER_FILES, &fd, 1), 0);
    for (int i = 0; i < 20; i++) {
        uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_WRITE,
                                             .flags = IOSQE_FIXED_FILE,
                                             .fd = 0,
                                             .off = 0,
                                             .addr = (uintptr_t)page,
                                             .len = 5000});
        uring_submit(&u, 1);
        assert_int_equal(uring_take(&u), 5000);
    }
    io_mount_expect(&m, IO_WRITE, 20, 100000);
    close(fd);
    uring_end(&u);
}

static void test_io_uring_without_completions(void **state)
{
    need(NO_URING);
    struct uring u = uring_begin(8, 0);
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    uring_put(
        &u,
        &(struct io_uring_sqe){
            .opcode = IORING_OP_WRITE, .flags = IOSQE_CQE_SKIP_SUCCESS, .fd = fd, .addr = (uintptr_t)page, .len = 700});
    uring_put(&u, &(struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = fd, .addr = (uintptr_t)page, .len = 300});
    uring_submit(&u, 2);
    assert_int_equal(uring_take(&u), 300);
    const struct io_counted unconfirmed = io_mount_flagged(&m, IO_WRITE, IO_IS_UNCONFIRMED);
    assert_int_equal(unconfirmed.operations, 1);
    assert_int_equal(unconfirmed.bytes, 700);
    io_mount_expect(&m, IO_WRITE, 2, 1000);
    close(fd);
    uring_end(&u);
}

/* ---- AIO ---- */

static struct iocb aio_request(int opcode, int fd, size_t size, long long offset)
{
    return (struct iocb){.aio_lio_opcode = (uint16_t)opcode,
                         .aio_fildes = (uint32_t)fd,
                         .aio_buf = (uintptr_t)page,
                         .aio_nbytes = size,
                         .aio_offset = offset};
}

static void test_aio(void **state)
{
    need(NO_AIO);
    const aio_context_t ring = aio_begin(8);
    const int fd = open_file("data", O_RDWR | O_CREAT);
    struct iocb write = aio_request(IOCB_CMD_PWRITE, fd, 9000, 0), read = aio_request(IOCB_CMD_PREAD, fd, 9000, 8500);
    struct iocb bad = aio_request(IOCB_CMD_PREAD, 1000, 1, 0);
    struct iocb *list[] = {&write, &read, &bad};
    struct io_event events[8];
    (void)state;
    assert_int_equal(syscall(SYS_io_submit, ring, 1, list), 1);
    assert_int_equal(syscall(SYS_io_getevents, ring, 1, 8, events, NULL), 1);
    assert_int_equal(events[0].res, 9000);
    io_mount_expect(&m, IO_WRITE, 1, 9000);
    assert_int_equal(syscall(SYS_io_submit, ring, 2, &list[1]), 1); /* the second of these is refused */
    assert_int_equal(syscall(SYS_io_getevents, ring, 1, 8, events, NULL), 1);
    assert_int_equal(events[0].res, 500);
    io_mount_expect(&m, IO_READ, 1, 500);
    aio_end(ring);
    close(fd);
}

/* The program takes its events from the ring itself, and uses the memory of its requests again. */
static void test_aio_whose_ring_is_read_by_the_program(void **state)
{
    need(NO_AIO);
    const aio_context_t ring = aio_begin(4);
    const int fd = open_file("data", O_RDWR | O_CREAT);
    struct iocb request, *list[] = {&request};
    struct io_event event;
    uint64_t bytes = 0;
    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        request = aio_request(IOCB_CMD_PWRITE, fd, 1 + i % 100, 0);
        bytes += 1 + i % 100;
        assert_int_equal(syscall(SYS_io_submit, ring, 1, list), 1);
        while (!aio_take_unseen(ring, &event))
            ;
        assert_int_equal(event.res, 1 + i % 100);
    }
    aio_end(ring);
    io_mount_expect(&m, IO_WRITE, 3000, bytes);
    close(fd);
}

static int submit_and_exit(void)
{
    const aio_context_t ring = aio_begin(4);
    const int fd = open_file("data", O_RDWR | O_CREAT);
    struct iocb request = aio_request(IOCB_CMD_PWRITE, fd, 100, 0), *list[] = {&request};
    return syscall(SYS_io_submit, ring, 1, list) == 1 ? 0 : 1;
}

static void test_aio_whose_events_nobody_takes_is_a_loss(void **state)
{
    need(NO_AIO);
    struct losses before = {0}, after = {0};
    (void)state;
    source_io.losses(source, &before);
    in_child(submit_and_exit);
    io_source_sweep(source, clock_monotonic_ns());
    source_io.losses(source, &after);
    const uint64_t counted = io_mount_counted(&m, IO_WRITE).operations;
    lost = after.count[LOSS_MISSED] - before.count[LOSS_MISSED];
    assert_int_equal(counted + lost, 1);
}

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
        cmocka_unit_test_setup_teardown(test_io_uring, begin, end),
        cmocka_unit_test_setup_teardown(test_io_uring_opens_and_closes, begin, end),
        cmocka_unit_test_setup_teardown(test_io_uring_with_a_polling_thread, begin, end),
        cmocka_unit_test_setup_teardown(test_io_uring_without_completions, begin, end),
        cmocka_unit_test_setup_teardown(test_aio, begin, end),
        cmocka_unit_test_setup_teardown(test_aio_whose_ring_is_read_by_the_program, begin, end),
        cmocka_unit_test_setup_teardown(test_aio_whose_events_nobody_takes_is_a_loss, begin, end),
        cmocka_unit_test_setup_teardown(test_of_the_source_itself, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_counted_while_shed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
