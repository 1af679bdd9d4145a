/* An address on which the server answers calls of gRPC. One thread serves all connections, others answer the calls.
 * Checks tokens, and limits connections, the calls of each client and the memory of all requests together. */
#pragma once

#include "serve/access.h"
#include "serve/certificate.h"
#include "server/grpc_connection.h"
#include "server/rate_limit.h"

struct grpc_listener;

struct grpc_listener_options {
    const char *option;    /* that sets the address, for messages */
    const char *address;   /* "127.0.0.1:4317" */
    struct access *access; /* who may call, with a token for writing; NULL: whoever reaches the address, which must be a
                              loopback address */
    struct rate_limit *rate_limit;         /* borrowed */
    const struct certificate *certificate; /* for TLS; NULL, or without texts: none. Not used afterwards */
    size_t message_max_bytes;
    /* Called from many threads: fills in the reply of a call. */
    void (*answer)(void *context, struct grpc_call *call);
    void *context;
};

/* Listens until grpc_listener_free. 0, or -errno after the reason was logged. */
int grpc_listener_start(const struct grpc_listener_options *options, struct grpc_listener **ret);
/* Waits for the replies of calls that came in whole. */
void grpc_listener_free(struct grpc_listener *l);
DEFINE_FREEP(grpc_listener)

/* Uses another certificate for connections from now on, if the address has TLS. 0, or -errno after the reason was
 * logged: nothing is changed. */
int grpc_listener_renew(struct grpc_listener *l, const struct certificate *certificate);

uint16_t grpc_listener_port(const struct grpc_listener *l);
