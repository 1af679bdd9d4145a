/* The trace file; see output.h. A large write does not become visible atomically, so a reader may see a partial one;
 * a single system call keeps that window short and excludes a crash of the server in between (a kill may still
 * truncate a large write). No protection against power loss (no fsync). */
#include "output.h"

#include "process_generation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define OLD_MAX 100000

void trace_output_init(struct trace_output *o)
{
    *o = (struct trace_output){.fd = -1};
}

void trace_output_close(struct trace_output *o)
{
    /* Not a descriptor from before a fork: the parent's thread may have closed it, and its number may have been
     * reused. */
    if (o->fd >= 0 && o->generation == trace_generation_now())
        close(o->fd);
    trace_output_init(o);
}

/* A rename that never replaces; by link and unlink on file systems without RENAME_NOREPLACE. */
static int rename_to_free(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (link(from, to) < 0)
        return -errno;
    return unlink(from) < 0 ? -errno : 0;
}

/* Writers lock their file, so that two servers with the same setting do not move each other's file. */
static bool is_in_use(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool used = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return used;
}

static int move_old(const char *path)
{
    char old[4096];
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode))
        return -EEXIST;
    if (is_in_use(path))
        return -EBUSY;
    for (unsigned i = 1; i <= OLD_MAX; i++) {
        int n = snprintf(old, sizeof(old), "%s.old.%u", path, i);
        if (n < 0 || (size_t)n >= sizeof(old))
            return -ENAMETOOLONG;
        int r = rename_to_free(path, old);
        if (r != -EEXIST)
            return r == -ENOENT ? 0 : r; /* another process was faster */
    }
    return -EEXIST;
}

/* Opens an existing empty file, just created by another writer or by hand. */
static int open_empty(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > 0) /* never open a device */
        return -EEXIST;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
        return fd;
    close(fd);
    return -EEXIST;
}

static int open_new(const char *path, bool move_aside)
{
    for (int attempts = 0; attempts < 16; attempts++) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0644);
        if (fd >= 0 || (errno != EEXIST && errno != EINTR))
            return fd >= 0 ? fd : -errno;
        if (errno == EEXIST && !move_aside)
            return -EEXIST;
        fd = open_empty(path);
        int r = fd >= 0 ? 0 : move_old(path);
        if (fd >= 0 || r < 0)
            return fd >= 0 ? fd : r;
    }
    return -EEXIST;
}

int trace_output_open(struct trace_output *o, const char *path, int move_aside)
{
    int fd = open_new(path, move_aside);
    if (fd < 0)
        return fd;
    /* The lock decides who owns the file. On a file system without locks no conflict is detected. */
    struct stat st;
    int r = 0;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        r = -EBUSY;
    else if (fstat(fd, &st) < 0)
        r = -errno;
    else if (st.st_size > 0) /* another writer wrote and closed it meanwhile */
        r = -EBUSY;
    if (r < 0) {
        close(fd);
        return r;
    }
    *o = (struct trace_output){.fd = fd, .generation = trace_generation_now(), .device = st.st_dev, .inode = st.st_ino};
    return 0;
}

int trace_output_is_at(const struct trace_output *o, const char *path)
{
    struct stat st;
    return o->fd >= 0 && stat(path, &st) == 0 && st.st_dev == o->device && st.st_ino == o->inode &&
           st.st_size == o->size_bytes;
}

static int write_all(int fd, struct iovec *part, int parts, off_t at)
{
    while (parts > 0) {
        ssize_t n = pwritev(fd, part, parts, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        at += n;
        while (parts > 0 && (size_t)n >= part->iov_len) {
            n -= (ssize_t)part->iov_len;
            part++;
            parts--;
        }
        if (parts > 0) {
            part->iov_base = (char *)part->iov_base + n;
            part->iov_len -= (size_t)n;
        }
    }
    return 0;
}

/* Undoes a failed append. The bracket first: its block is already allocated. */
static void undo_append(struct trace_output *o, const char *path)
{
    if (o->size_bytes > 0) {
        struct iovec bracket = {"]", 1};
        if (write_all(o->fd, &bracket, 1, o->size_bytes - 1) == 0 && ftruncate(o->fd, o->size_bytes) == 0)
            return;
    } else {
        unlink(path);
    }
    trace_output_close(o); /* the next write begins a new file */
}

int trace_output_append(struct trace_output *o, const char *path, const char *text, size_t size, uint32_t traces)
{
    bool first = o->size_bytes == 0;
    struct iovec parts[] = {{first ? "[" : ",", 1}, {(char *)(uintptr_t)text, size}, {"]", 1}};
    off_t at = first ? 0 : o->size_bytes - 1;
    int r = write_all(o->fd, parts, 3, at);
    if (r < 0) {
        undo_append(o, path);
        return r;
    }
    o->size_bytes = at + (off_t)size + 2;
    o->traces += traces;
    return 0;
}
