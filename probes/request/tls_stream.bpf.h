/* Which SSL object belongs to a socket, and the request that its text is. Part of request.bpf.c. */
#pragma once

#include "probes/request/tls_calls.bpf.h"

/* The object's text is from now on that of this connection; NULL: no place. */
static __always_inline struct tls_stream *tls_stream_bind(struct request_connection *c, struct tls_socket *k, __u64 ssl)
{
    struct tls_stream *s = tls_stream_make(ssl);
    if (!s) {
        lose(REQUEST_LOSS_MAP_FULL);
        return NULL;
    }
    k->stream = tls_name(ssl);
    if (s->socket != c->r.socket) /* what arrived at another socket is not its text */
        s->arrival_ns = s->next_arrival_ns = 0;
    s->socket = c->r.socket;
    return s;
}
