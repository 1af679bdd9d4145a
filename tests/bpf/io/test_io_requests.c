/* Operations that are requests, with io_uring and Linux AIO: as in test_io.c, they are counted exactly. */
#include "io_fixture.h"
#include "io_nfs.h"
#include "io_requests.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* The kernel's thread takes submitted requests; they count for the process that owns the queue. */
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
    assert_int_equal(syscall(SYS_io_submit, ring, 2, &list[1]), 1); /* the second request is refused */
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

/* `nfs`: on a file system of NFS. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_io_uring, begin, end),
        cmocka_unit_test_setup_teardown(test_io_uring_opens_and_closes, begin, end),
        cmocka_unit_test_setup_teardown(test_io_uring_with_a_polling_thread, begin, end),
        cmocka_unit_test_setup_teardown(test_io_uring_without_completions, begin, end),
        cmocka_unit_test_setup_teardown(test_aio, begin, end),
        cmocka_unit_test_setup_teardown(test_aio_whose_ring_is_read_by_the_program, begin, end),
        cmocka_unit_test_setup_teardown(test_aio_whose_events_nobody_takes_is_a_loss, begin, end),
    };
    if (argc > 1 && strcmp(argv[1], "nfs") == 0 && !io_nfs_begin())
        return 77;
    return run_by_each_method(tests, sizeof(tests) / sizeof(tests[0]), &(struct io_options){.enabled = true});
}
