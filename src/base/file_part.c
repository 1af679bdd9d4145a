/* Atomic replacement of a file; see file_part.h. */
#include "base/file_part.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

int file_part_create(const char *path, struct file_part *ret)
{
    struct file_part part = FILE_PART_NONE;
    if (snprintf(part.path, sizeof(part.path), "%s.XXXXXX", path) >= (int)sizeof(part.path))
        return -ENAMETOOLONG;
    part.fd = mkostemp(part.path, O_CLOEXEC);
    if (part.fd < 0)
        return -errno;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(part.fd, 0666 & ~mask); /* mkostemp creates 0600; output files follow the umask */
    *ret = part;
    return 0;
}

int file_part_write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

int file_part_commit(struct file_part *part, const char *path)
{
    int r = close(take_fd(&part->fd)) < 0 ? -errno : 0;
    if (r == 0 && rename(part->path, path) < 0)
        r = -errno;
    if (r < 0)
        unlink(part->path);
    return r;
}

void file_part_discard(struct file_part *part)
{
    if (part->fd < 0)
        return;
    close(take_fd(&part->fd));
    unlink(part->path);
}
