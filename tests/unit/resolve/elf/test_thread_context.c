/* The thread context variable in files built by this compiler: libsonde has it, through a TLS descriptor; others do
 * not. tests/e2e/test_thread_context.py tests the access to memory. */
#include "resolve/elf/elf.h"
#include "resolve/elf/thread_context.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct elf_file *opened(const char *path)
{
    struct elf_file *f = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(elf_open(fd, &f), 0);
    return f;
}

static void test_libsonde_has_the_variable(void **state)
{
    (void)state;
    struct thread_context_symbol found = {0};
    struct elf_file *f = opened(getenv("LIBSONDE"));
    if (elf_machine(f) != 62 /* EM_X86_64 */) {
        print_message("contexts of threads are read on x86-64 only\n");
        elf_file_free(f);
        skip();
    }
    assert_int_equal(thread_context_read(f, &found), 0);
    elf_file_free(f);
    assert_int_equal(found.kind, THREAD_CONTEXT_DESCRIPTOR);
    assert_true(found.place != 0);
}

static void test_other_files_do_not_have_the_variable(void **state)
{
    (void)state;
    struct thread_context_symbol found = {.place = 5};
    struct elf_file *f = opened("/proc/self/exe");
    assert_int_equal(thread_context_read(f, &found), -ENOENT);
    elf_file_free(f);
    assert_int_equal(found.place, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libsonde_has_the_variable),
        cmocka_unit_test(test_other_files_do_not_have_the_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
