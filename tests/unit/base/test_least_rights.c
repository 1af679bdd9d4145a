/* What a process can no longer do after least_rights_enter; each case in a process of its own. */
#include "base/least_rights.h"

#include "base/cleanup.h"

#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "../emulated.h"

/* Returns what `body` returns in a process that has given up its rights; 100: it could not. */
static int in_process(int (*body)(void))
{
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(least_rights_enter() == 0 ? body() : 100);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int start_program(void)
{
    char *const arguments[] = {"/bin/true", NULL};
    execv(arguments[0], arguments);
    return errno;
}

static int mount_file_system(void)
{
    return mount("none", "/", "tmpfs", MS_REMOUNT, NULL) < 0 ? errno : 0;
}

static int write_memory_of_the_parent(void)
{
    return syscall(SYS_process_vm_writev, getppid(), NULL, 0, NULL, 0, 0) < 0 ? errno : 0;
}

static int load_module(void)
{
    return syscall(SYS_finit_module, -1, "", 0) < 0 ? errno : 0;
}

static int read_and_fork(void)
{
    _cleanup_fclose_ FILE *f = fopen("/proc/self/status", "re");
    char line[128];
    if (!f || !fgets(line, sizeof(line), f))
        return errno;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid > 0 && waitpid(pid, NULL, 0) == pid ? 0 : errno;
}

static int has_other_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    static const unsigned gone[] = {CAP_DAC_OVERRIDE, CAP_SYS_MODULE, CAP_SYS_BOOT, CAP_SYS_TIME,
                                    CAP_NET_ADMIN,    CAP_NET_RAW,    CAP_MKNOD,    CAP_SYS_CHROOT};
    if (syscall(SYS_capget, &header, data) < 0)
        return errno;
    for (size_t i = 0; i < array_size(gone); i++)
        if ((data[CAP_TO_INDEX(gone[i])].effective | data[CAP_TO_INDEX(gone[i])].permitted) & CAP_TO_MASK(gone[i]))
            return 1;
    return 0;
}

static void test_refused(void **state)
{
    (void)state;
    skip_if_emulated(); /* no seccomp filter can be set */
    assert_int_equal(in_process(start_program), EPERM);
    assert_int_equal(in_process(mount_file_system), EPERM);
    assert_int_equal(in_process(write_memory_of_the_parent), EPERM);
    assert_int_equal(in_process(load_module), EPERM);
}

static void test_capabilities_that_are_not_used_are_gone(void **state)
{
    (void)state;
    assert_int_equal(in_process(has_other_capabilities), 0);
}

static void test_allowed(void **state)
{
    (void)state;
    assert_int_equal(in_process(read_and_fork), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_capabilities_that_are_not_used_are_gone),
        cmocka_unit_test(test_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
