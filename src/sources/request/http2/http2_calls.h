/* Calls that servers made to other services over HTTP/2. Keeps the latest ones, to find the call on a socket at a given
 * time, and counts all. Not thread-safe. */
#pragma once

#include "model/service_call.h"

#include <linux/types.h>

#include "probes/request.h"
#include "probes/request/service_call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP2_CALLS_MAX       512 /* the latest */
#define HTTP2_CALL_BYTES      128
#define HTTP2_CALL_COUNTS_MAX 256 /* by caller, address and text, until they are taken */

struct http2_call_count;

/* Initially zeros. */
struct http2_calls {
    struct {
        uint64_t socket; /* 0: none */
        uint64_t start_ns, end_ns;
        char text[HTTP2_CALL_BYTES];
    } calls[HTTP2_CALLS_MAX];
    uint64_t count; /* so far */
    struct http2_call_count *counts;
    uint64_t uncounted; /* found HTTP2_CALL_COUNTS_MAX, or no memory */
};

void http2_calls_clear(struct http2_calls *c);

/* A stream that `process` (request_process_name) has sent (REQUEST_CLIENT) has ended. Replaces the oldest one, and
 * counts it. */
void http2_calls_add(struct http2_calls *c, uint64_t process, const struct request_record *r);

/* Writes the call that was in progress on the socket in [from_ns, to_ns): "gRPC /package.Service/Method", or "HTTP GET"
 * for another stream; "" if no call is known, or several different ones. */
void http2_calls_find(const struct http2_calls *c, uint64_t socket, uint64_t from_ns, uint64_t to_ns,
                      char out[HTTP2_CALL_BYTES]);

/* The calls of one process to one address since they were last taken. `server` lacks the network of a loopback
 * address. Returns whether they are taken; otherwise they stay. */
typedef bool http2_calls_taker(void *context, uint64_t process, const struct service_address *server,
                               const char text[HTTP2_CALL_BYTES], const struct service_call_sums *sums);
void http2_calls_take(struct http2_calls *c, http2_calls_taker *take, void *context);
