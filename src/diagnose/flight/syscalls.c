/* System call numbers of the target architecture, which is also the architecture of the records; names come from the C
 * library's header (see meson.build). */
#include "diagnose/flight/syscalls.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>

static const char *const names[] = {
#define SYSCALL(name) [SYS_##name] = #name,
#include "syscall_names.h"
#undef SYSCALL
};

#define LOCKS(name)   [SYS_##name] = SYSCALL_REASON_LOCK,
#define SLEEPS(name)  [SYS_##name] = SYSCALL_REASON_SLEEP,
#define ON_DISK(name) [SYS_##name] = SYSCALL_REASON_DISK,

static const uint8_t reasons[array_size(names)] = {
    LOCKS(futex) LOCKS(flock) LOCKS(fcntl) LOCKS(semop) LOCKS(semtimedop) SLEEPS(nanosleep) SLEEPS(clock_nanosleep)
        ON_DISK(openat) ON_DISK(unlinkat) ON_DISK(mkdirat) ON_DISK(renameat2) ON_DISK(linkat) ON_DISK(symlinkat)
            ON_DISK(fsync) ON_DISK(fdatasync) ON_DISK(sync) ON_DISK(syncfs) ON_DISK(msync) ON_DISK(sync_file_range)
                ON_DISK(ftruncate) ON_DISK(truncate) ON_DISK(fallocate) ON_DISK(getdents64) ON_DISK(statx) ON_DISK(
                    fstat) ON_DISK(readlinkat) ON_DISK(mount) ON_DISK(umount2) ON_DISK(fadvise64) ON_DISK(readahead)
#if defined(__x86_64__)
                    ON_DISK(open) ON_DISK(creat) ON_DISK(stat) ON_DISK(lstat) ON_DISK(newfstatat) ON_DISK(access)
                        ON_DISK(unlink) ON_DISK(mkdir) ON_DISK(rmdir) ON_DISK(rename) ON_DISK(renameat) ON_DISK(link)
                            ON_DISK(symlink) ON_DISK(readlink) ON_DISK(getdents) ON_DISK(chmod) ON_DISK(chown)
#endif
};

static bool is_known(int number)
{
    return number >= 0 && (size_t)number < array_size(names) && names[number];
}

enum syscall_reason syscall_reason(int number)
{
    return is_known(number) ? reasons[number] : SYSCALL_REASON_NONE;
}

const char *syscall_name(int number, char *out, size_t size)
{
    if (number < 0)
        snprintf(out, size, "page fault");
    else if (is_known(number))
        snprintf(out, size, "%s", names[number]);
    else
        snprintf(out, size, "system call %d", number);
    return out;
}
