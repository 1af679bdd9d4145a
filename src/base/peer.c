/* See peer.h. */
#include "base/peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

const char *peer_text(unsigned family, const unsigned char *address, unsigned port, char *out, size_t size)
{
    char text[INET6_ADDRSTRLEN];
    out[0] = 0;
    if ((family != AF_INET && family != AF_INET6) || !inet_ntop((int)family, address, text, sizeof(text)))
        return out;
    if (!port)
        snprintf(out, size, "%s", text);
    else
        snprintf(out, size, family == AF_INET6 ? "[%s]:%u" : "%s:%u", text, port);
    return out;
}
