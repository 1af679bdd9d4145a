/* Pages that are only in files are given back and read again; pages with data of their own stay as they are. */
#include "base/file_pages.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES (64u << 10)

static char *map_file(int fd, int permissions)
{
    char *at = mmap(NULL, BYTES, permissions, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

static bool is_mapped_in(const char *page)
{
    uint64_t entry = 0;
    const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const off_t at = (off_t)((uintptr_t)page / (uintptr_t)sysconf(_SC_PAGESIZE) * sizeof(entry));
    assert_int_equal(pread(fd, &entry, sizeof(entry), at), sizeof(entry));
    close(fd);
    return entry >> 63;
}

static void test_pages_of_files_are_given_back(void **state)
{
    char path[] = "/tmp/sonde-file-pages-XXXXXX", text[BYTES];
    const int fd = mkstemp(path);
    (void)state;
    memset(text, 'x', sizeof(text));
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
    char *read_only = map_file(fd, PROT_READ), *changed = map_file(fd, PROT_READ | PROT_WRITE);
    assert_int_equal(read_only[0], 'x');
    changed[0] = 'y';
    assert_int_equal(mprotect(changed, BYTES, PROT_READ), 0); /* as the loader does after it has relocated pointers */
    assert_true(is_mapped_in(read_only));
    assert_true(file_pages_release() >= BYTES);
    assert_false(is_mapped_in(read_only));
    assert_true(is_mapped_in(changed));
    assert_int_equal(read_only[0], 'x');
    assert_int_equal(changed[0], 'y');
    munmap(read_only, BYTES);
    munmap(changed, BYTES);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages_of_files_are_given_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
