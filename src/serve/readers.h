/* The connections of an HTTP server, and the replies under way, so that no client that reads slowly, or sends nothing,
 * keeps others out or takes memory without a limit.
 * - A request must be complete, and a reply be read, within a time.
 * - A client (origin.h) with `per_origin` connections that opens another one loses one of its own.
 * - Where `max` are in use, the client that has most loses one.
 * A client loses the connection that has waited longest for a request; if none waits, the one whose reply has taken
 * longest. Thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "model/connection_end.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READERS_SPARE 32 /* connections that are being closed; a server must accept so many more than `max` */

struct readers;
struct reader;

struct readers_options {
    size_t max, per_origin;     /* connections */
    uint64_t answers_max_bytes; /* of all replies under way: beyond that no further one begins */
    uint64_t request_ns;        /* from the connection, or the end of its last reply, to the end of a request */
    uint64_t reply_ns;          /* from the end of a request to the end of its reply */
    uint64_t slow_ns;           /* a reply that takes longer is ended when another one needs its memory */
    uint64_t free_ns;           /* how long a new reply waits for that memory */
    uint64_t (*now_ns)(void);
    void (*hold)(void *context, int64_t bytes); /* called when a reply begins (> 0) and ends (< 0) */
    void (*ended)(void *context,
                  enum connection_end end); /* called for each connection that is closed; must not block; NULL: none */
    void *context;
};

int readers_new(const struct readers_options *options, struct readers **ret);
void readers_free(struct readers *r);
DEFINE_FREEP(readers)

/* A new connection of the client `origin`, which waits for a request. Borrows `socket` until readers_remove, and may
 * shut it down. NULL: more than `max` + READERS_SPARE. */
struct reader *readers_add(struct readers *r, int socket, uint64_t origin);
void readers_remove(struct readers *r, struct reader *reader);

/* Its request is complete and is answered from now on; the reply has ended, and it waits for the next request. */
void reader_asked(struct readers *r, struct reader *reader);
void reader_answered(struct readers *r, struct reader *reader);
/* The server itself ended the reply, because the client read nothing for a while. */
void reader_stalled(struct readers *r, struct reader *reader);

/* Closes the connections whose time is over. To be called once a second. */
void readers_tick(struct readers *r);

/* Whether a reply to this connection may begin. If all memory for replies is in use:
 * - Replies that take longer than slow_ns are ended.
 * - Clients with more replies under way than this client lose their longest replies, as many as are needed.
 * - The function waits until that memory is free, at most free_ns.
 * False for NULL, a connection without a place. */
bool readers_may_answer(struct readers *r, const struct reader *reader);
/* A reply of this size is under way, or has ended (< 0). */
void readers_hold(struct readers *r, int64_t bytes);
