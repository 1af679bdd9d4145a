/* See least_rights.h. The list names the system calls that are refused, not those that are allowed: each release of the
 * agent's libraries uses other calls, and one that an allow list lacks would break a node in production. */
#include "base/least_rights.h"

#include "base/cleanup.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const unsigned kept_capabilities[] = {
    CAP_BPF,
    CAP_PERFMON,
    CAP_SYS_PTRACE,         /* memory and files of observed processes */
    CAP_DAC_READ_SEARCH,    /* executables that only their owner may read */
    CAP_CHECKPOINT_RESTORE, /* /proc/PID/map_files: executables that were deleted or replaced */
    CAP_SYSLOG,             /* addresses of kernel symbols */
    CAP_SYS_ADMIN,          /* names of other BPF programs */
    CAP_SYS_RESOURCE,       /* locked memory of BPF maps, before Linux 5.11 */
    CAP_NET_BIND_SERVICE,   /* page.listen with a port below 1024 */
    CAP_CHOWN,              /* the group of the agent's socket */
    CAP_SETUID,             /* helper processes become an unprivileged user ... */
    CAP_SETGID,
    CAP_KILL, /* ... and are ended by the agent */
};

static const unsigned refused_calls[] = {
    SYS_execve,
    SYS_execveat,
    SYS_process_vm_writev,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsmount,
    SYS_setns,
    SYS_unshare,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_acct,
    SYS_quotactl,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_userfaultfd,
    SYS_mknodat,
    SYS_open_by_handle_at,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_mknod
    SYS_mknod,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
#if !defined(__SANITIZE_ADDRESS__) /* which looks for leaks with it */
    SYS_ptrace,
#endif
};

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "which architecture is this to seccomp?"
#endif

#define LOAD(member) (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define REFUSE       (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW        (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define X32_BIT      0x40000000u /* another numbering of the same calls on x86-64 */

static int refuse_calls(void)
{
    struct sock_filter filter[7 + 2 * array_size(refused_calls)];
    unsigned short n = 0;
    filter[n++] = LOAD(arch);
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    filter[n++] = REFUSE;
    filter[n++] = LOAD(nr);
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    filter[n++] = REFUSE;
    for (size_t i = 0; i < array_size(refused_calls); i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused_calls[i], 0, 1);
        filter[n++] = REFUSE;
    }
    filter[n++] = ALLOW;
    const struct sock_fprog program = {.len = n, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    const long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    return r == 0 || errno == ENOSYS || errno == EINVAL ? 0 : -errno; /* a kernel without seccomp */
}

static int keep_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    uint32_t kept[2] = {0};
    for (size_t i = 0; i < array_size(kept_capabilities); i++)
        kept[CAP_TO_INDEX(kept_capabilities[i])] |= CAP_TO_MASK(kept_capabilities[i]);
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (size_t i = 0; i < array_size(data); i++) {
        data[i].permitted &= kept[i];
        data[i].effective &= kept[i];
        data[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int least_rights_drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {0};
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

int least_rights_enter(void)
{
    const int r = keep_capabilities();
    return r < 0 ? r : refuse_calls();
}
