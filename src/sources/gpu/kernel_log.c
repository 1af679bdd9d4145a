/* See kernel_log.h. */
#include "sources/gpu/kernel_log.h"

#include "base/clock.h"
#include "sources/gpu/xid_line.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define RECORDS_MAX          512 /* of a call; the rest is read by the next one */
#define LOG_RECORD_MAX_BYTES 8192

int kernel_log_open(void)
{
    const int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void)lseek(fd, 0, SEEK_END);
    return fd;
}

int kernel_log_read(int fd, void (*take)(void *context, const struct gpu_xid *xid), void *context)
{
    char record[LOG_RECORD_MAX_BYTES];
    struct gpu_xid xid;
    int overwritten = 0;
    for (unsigned i = 0; i < RECORDS_MAX; i++) {
        const ssize_t size = read(fd, record, sizeof(record)); /* one record */
        if (size > 0 && xid_line_parse(record, (size_t)size, &xid)) {
            xid.h.time_ns = clock_monotonic_ns(); /* the log's clock is another one: it stands still in suspend */
            take(context, &xid);
        }
        if (size > 0)
            continue;
        if (size < 0 && errno == EPIPE) /* overwritten; the next read returns the oldest one that is left */
            overwritten++;
        else if (size < 0 && errno != EINTR)
            return errno == EAGAIN ? overwritten : -errno;
        else if (size == 0)
            return overwritten;
    }
    return overwritten;
}
