/* Parses and prints addresses; see address.h. */
#include "base/address.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BACKLOG 128

int address_parse(const char *text, union address *ret, socklen_t *ret_size)
{
    union address a = {0};
    char host[INET6_ADDRSTRLEN];
    int64_t port;
    const char *colon = strrchr(text, ':');
    if (!colon || units_parse_integer(colon + 1, 0, UINT16_MAX, &port) < 0)
        return -EINVAL;
    const char *start = text;
    size_t size = (size_t)(colon - text);
    bool brackets = size >= 2 && start[0] == '[' && start[size - 1] == ']';
    if (brackets) {
        start++;
        size -= 2;
    }
    if (size >= sizeof(host))
        return -EINVAL;
    memcpy(host, start, size);
    host[size] = '\0';
    if (brackets && inet_pton(AF_INET6, host, &a.v6.sin6_addr) == 1) {
        a.v6.sin6_family = AF_INET6;
        a.v6.sin6_port = htons((uint16_t)port);
        *ret_size = sizeof(a.v6);
    } else if (!brackets && inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &a.v4.sin_addr) == 1) {
        a.v4.sin_family = AF_INET;
        a.v4.sin_port = htons((uint16_t)port);
        *ret_size = sizeof(a.v4);
    } else {
        return -EINVAL;
    }
    *ret = a;
    return 0;
}

int address_listen(union address *address, socklen_t size, int *ret_fd)
{
    const int on = 1;
    _cleanup_close_ int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, &address->any, size) < 0 ||
        listen(fd, BACKLOG) < 0 || getsockname(fd, &address->any, &size) < 0)
        return -errno;
    *ret_fd = take_fd(&fd);
    return 0;
}

bool address_is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    return (ntohl(a->v4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

const char *address_format(const struct sockaddr *address, char out[ADDRESS_TEXT_BYTES])
{
    const union address *a = (const union address *)(const void *)address;
    if (!(address->sa_family == AF_INET && inet_ntop(AF_INET, &a->v4.sin_addr, out, ADDRESS_TEXT_BYTES)) &&
        !(address->sa_family == AF_INET6 && inet_ntop(AF_INET6, &a->v6.sin6_addr, out, ADDRESS_TEXT_BYTES)))
        snprintf(out, ADDRESS_TEXT_BYTES, "?");
    return out;
}
