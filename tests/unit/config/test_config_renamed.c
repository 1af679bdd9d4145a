/* Former names of configuration keys: accepted for one release, with a warning that says what to write. */
#include "config/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define CPUS 4

long __wrap_sysconf(int name);
long __real_sysconf(int name);
long __wrap_sysconf(int name)
{
    return name == _SC_NPROCESSORS_ONLN ? CPUS : __real_sysconf(name);
}

/* Loads `text` as a file. Returns what config_load returned; `said` gets the lines on standard error. */
static int load_and_listen(struct config *c, const char *text, char error[CONFIG_ERROR_BYTES], char said[1024])
{
    char path[] = "/tmp/test-config-renamed-XXXXXX";
    int fd = mkstemp(path), memory = memfd_create("stderr", MFD_CLOEXEC), real = dup(STDERR_FILENO);
    assert_true(fd >= 0 && memory >= 0 && real >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    dup2(memory, STDERR_FILENO);
    int r = config_load(c, path, error);
    fflush(stderr);
    dup2(real, STDERR_FILENO);
    close(real);
    ssize_t size = pread(memory, said, 1023, 0);
    assert_true(size >= 0);
    said[size] = '\0';
    close(memory);
    unlink(path);
    return r;
}

static void test_former_name_sets_the_new_key_and_warns(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "", said[1024];
    config_defaults(&c);
    assert_int_equal(load_and_listen(&c, "budget:\n  memory: 96MiB\n  cpu: 1.5%\n", error, said), 0);
    assert_true(c.budget_one_cpu_share > 0.0599 && c.budget_one_cpu_share < 0.0601); /* of 4 CPUs */
    assert_int_equal(c.budget_memory_bytes, 96 << 20);
    assert_non_null(strstr(said, "sonde: warning: /tmp/test-config-renamed-"));
    assert_non_null(strstr(said, ":3: budget.cpu is now budget.one_cpu"));
    assert_non_null(strstr(said, "write one_cpu: 6%;"));
}

static void test_former_name_and_new_name_are_one_key(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "", said[1024];
    config_defaults(&c);
    assert_true(load_and_listen(&c, "budget:\n  one_cpu: 2%\n  cpu: 1%\n", error, said) < 0);
    assert_non_null(strstr(error, "twice"));
}

static void test_current_names_do_not_warn(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "", said[1024];
    config_defaults(&c);
    assert_int_equal(load_and_listen(&c, "budget:\n  one_cpu: 2%\n", error, said), 0);
    assert_string_equal(said, "");
}

/* Printed configurations and lists of keys show current names only. */
static void test_former_name_is_not_listed(void **state)
{
    (void)state;
    struct config c;
    struct config_key_description d;
    config_defaults(&c);
    for (size_t i = 0; config_describe(&c, i, &d); i++)
        assert_string_not_equal(d.key, "budget.cpu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_former_name_sets_the_new_key_and_warns),
        cmocka_unit_test(test_former_name_and_new_name_are_one_key),
        cmocka_unit_test(test_current_names_do_not_warn),
        cmocka_unit_test(test_former_name_is_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
