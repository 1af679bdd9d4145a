/* A uevent socket (NETLINK_KOBJECT_UEVENT), read periodically; see cpu_changes.h. Other processes may send to the same
 * group; messages of the kernel have sender port 0. */
#include "sources/attach/cpu_changes.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KERNEL_GROUP 1

int cpu_changes_open(void)
{
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT), r;

    if (fd < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    r = -errno;
    close(fd);
    return r;
}

int cpu_changes_parse(const char *text, size_t size, unsigned *ret_cpu)
{
    static const char start[] = "offline@/devices/system/cpu/cpu";
    size_t at = sizeof(start) - 1;
    unsigned cpu = 0;

    if (size <= at || memcmp(text, start, at) != 0)
        return -ENOENT;
    for (; at < size && text[at] >= '0' && text[at] <= '9'; at++) {
        cpu = cpu * 10 + (unsigned)(text[at] - '0');
        if (cpu >= CPU_LIST_MAX)
            return -ENOENT;
    }
    if (at == sizeof(start) - 1 || (at < size && text[at] != '\0'))
        return -ENOENT;
    *ret_cpu = cpu;
    return 0;
}

void cpu_changes_take(int fd, struct cpu_list *ret_gone)
{
    struct cpu_list gone = {0};
    char text[256]; /* the rest of a message is not needed */
    unsigned cpu;

    for (;;) {
        struct sockaddr_nl from = {0};
        socklen_t from_bytes = sizeof(from);
        ssize_t n = recvfrom(fd, text, sizeof(text), MSG_DONTWAIT, (struct sockaddr *)&from, &from_bytes);

        if (n < 0 && errno == ENOBUFS) {
            memset(&gone, 0xff, sizeof(gone));
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        if (from.nl_pid == 0 && cpu_changes_parse(text, (size_t)n, &cpu) == 0)
            gone.bits[cpu / 64] |= 1ULL << (cpu % 64);
    }
    *ret_gone = gone;
}
