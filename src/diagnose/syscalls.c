/* The numbers of the machine that this is compiled for, which is the one that the records come from. */
#include "diagnose/syscalls.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <sys/syscall.h>

struct call {
    int number;
    enum syscall_reason reason;
    const char *name;
};

#define CALL(name)             {SYS_##name, SYSCALL_REASON_NONE, #name},
#define CALL_FOR(name, reason) {SYS_##name, SYSCALL_REASON_##reason, #name},

static const struct call calls[] = {
    CALL(read) CALL(write) CALL(readv) CALL(writev) CALL(pread64) CALL(pwrite64) CALL(preadv) CALL(pwritev)
    CALL(sendto) CALL(recvfrom) CALL(sendmsg) CALL(recvmsg) CALL(recvmmsg) CALL(connect) CALL(accept) CALL(accept4) CALL(shutdown)
    CALL(sendfile) CALL(splice) CALL(copy_file_range) CALL(ioctl) CALL(close) CALL(io_uring_enter)
    CALL(ppoll) CALL(pselect6) CALL(epoll_pwait) CALL(wait4) CALL(waitid) CALL(rt_sigtimedwait) CALL(rt_sigsuspend)
    CALL(execve) CALL(clone) CALL(mmap) CALL(munmap) CALL(mprotect) CALL(madvise) CALL(brk) CALL(exit_group)
    CALL(mq_timedreceive) CALL(msgrcv) CALL(getrandom) CALL(io_getevents) CALL(restart_syscall)
    CALL_FOR(futex, LOCK) CALL_FOR(flock, LOCK) CALL_FOR(fcntl, LOCK) CALL_FOR(semop, LOCK) CALL_FOR(semtimedop, LOCK)
    CALL_FOR(nanosleep, SLEEP) CALL_FOR(clock_nanosleep, SLEEP)
    CALL_FOR(openat, DISK) CALL_FOR(unlinkat, DISK) CALL_FOR(mkdirat, DISK) CALL_FOR(renameat2, DISK) CALL_FOR(linkat, DISK)
    CALL_FOR(symlinkat, DISK) CALL_FOR(fsync, DISK) CALL_FOR(fdatasync, DISK) CALL_FOR(sync, DISK) CALL_FOR(syncfs, DISK)
    CALL_FOR(msync, DISK) CALL_FOR(sync_file_range, DISK) CALL_FOR(ftruncate, DISK) CALL_FOR(truncate, DISK)
    CALL_FOR(fallocate, DISK) CALL_FOR(getdents64, DISK) CALL_FOR(statx, DISK) CALL_FOR(fstat, DISK) CALL_FOR(readlinkat, DISK)
    CALL_FOR(mount, DISK) CALL_FOR(umount2, DISK) CALL_FOR(fadvise64, DISK) CALL_FOR(readahead, DISK)
#if defined(__x86_64__)
    CALL(poll) CALL(select) CALL(epoll_wait) CALL(fork) CALL(vfork) CALL(pause)
    CALL_FOR(open, DISK) CALL_FOR(creat, DISK) CALL_FOR(stat, DISK) CALL_FOR(lstat, DISK) CALL_FOR(newfstatat, DISK)
    CALL_FOR(access, DISK) CALL_FOR(unlink, DISK) CALL_FOR(mkdir, DISK) CALL_FOR(rmdir, DISK) CALL_FOR(rename, DISK)
    CALL_FOR(renameat, DISK) CALL_FOR(link, DISK) CALL_FOR(symlink, DISK) CALL_FOR(readlink, DISK) CALL_FOR(getdents, DISK)
    CALL_FOR(chmod, DISK) CALL_FOR(chown, DISK)
#endif
};

static const struct call *find(int number)
{
    for (size_t i = 0; i < array_size(calls); i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

enum syscall_reason syscall_reason(int number)
{
    const struct call *call = number < 0 ? NULL : find(number);
    return call ? call->reason : SYSCALL_REASON_NONE;
}

const char *syscall_name(int number, char *out, size_t size)
{
    const struct call *call = number < 0 ? NULL : find(number);
    if (number < 0)
        snprintf(out, size, "page fault");
    else if (call)
        snprintf(out, size, "%s", call->name);
    else
        snprintf(out, size, "system call %d", number);
    return out;
}
