/* Reads the kernel's build and its setting; see preemption.h. */
#include "sources/attach/preemption.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Of a detached mount, visible to this process only. */
static int open_unmounted(void)
{
    _cleanup_close_ int fs = (int)syscall(SYS_fsopen, "debugfs", FSOPEN_CLOEXEC);
    if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    _cleanup_close_ int mount = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
    return mount < 0 ? -1 : openat(mount, "sched/preempt", O_RDONLY | O_CLOEXEC);
}

static void read_modes(char *ret, size_t size)
{
    _cleanup_close_ int fd = open("/sys/kernel/debug/sched/preempt", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fd = open_unmounted();
    const ssize_t length = fd < 0 ? 0 : read(fd, ret, size - 1);
    ret[length > 0 ? length : 0] = '\0';
}

bool preemption_parse(const char *version, const char *modes)
{
    if (!strstr(version, "PREEMPT"))
        return false;
    return !strstr(version, "PREEMPT_DYNAMIC") || !(strstr(modes, "(none)") || strstr(modes, "(voluntary)"));
}

bool preemption_is_possible(void)
{
    struct utsname system;
    char modes[64];
    if (uname(&system) < 0)
        return true;
    read_modes(modes, sizeof(modes));
    return preemption_parse(system.version, modes);
}
