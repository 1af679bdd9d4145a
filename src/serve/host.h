/* Which Host headers the page answers to. A web site that somebody looks at can point its own name at
 * 127.0.0.1 and so have the visitor's browser talk to us as if we were that site (DNS rebinding); the name it
 * must then send gives it away. Addresses cannot be rebound, names can: so addresses, names of this host and
 * names that the administrator listed are the only ones that pass. Pure; the header is untrusted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct host_policy {
    uint16_t port;         /* that we listen on; a header without a port means 80 */
    bool loopback_only;    /* we listen on a loopback address: only its names pass */
    const char *node_name; /* this host's own name, or NULL */
    const char *allowed;   /* "sonde.example.org,localhost:8080": names as sent; without a port, any port will
                              do. NULL: none */
};

bool host_allowed(const struct host_policy *policy, const char *header);
