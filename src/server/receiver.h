/* Takes requests of OTLP, however they came: decompresses, decodes and stores them. A request is in the spool, on disk,
 * when receiver_store returns. Called from many threads. */
#pragma once

#include "base/cursor.h"
#include "server/known_rows.h"
#include "server/otlp_rows.h"
#include "server/spool.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define RECEIVER_BODY_MAX_BYTES ((size_t)16 << 20) /* compressed or not */
#define RECEIVER_DECODERS       4                  /* requests at once; others wait for them */
#define RECEIVER_RETRY_S        5                  /* after which a client should send again */

struct receiver {
    struct spool *spool;
    struct known_rows *known;
    atomic_ullong set_aside; /* segments of the spool, when `known` was last used */
    unsigned keep_days;
    uint64_t (*unix_ns)(void);
    sem_t decoders;              /* bounds the memory of bodies that are decompressed and decoded */
    atomic_size_t waiting_bytes; /* decoded, waiting for the disk */
};

/* Borrows `spool` and `known`. */
void receiver_init(struct receiver *receiver, struct spool *spool, struct known_rows *known, unsigned keep_days,
                   uint64_t (*unix_ns)(void));

struct receiver_request {
    const struct otlp_signal *signal;
    bool is_json;
    const char *encoding; /* of the body: "gzip", "zstd", "identity"; NULL: none */
    struct cursor body;
    const struct sockaddr *client;
};

struct receiver_result {
    uint64_t rejected; /* items, in a request whose other items were stored */
    char why[OTLP_WHY_BYTES];
};

/* 0, or -errno that receiver_failure explains: nothing of the request is stored. */
int receiver_store(struct receiver *receiver, const struct receiver_request *request, struct receiver_result *ret);
/* Stores a row that the server made itself. 0 or -errno as above. */
int receiver_store_row(struct receiver *receiver, enum table table, const struct buf *row);
/* An ExportTraceServiceResponse or its like in protobuf. Nothing if all items were stored. */
void receiver_put_response(struct buf *out, const struct receiver_result *result);

enum receiver_kind {
    RECEIVER_INVALID,          /* the request will never be accepted */
    RECEIVER_TOO_LARGE,        /* nor will this one, in one piece */
    RECEIVER_UNKNOWN_ENCODING, /* nor this one, with this compression */
    RECEIVER_BUSY,             /* to be sent again later, as the next two: too many requests at once */
    RECEIVER_FULL,             /* the spool has no space */
    RECEIVER_BROKEN,           /* the disk or the memory fails */
};
struct receiver_failure {
    enum receiver_kind kind;
    const char *text; /* has no character that JSON or a header field would escape */
};
struct receiver_failure receiver_failure(int error);
