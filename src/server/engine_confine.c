/* Landlock for files, seccomp for the network; see engine_confine.h. */
#include "server/engine_confine.h"

#include "base/cleanup.h"
#include "base/least_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* All rights of Landlock's first three versions but the execution of files and the making of devices. */
#define REFER    ((uint64_t)1 << 13) /* version 2 */
#define TRUNCATE ((uint64_t)1 << 14) /* version 3 */
#define FIRST    ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define KEPT                                                                                                           \
    (FIRST & ~(uint64_t)(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK))

static int allow(int rules, const char *path, uint64_t access)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

/* The program and its libraries: the engine reads their symbols when a query fails, and ends if it cannot. (Their debug
 * files below /usr/lib/debug, too, if they are there.) */
static int allow_object(struct dl_phdr_info *object, size_t size, void *rules)
{
    (void)size;
    if (strchr(object->dlpi_name, '/') || !object->dlpi_name[0])
        allow(*(const int *)rules, object->dlpi_name[0] ? object->dlpi_name : "/proc/self/exe",
              LANDLOCK_ACCESS_FS_READ_FILE);
    return 0;
}

static int confine_files(const char *directory, const char *configuration)
{
    static const char *const directories[] = {"/proc/self", "/sys/fs/cgroup", "/sys/devices/system/cpu",
                                              "/usr/lib/debug"};
    static const char *const files[] = {"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/dev/urandom", "/dev/null"};
    const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return -EOPNOTSUPP;
    const uint64_t later = (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0);
    const struct landlock_ruleset_attr handled = {.handled_access_fs = FIRST | later};
    _cleanup_close_ int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
    if (rules < 0)
        return -errno;
    int r = allow(rules, directory, KEPT | later) ?: allow(rules, configuration, LANDLOCK_ACCESS_FS_READ_FILE);
    for (size_t i = 0; r == 0 && i < array_size(directories); i++)
        r = allow(rules, directories[i], READ);
    for (size_t i = 0; r == 0 && i < array_size(files); i++)
        r = allow(rules, files[i], LANDLOCK_ACCESS_FS_READ_FILE);
    if (r < 0)
        return r;
    dl_iterate_phdr(allow_object, &rules);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        return -errno;
    return 0;
}

/* The filter of least_rights checks the architecture of calls. */
static int refuse_sockets(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = array_size(filter), .filter = filter};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

int engine_confine(const char *directory, const char *configuration)
{
    int r = confine_files(directory, configuration);
    r = r < 0 ? r : least_rights_enter();
    r = r < 0 ? r : refuse_sockets();
    return r < 0 ? r : least_rights_drop_capabilities();
}
