/* The kernel's NFS server without its daemons: what exportfs, mountd and rpc.nfsd would write is written here; see
 * io_nfs.h and nfsd(7). */
#include "io_nfs.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLIENTS "sonde-io"   /* name of the only group of clients, which is 127.0.0.1 */
#define EXPIRES "2147483647" /* seconds since 1970 */
/* ABI (linux/nfsd/export.h): with an fsid, no subtree check, replies before data is stable; root is not squashed. */
#define EXPORT_FLAGS (0x2000 | 0x400 | 0x10)
#define MAX_MOUNTS   64
#define TICK_US      10000 /* longest one of the kernel */

static char top[] = "/tmp/sonde-nfs-XXXXXX", exported[64], control[64];
static bool serves;
static char mounted[MAX_MOUNTS][64];
static size_t mounted_count;

const char *io_nfs_exported(void)
{
    return serves ? exported : NULL;
}

const char *io_nfs_control(void)
{
    return serves ? control : NULL;
}

/* Set-up that fails where NFS exists fails the program: cmocka's assertions print nothing before its first test. */
static void require(bool is_done, const char *what)
{
    if (is_done)
        return;
    printf("NFS cannot be set up: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The kernel takes a line by one call. */
__attribute__((format(printf, 2, 3))) static bool write_line(const char *path, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, line, (size_t)size) == size;
}

static bool write_control(const char *name, const char *line)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", control, name);
    return write_line(path, "%s\n", line);
}

static void bring_loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0, "loopback interface");
}

/* Answers, before it is asked, what the kernel would ask mountd: who the client is, which path the root of all exports
 * (fsid 0, of type 1) has, and how it is exported. */
static void export_tmpfs(void)
{
    require(write_line("/proc/net/rpc/auth.unix.ip/channel", "nfsd 127.0.0.1 " EXPIRES " " CLIENTS "\n"),
            "auth.unix.ip");
    require(write_line("/proc/net/rpc/nfsd.export/channel", CLIENTS " %s " EXPIRES " %d 65534 65534 0\n", exported,
                       EXPORT_FLAGS),
            "nfsd.export");
    require(write_line("/proc/net/rpc/nfsd.fh/channel", CLIENTS " 1 \\x00000000 " EXPIRES " %s\n", exported),
            "nfsd.fh");
}

/* Versions 2 and 3 would need rpcbind. No client has a state to reclaim, so the grace period for that is as short as
 * possible: newer kernels do not end it by command where no daemon keeps a list of clients. */
static void start_server(void)
{
    write_control("versions", "-2"); /* refused where the kernel lacks it */
    require(write_control("versions", "-3 +4 +4.2"), "versions");
    require(write_control("nfsv4gracetime", "10"), "nfsv4gracetime");
    require(write_control("portlist", "tcp 2049"), "portlist");
    require(write_control("threads", "2"), "threads");
    write_control("v4_end_grace", "Y");
}

/* At the program's exit, also when an assertion fails: threads of the server would keep the namespace. The client's
 * files are closed and its mounts end before, because both need the server. */
static void stop_server(void)
{
    syscall(SYS_close_range, 3u, ~0u, 0u);
    while (mounted_count) {
        umount2(mounted[--mounted_count], MNT_DETACH);
        rmdir(mounted[mounted_count]);
    }
    if (serves)
        write_control("threads", "0");
    serves = false;
    umount2(exported, MNT_DETACH);
    umount2(control, MNT_DETACH);
    rmdir(exported);
    rmdir(control);
    rmdir(top);
}

static bool print_missing(const char *what)
{
    printf("no NFS here: %s: %s\n", what, strerror(errno));
    return false;
}

/* A first mount and file, which also shows whether the kernel has a client; waits for the end of the grace period. */
static bool try_client(void)
{
    char path[64], file[80];
    snprintf(path, sizeof(path), "%s/client", top);
    require(mkdir(path, 0700) == 0, path);
    const int result = io_nfs_mount("first", path);
    errno = -result;
    if (result == -ENODEV)
        return print_missing("client");
    require(result == 0, "mount");
    snprintf(file, sizeof(file), "%s/file", path);
    const int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    require(fd >= 0 && close(fd) == 0, file);
    return true;
}

bool io_nfs_begin(void)
{
    require(mkdtemp(top), top);
    atexit(stop_server);
    snprintf(exported, sizeof(exported), "%s/exported", top);
    snprintf(control, sizeof(control), "%s/control", top);
    require(mkdir(exported, 0700) == 0 && mkdir(control, 0700) == 0, top);
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0)
        return print_missing("namespaces");
    require(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "/");
    if (mount("nfsd", control, "nfsd", 0, NULL) < 0)
        return print_missing("server");
    serves = true;
    require(mount("sonde-nfs", exported, "tmpfs", 0, "size=4m") == 0, exported);
    bring_loopback_up();
    export_tmpfs();
    start_server();
    return try_client();
}

int io_nfs_mount(const char *name, const char *path)
{
    char folder[PATH_MAX], from[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s/%s", exported, name);
    snprintf(from, sizeof(from), "127.0.0.1:/%s", name);
    if (mounted_count == MAX_MOUNTS)
        return -ENOSPC;
    if (mkdir(folder, 0700) < 0)
        return -errno;
    /* The client finds that an open created a file by a change of the folder's time, whose unit is a tick. */
    usleep(2 * TICK_US);
    if (mount(from, path, "nfs4", 0, "vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,sec=sys,nosharecache") < 0)
        return -errno;
    snprintf(mounted[mounted_count++], sizeof(mounted[0]), "%s", path);
    return 0;
}
