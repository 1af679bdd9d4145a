/* A list of files by device and inode; see opened_files.h. */
#include "recording/opened_files.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int opened_files_get(struct opened_files *f, size_t max, const char *path, bool *ret_is_new)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    *ret_is_new = false;
    for (size_t i = 0; i < f->count; i++)
        if (f->all[i].device == st.st_dev && f->all[i].inode == st.st_ino)
            return f->all[i].fd;
    if (f->count == max)
        return -ENOSPC;
    *ret_is_new = true;
    f->all[f->count] = (struct opened_file){.device = st.st_dev, .inode = st.st_ino, .fd = take_fd(&fd)};
    return f->all[f->count++].fd;
}

void opened_files_close(struct opened_files *f)
{
    for (size_t i = 0; i < f->count; i++)
        close(f->all[i].fd);
    f->count = 0;
}
