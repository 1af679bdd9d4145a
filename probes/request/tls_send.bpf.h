/* Sends of ciphertext: they confirm which SSL object belongs to a socket. Its text is then a request that came in on
 * this socket, and the reply that is sent. Part of request.bpf.c.
 *
 * A send inside of SSL_write is the object's. Other sends are recognized by the TLS record that they begin with, which
 * BIO_write has seen before. All other sends carry no text: alerts, the rest of a handshake. */
#pragma once

#include "probes/request/request_reply.bpf.h"
#include "probes/request/tls_receive.bpf.h"

/* Of a send, in one number; the low half is the descriptor. */
#define TLS_NESTED        (1ULL << 32) /* it is inside of SSL_write */
#define TLS_BEGINS_RECORD (1ULL << 33) /* it begins with a record that SSL_write put into a memory BIO */
#define TLS_PUBLISHED     (1ULL << 34)

/* When the text that was read at `read_ns` had arrived, where the object was not known to be the socket's by then. */
static __always_inline void tls_find_arrival(const struct tls_socket *k, struct tls_stream *s)
{
    for (int i = 0; i < 2 && !s->arrival_ns; i++)
        if (k->received_ns[i] && k->received_ns[i] <= s->read_ns) {
            s->arrival_ns = k->arrival_ns[i];
            s->received_ns = k->received_ns[i];
        }
    if (!s->arrival_ns)
        s->arrival_ns = s->received_ns = s->read_ns;
}

/* With the address of an object, which is in user space. */
#define TLS_OBJECT_NESTED (1ULL << 63)

enum { TLS_IS_TEXT = 1, TLS_IS_NEXT, TLS_IS_FRAMES, TLS_HAS_ENDED, TLS_IS_PIPELINED };

/* The functions from here on are global, and the programs call them one after another: so the stack sizes do not add
 * up. They find everything by the connection's number. */

/* The socket has sent `bytes`, and the object `ssl` has written the record that they begin with; 0: not known. Returns
 * whether they are the object's text; and whether that is HTTP/2, or a request was read before it: then the
 * connection's last one is to be published. */
__noinline int tls_confirm(__u64 number, __u64 ssl, __u64 bytes)
{
    struct request_connection *c = reads_tls ? connection_find(number) : NULL;
    struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    if (!k)
        return 0;
    struct tls_stream *s = ssl ? tls_stream_bind(c, k, ssl) : tls_stream_of(k);
    if (!s || s->socket != c->r.socket || (!ssl && s->sent >= s->produced))
        return 0;
    const bool is_next = c->active && !is_more(c, *(const __u64 *)s->line, at_most(s->line_bytes, 8));
    const int confirmed = s->http2.id ? TLS_IS_FRAMES : ssl && s->bytes_in && is_next ? TLS_IS_NEXT : TLS_IS_TEXT;
    s->sent += bytes;
    if (s->sent > s->produced)
        s->sent = s->produced;
    return confirmed;
}

/* What the connection's object has read is a request, or more of one. */
__noinline int tls_take_request(__u64 number, __u64 how)
{
    struct request_connection *c = reads_tls ? connection_find(number) : NULL;
    struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    struct tls_stream *s = k ? tls_stream_of(k) : NULL;
    if (!s || !s->bytes_in)
        return 0;
    const struct request_text text = {s->line, s->line_bytes, true};
    const __u32 bytes = s->bytes_in, copied = s->read_copied;
    s->bytes_in = 0;
    s->line_bytes = 0;
    s->read_copied = 0;
    if (is_more(c, *(const __u64 *)s->line, at_most(text.size, 8))) {
        take_more(c, &text, bytes);
        if (!c->replied)
            stream_take_more(c, copied ? tls_text_address(k, false) : 0, copied, true);
        if (copied)
            tls_text_delete(&k->stream, false);
        return 0;
    }
    const int match = take_line(c, &text);
    if (match == METHOD_NONE) {
        k->is_other = true;
        s->has_frames = !c->process && tls_http2_has_frames(s, text.size, bytes);
        return 0;
    }
    tls_find_arrival(k, s);
    begin(c, s->reader, (__s32)how, s->arrival_ns, s->received_ns);
    c->partial = match == METHOD_PART;
    c->shared = true; /* what the thread did since then is not known here */
    c->r.bytes_in = bytes;
    stream_take_request(c, copied ? tls_text_address(k, false) : 0, copied, true);
    if (copied)
        tls_text_delete(&k->stream, false);
    return 0;
}

/* The text of the call that the current thread is in; none if an earlier try of the same call has sent it. */
static __always_inline __u32 tls_nested_text(const struct tls_stream *s, struct request_text *ret)
{
    const struct tls_call *t = tls_call_of_syscall(bpf_get_current_pid_tgid());
    if (!t || t->sends || s->text_is_sent)
        return 0;
    *ret = (struct request_text){(const void *)t->text, at_most(t->size, 0xffffffff), false};
    return ret->size;
}

/* The text that was written into a memory BIO. */
static __always_inline __u32 tls_buffered_text(const struct tls_stream *s, struct request_text *ret)
{
    *ret = (struct request_text){s->head, s->head_bytes, true};
    return s->written;
}

/* Whether the text in the memory BIO goes out with this send: its record was recognized, or all that was written is
 * sent by now. Records of a few bytes are not recognized. */
static __always_inline bool tls_buffered_is_sent(const struct tls_stream *s, __u64 how)
{
    return !(how & TLS_NESTED) && (how & TLS_BEGINS_RECORD || s->sent >= s->produced);
}

static __always_inline void tls_text_taken(struct tls_stream *s, __u64 how)
{
    struct tls_call *t = how & TLS_NESTED ? tls_call_of_syscall(bpf_get_current_pid_tgid()) : NULL;
    if (t && !t->sends++)
        t->is_repeated = s->text_is_sent;
    if (!tls_buffered_is_sent(s, how))
        return;
    s->written = 0;
    s->written_copied = 0;
    s->head_bytes = 0;
}

/* What the connection's object has written may be a stream. Ahead of tls_take_reply. */
__noinline int tls_take_stream(__u64 number, __u64 how, __u64 now)
{
    struct request_connection *c = reads_tls ? connection_find(number) : NULL;
    struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    struct tls_stream *s = k ? tls_stream_of(k) : NULL;
    struct request_text text = {};
    if (!s || !c->active || (c->replied && c->r.status == 101))
        return 0;
    if (how & TLS_NESTED) {
        const __u32 bytes = tls_nested_text(s, &text);
        if (bytes)
            stream_take_send(c, (__u64)text.at, (__u64)NR_write << 32, bytes, now);
    } else if (tls_buffered_is_sent(s, how) && s->written) {
        const __u64 copied = s->written_copied, at = copied ? tls_text_address(k, true) : 0;
        stream_take_send(c, at, (__u64)STREAM_COPY << 32 | (at ? copied : 0), s->written, now);
        if (copied)
            tls_text_delete(&k->stream, true);
    }
    return 0;
}

/* What the connection's object has written is a reply, or more of one. Returns TLS_HAS_ENDED as take_reply does;
 * TLS_IS_PIPELINED: nothing is taken yet, the last reply is to be published, and `how` gets TLS_PUBLISHED. */
__noinline int tls_take_reply(__u64 number, __u64 how, __u64 now)
{
    struct request_connection *c = reads_tls ? connection_find(number) : NULL;
    struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    struct tls_stream *s = k ? tls_stream_of(k) : NULL;
    struct request_text text = {};
    __u32 bytes = 0;
    if (!s)
        return 0;
    if (how & TLS_NESTED)
        bytes = tls_nested_text(s, &text);
    else if (tls_buffered_is_sent(s, how))
        bytes = tls_buffered_text(s, &text);
    const __u64 id = bpf_get_current_pid_tgid();
    const bool is_reply = c->active && (!c->replied || c->r.status != 101);
    if (is_reply && c->replied && is_next_reply(&text)) {
        if (!(how & TLS_PUBLISHED))
            return TLS_IS_PIPELINED;
        begin_pipelined(c, id);
    }
    const bool has_ended = is_reply && take_reply(c, &text, bytes, id, now);
    tls_text_taken(s, how);
    return has_ended ? TLS_HAS_ENDED : 0;
}

/* The socket of an object whose text is HTTP/2 is known. */
static __always_inline void tls_http2_bind(struct request_connection *c, const struct tls_socket *k,
                                           struct tls_stream *s)
{
    struct http2_bound *b = bpf_ringbuf_reserve(&http2_ring, sizeof(*b), 0);
    if (!b) {
        lose(REQUEST_LOSS_RING_FULL);
        return;
    }
    http2_begin(c, bpf_get_current_pid_tgid());
    c->r.id = s->http2.id;
    s->http2.socket = c->r.socket;
    b->kind = HTTP2_RECORD_BOUND;
    b->reserved = 0;
    b->connection = s->http2.id;
    b->process = c->process;
    __builtin_memcpy(b->arrival_ns, k->arrival_ns, sizeof(b->arrival_ns));
    __builtin_memcpy(b->received_ns, k->received_ns, sizeof(b->received_ns));
    __builtin_memcpy(&b->r, &c->r, sizeof(b->r));
    bpf_ringbuf_submit(b, http2_wakeup());
}

/* What the connection's object has written is frames, which it has sent, or sends. */
__noinline int tls_http2_sent(__u64 number, __u64 how, __u64 now)
{
    struct request_connection *c = reads_tls ? connection_find(number) : NULL;
    struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    struct tls_stream *s = k ? tls_stream_of(k) : NULL;
    if (!s)
        return 0;
    if (s->http2.socket != c->r.socket)
        tls_http2_bind(c, k, s);
    if (s->http2.is_unsent && tls_buffered_is_sent(s, how)) {
        tls_http2_event(s, HTTP2_RECORD_SENT, now);
        s->http2.is_unsent = false;
    }
    struct tls_call *t = how & TLS_NESTED ? tls_call_of_syscall(bpf_get_current_pid_tgid()) : NULL;
    if (!t)
        return 0;
    t->is_http2 = true;
    if (t->sends++ || !t->is_go)
        return 0;
    const struct tls_http2_text text = {
        .at = t->text, .time_ns = now, .bytes = at_most(t->size, 0x7fffffff), .direction = HTTP2_SENT};
    s->http2.is_untaken = false;
    return tls_http2_walk_by_calls(s, &text);
}

/* The object that wrote a record that begins in these bytes, of the first few; 0: not known. */
static __always_inline __u64 tls_object_of_records(const void *at, __u32 left)
{
    for (int i = 0; at && i < TLS_RECORDS_A_CALL; i++) {
        const __u64 hash = tls_record_hash(at, left);
        const struct tls_stream_name *name = hash ? bpf_map_lookup_elem(&tls_records, &hash) : NULL;
        if (name)
            return tls_is_named(name, name->ssl) ? name->ssl : 0;
        const __u32 length = left >= TLS_RECORD_HEAD ? tls_record_length(at) : 0;
        if (!length || length >= left)
            return 0;
        at += length;
        left -= length;
    }
    return 0;
}

/* Whether a send is the first of this call of Go: the end of the call was not seen. Long texts are sent in records of
 * at least 1 KiB. */
static __always_inline bool tls_is_go_record(const struct tls_call *t, __u64 address, __u32 size)
{
    const __u32 length = size >= TLS_RECORD_HEAD && !t->sends ? tls_record_length((const void *)address) : 0;
    return t->size < 1024 ? length > t->size && length - t->size <= TLS_RECORD_MORE : length >= 1024;
}

/* The object whose text is sent: by the call that the thread is in (with TLS_OBJECT_NESTED), or by the records at
 * `address`; 0: not known. */
__noinline __u64 tls_object_of_send(__u64 address, __u32 size)
{
    if (!reads_tls)
        return 0;
    const struct tls_call *t = tls_call_of_syscall(bpf_get_current_pid_tgid());
    __u64 nested = 0;
    if (t && t->is_write && (!t->is_go || tls_is_go_record(t, address, size)))
        nested = t->ssl;
    return nested ? nested | TLS_OBJECT_NESTED : tls_object_of_records((const void *)address, size);
}

static __always_inline void tls_take_confirmed(struct request_connection *c, __u64 how, int confirmed, __u64 now)
{
    if (!confirmed)
        return;
    if (confirmed == TLS_IS_FRAMES) {
        tls_http2_sent(c->number, how, now);
        return;
    }
    if (confirmed == TLS_IS_NEXT)
        publish_last(c, now);
    if (how & (TLS_NESTED | TLS_BEGINS_RECORD)) /* else more of a record that has begun */
        tls_take_request(c->number, how);
    tls_take_stream(c->number, how, now);
    int taken = tls_take_reply(c->number, how, now);
    if (taken == TLS_IS_PIPELINED) {
        publish(c->number, now, true);
        taken = tls_take_reply(c->number, how | TLS_PUBLISHED, now);
    }
    if (taken == TLS_HAS_ENDED)
        complete(c->number, now);
    else
        publish_first_token(c, now);
}

/* False: these bytes are not of a TLS connection whose text is read. */
static __always_inline bool tls_take_send(struct sock *sk, struct request_connection *c, __u32 bytes,
                                          const struct request_syscall *known, struct request_syscall *room, __u64 now)
{
    const __u64 id = current_pid_tgid();
    if (!reads_tls || (c ? !c->tls : !sk || !tls_is_process(id >> 32) || !is_accepted(sk)))
        return false;
    const struct request_syscall *call = syscall_known(known, room);
    const struct request_text text = text_of_call(call, bytes);
    __u64 ssl = tls_object_of_send((__u64)text.at, text.size);
    if (!c && !ssl)
        return false;
    c = c ?: tls_connection_make(sk, id);
    const struct tls_socket *k = c ? tls_socket_of(c) : NULL;
    if (!k)
        return false;
    if (tls_is_opaque(c, k))
        opaque_sent(sk, bytes);
    now = now ?: bpf_ktime_get_ns();
    const __u64 held = connection_hold(c, now);
    if (!c->active && sk)
        c->sent_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq) - bytes;
    c->sent_seq += bytes;
    const __u64 how = (__u32)send_fd(call) | (ssl & TLS_OBJECT_NESTED ? TLS_NESTED : ssl ? TLS_BEGINS_RECORD : 0);
    ssl &= ~TLS_OBJECT_NESTED;
    tls_take_confirmed(c, how, tls_confirm(c->number, ssl, bytes), now);
    connection_release(held);
    return true;
}

/* The connection ends: a request that was read and not replied to. The object may live on, or its address may be that
 * of another one: Go frees its objects without a call that could be seen. Nothing of this connection is left to it. */
static __always_inline void tls_end(struct request_connection *c, struct sock *sk, __u64 now)
{
    const struct tls_socket *k = reads_tls ? tls_socket_of(c) : NULL;
    struct tls_stream *s = k ? tls_stream_of(k) : NULL;
    if (!s || s->socket != c->r.socket)
        return;
    if (!c->active)
        c->sent_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
    if (c->process && s->bytes_in) {
        if (c->active && c->replied)
            publish_last(c, now);
        tls_take_request(c->number, c->fd);
    }
    if (s->http2.id && !c->is_http2) /* else http2_close reports it */
        tls_http2_event(s, HTTP2_RECORD_CLOSED, now);
    s->http2.id = 0;
    s->socket = 0;
}
