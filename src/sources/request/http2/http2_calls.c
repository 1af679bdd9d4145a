/* See http2_calls.h. */
#include "sources/request/http2/http2_calls.h"

#include <stdio.h>
#include <string.h>

/* The record's line is "POST /package.Service/Method HTTP/2". */
static void write_text(const struct request_record *r, char out[HTTP2_CALL_BYTES])
{
    const int method = (int)strcspn(r->line, " "), path = (int)strcspn(r->line + method + 1, " ");
    if (r->protocol == REQUEST_GRPC)
        snprintf(out, HTTP2_CALL_BYTES, "gRPC %.*s", r->flags & REQUEST_NO_PATH ? 4 : path,
                 r->flags & REQUEST_NO_PATH ? "call" : r->line + method + 1);
    else
        snprintf(out, HTTP2_CALL_BYTES, "HTTP %.*s", r->line[0] == '*' ? 7 : method,
                 r->line[0] == '*' ? "request" : r->line);
}

void http2_calls_add(struct http2_calls *c, const struct request_record *r)
{
    const uint64_t place = c->count++ % HTTP2_CALLS_MAX;
    c->calls[place].socket = r->socket;
    c->calls[place].start_ns = r->start_ns;
    c->calls[place].end_ns = r->h.time_ns;
    write_text(r, c->calls[place].text);
}

void http2_calls_find(const struct http2_calls *c, uint64_t socket, uint64_t from_ns, uint64_t to_ns,
                      char out[HTTP2_CALL_BYTES])
{
    out[0] = '\0';
    for (size_t i = 0; i < HTTP2_CALLS_MAX; i++) {
        if (!socket || c->calls[i].socket != socket || c->calls[i].start_ns >= to_ns || c->calls[i].end_ns <= from_ns)
            continue;
        if (out[0] && strcmp(out, c->calls[i].text) != 0) {
            out[0] = '\0';
            return;
        }
        memcpy(out, c->calls[i].text, HTTP2_CALL_BYTES);
    }
}
