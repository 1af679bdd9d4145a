/* Writes of a library that fail: those to files of tables wait for space or end the process. */
#include "server/engine_files.h"

#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];
static ssize_t (*module_write)(int fd, const void *data, size_t size);
static int (*module_fsync)(int fd);

/* ---- the kernel ---- */

static int failures, error; /* how many calls still fail, and with which error */
static unsigned pauses;

static bool fails(void)
{
    if (!failures)
        return false;
    failures--;
    errno = error;
    return true;
}

ssize_t write(int fd, const void *data, size_t size)
{
    return fails() ? -1 : syscall(SYS_write, fd, data, size);
}

int fsync(int fd)
{
    return fails() ? -1 : (int)syscall(SYS_fsync, fd);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time;
    (void)left;
    pauses++;
    return 0;
}

/* ---- tests ---- */

static int open_file(const char *name)
{
    char path[128];
    failures = 0;
    pauses = 0;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

/* The exit status of a process in which calls fail with this error from now on. */
static int status_of(int new_error, bool syncs)
{
    const int fd = open_file("store/data.bin");
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        failures = 1000000;
        error = new_error;
        log_set_level(LOG_LEVEL_ERROR);
        freopen("/dev/null", "w", stderr);
        _exit((syncs ? module_fsync(fd) : (int)module_write(fd, "x", 1)) < 0 ? 2 : 3);
    }
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_writes_wait_for_space(void **state)
{
    char found[8] = "";
    (void)state;
    const int fd = open_file("store/data.bin");
    failures = 3;
    error = ENOSPC;
    assert_int_equal(module_write(fd, "data", 4), 4);
    assert_int_equal(pauses, 3);
    assert_int_equal(pread(fd, found, sizeof(found), 0), 4);
    assert_string_equal(found, "data");
    close(fd);
}

static void test_process_ends_where_data_cannot_be_written(void **state)
{
    (void)state;
    assert_int_equal(status_of(EIO, false), 1);
    assert_int_equal(status_of(EIO, true), 1);
    assert_int_equal(status_of(ENOSPC, false), 1); /* after some time */
    assert_int_equal(status_of(EINTR, false), 2);  /* the library repeats the call */
}

static void test_other_files_can_fail(void **state)
{
    (void)state;
    const int fd = open_file("status");
    failures = 1;
    error = ENOSPC;
    assert_int_equal(module_write(fd, "x", 1), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(module_write(fd, "x", 1), 1);
    assert_int_equal(pauses, 0);
    close(fd);
}

static int load_module(void **state)
{
    char path[128];
    (void)state;
    void *module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    if (!module || engine_files_guard(module) < 0)
        return -1;
    *(void **)&module_write = dlsym(module, "module_write");
    *(void **)&module_fsync = dlsym(module, "module_fsync");
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(directory, sizeof(directory), "/tmp/sonde-test-engine-files-XXXXXX");
    if (!module_write || !module_fsync || !mkdtemp(directory))
        return -1;
    snprintf(path, sizeof(path), "%s/store", directory);
    return mkdir(path, 0700);
}

static int remove_directory(void **state)
{
    static const char *const names[] = {"store/data.bin", "store", "status", ""};
    char path[128];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        remove(path);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_wait_for_space),
        cmocka_unit_test(test_process_ends_where_data_cannot_be_written),
        cmocka_unit_test(test_other_files_can_fail),
    };
    return cmocka_run_group_tests(tests, load_module, remove_directory);
}
