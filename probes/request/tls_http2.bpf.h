/* HTTP/2 over TLS. Part of request.bpf.c.
 *
 * Programs at uprobes hand plaintext to the walk through frames (http2_walk.bpf.h) as soon as it is read or written. So
 * nothing needs to be kept here until the object's socket is known: user space does that, and learns of the socket from
 * the programs there. Only what Go writes is walked through by these: at a send the whole text is known to be written.
 *
 * An object is that of a server with HTTP/2 if the first text that it reads is a preface; or, in the middle of a
 * connection, if what it reads until its socket is known is one whole frame, or begins with two. It is that of a client
 * if a process that serves requests writes a preface. */
#pragma once

#include "probes/request/tls_state.bpf.h"

/* The text that the current thread has read, or writes. */
struct tls_http2_text {
    __u64 at;
    __u64 time_ns, arrival_ns;
    __u32 bytes;
    __u8 direction;
    bool is_unsent;
};

/* Returns whether the scratch is ready to be walked through. */
static __always_inline bool tls_http2_begin_walk(struct http2_walk *w, const struct tls_stream *s,
                                                 const struct tls_http2_text *text)
{
    const __u64 pid_tgid = bpf_get_current_pid_tgid();
    w->side = s->http2.side[text->direction & 1];
    w->vector = w->vectors = w->left = w->used = w->ahead_size = 0;
    w->base = text->at;
    w->part = text->bytes;
    w->record.kind = HTTP2_RECORD_FRAMES;
    w->record.connection = s->http2.id;
    w->record.time_ns = text->time_ns;
    w->record.arrival_ns = text->arrival_ns;
    w->record.pid = pid_tgid >> 32;
    w->record.tid = pid_tgid;
    w->record.direction = text->direction;
    w->record.is_unsent = text->is_unsent;
    return w->side.is_live || http2_begin_side_inline(w);
}

static __always_inline void tls_http2_walk(struct tls_stream *s, const struct tls_http2_text *text, bool in_loop)
{
    struct http2_side *side = &s->http2.side[text->direction & 1];
    struct http2_walk *w = http2_walk_idle();
    if (!w) {
        http2_lose_step(side);
        return;
    }
    w->is_busy = true;
    if (tls_http2_begin_walk(w, s, text)) {
        if (in_loop)
            http2_walk_in_loop();
        else
            http2_walk_all();
        *side = w->side;
    }
    w->is_busy = false;
}

/* Functions, so that each program has the code once. In a loop: where no global function may be called. */
static __noinline int tls_http2_walk_in_loop(struct tls_stream *s, const struct tls_http2_text *text)
{
    tls_http2_walk(s, text, true);
    return 0;
}

static __noinline int tls_http2_walk_by_calls(struct tls_stream *s, const struct tls_http2_text *text)
{
    tls_http2_walk(s, text, false);
    return 0;
}

/* Whether the `bytes` that were read are one frame, or begin with two. The first `size` of them are kept in `s`. */
static __always_inline bool tls_http2_has_frames(const struct tls_stream *s, __u32 size, __u32 bytes)
{
    const __u64 head = *(const __u64 *)s->line;
    const __u64 next = (__u64)http2_length((const __u8 *)s->line) + HTTP2_HEAD_BYTES;
    if (size < HTTP2_HEAD_BYTES || !http2_is_head(head, s->line[8], true))
        return false;
    if (next == bytes || next + HTTP2_HEAD_BYTES > size)
        return next == bytes;
    const char *at = &s->line[at_most(next, REQUEST_LINE_BYTES - HTTP2_HEAD_BYTES)];
    return http2_is_head(*(const __u64 *)at, at[8], true);
}

/* ---- at uprobes ---- */

static __always_inline void tls_http2_event(const struct tls_stream *s, __u32 kind, __u64 now)
{
    struct http2_event r = {.kind = kind, .connection = s->http2.id, .time_ns = now};
    if (bpf_ringbuf_output(&http2_ring, &r, sizeof(r), http2_wakeup()) < 0)
        lose(REQUEST_LOSS_RING_FULL);
}

/* Nothing more of the object is its connection's. */
static __always_inline void tls_http2_close(struct tls_stream *s)
{
    if (s->http2.id)
        tls_http2_event(s, HTTP2_RECORD_CLOSED, bpf_ktime_get_ns());
    s->http2.id = 0;
}

enum tls_http2_beginning { TLS_HTTP2_IN_MIDDLE, TLS_HTTP2_PREFACE_READ, TLS_HTTP2_PREFACE_WRITTEN };

/* The object's text is HTTP/2 from the bytes on that were just read, or written. Changes nothing if the process is not
 * wanted, or if there is no place to say so. */
static __noinline int tls_http2_open(struct tls_stream *s, __u64 ssl, enum tls_http2_beginning beginning)
{
    const __u64 pid_tgid = bpf_get_current_pid_tgid();
    if (!is_wanted(pid_tgid >> 32))
        return 0;
    struct http2_opened *o = bpf_ringbuf_reserve(&http2_ring, sizeof(*o), 0);
    if (!o) {
        lose(REQUEST_LOSS_RING_FULL);
        return 0;
    }
    __builtin_memset(&s->http2, 0, sizeof(s->http2));
    s->http2.id = HTTP2_OVER_TLS | (bpf_ktime_get_ns() ^ ssl << 32);
    s->http2.side[HTTP2_RECEIVED].is_client = beginning == TLS_HTTP2_PREFACE_WRITTEN;
    s->http2.side[HTTP2_SENT].finds_messages = beginning != TLS_HTTP2_PREFACE_WRITTEN;
    s->bytes_in = s->written = 0;
    s->line_bytes = s->head_bytes = 0;
    s->read_copied = s->written_copied = 0;
    s->text_is_sent = s->has_frames = false;
    __builtin_memset(o, 0, sizeof(*o));
    o->kind = HTTP2_RECORD_OPENED;
    o->is_from_start = beginning != TLS_HTTP2_IN_MIDDLE;
    o->connection = s->http2.id;
    o->process = current_process_inline(pid_tgid >> 32);
    o->r.h.pid = pid_tgid >> 32;
    o->r.h.tid = pid_tgid;
    o->r.flags = beginning == TLS_HTTP2_PREFACE_WRITTEN ? REQUEST_CLIENT : 0;
    bpf_ringbuf_submit(o, http2_wakeup());
    return 0;
}

/* The object has read text. */
static __always_inline void tls_http2_received(struct tls_stream *s, __u64 at, __u64 bytes, bool in_loop)
{
    if (s->next_arrival_ns) {
        s->arrival_ns = s->next_arrival_ns;
        s->received_ns = s->next_received_ns;
        s->next_arrival_ns = 0;
    }
    const struct tls_http2_text text = {.at = at,
                                        .time_ns = s->arrival_ns ? s->received_ns : bpf_ktime_get_ns(),
                                        .arrival_ns = s->arrival_ns,
                                        .bytes = bytes,
                                        .direction = HTTP2_RECEIVED};
    if (in_loop)
        tls_http2_walk_in_loop(s, &text);
    else
        tls_http2_walk_by_calls(s, &text);
}

/* OpenSSL has written text: to its socket, or to memory (`is_buffered`). */
static __always_inline void tls_http2_written(struct tls_stream *s, __u64 at, __u64 bytes, bool is_buffered,
                                              bool in_loop)
{
    const bool is_reply = !s->http2.side[HTTP2_RECEIVED].is_client;
    const struct tls_http2_text text = {.at = at,
                                        .time_ns = bpf_ktime_get_ns(),
                                        .bytes = bytes,
                                        .direction = HTTP2_SENT,
                                        .is_unsent = is_reply && is_buffered && s->http2.socket};
    s->http2.is_unsent |= text.is_unsent;
    if (in_loop)
        tls_http2_walk_in_loop(s, &text);
    else
        tls_http2_walk_by_calls(s, &text);
}

/* Go begins to write: a send shows the text to be the object's. If none did so for the text before, that is missed. */
static __always_inline void tls_http2_begin_go_write(struct tls_stream *s)
{
    if (s->http2.is_untaken)
        http2_lose_step(&s->http2.side[HTTP2_SENT]);
    s->http2.is_untaken = s->http2.id != 0;
}
