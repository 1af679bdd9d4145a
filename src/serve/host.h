/* Which Host headers the page answers to. A web site that somebody looks at can point its own name at
 * 127.0.0.1 and so have the visitor's browser talk to us as if we were that site (DNS rebinding); the name it
 * must then send gives it away. Addresses cannot be rebound, names can: so addresses, names of this host and
 * names that the administrator listed are the only ones that pass. Pure; the header is untrusted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOST_NAME_MAX_BYTES 254

struct host_name {
    char name[HOST_NAME_MAX_BYTES]; /* lower case, no final dot, no brackets */
    bool address;                   /* a literal IPv4 or IPv6 address */
    bool loopback;                  /* 127.0.0.0/8, ::1 or "localhost" */
    uint16_t port;                  /* 0: none given */
};

/* "name", "name:port", "1.2.3.4:port", "[::1]:port". -EINVAL: none of these. */
int host_parse(const char *header, struct host_name *ret);

struct host_policy {
    uint16_t port;         /* that we listen on; a header without a port means 80 */
    bool loopback_only;    /* we listen on a loopback address: only its names pass */
    const char *node_name; /* this host's own name, or NULL */
    const char *allowed;   /* "sonde.example.org,localhost:8080": names as sent; without a port, any port will
                              do. NULL: none */
};

bool host_allowed(const struct host_policy *policy, const char *header);
