/* The sandbox; see sandbox.h.
 *
 * A seccomp filter allows the system calls that a reader of files needs: memory, reading, its socket. All others
 * fail with EPERM instead of killing the process, because libraries try much that they can do without. Open calls
 * are forwarded to the listener (seccomp's user notification) since Linux 5.9, which can also pass a descriptor
 * back; on older kernels, and where such a filter is refused, they fail. */
#include "base/sandbox.h"

#include "base/cleanup.h"
#include "base/least_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define UNPRIVILEGED_ID 65534

/* A sanitizer's shadow memory alone exceeds any limit of memory. */
#ifndef __has_feature /* gcc defines __SANITIZE_ADDRESS__ instead */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define LIMITS_DATA false
#else
#define LIMITS_DATA true
#endif

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "which architecture is this to seccomp?"
#endif

static const unsigned allowed_calls[] = {
    SYS_brk,          SYS_mmap,        SYS_munmap,        SYS_mprotect,     SYS_mremap,
    SYS_madvise,      SYS_read,        SYS_pread64,       SYS_readv,        SYS_lseek,
    SYS_fstat,        SYS_newfstatat,  SYS_statx,         SYS_close,        SYS_fcntl,
    SYS_readlinkat,   SYS_write,       SYS_writev,        SYS_sendto,       SYS_sendmsg,
    SYS_futex,        SYS_getpid,      SYS_gettid,        SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_sigaltstack, SYS_clock_gettime, SYS_getrandom,    SYS_sched_yield,
    SYS_exit,         SYS_exit_group,
#ifdef SYS_readlink
    SYS_readlink,     SYS_stat,        SYS_lstat,
#endif
};

static const unsigned open_calls[] = {
    SYS_openat,
#ifdef SYS_open
    SYS_open,
#endif
};

#define NUMBER_AT  offsetof(struct seccomp_data, nr)
#define ARCH_AT    offsetof(struct seccomp_data, arch)
#define FILTER_MAX (6 + 2 * (array_size(allowed_calls) + array_size(open_calls)))

static size_t add_call(struct sock_filter *to, size_t n, unsigned call, uint32_t action)
{
    to[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    to[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    return n;
}

static int filter_calls(uint32_t on_open, unsigned flags)
{
    struct sock_filter filter[FILTER_MAX] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARCH_AT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER_AT),
    };
    size_t n = 4;
    for (size_t i = 0; i < array_size(open_calls); i++)
        n = add_call(filter, n, open_calls[i], on_open);
    for (size_t i = 0; i < array_size(allowed_calls); i++)
        n = add_call(filter, n, allowed_calls[i], SECCOMP_RET_ALLOW);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    const struct sock_fprog program = {.len = (unsigned short)n, .filter = filter};
    const int r = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    return r < 0 ? -errno : r;
}

static int set_limit(__rlimit_resource_t what, uint64_t value)
{
    const struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
    return setrlimit(what, &limit) < 0 ? -errno : 0;
}

/* Private writable memory, as RLIMIT_DATA counts it. */
static uint64_t data_bytes_now(void)
{
    unsigned long pages[6] = {0};
    _cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
    if (!f ||
        fscanf(f, "%lu %lu %lu %lu %lu %lu", &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5]) != 6)
        return 0;
    return (uint64_t)pages[5] * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int set_limits(const struct sandbox_limits *limits)
{
    int r = set_limit(RLIMIT_CORE, 0);
    if (r == 0)
        r = set_limit(RLIMIT_FSIZE, 0);
    if (r == 0 && limits->cpu_seconds != SANDBOX_CPU_UNLIMITED)
        r = set_limit(RLIMIT_CPU, limits->cpu_seconds);
    if (r == 0 && LIMITS_DATA)
        r = set_limit(RLIMIT_DATA, data_bytes_now() + limits->data_bytes);
    return r;
}

/* Root without capabilities still owns root's files, so the UID is changed too. If that UID does not exist (in a
 * user namespace), it is kept. */
static int drop_rights(void)
{
    if (geteuid() == 0 && setgroups(0, NULL) == 0 && setresgid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID) == 0)
        (void)!setresuid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
    return least_rights_drop_capabilities();
}

int sandbox_enter(const struct sandbox_limits *limits, int parent_pid, int *ret_listener)
{
    int r = set_limits(limits);
    if (r == 0)
        r = drop_rights();
    if (r < 0)
        return r;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* again: the kernel clears it when credentials change */
    if (getppid() != parent_pid)
        return -ESRCH;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    r = filter_calls(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    if (r >= 0) {
        fcntl(r, F_SETFD, FD_CLOEXEC);
        *ret_listener = r;
        return 0;
    }
    *ret_listener = -1;
    r = filter_calls(SECCOMP_RET_ERRNO | EPERM, 0);
    return r == -ENOSYS || r == -EINVAL ? 0 : r; /* a kernel without seccomp */
}

/* ---- parent ---- */

/* Copies the path from the calling process's memory. The process may change it at any time: only this copy is used. */
static int read_path(uint32_t pid, uint64_t address, char ret[PATH_MAX])
{
    size_t size = 0;
    while (size < PATH_MAX) { /* page by page: the next one may not be mapped */
        const size_t page = 4096 - (address + size) % 4096, n = page < PATH_MAX - size ? page : PATH_MAX - size;
        const struct iovec to = {.iov_base = ret + size, .iov_len = n},
                           from = {.iov_base = (void *)(uintptr_t)(address + size),
                                   .iov_len = n}; /* NOLINT: not an object of ours */
        if (process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0) != (ssize_t)n)
            return -EFAULT;
        if (memchr(ret + size, '\0', n))
            return 0;
        size += n;
    }
    return -ENAMETOOLONG;
}

static void refuse(int listener, uint64_t id, int error)
{
    struct seccomp_notif_resp answer = {.id = id, .error = error};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* the process may have exited, which needs no handling */
}

int sandbox_next_open(int listener, struct sandbox_open *ret)
{
    struct seccomp_notif request = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
        return -EAGAIN;
    const bool at = request.data.nr == SYS_openat;
    const int flags = (int)request.data.args[at ? 2 : 1];
    int r =
        (flags & O_ACCMODE) == O_RDONLY ? read_path(request.pid, request.data.args[at ? 1 : 0], ret->path) : -EACCES;
    if (r == 0 && ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &request.id) < 0)
        r = -EAGAIN; /* the PID belongs to another process now */
    if (r < 0) {
        refuse(listener, request.id, r);
        return -EAGAIN;
    }
    ret->id = request.id;
    return 0;
}

void sandbox_answer_open(int listener, const struct sandbox_open *request, int fd)
{
    if (fd < 0) {
        refuse(listener, request->id, fd);
        return;
    }
    struct seccomp_notif_addfd addfd = {.id = request->id, .srcfd = (uint32_t)fd, .newfd_flags = O_CLOEXEC};
    const int remote_fd = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &addfd);
    if (remote_fd < 0) {
        refuse(listener, request->id, -EMFILE);
        return;
    }
    struct seccomp_notif_resp answer = {.id = request->id, .val = remote_fd};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
