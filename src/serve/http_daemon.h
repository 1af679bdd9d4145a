/* A listening socket and libmicrohttpd's threads behind it, one for each connection, with TLS or without. The
 * certificate can be exchanged while it serves. */
#pragma once

#include "base/cleanup.h"
#include "serve/certificate.h"

#include <microhttpd.h>
#include <stdint.h>

struct http_daemon;

struct http_daemon_options {
    int fd;                 /* listens */
    const char *name;       /* of the daemon, for the log */
    uint64_t former_max_ns; /* how long connections of a former certificate are served */
    unsigned connections_max, timeout_s;
    size_t connection_bytes; /* request line, request headers and reply headers */
    MHD_AccessHandlerCallback handle;
    void *context;
    const struct MHD_OptionItem *more; /* options, with MHD_OPTION_END; they must outlive the daemon */
};

/* Starts to serve, with TLS if `certificate` (NULL: none) has texts, which are not used afterwards. Closes `fd` in
 * http_daemon_free. 0, -ENOPKG: no libmicrohttpd, -EKEYREJECTED: the certificate cannot be used (logged), -EAGAIN: it
 * cannot start. After an error `fd` is the caller's. */
int http_daemon_new(const struct http_daemon_options *options, const struct certificate *certificate,
                    struct http_daemon **ret);

/* Whether a daemon can serve with this certificate (or none). 0; -ENOPKG or -EKEYREJECTED as above; another -errno:
 * there are no resources to find out. */
int http_daemon_check(const struct certificate *certificate);

/* Uses another certificate (or none) for connections from now on. Those that there are keep theirs, for the time that a
 * reply may take; a reply that takes longer because of a second change is ended. 0, or -errno: the certificate cannot
 * be used (logged), or there is no memory; nothing is changed. This and http_daemon_tick: on one thread. */
int http_daemon_renew(struct http_daemon *d, const struct certificate *certificate);
/* To be called once a second: frees what the connections of a former certificate needed, when they have ended. */
void http_daemon_tick(struct http_daemon *d);
/* Waits for replies in progress. */
void http_daemon_free(struct http_daemon *d);
DEFINE_FREEP(http_daemon)
