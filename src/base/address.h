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

/* Opens a listening TCP socket, close-on-exec and non-blocking. `address` becomes the bound address, with the port that
 * the kernel chose for port 0. 0, or -errno. */
int address_listen(union address *address, socklen_t size, int *ret_fd);

bool address_is_loopback(const union address *a);

#define ADDRESS_TEXT_BYTES INET6_ADDRSTRLEN
/* The address without its port; "?" for other families. Returns `out`. */
const char *address_format(const struct sockaddr *address, char out[ADDRESS_TEXT_BYTES]);
