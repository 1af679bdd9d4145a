/* Small reads by blocks give what the file has. */
#include "resolve/elf/file_blocks.h"

#include "base/cleanup.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 20001 /* four blocks and a part of one */

struct file {
    int fd;
    uint64_t number;
    uint8_t bytes[BYTES];
};

static void write_file(struct file *f, unsigned seed)
{
    for (size_t i = 0; i < BYTES; i++)
        f->bytes[i] = (uint8_t)(rand_r(&seed) >> 3);
    assert_int_equal(pwrite(f->fd, f->bytes, BYTES, 0), BYTES);
    f->number = file_blocks_number();
}

static void test_reads_are_the_files_bytes(void **state)
{
    (void)state;
    static struct file files[2];
    unsigned seed = 1;
    uint8_t read_bytes[1024];
    for (size_t i = 0; i < 2; i++) {
        files[i].fd = memfd_create("blocks", MFD_CLOEXEC);
        write_file(&files[i], (unsigned)i);
    }
    for (int i = 0; i < 20000; i++) {
        struct file *f = &files[rand_r(&seed) % 2];
        const size_t size = (size_t)rand_r(&seed) % sizeof(read_bytes);
        const uint64_t offset = (uint64_t)rand_r(&seed) % (BYTES - size + 1);
        assert_int_equal(file_blocks_read(f->fd, f->number, BYTES, offset, read_bytes, size), 0);
        assert_memory_equal(read_bytes, f->bytes + offset, size);
        if (i % 100 == 0)
            write_file(f, (unsigned)i); /* another file at the same descriptor */
    }
    for (size_t i = 0; i < 2; i++)
        close(files[i].fd);
}

static void test_file_that_became_shorter(void **state)
{
    (void)state;
    static struct file f;
    uint8_t read_bytes[8];
    f.fd = memfd_create("blocks", MFD_CLOEXEC);
    write_file(&f, 1);
    assert_int_equal(ftruncate(f.fd, 5000), 0);
    assert_int_equal(file_blocks_read(f.fd, f.number, BYTES, 4990, read_bytes, 8), 0); /* its block is incomplete */
    assert_memory_equal(read_bytes, f.bytes + 4990, 8);
    assert_int_equal(file_blocks_read(f.fd, f.number, BYTES, 4996, read_bytes, 8), -EIO);
    assert_int_equal(file_blocks_read(f.fd, f.number, BYTES, 9000, read_bytes, 8), -EIO);
    close(f.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_are_the_files_bytes),
        cmocka_unit_test(test_file_that_became_shorter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
