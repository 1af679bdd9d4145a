/* The streams of all connections: a table by connection and number, and the lists that streams are on. Not
 * thread-safe. */
#pragma once

#include "sources/request/http2/http2_stream.h"

#define HTTP2_STREAM_BUCKETS 4096

struct http2_streams {
    struct http2_stream *buckets[HTTP2_STREAM_BUCKETS];
    struct http2_stream *unused;
    uint32_t count, unused_count, max; /* `max`: at a time; set by the caller */
};

/* Returns the stream `id` of the connection; NULL if the stream does not exist, or is hidden. */
struct http2_stream *http2_streams_find(const struct http2_streams *t, uint64_t connection, uint32_t id);
/* Returns a new stream, first on `list`; NULL: there are `max`, or no memory. */
struct http2_stream *http2_streams_make(struct http2_streams *t, uint64_t connection, uint32_t id,
                                        struct http2_stream **list);
/* Removes the stream from the table and from its list. It is to be freed later. */
void http2_streams_hide(struct http2_streams *t, struct http2_stream *s);
/* Frees a hidden stream that is on no list: its memory is used again. */
void http2_streams_free(struct http2_streams *t, struct http2_stream *s);
/* Releases the memory of freed streams that was kept for new ones. */
void http2_streams_clear(struct http2_streams *t);

/* Puts a stream that is on no list first on `list`. */
void http2_stream_link(struct http2_stream **list, struct http2_stream *s);
void http2_stream_unlink(struct http2_stream *s);
