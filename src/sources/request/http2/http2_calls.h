/* The latest calls that servers made of other services over HTTP/2: what was asked on a socket at some time. Pure. */
#pragma once

#include "sources/request/http2/http2_drain.h"

#define HTTP2_CALLS_MAX 512

/* Initially zeros. */
struct http2_calls {
    struct {
        uint64_t socket; /* 0: none */
        uint64_t start_ns, end_ns;
        char text[HTTP2_CALL_BYTES];
    } calls[HTTP2_CALLS_MAX];
    uint64_t count; /* so far */
};

/* A stream that the process has sent (REQUEST_CLIENT) has ended. Replaces the oldest one. */
void http2_calls_add(struct http2_calls *c, const struct request_record *r);

/* Writes "gRPC /package.Service/Method", or of another stream "HTTP GET": what was under way on the socket in [from,
 * to).
 * "": nothing that is known, or different calls. */
void http2_calls_find(const struct http2_calls *c, uint64_t socket, uint64_t from_ns, uint64_t to_ns,
                      char out[HTTP2_CALL_BYTES]);
