/* Counts the calls that servers make of other services (service_call.h). Part of request.bpf.c. */
#pragma once

#include "probes/request/client_calls.bpf.h"
#include "probes/request/http2.bpf.h"
#include "probes/request/open_calls.bpf.h"
#include "probes/request/service_addresses.bpf.h"

/* The socket at `address`, which is called `socket`, has sent a call. A function, so that its stack is not added to
 * that of its callers' other functions; with numbers as arguments, so that it is verified once. */
__noinline int service_call_begin(__u64 address, __u64 socket, int call, __u64 now)
{
    const struct sock *sk = (const struct sock *)address;
    struct open_call *o = open_call_place(socket);
    const struct client_text *text = client_text_get();
    if (!o || !text || BPF_CORE_READ(sk, sk_type) != SOCK_STREAM || (o->start_ns && o->socket == socket))
        return 0;
    if (o->start_ns) /* of another socket, perhaps one that has been closed */
        __sync_fetch_and_add(&service_calls_missed, 1);
    o->socket = socket;
    o->call = call;
    o->is_tls = text->ssl != 0;
    struct tls_stream *s = reads_tls && o->is_tls ? tls_stream_make(text->ssl) : NULL;
    if (s)
        s->calls_on = socket;
    if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_UNIX) {
        __builtin_memset(&o->server, 0, sizeof(o->server));
        *(__u32 *)o->server.address = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr);
    } else {
        service_address_set(&o->server, sk, false);
    }
    o->start_ns = now;
    return 0;
}

/* The first bytes of the reply that the current thread has just received, as far as it can be read. */
static __always_inline void read_reply_head(char head[REPLY_HEAD_BYTES], __u32 bytes)
{
    struct request_syscall call;
    __u32 size;
    syscall_current(&call);
    const void *at = syscall_buffer(&call, &size);
    const __u64 n = at_most(bytes < size ? bytes : size, REPLY_HEAD_BYTES);
    if (at && n)
        bpf_probe_read_user(head, n, at);
}

/* The current thread has received the reply to the open call of `socket`; `bytes` is 0 at the end of the connection. */
__noinline int service_call_end(__u64 socket, __u32 bytes, __u64 now)
{
    struct open_call *o = open_call_find(socket);
    char head[REPLY_HEAD_BYTES] = {};
    if (!o)
        return 0;
    if (bytes)
        read_reply_head(head, bytes);
    return open_call_end(o, head, !bytes, now);
}

/* The current thread has received `bytes` on a socket that has no incoming requests. */
static __always_inline void service_call_received(struct sock *sk, __u32 bytes, __u64 now)
{
    if (!now || !is_server(bpf_get_current_pid_tgid() >> 32))
        return;
    const __u64 socket = socket_name(sk);
    const struct open_call *o = open_call_find(socket);
    if (o && !(o->is_tls && bytes)) /* else its reply is read by tls_calls.bpf.h */
        service_call_end(socket, bytes, now);
}

/* The process, a server, sends HTTP/2 on a connection that it began, as `asked` says (client_calls.bpf.h): `bytes` from
 * the preface on, whole frames, or over TLS a record, which tls_take_send takes. Returns the connection; NULL: it
 * cannot be made. */
static __always_inline struct request_connection *http2_open_client(struct sock *sk, __u32 bytes, int asked)
{
    const bool is_tls = reads_tls && asked == CLIENT_HTTP2_OVER_TLS;
    const __u64 id = current_pid_tgid();
    struct request_connection *c = is_tls ? tls_connection_make(sk, id) : connection_make(sk, id);
    if (!c)
        return NULL;
    c->is_client = true;
    if (!is_tls)
        http2_open(c->number, number_of(sk), bytes, asked == CLIENT_BEGINS_HTTP2);
    return is_tls || c->is_http2 ? c : NULL;
}

/* The current thread has sent `bytes` on the socket of connection `*c` (NULL: it has none), which may be made by that.
 * Returns the time; 0: nothing is recorded. */
static __always_inline __u64 record_send(struct sock *sk, __s32 bytes, struct request_connection **c)
{
    const int asked = client_call_sent(sk, bytes, *c);
    const bool is_http2 = (reads_tls && asked == CLIENT_HTTP2_OVER_TLS) || asked == CLIENT_BEGINS_HTTP2 ||
                          (asked == CLIENT_SENDS_STREAM && http2_sends_frames(bytes));
    const int call = asked >= CLIENT_SENDS_STREAM ? RECORDER_NO_SYSCALL : asked;
    const __u64 now = record_socket(sk, RECORDER_SEND, bytes, is_served(*c), call);
    if (now && call != RECORDER_NO_SYSCALL)
        service_call_begin(number_of(sk), socket_name(sk), call, now);
    if (is_http2)
        *c = http2_open_client(sk, bytes, asked);
    return now;
}
