/* Received bytes: a request, or more of one. Part of request.bpf.c. */
#pragma once

#include "probes/request/http2.bpf.h"
#include "probes/request/request_flush.bpf.h"
#include "probes/request/request_http.bpf.h"
#include "probes/request/request_opaque.bpf.h"
#include "probes/request/tls_receive.bpf.h"

/* `start`: its first byte arrived; `now`: it was read. */
static __always_inline void begin(struct request_connection *c, __u64 pid_tgid, __s32 fd, __u64 start, __u64 now)
{
    struct request_record *r = &c->r;
    __u32 pid = pid_tgid >> 32, tid = pid_tgid;
    thread_answered(c); /* the one before, if it never had a reply */
    if (!c->process || r->h.pid != pid)
        connection_set_process(c, pid);
    r->h.pid = pid;
    r->h.tid = tid;
    r->id = now ^ pid_tgid << 40;
    r->start_ns = start;
    r->unread_ns = now - start;
    r->duration_ns = 0;
    r->bytes_in = r->bytes_out = 0;
    r->link.trace_id_high = r->link.trace_id_low = r->link.span_id = 0;
    r->status = 0;
    r->weight = 0;
    r->flags = c->tls ? REQUEST_TLS : 0;
    c->recorded_ns = c->counted_ns = 0;
    c->fd = fd;
    c->active = true;
    c->replied = c->partial = c->dirty = c->counted = c->closing = false;
    c->head_bytes = c->stream = 0;
    answered_forget(r->socket);
    thread_reads(c, tid, now);
}

/* Whether the bytes that were read, which begin with `head`, are more of the connection's request: it was not replied
 * to yet, or its server replies before it has read the body. That is known of streams. */
static __always_inline bool is_more(const struct request_connection *c, __u64 head, __u32 known)
{
    return c->active && (!c->replied || (stream_is_open(c) && match_start(head, known) == METHOD_NONE));
}

static __always_inline void take_more(struct request_connection *c, const struct request_text *text, __u32 bytes)
{
    c->r.bytes_in += bytes;
    if (c->replied) /* its reply is scanned */
        return;
    if (!text->is_kernel)
        stream_take_more(c, (__u64)text->at, text->size, false);
    if (c->r.line_bytes < REQUEST_LINE_BYTES) {
        append_line(&c->r, text);
        if (c->partial && c->r.line_bytes >= 8) {
            c->partial = false;
            if (match_method(*(__u64 *)c->r.line, 8) != METHOD_WHOLE)
                c->active = false;
        }
    }
}

/* The next request on a persistent connection, in one read; the previous one has been recorded. Bytes that are not a
 * request (the rest of a refused one, another protocol after an upgrade) clear its line: it gets no further record. */
static __always_inline int take_line(struct request_connection *c, const struct request_text *text)
{
    __u32 n = read_line(c->r.line, text);
    int match = n ? match_start(*(__u64 *)c->r.line, n) : METHOD_NONE;
    c->r.line_bytes = match == METHOD_NONE ? 0 : n;
    return match;
}

/* What the bytes that were read can begin, on a socket without a request so far. */
enum beginning { BEGINS_NOTHING, BEGINS_HTTP1, BEGINS_HTTP2, IS_HTTP2 };

static __always_inline enum beginning find_beginning(struct sock *sk, const struct request_text *text, __u32 bytes,
                                                     __u32 pid)
{
    __u64 head;
    __u32 known = read_head(text, &head);
    const int match = known ? match_method(head, known) : METHOD_NONE;
    /* PostgreSQL answers a client that asks for TLS with "S", which could begin SEARCH. */
    if (match == METHOD_WHOLE || (match == METHOD_PART && is_accepted(sk)))
        return BEGINS_HTTP1;
    if (http2_can_begin(head, known, text->at, text->size, bytes) && is_accepted(sk))
        return head == HTTP2_PREFACE ? BEGINS_HTTP2 : IS_HTTP2;
    opaque_received(sk, head, known, bytes, pid);
    return BEGINS_NOTHING;
}

/* `found`: the socket's connection; NULL: none. `arrival_ns`: of the first byte; 0: not known. `now`: 0: not
 * known yet. */
static __always_inline void received(struct sock *sk, struct request_connection *found, __s32 bytes, __u64 arrival_ns,
                                     const struct request_syscall *known, __u64 now)
{
    struct request_syscall call_made;
    __u64 pid_tgid = current_pid_tgid();
    if (asleep)
        return;
    const struct request_syscall *call = syscall_known(known, &call_made);
    const struct request_text text = text_of_call(call, bytes);
    if (tls_take_receive(sk, found, &text, bytes, arrival_ns, now))
        return;
    const enum beginning begins = found ? BEGINS_HTTP1 : find_beginning(sk, &text, bytes, pid_tgid >> 32);
    if (!found && (begins == BEGINS_NOTHING || !is_wanted(pid_tgid >> 32)))
        return;
    struct request_connection *c = found ?: connection_make(sk, pid_tgid);
    if (!c)
        return;
    if (begins == BEGINS_HTTP2 || begins == IS_HTTP2)
        http2_open(c->number, number_of(sk), bytes, begins == BEGINS_HTTP2);
    if (c->is_http2) {
        http2_receive(c, sk, bytes, arrival_ns, now);
        return;
    }
    __u64 head = 0;
    const __u32 known_bytes = c->active && c->replied ? read_head(&text, &head) : 0;
    if (is_more(c, head, known_bytes)) {
        take_more(c, &text, bytes);
        return;
    }
    now = now ?: bpf_ktime_get_ns();
    __u64 held = connection_hold(c, now);
    if (c->active)
        publish_last(c, now);
    int match = take_line(c, &text);
    if (match != METHOD_NONE) {
        if (!c->active) /* the bytes sent before were no reply */
            c->sent_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
        if (!arrival_ns || arrival_ns > now) /* another CPU was just at it */
            arrival_ns = now;
        begin(c, pid_tgid, call->argument[0], arrival_ns, now);
        c->partial = match == METHOD_PART;
        c->r.bytes_in = bytes;
        stream_take_request(c, (__u64)text.at, text.size, false);
        if (wants_callers && text.at)
            note_caller(c->number, (__u64)text.at, text.size);
    } else if (http2_can_begin(*(__u64 *)c->r.line, at_most(text.size, 8), text.at, text.size,
                               bytes)) { /* after an upgrade */
        http2_open(c->number, number_of(sk), bytes, *(__u64 *)c->r.line == HTTP2_PREFACE);
        if (c->is_http2)
            http2_receive(c, sk, bytes, arrival_ns, now);
    }
    connection_release(held);
}
