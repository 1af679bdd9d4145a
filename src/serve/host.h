/* Host header check against DNS rebinding: a web site can resolve its own name to 127.0.0.1 and let a visitor's browser
 * send requests here. Those requests carry the foreign name in the Host header. Only IP addresses (which cannot be
 * rebound), names of this host and names listed by the administrator are accepted. Pure; the header is untrusted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct host_policy {
    uint16_t port;         /* listening port */
    bool is_encrypted;     /* by TLS: a header without a port means 443, not 80 */
    bool loopback_only;    /* listening on a loopback address: only loopback names are accepted */
    const char *node_name; /* name of this host, or NULL */
    const char *allowed;   /* "sonde.example.org,localhost:8080": further names; an entry without a
                              port matches any port. NULL: none */
};

/* Whether a request with this Host header may be answered. */
bool host_allowed(const struct host_policy *policy, const char *header);
