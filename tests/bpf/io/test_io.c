/* I/O counters against what this program does on a file system of its own: operations and bytes must be equal. */
#include "io_fixture.h"
#include "io_nfs.h"

#include "sources/io/io_counters.h"
#include "sources/io/io_selftest.h"
#include "sources/io/io_syscalls.h"

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
#include <sys/utsname.h>
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
    io_mount_expect(&m, IO_CLOSE, 2, 0); /* not the ends of the pipe */
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

#define BLOCKED_PER_CPU 400
#define BLOCKED_MAX     3200

struct pipes {
    int from, to;
    unsigned waiting;
};

static void *splice_from_empty_pipe(void *pipes)
{
    struct pipes *p = pipes;
    __atomic_fetch_add(&p->waiting, 1, __ATOMIC_RELAXED);
    assert_int_equal(splice(p->from, NULL, p->to, NULL, PAGE, 0), 0);
    return NULL;
}

/* The kernel sees the end only of a limited number of calls at a time (kretprobe.multi): a further call is a
 * loss, if it is not counted. */
static void test_more_blocked_calls_than_the_kernel_follows(void **state)
{
    const long wanted = BLOCKED_PER_CPU * sysconf(_SC_NPROCESSORS_CONF);
    const size_t count = wanted < BLOCKED_MAX ? (size_t)wanted : BLOCKED_MAX;
    static pthread_t threads[BLOCKED_MAX];
    int from[2], to[2];
    pthread_attr_t small;
    const int fd = open_file("data", O_RDWR | O_CREAT);
    (void)state;
    assert_int_equal(pipe(from), 0);
    assert_int_equal(pipe(to), 0);
    struct pipes pipes = {from[0], to[1], 0};
    const uint64_t before = count_lost();
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], &small, splice_from_empty_pipe, &pipes), 0);
    while (__atomic_load_n(&pipes.waiting, __ATOMIC_RELAXED) < count)
        sched_yield();
    usleep(300000);
    for (int i = 0; i < 20; i++)
        assert_int_equal(fsync(fd), 0);
    close(fd);
    lost = count_lost() - before;
    print_message("%llu of 20 are lost\n", (unsigned long long)lost);
    assert_int_equal(io_mount_counted(&m, IO_SYNC).operations + lost, 20);
    close(from[1]);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    close(from[0]);
    close(to[0]);
    close(to[1]);
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
    const ssize_t written = fd >= 0 ? write(fd, page, size) : -1;
    close(fd);
    return written == (ssize_t)size ? 0 : 1;
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
    struct io_mount inside = {.path = "/sonde-io-data", .type = "tmpfs", .source = source};
    struct io_mount root = {.path = "/", .type = m.type, .source = source};
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
    struct io_mount bound = {.type = m.type, .source = source};
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

/* ---- every call ---- */

static bool keep_counters(void *context, const struct io_key *key, const struct io_counters *counters)
{
    (void)context, (void)key, (void)counters;
    return false;
}

struct counting {
    uint8_t operation;
    uint64_t operations;
};

static void add_counters(void *context, const struct io_key *key, const struct io_counters *counters, bool is_final)
{
    struct counting *c = context;
    (void)is_final;
    if (key->operation == c->operation)
        c->operations += io_counters_operations(counters);
}

static uint64_t count_on_node(uint8_t operation)
{
    struct counting c = {.operation = operation};
    const struct io_reader reader = {.context = &c, .is_final = keep_counters, .take = add_counters};
    assert_int_equal(io_source_read(source, &reader), 0);
    return c.operations;
}

/* The first call of the table that is not counted when it fails: with a file, but no more, or without a path. -1: all
 * are. Other programs of the node may hide one. */
static long find_uncounted(const struct io_syscall *table, long (*call)(long number, long argument))
{
    const int file = open_file("data", O_RDWR | O_CREAT);
    for (long number = 0; number < IO_MAX_SYSCALLS; number++) {
        const struct io_syscall *s = &table[number];
        if (!s->operation || s->file >= IO_AIO_SETUP)
            continue;
        const int argument = s->file < IO_ARGUMENT_RESULT ? dup(file) : 0;
        const uint64_t before = count_on_node(s->operation);
        call(number, argument);
        const bool is_counted = count_on_node(s->operation) > before;
        if (argument)
            close(argument);
        if (!is_counted)
            return number;
    }
    close(file);
    return -1;
}

static long call_64(long number, long argument)
{
    return syscall(number, argument, argument, argument, 0, 0, 0);
}

static void test_every_call_is_counted(void **state)
{
    struct io_syscall table[IO_MAX_SYSCALLS] = {0};
    (void)state;
    io_syscalls_fill(table);
    assert_int_equal(find_uncounted(table, call_64), -1);
}

#if defined(__x86_64__)
/* As a 32-bit program does, whose system calls have other numbers: 4 is write there, and stat here. */
static long call_32(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third), "S"(0), "D"(0)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static void need_32_bit_calls(void)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(call_32(20, 0, 0, 0) == getpid() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        print_message("no 32-bit programs here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void test_32_bit_program(void **state)
{
    (void)state;
    need_32_bit_calls();
    char *low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    const int fd = open_file("file", O_RDWR | O_CREAT);
    assert_true(low != MAP_FAILED);
    assert_int_equal(call_32(4, fd, (long)low, 300), 300);
    assert_int_equal(call_32(6, fd, 0, 0), 0);
    io_mount_expect(&m, IO_WRITE, 1, 300);
    io_mount_expect(&m, IO_CLOSE, 1, 0);
    io_mount_expect(&m, IO_STAT, 0, 0);
}

static long call_32_alike(long number, long argument)
{
    return call_32(number, argument, argument, argument);
}

static void test_every_32_bit_call_is_counted(void **state)
{
    struct io_syscall table[IO_MAX_SYSCALLS] = {0};
    (void)state;
    need_32_bit_calls();
    io_syscalls_fill_32(table);
    assert_int_equal(find_uncounted(table, call_32_alike), -1);
}
#endif

/* The source tries some of this itself when it is opened. */
static void test_of_the_source_itself(void **state)
{
    struct utsname kernel;
    unsigned major, minor;
    (void)state;
    assert_int_equal(uname(&kernel), 0);
    assert_int_equal(sscanf(kernel.release, "%u.%u", &major, &minor), 2);
    assert_int_equal(major > 5 || (major == 5 && minor >= 17), !strstr(limitation, NO_AIO)); /* has bpf_loop */
    assert_null(strstr(limitation, "write"));
    if (!strstr(limitation, NO_URING))
        assert_null(strstr(limitation, "not counted"));
}

static void test_what_is_not_counted_is_found(void **state)
{
    char missing[64];
    const bool with_pages = !strstr(limitation, NO_PAGES);
    (void)state;
    io_selftest(source, with_pages, missing, sizeof(missing));
    assert_null(strstr(missing, "mmap"));
    assert_int_equal(source_io.shed(source, SOURCE_DETAIL_LEAST), 0);
    io_selftest(source, true, missing, sizeof(missing));
    assert_int_equal(source_io.shed(source, SOURCE_DETAIL_FULL), 0);
    assert_non_null(strstr(missing, "write, writev"));
    assert_non_null(strstr(missing, "mmap"));
    io_selftest(source, false, missing, sizeof(missing));
    assert_null(strstr(missing, "mmap"));
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

/* `nfs`: on a file system of NFS. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads_and_writes_of_all_forms, begin, end),
        cmocka_unit_test_setup_teardown(test_short_reads_and_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_bytes_between_two_files, begin, end),
        cmocka_unit_test_setup_teardown(test_other_operations_on_descriptors, begin, end),
        cmocka_unit_test_setup_teardown(test_descriptors_from_elsewhere, begin, end),
        cmocka_unit_test_setup_teardown(test_threads_at_one_file, begin, end),
        cmocka_unit_test_setup_teardown(test_more_blocked_calls_than_the_kernel_follows, begin, end),
        cmocka_unit_test_setup_teardown(test_files_that_are_gone_or_replaced, begin, end),
        cmocka_unit_test_setup_teardown(test_mounts_of_a_container, begin, end),
        cmocka_unit_test_setup_teardown(test_other_root_directory, begin, end),
        cmocka_unit_test_setup_teardown(test_bind_mount_has_counters_of_its_own, begin, end),
        cmocka_unit_test_setup_teardown(test_every_call_is_counted, begin, end),
#if defined(__x86_64__)
        cmocka_unit_test_setup_teardown(test_32_bit_program, begin, end),
        cmocka_unit_test_setup_teardown(test_every_32_bit_call_is_counted, begin, end),
#endif
        cmocka_unit_test_setup_teardown(test_of_the_source_itself, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_not_counted_is_found, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_counted_while_shed, begin, end),
    };
    if (argc > 1 && strcmp(argv[1], "nfs") == 0 && !io_nfs_begin())
        return 77;
    return run_by_each_method(tests, sizeof(tests) / sizeof(tests[0]), &(struct io_options){.enabled = true});
}
