/* See peer.h. */
#include "diagnose/peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

const char *peer_text(unsigned family, const unsigned char *address, unsigned port, char *out, size_t size)
{
    char text[INET6_ADDRSTRLEN] = "";
    out[0] = 0;
    if (family == AF_INET && inet_ntop(AF_INET, address, text, sizeof(text)))
        snprintf(out, size, "%s:%u", text, port);
    else if (family == AF_INET6 && inet_ntop(AF_INET6, address, text, sizeof(text)))
        snprintf(out, size, "[%s]:%u", text, port);
    return out;
}
