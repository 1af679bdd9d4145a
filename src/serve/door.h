/* One listening socket of the page and libmicrohttpd's threads behind it: checks each request before the routes see it.
 * One thread per connection, as writing a profile may take a second and must not delay /healthz; the number of
 * connections, and the memory and time of each, are bounded. */
#pragma once

#include "base/cleanup.h"
#include "serve/access.h"
#include "serve/host.h"
#include "serve/readers.h"
#include "serve/routes.h"

struct door;

struct door_options {
    int fd; /* listens */
    struct routes *routes;
    struct readers *readers;
    const struct host_policy
        *hosts;            /* names that clients may use for this host; NULL: a Unix socket, where any will do */
    struct access *access; /* NULL: the rights on the socket decide who may read */
};

/* Starts to serve. Borrows what the options refer to, and closes `fd` in door_free. 0, -ENOPKG: no libmicrohttpd,
 * -EAGAIN: it cannot start. After an error `fd` is the caller's. */
int door_new(const struct door_options *options, struct door **ret);
/* Waits for replies in progress, which use the routes. */
void door_free(struct door *d);
DEFINE_FREEP(door)
