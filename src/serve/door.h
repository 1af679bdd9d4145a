/* One listening socket of the page and libmicrohttpd's threads behind it: checks each request before the routes see it.
 * One thread per connection, as writing a profile may take a second and must not delay /healthz; the number of
 * connections, and the memory and time of each, are bounded. */
#pragma once

#include "base/cleanup.h"
#include "serve/access.h"
#include "serve/certificate.h"
#include "serve/host.h"
#include "serve/readers.h"
#include "serve/routes.h"

#define DOOR_READERS_MAX 64 /* connections of all listening sockets of a page */

struct door;

struct door_options {
    int fd;                 /* listens */
    uint64_t former_max_ns; /* how long connections of a former certificate are served */
    struct routes *routes;
    struct readers *readers;
    const struct host_policy
        *hosts;            /* names that clients may use for this host; NULL: a Unix socket, where any will do */
    struct access *access; /* NULL: the rights on the socket decide who may read */
};

/* Starts to serve, with TLS if `certificate` (NULL: none) has texts, which are not used afterwards. Borrows what the
 * options refer to, and closes `fd` in door_free. 0, -ENOPKG: no libmicrohttpd, -EKEYREJECTED: the certificate cannot
 * be used (logged), -EAGAIN: it cannot start. After an error `fd` is the caller's. */
int door_new(const struct door_options *options, const struct certificate *certificate, struct door **ret);

/* Uses another certificate (or none) for connections from now on. Those that there are keep theirs, for the time that a
 * reply may take; a reply that takes longer because of a second change is ended. 0, or -errno: the certificate cannot
 * be used (logged), or there is no memory; nothing is changed. This and door_tick: on one thread. */
int door_renew(struct door *d, const struct certificate *certificate);
/* To be called once a second: frees what the connections of a former certificate needed, when they have ended. */
void door_tick(struct door *d);
/* Waits for replies in progress, which use the routes. */
void door_free(struct door *d);
DEFINE_FREEP(door)
