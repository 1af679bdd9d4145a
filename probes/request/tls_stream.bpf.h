/* Which SSL object belongs to a socket, and the request that its text is. Part of request.bpf.c. */
#pragma once

#include "probes/request/tls_calls.bpf.h"

/* The object's text is from now on that of this connection; NULL: no place. */
static __always_inline struct tls_stream *tls_stream_bind(struct request_connection *c, struct tls_socket *k, __u32 pid,
                                                          __u64 ssl)
{
    struct tls_stream *s = tls_stream_make(pid, ssl);
    if (!s) {
        lose(REQUEST_LOSS_MAP_FULL);
        return NULL;
    }
    k->ssl = ssl;
    k->pid = pid;
    s->socket = c->r.socket;
    return s;
}
