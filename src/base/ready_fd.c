/* The readiness protocol of --ready-fd; see ready_fd.h. */
#include "base/ready_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int ready_fd_check(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return -EBADF;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
}

void ready_fd_notify(int *fd)
{
    if (*fd < 0)
        return;
    (void)!write(*fd, "ready\n", 6);
    close(*fd);
    *fd = -1;
}
