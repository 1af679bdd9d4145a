/* Which files a confined process can open. */
#include "server/engine_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int error_of_open(const char *name, int flags)
{
    const int fd = open(name, flags | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* In a process of its own: confinement is for ever. Returns the number of the first check that fails. */
static int check_confined(const char *directory)
{
    char tables[100], configuration[100];
    snprintf(tables, sizeof(tables), "%s/engine", directory);
    snprintf(configuration, sizeof(configuration), "%s/engine.xml", directory);
    const int r = engine_confine(tables, configuration);
    if (r == -EOPNOTSUPP)
        return 100;
    const bool is_right[] = {
        r == 0,
        error_of_open("engine/new", O_RDWR | O_CREAT) == 0,
        rename("engine/new", "engine/other") == 0,
        error_of_open("engine.xml", O_RDONLY) == 0,
        error_of_open("engine.xml", O_WRONLY) == EACCES,
        error_of_open("spool/segment", O_RDONLY) == EACCES,
        error_of_open("spool/new", O_WRONLY | O_CREAT) == EACCES,
        unlink("spool/segment") < 0,
        error_of_open("lock", O_WRONLY | O_CREAT) == EACCES,
        socket(AF_INET, SOCK_STREAM, 0) < 0,
    };
    for (int i = 0; i < (int)(sizeof(is_right) / sizeof(is_right[0])); i++)
        if (!is_right[i])
            return i + 1;
    return 0;
}

static void test_only_the_engines_own_files_can_be_opened(void **state)
{
    (void)state;
    char directory[] = "/tmp/sonde-test-confine-XXXXXX";
    int status = 0;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(mkdir("engine", 0700) | mkdir("spool", 0700), 0);
    assert_int_equal(error_of_open("engine.xml", O_WRONLY | O_CREAT), 0);
    assert_int_equal(error_of_open("spool/segment", O_WRONLY | O_CREAT), 0);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(check_confined(directory));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink("engine/other");
    unlink("engine.xml");
    unlink("spool/segment");
    rmdir("engine");
    rmdir("spool");
    rmdir(directory);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 100)
        skip(); /* the kernel has no Landlock */
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_only_the_engines_own_files_can_be_opened)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
