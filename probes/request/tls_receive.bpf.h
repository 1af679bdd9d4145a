/* Receives of ciphertext: when the bytes of a text came in, and which SSL object reads them. Part of request.bpf.c. */
#pragma once

#include "probes/request/request_opaque.bpf.h"
#include "probes/request/tls_stream.bpf.h"

/* Connections without a request so far are opaque beyond this. */
#define TLS_HANDSHAKE_BYTES 16384

/* Whether the text of this connection cannot be read, as far as it is known. */
static __always_inline bool tls_is_opaque(const struct request_connection *c, const struct tls_socket *k)
{
    return !c->process && (k->is_other || k->received > TLS_HANDSHAKE_BYTES);
}

/* The program that receives is inside of SSL_read: `ssl` is the socket's; 0: it is not. */
__noinline int tls_note_receive(__u64 number, __u64 ssl, __u64 bytes, __u64 arrival_ns, __u64 now)
{
    const __u64 receiver = bpf_get_current_pid_tgid();
    struct request_connection *c = reads_tls ? connection_find(number) : NULL;
    struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    if (!k)
        return 0;
    k->arrival_ns[1] = k->arrival_ns[0];
    k->received_ns[1] = k->received_ns[0];
    k->receiver[1] = k->receiver[0];
    k->arrival_ns[0] = arrival_ns;
    k->received_ns[0] = now;
    k->receiver[0] = receiver;
    k->received += bytes;
    struct tls_stream *s = ssl ? tls_stream_bind(c, k, ssl) : tls_stream_of(k);
    if (!s || s->socket != c->r.socket)
        return 0;
    if (!s->next_arrival_ns)
        s->next_arrival_ns = arrival_ns;
    s->next_received_ns = now;
    return 0;
}

static __always_inline struct request_connection *tls_connection_make(struct sock *sk, __u64 pid_tgid)
{
    struct request_connection *c = is_wanted(pid_tgid >> 32) ? connection_make(sk, pid_tgid) : NULL;
    struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    if (!k)
        return NULL;
    *k = (struct tls_socket){};
    c->tls = true;
    return c;
}

/* `c_bytes`: the number of the socket's connection, 0 if it has none, and the received bytes << 32. A function, so that
 * its stack is not added to the stack of recording. */
static __noinline bool tls_receive(struct sock *sk, __u64 c_bytes, const struct request_text *text, __u64 arrival_ns,
                                   __u64 now)
{
    const __u64 id = current_pid_tgid(), ssl = tls_object_of_syscall(id);
    const __u32 number = c_bytes, bytes = c_bytes >> 32;
    __u64 head;
    const __u32 known = read_head(text, &head);
    if (!number && !ssl && !is_tls_record(head, known))
        return false;
    struct request_connection *c = number ? connection_find(number) : tls_connection_make(sk, id);
    const struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    if (!k)
        return false;
    now = now ?: bpf_ktime_get_ns();
    if (tls_is_opaque(c, k))
        opaque_received(sk, head, known, bytes, id >> 32);
    tls_note_receive(c->number, ssl, bytes, arrival_ns && arrival_ns < now ? arrival_ns : now, now);
    return true;
}

/* False: these bytes are not of a TLS connection whose text is read. */
static __always_inline bool tls_take_receive(struct sock *sk, const struct request_connection *c,
                                             const struct request_text *text, __u32 bytes, __u64 arrival_ns, __u64 now)
{
    if (!reads_tls || (c ? !c->tls : !tls_is_process(current_pid_tgid() >> 32) || !is_accepted(sk)))
        return false;
    return tls_receive(sk, (c ? c->number : 0) | (__u64)bytes << 32, text, arrival_ns, now);
}
