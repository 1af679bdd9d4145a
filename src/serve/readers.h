/* The connections to the page, and the replies under way, so that nobody who reads slowly, or sends nothing, keeps
 * others out or takes memory without a limit. Where all places are taken, the connection that has waited longest for a
 * request is closed; if none waits, the one whose reply has taken longest. Thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READERS_MAX   64
#define READERS_SPARE 32 /* connections that are being closed; a server must accept so many more */

struct readers;
struct reader;

struct readers_options {
    uint64_t answers_max_bytes; /* of all replies under way: beyond that no further one begins */
    uint64_t slow_ns;           /* a reply that takes longer is ended when another one needs its memory */
    uint64_t (*now_ns)(void);
    void (*hold)(void *context, int64_t bytes); /* told of each reply that begins (> 0) and ends (< 0) */
    void *context;
};

int readers_new(const struct readers_options *options, struct readers **ret);
void readers_free(struct readers *r);
DEFINE_FREEP(readers)

/* A new connection, which waits for a request. Borrows `socket` until readers_remove, and may shut it down. NULL: more
 * than READERS_MAX + READERS_SPARE. */
struct reader *readers_add(struct readers *r, int socket);
void readers_remove(struct readers *r, struct reader *reader);

/* Its request is complete and is answered from now on; the reply has ended, and it waits for the next request. */
void reader_asked(struct readers *r, struct reader *reader);
void reader_answered(struct readers *r, struct reader *reader);

/* Whether another reply may begin. If not, those that take long are ended, so that there is room soon. */
bool readers_may_answer(struct readers *r);
/* A reply of this size is under way, or has ended (< 0). */
void readers_hold(struct readers *r, int64_t bytes);
