/* An address where the server answers HTTP requests with bodies, over libmicrohttpd: one thread for each connection.
 * Checks the Host header or the token, and limits bodies, and for each client its connections (readers.h), its requests
 * a second (rate_limit.h) and its share of the memory of all bodies (body_memory.h). */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "serve/access.h"
#include "serve/certificate.h"
#include "serve/http.h"
#include "server/rate_limit.h"

#include <stdbool.h>
#include <stdint.h>

struct listener;

struct listener_request {
    struct MHD_Connection *connection;
    const char *method, *path;
    const struct buf *body; /* empty for a request without a body */
    const struct access_client *client;
};

struct listener_options {
    const char *option;    /* that sets the address, for messages: "--listen" */
    const char *address;   /* "127.0.0.1:4318" */
    struct access *access; /* who may ask; NULL: whoever reaches the address, which must be a loopback address */
    enum token_scope (*scope_of)(const char *path); /* the scope that a client's token needs for it */
    /* Whether a request may be answered without a token, and be a browser's that follows a link of another site; NULL:
     * none may. Called from many threads. */
    bool (*is_open)(struct MHD_Connection *connection, const char *method, const char *path);
    /* Whether a browser that has signed in may make a request; then its client, for limits. NULL: none may. Called from
     * many threads. */
    bool (*is_signed_in)(void *context, struct MHD_Connection *connection, const char *method, const char *path,
                         struct access_client *ret_client);
    struct rate_limit *rate_limit;         /* borrowed */
    const struct certificate *certificate; /* for TLS; NULL, or without texts: none. Not used afterwards */
    size_t header_bytes;                   /* of one connection: request line, request headers and reply headers */
    size_t body_max_bytes;                 /* of one request */
    /* Called from many threads: replies to a request that was accepted. */
    enum MHD_Result (*answer)(void *context, const struct listener_request *request);
    void *context;
};

/* Listens until listener_free. 0, or -errno after the reason was logged. */
int listener_start(const struct listener_options *options, struct listener **ret);
/* Waits for replies in progress. */
void listener_free(struct listener *l);
DEFINE_FREEP(listener)

/* As http_daemon_renew. */
int listener_renew(struct listener *l, const struct certificate *certificate);
/* To be called once a second: also ends requests and replies that take too long. */
void listener_tick(struct listener *l);

uint16_t listener_port(const struct listener *l);
