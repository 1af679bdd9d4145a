/* Unpacking xz data in the confined process: results, damaged data, and data that are larger than is allowed. */
#include "resolve/symbols/unpacker.h"
#include "resolve/symbols/xz.h"

#include "base/cleanup.h"

#include <errno.h>
#include <lzma.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
    return name_process_new((struct name_process **)state);
}

static int teardown(void **state)
{
    name_process_free(*state);
    return 0;
}

static uint8_t *pack(const uint8_t *data, size_t size, size_t *ret_size)
{
    const size_t max = lzma_stream_buffer_bound(size);
    uint8_t *packed = malloc(max);
    *ret_size = 0;
    assert_non_null(packed);
    assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, size, packed, ret_size, max), LZMA_OK);
    return packed;
}

/* Repeats while a busy node gives the process no CPU. */
static int unpack(struct name_process *p, const void *packed, size_t size, uint8_t **ret, size_t *ret_size)
{
    int r;
    while ((r = unpacker_unpack(p, packed, size, ret, ret_size)) == -EAGAIN)
        poll(NULL, 0, 10);
    return r;
}

static uint8_t *noise(size_t size)
{
    uint8_t *data = malloc(size);
    uint32_t x = 1;
    assert_non_null(data);
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (uint8_t)(x >> 24);
    }
    return data;
}

/* Neither the packed nor the unpacked data fit into the buffers of the socket. */
static void test_large_data(void **state)
{
    const size_t size = 3u << 20;
    _cleanup_free_ uint8_t *data = noise(size), *unpacked = NULL;
    size_t packed_size, unpacked_size;
    _cleanup_free_ uint8_t *packed = pack(data, size, &packed_size);
    assert_true(packed_size > size / 2);
    assert_int_equal(unpack(*state, packed, packed_size, &unpacked, &unpacked_size), 0);
    assert_int_equal(unpacked_size, size);
    assert_memory_equal(unpacked, data, size);
}

static void test_damaged_data(void **state)
{
    const size_t size = 200000;
    _cleanup_free_ uint8_t *data = noise(size), *unpacked = NULL;
    size_t packed_size, unpacked_size;
    _cleanup_free_ uint8_t *packed = pack(data, size, &packed_size);
    assert_int_equal(unpack(*state, packed, packed_size - 1, &unpacked, &unpacked_size), -ENOEXEC);
    assert_int_equal(unpack(*state, packed, 0, &unpacked, &unpacked_size), -ENOEXEC);
    assert_int_equal(unpack(*state, "no xz", 5, &unpacked, &unpacked_size), -ENOEXEC);
    packed[packed_size / 2] ^= 1;
    assert_int_equal(unpack(*state, packed, packed_size, &unpacked, &unpacked_size), -ENOEXEC);
    packed[packed_size / 2] ^= 1;
    assert_int_equal(unpack(*state, packed, packed_size, &unpacked, &unpacked_size), 0);
    assert_memory_equal(unpacked, data, size);
}

/* 20 KiB that become 100 MiB. */
static void test_too_much_data(void **state)
{
    const size_t size = 100u << 20;
    _cleanup_free_ uint8_t *data = calloc(1, size), *unpacked = NULL;
    size_t packed_size, unpacked_size;
    assert_non_null(data);
    _cleanup_free_ uint8_t *packed = pack(data, size, &packed_size);
    assert_true(packed_size < 100000);
    const int r = unpack(*state, packed, packed_size, &unpacked, &unpacked_size);
    assert_true(r == -EFBIG || r == -EPERM); /* -EPERM: a slow machine needs its CPU time before that */
}

/* Sums up the delivered bytes: no more than allowed arrive, and none after an error. */
static int count_bytes(void *context, const void *data, size_t size)
{
    (void)data;
    *(size_t *)context += size;
    return 0;
}

static void test_result_is_bounded(void **state)
{
    (void)state;
    const size_t size = XZ_UNPACKED_MAX + 1;
    _cleanup_free_ uint8_t *data = calloc(1, size);
    size_t packed_size, count = 0;
    struct xz *xz;
    assert_non_null(data);
    _cleanup_free_ uint8_t *packed = pack(data, size, &packed_size);
    assert_int_equal(xz_new(count_bytes, &count, &xz), 0);
    assert_int_equal(xz_add(xz, packed, packed_size, true), -EFBIG);
    assert_true(count <= XZ_UNPACKED_MAX);
    xz_free(xz);

    count = 0;
    _cleanup_free_ uint8_t *fits = pack(data, size - 1, &packed_size);
    assert_int_equal(xz_new(count_bytes, &count, &xz), 0);
    for (size_t i = 0; i < packed_size; i++) /* byte by byte */
        assert_int_equal(xz_add(xz, fits + i, 1, i + 1 == packed_size), 0);
    assert_int_equal(count, XZ_UNPACKED_MAX);
    xz_free(xz);
}

static pid_t process_of(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &pid), 1);
    return pid;
}

/* A stopped process: the call returns, and a later one succeeds with a new process. */
static void test_a_process_without_a_cpu(void **state)
{
    const size_t size = 2u << 20;
    _cleanup_free_ uint8_t *data = noise(size), *unpacked = NULL;
    size_t packed_size, unpacked_size;
    _cleanup_free_ uint8_t *packed = pack(data, size, &packed_size);
    const pid_t first = process_of();
    kill(first, SIGSTOP);
    assert_int_equal(unpacker_unpack(*state, packed, packed_size, &unpacked, &unpacked_size), -EAGAIN);
    assert_int_equal(unpack(*state, packed, packed_size, &unpacked, &unpacked_size), 0);
    assert_memory_equal(unpacked, data, size);
    assert_int_not_equal(process_of(), first);
    assert_int_equal(name_process_counts(*state, NAME_TASK_UNPACK)->refused, 0);
}

/* Data that end the process are not tried again. */
static void test_data_that_end_the_process(void **state)
{
    const size_t size = 1u << 20;
    _cleanup_free_ uint8_t *data = noise(size), *unpacked = NULL;
    size_t packed_size, unpacked_size;
    _cleanup_free_ uint8_t *packed = pack(data, size, &packed_size);
    struct name_process *p = *state;
    const struct name_message *m;
    assert_int_equal(name_process_begin(p, NAME_TASK_UNPACK, 7, 1000000000), 0);
    assert_int_equal(name_process_send(p, packed, 100, false), 0);
    kill(process_of(), SIGKILL);
    while (name_process_receive(p, 10, &m) != -EPIPE) /* part of the result may arrive first */
        ;
    assert_int_equal(name_process_begin(p, NAME_TASK_UNPACK, 7, 1000000000), -EPERM);
    assert_int_equal(name_process_counts(p, NAME_TASK_UNPACK)->refused, 1);
    assert_int_equal(unpack(p, packed, packed_size, &unpacked, &unpacked_size), 0);
    assert_memory_equal(unpacked, data, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_large_data, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_data, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_much_data, setup, teardown),
        cmocka_unit_test(test_result_is_bounded),
        cmocka_unit_test_setup_teardown(test_a_process_without_a_cpu, setup, teardown),
        cmocka_unit_test_setup_teardown(test_data_that_end_the_process, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
