/* The host's PID namespace has the same inode on every kernel (PROC_PID_INIT_INO). In another namespace, /proc maps
 * the kernel's PIDs to other processes or to none: names and stacks would be wrong, not merely missing. */
#include "sources/attach/pid_namespace.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define HOST_PID_NAMESPACE_INODE 0xeffffffcU

int pid_namespace_check(struct attach_report *report)
{
    struct attach_entry *entry;
    struct stat own;

    if (stat("/proc/self/ns/pid", &own) < 0 || own.st_ino == HOST_PID_NAMESPACE_INODE)
        return 0;
    entry = attach_report_add(report, "processes");
    snprintf(
        entry->fallback_reason, sizeof(entry->fallback_reason),
        "runs in a PID namespace of its own, whose PIDs differ from those the kernel reports: start it in the host's "
        "(hostPID: true, docker run --pid=host, nsenter -t 1 -p)");
    snprintf(entry->limitation, sizeof(entry->limitation), "nothing is monitored");
    return -EXDEV;
}
