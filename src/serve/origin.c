/* Which client a connection comes from; see origin.h. */
#include "serve/origin.h"

#include "base/address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#define ORIGIN_LOOPBACK 1
#define ORIGIN_USER     ((uint64_t)1 << 32)
#define ORIGIN_V4       ((uint64_t)1 << 33)

static uint64_t origin_of_v4(uint32_t address)
{
    return address >> 24 == IN_LOOPBACKNET ? ORIGIN_LOOPBACK : ORIGIN_V4 | address;
}

static uint64_t origin_of_v6(const struct in6_addr *address)
{
    uint32_t v4;
    uint64_t network;
    if (IN6_IS_ADDR_LOOPBACK(address))
        return ORIGIN_LOOPBACK;
    if (IN6_IS_ADDR_V4MAPPED(address)) {
        memcpy(&v4, address->s6_addr + 12, sizeof(v4));
        return origin_of_v4(ntohl(v4));
    }
    memcpy(&network, address->s6_addr, sizeof(network));
    return be64toh(network);
}

uint64_t origin_of_address(const struct sockaddr *address)
{
    const union address *a = (const union address *)(const void *)address;
    return address->sa_family == AF_INET    ? origin_of_v4(ntohl(a->v4.sin_addr.s_addr))
           : address->sa_family == AF_INET6 ? origin_of_v6(&a->v6.sin6_addr)
                                            : 0;
}

uint64_t origin_of_socket(int socket)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);
    struct ucred user;
    socklen_t user_size = sizeof(user);
    if (getpeername(socket, (struct sockaddr *)&peer, &size) < 0)
        return 0;
    if (peer.ss_family != AF_UNIX)
        return origin_of_address((const struct sockaddr *)&peer);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &user, &user_size) < 0 ? 0 : ORIGIN_USER | user.uid;
}
