/* Passes descriptors with a message; see descriptors.h. */
#include "base/descriptors.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

union control_buffer {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
};

int descriptors_send(int socket, const void *data, size_t size, const struct descriptors *with, int flags)
{
    union control_buffer control = {0};
    struct iovec bytes = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    size_t count = 0;
    while (with && count < DESCRIPTORS_MAX && with->fds[count] >= 0)
        count++;
    if (count) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), with->fds, count * sizeof(int));
    }
    return sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t descriptors_receive(int socket, void *data, size_t size, struct descriptors *ret, int flags)
{
    union control_buffer control = {0};
    struct iovec bytes = {.iov_base = data, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    *ret = (struct descriptors){.fds = {-1, -1}};
    const ssize_t n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -errno;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(ret->fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0)); /* the kernel writes no more than fits */
    ret->lost = message.msg_flags & MSG_CTRUNC;
    return n;
}

void descriptors_close(struct descriptors *d)
{
    for (size_t i = 0; i < array_size(d->fds); i++) {
        closep(&d->fds[i]);
        d->fds[i] = -1;
    }
}

int descriptors_have_room(size_t count)
{
    _cleanup_free_ int *fds = calloc(count, sizeof(*fds));
    size_t opened = 0;
    int r = fds ? 0 : -ENOMEM;
    for (; r == 0 && opened < count; opened++) {
        fds[opened] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fds[opened] < 0) {
            r = -errno;
            break;
        }
    }
    while (opened > 0)
        close(fds[--opened]);
    return r;
}
