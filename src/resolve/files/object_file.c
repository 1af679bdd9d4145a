/* From a mapping to its file; see object_file.h.
 *
 * A path is only a hint: the file may have been deleted or replaced, or lie in another mount namespace, and the
 * process may have exited. /proc/PID/map_files leads to the very file, deleted or not, as long as the process runs.
 * Every other path is a guess, accepted only if the build ID, or device, inode and generation, match. A path is
 * first opened with O_PATH and checked: opening a device or a FIFO planted there could have side effects. */
#include "resolve/files/object_file.h"

#include "base/buf.h"
#include "resolve/elf/elf.h"
#include "resolve/proc/maps.h"
#include "resolve/proc/proc_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define VDSO_MAX_BYTES (1 << 20)
#ifndef RESOLVE_CACHED /* since Linux 5.12; earlier ones refuse it */
#define RESOLVE_CACHED 0x20
#endif

bool object_file_identify(int fd, struct object_identity *ret)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    struct object_identity id = {.device = st.st_dev,
                                 .inode = st.st_ino,
                                 .size_bytes = (uint64_t)st.st_size,
                                 .changed_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000 + (uint64_t)st.st_ctim.tv_nsec};

    unsigned int generation[2] = {0}; /* the ioctl is declared with long but writes an int: space for both */
    if (ioctl(fd, FS_IOC_GETVERSION, generation) == 0)
        id.generation = generation[0];

    unsigned char magic[4];
    id.is_elf = pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && memcmp(magic, "\177ELF", sizeof(magic)) == 0;
    _cleanup_close_ int copy = id.is_elf ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    if (copy >= 0 && elf_open(copy, &elf) == 0) {
        take_fd(&copy);
        id.build_id_bytes = elf_build_id(elf, id.build_id);
        id.digest = elf_digest(elf);
        (void)thread_context_read(elf, &id.thread_context);
        (void)go_labels_read(elf, &id.go_labels);
    }
    *ret = id;
    return true;
}

static bool is_match(const struct object_sight *sight, const struct object_identity *id, bool by_kernel)
{
    if (sight->build_id_bytes)
        return id->build_id_bytes == sight->build_id_bytes &&
               memcmp(id->build_id, sight->build_id, sight->build_id_bytes) == 0;
    if (sight->inode == 0)
        return by_kernel;
    if (sight->inode != id->inode)
        return false;
    if (sight->generation && id->generation && sight->generation != id->generation)
        return false;
    /* overlayfs and btrfs report one device to stat() and another one (or a layer's device) to the memory manager;
     * theirs have no major number. */
    return sight->device == id->device || major((dev_t)id->device) == 0;
}

/* Reopens an O_PATH descriptor for reading if it is a regular file. */
static int reopen_regular(int path_fd)
{
    struct stat st;
    if (fstat(path_fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ENOENT;
    char self[40];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
    int fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

static int open_map_file(uint32_t pid, const struct object_sight *sight)
{
    char name[80];
    snprintf(name, sizeof(name), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, pid, sight->start, sight->end);
    _cleanup_close_ int path_fd = open(name, O_PATH | O_CLOEXEC);
    if (path_fd < 0)
        return -errno;
    return reopen_regular(path_fd);
}

/* Resolves symbolic links relative to `root`: links of a container cannot lead out of it. */
static int open_beneath(const char *root, const char *path)
{
    _cleanup_close_ int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    _cleanup_close_ int path_fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    if (path_fd < 0)
        return -errno;
    return reopen_regular(path_fd);
}

/* Takes `fd` (which may be an error). Returns it when it is the file, closes it otherwise. */
static int keep_if_match(int fd, const struct object_sight *sight, bool by_kernel, struct object_identity *ret)
{
    struct object_identity id;
    if (fd < 0)
        return fd;
    if (object_file_identify(fd, &id) && is_match(sight, &id, by_kernel)) {
        *ret = id;
        return fd;
    }
    close(fd);
    return -ENOENT;
}

int object_file_open(const struct object_sight *sight, struct object_identity *ret)
{
    /* The process itself, and its parent: mappings inherited by fork have the same addresses. */
    for (size_t i = 0; i < sight->pid_count && i < 2; i++) {
        int fd = keep_if_match(open_map_file(sight->pids[i], sight), sight, i == 0 && sight->by_maps, ret);
        if (fd >= 0 || fd == -EMFILE || fd == -ENFILE)
            return fd;
    }
    if (sight->path[0] != '/' || strncmp(sight->path, "/memfd:", 7) == 0)
        return -ENOENT;
    for (size_t i = 0; i < sight->pid_count; i++) {
        char root[32];
        snprintf(root, sizeof(root), "/proc/%" PRIu32 "/root", sight->pids[i]);
        int fd = keep_if_match(open_beneath(root, sight->path), sight, false, ret);
        if (fd >= 0 || fd == -EMFILE || fd == -ENFILE)
            return fd;
    }
    int fd = keep_if_match(open_beneath("/", sight->path), sight, false, ret);
    return fd >= 0 ? fd : -ENOENT;
}

uint64_t object_file_mount(int fd)
{
    struct statx st = {0};
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) == 0 ? st.stx_mnt_id : 0;
}

/* A descriptor with O_PATH. -EAGAIN, or -ENOENT: the path leads nowhere. */
static int find_at_once(const struct object_sight *sight, uint64_t own_view, struct local_mounts *mounts,
                        uint64_t *ret_mount_id)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED | RESOLVE_NO_MAGICLINKS};
    if (!own_view || sight->view != own_view || sight->path[0] != '/')
        return -EAGAIN;
    _cleanup_close_ int path_fd = (int)syscall(SYS_openat2, AT_FDCWD, sight->path, &how, sizeof(how));
    if (path_fd < 0)
        return errno == ENOENT ? -ENOENT : -EAGAIN;
    *ret_mount_id = object_file_mount(path_fd);
    return *ret_mount_id && local_mounts_has(mounts, *ret_mount_id) ? take_fd(&path_fd) : -EAGAIN;
}

int object_file_place_at_once(const struct object_sight *sight, uint64_t own_view, struct local_mounts *mounts,
                              struct object_place *ret)
{
    struct stat st;
    uint64_t mount_id;
    _cleanup_close_ int path_fd = find_at_once(sight, own_view, mounts, &mount_id);
    if (path_fd < 0 || fstat(path_fd, &st) < 0)
        return -EAGAIN;
    *ret = (struct object_place){st.st_dev, st.st_ino};
    return 0;
}

int object_file_open_at_once(const struct object_sight *sight, uint64_t own_view, struct local_mounts *mounts,
                             struct object_identity *ret)
{
    uint64_t mount_id;
    _cleanup_close_ int path_fd = find_at_once(sight, own_view, mounts, &mount_id);
    const int fd = path_fd < 0 ? path_fd : keep_if_match(reopen_regular(path_fd), sight, false, ret);
    if (fd >= 0)
        ret->mount_id = mount_id;
    if (fd == -ENOENT) /* deleted or replaced: only a process that maps it still leads to it */
        return sight->by_exec && sight->pid_count && proc_is_gone(sight->pids[0]) ? -ENOENT : -EAGAIN;
    return fd < 0 && fd != -EMFILE && fd != -ENFILE ? -EAGAIN : fd;
}

int object_file_open_in_process_root(const struct object_sight *sight, const char *path)
{
    for (size_t i = 0; i < sight->pid_count; i++) {
        char root[32];
        snprintf(root, sizeof(root), "/proc/%" PRIu32 "/root", sight->pids[i]);
        int fd = open_beneath(root, path);
        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}

int object_file_open_in_own_root(const char *path)
{
    return open_beneath("/", path);
}

int object_file_open_vdso(struct object_identity *ret)
{
    const uint64_t start = getauxval(AT_SYSINFO_EHDR);
    _cleanup_buf_ struct buf maps = {0};
    if (start == 0 || buf_read_file(&maps, "/proc/self/maps", 4 << 20) < 0)
        return -ENOENT;

    struct cursor text = cursor_make(maps.data, maps.size);
    struct maps_line line;
    while (maps_next_executable(&text, &line)) {
        if (line.start != start || line.end - line.start > VDSO_MAX_BYTES)
            continue;
        _cleanup_close_ int fd = memfd_create("vdso", MFD_CLOEXEC);
        if (fd < 0)
            return -errno;
        const size_t size = line.end - line.start;
        if (write(fd, (const void *)(uintptr_t)start, size) !=
            (ssize_t)size) /* NOLINT: an address, not an object of ours */
            return -EIO;
        struct object_identity id;
        if (!object_file_identify(fd, &id))
            return -EIO;
        *ret = id;
        return take_fd(&fd);
    }
    return -ENOENT;
}
