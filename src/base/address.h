/* ADDRESS:PORT in configuration and flags. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* "127.0.0.1:7070", "[::1]:7070", "localhost:7070"; port 0 lets the kernel choose. No names are resolved. 0, or
 * -EINVAL: any other text. */
int address_parse(const char *text, union address *ret, socklen_t *ret_size);

bool address_is_loopback(const union address *a);

#define ADDRESS_TEXT_BYTES INET6_ADDRSTRLEN
/* The address without its port; "?" for other families. Returns `out`. */
const char *address_format(const struct sockaddr *address, char out[ADDRESS_TEXT_BYTES]);
