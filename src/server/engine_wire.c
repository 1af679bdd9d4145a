/* Sending and receiving with a deadline; see engine_wire.h. */
#include "server/engine_wire.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

static int wait_for(int socket, short events, uint64_t deadline_ns)
{
    struct pollfd ready = {.fd = socket, .events = events};
    for (;;) {
        const uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= deadline_ns)
            return -ETIMEDOUT;
        const uint64_t left_ms = (deadline_ns - now_ns) / 1000000 + 1;
        const int n = poll(&ready, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

int engine_wire_send(int socket, const void *data, size_t size, uint64_t deadline_ns)
{
    for (const char *at = data; size;) {
        const int r = wait_for(socket, POLLOUT, deadline_ns);
        if (r < 0)
            return r;
        const ssize_t n = send(socket, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return errno == ECONNRESET ? -EPIPE : -errno;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int engine_wire_receive(int socket, void *data, size_t size, uint64_t deadline_ns)
{
    for (char *at = data; size;) {
        const int r = wait_for(socket, POLLIN, deadline_ns);
        if (r < 0)
            return r;
        const ssize_t n = recv(socket, at, size, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return -EPIPE;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}
