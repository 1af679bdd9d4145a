/* A lock on a file under /run, with the process number of the holder as its content: see node_lock.h. */
#include "agent/node_lock.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_PATH "/run/sonde.lock"

int node_lock(int *ret_fd)
{
    _cleanup_close_ int fd = open(LOCK_PATH, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        log_warning("%s cannot be opened (%s): not checked whether another agent runs here", LOCK_PATH,
                    strerror(errno));
        *ret_fd = -1;
        return 0;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", getpid()) < 0)
            log_debug("%s cannot be written: a second agent will not know our process number", LOCK_PATH);
        *ret_fd = take_fd(&fd);
        return 0;
    }
    char holder[16] = "";
    const ssize_t n = pread(fd, holder, sizeof(holder) - 1, 0);
    holder[n > 0 ? strspn(holder, "0123456789") : 0] = '\0';
    log_error("another Sonde agent runs on this node (process %s, it holds %s); stop it first, or use `sonde record`",
              holder[0] ? holder : "unknown", LOCK_PATH);
    return -EBUSY;
}
