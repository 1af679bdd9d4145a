/* The requests of HTTP/2 connections: puts streams together from the frames that request.bpf.c copies
 * (probes/request/http2.h). A stream is one request: from the arrival of its HEADERS until the server has sent
 * END_STREAM, a side has reset it, or the connection has ended. Over TLS, a stream whose end is known is held until the
 * connection's socket is known, and until what the program has written into memory is sent. On connections that a
 * process began to call another service (REQUEST_CLIENT), a stream lasts from the send of its HEADERS until END_STREAM
 * was received. A call of gRPC whose reply has several messages is reported a first time when the second one was sent:
 * the flight recorder then still has the time until the first one. Pure: the same records and times give the same
 * requests. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/request/http2.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP2_STREAMS_MAX     16384 /* at a time; further ones are lost */
#define HTTP2_CONNECTIONS_MAX 6144  /* likewise; instead of a further one, the one is lost that was idle for longest */
#define HTTP2_HELD_MAX        1024  /* streams of a connection whose end is known, and that are held */

struct http2_requests;

struct http2_report {
    struct request_record request;
    struct request_stream_record stream; /* size_bytes 0: the reply does not have several messages */
    bool is_open;                        /* the request goes on, and is reported once more */
    bool is_second;
};

/* A request has ended, or goes on. `process`: that served it (request_process_name), or with REQUEST_CLIENT that sent
 * it. The callee sets weight and flags of its choice in `r->request`; of a second report, they are those of the first.
 */
typedef void http2_reported(void *context, uint64_t process, struct http2_report *r);

/* What could not be put together so far. */
struct http2_losses {
    uint64_t streams;   /* found HTTP2_STREAMS_MAX */
    uint64_t malformed; /* records, and blocks of header fields */
    uint64_t gaps;      /* where frames were missed */
    uint64_t unbound;   /* streams over TLS whose socket has never been known */
};

/* The caller frees `*ret`. -ENOMEM. */
int http2_requests_new(http2_reported *reported, void *context, struct http2_requests **ret);
void http2_requests_free(struct http2_requests *q);
DEFINE_FREEP(http2_requests)

/* Takes a record of `http2_ring`, of `size` bytes. */
void http2_requests_take(struct http2_requests *q, const void *record, size_t size);

/* The last frames on a connection over TLS are known when the thread that writes them returns from the write. The
 * connection may end before that, so its streams end this much later. */
#define HTTP2_CLOSING_NS 100000000

/* To be called after each turn. Ends the streams of connections that have ended over TLS, HTTP2_CLOSING_NS after that.
 *
 * Frees the tables and buffers of all connections if they hold more than HTTP2_REQUESTS_BYTES, which clients of an
 * observed server could bring about on purpose. Header fields that were sent before are then unknown, and each such
 * connection counts as a gap. Measures the memory once in 256 KiB of records. */
#define HTTP2_REQUESTS_BYTES (4u << 20)
void http2_requests_turn(struct http2_requests *q, uint64_t now_ns);

const struct http2_losses *http2_requests_losses(const struct http2_requests *q);
/* Memory held, in bytes. */
size_t http2_requests_bytes(const struct http2_requests *q);
