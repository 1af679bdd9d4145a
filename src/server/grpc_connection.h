/* One connection with a client of gRPC: HTTP/2 (nghttp2), unary calls. It has no socket and no clock: bytes come in and
 * go out, so that a test or a fuzzer can be the client. A call that came in whole is given away, and comes back with
 * its reply. All functions belong to one thread; between grpc_connection_options.take and grpc_call_finish, a call
 * belongs to whoever took it, even if its connection ends meanwhile.
 *
 * The bytes are untrusted. A connection has at most GRPC_STREAMS_MAX calls, whose bodies share `memory`, and whose
 * headers are limited; a call that is not complete, or whose reply is not read, ends after GRPC_CALL_NS. */
#pragma once

#include "base/address.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "serve/access.h"
#include "server/body_memory.h"

#include <stdbool.h>
#include <stdint.h>

#define GRPC_STREAMS_MAX    32
#define GRPC_CALL_NS        60000000000ull
#define GRPC_METHOD_BYTES   128
#define GRPC_ENCODING_BYTES 16

/* https://grpc.io/docs/guides/status-codes/ */
enum grpc_status {
    GRPC_OK = 0,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16
};

struct grpc_reply {
    enum grpc_status status;
    const char *text;       /* of an error: a constant of printable ASCII without '%' */
    unsigned retry_after_s; /* of an error: when the client should repeat the call; 0: never */
    struct buf message;     /* of GRPC_OK */
};

struct grpc_call {
    char method[GRPC_METHOD_BYTES]; /* "/package.Service/Method" */
    const char *encoding;           /* of the message: "gzip"; NULL: it is not compressed */
    struct cursor message;
    const struct sockaddr *client;
    char tenant[TENANT_BYTES]; /* the client's */
    struct grpc_reply reply;   /* to be filled in: zeros, that is an empty message */
    struct grpc_call *next;    /* for lists of whoever took it */
};

struct grpc_connection;

struct grpc_connection_options {
    union address client;
    size_t message_max_bytes; /* compressed or not */
    struct body_memory *memory;
    /* Whether a client with this Authorization header (NULL: none) may call: GRPC_OK with who it is,
     * GRPC_UNAUTHENTICATED, or GRPC_RESOURCE_EXHAUSTED if it calls too often. */
    enum grpc_status (*admit)(void *context, const char *authorization, const struct sockaddr *address,
                              struct access_client *ret_client);
    /* Takes a call; false: there are too many. */
    bool (*take)(void *context, struct grpc_call *call);
    void *context;
};

/* 0 or -ENOMEM. */
int grpc_connection_new(const struct grpc_connection_options *options, struct grpc_connection **ret);
void grpc_connection_free(struct grpc_connection *c);
DEFINE_FREEP(grpc_connection)

/* Takes bytes of the client. -EPROTO: the connection is of no use any more. */
int grpc_connection_receive(struct grpc_connection *c, const void *data, size_t size, uint64_t now_ns);
/* Appends what is to be sent, about `enough` bytes. 0 or -errno. */
int grpc_connection_put_output(struct grpc_connection *c, struct buf *out, size_t enough);
/* Whether everything is said: after an error of the protocol, or grpc_connection_end. */
bool grpc_connection_is_ended(const struct grpc_connection *c);
/* Whether it has calls of a client that may call. */
bool grpc_connection_has_calls(const struct grpc_connection *c);
/* To be called every few seconds: ends calls that take too long. */
void grpc_connection_tick(struct grpc_connection *c, uint64_t now_ns);
/* Tells the client that it must use another connection. */
void grpc_connection_end(struct grpc_connection *c);

/* Gives back a call that was taken. Sends its reply if the client still waits for it, and frees the call. */
void grpc_call_finish(struct grpc_call *call, uint64_t now_ns);
