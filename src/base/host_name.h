/* A host name or address with an optional port, as in HTTP's Host header and in configuration. Pure; the input is
 * untrusted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HOST_NAME_MAX_BYTES 254

struct host_name {
    char name[HOST_NAME_MAX_BYTES]; /* lower case, no final dot, no brackets */
    bool address;                   /* a literal IPv4 or IPv6 address */
    bool loopback;                  /* 127.0.0.0/8, ::1 or "localhost" */
    uint16_t port;                  /* 0: none given */
};

/* "name", "name:port", "1.2.3.4:port", "[::1]:port". 0, or -EINVAL: any other text. */
int host_name_parse(const char *text, struct host_name *ret);

/* The next entry of "name, name:port, ...": 1, 0 at the end, -EINVAL for an invalid entry. Advances `list` past the
 * entry in any case. */
int host_name_next(const char **list, struct host_name *ret);
