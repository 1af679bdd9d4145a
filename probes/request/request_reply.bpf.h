/* The bytes of a reply, in plaintext: its status line, and how it counts. Part of request.bpf.c. */
#pragma once

#include "probes/request/request_end.bpf.h"

/* Adds a piece of a reply's status line. A global function: the verifier follows the loop once. */
__noinline int append_head(__u64 number, __u64 address, __u32 size, int is_kernel)
{
    struct request_connection *c = connection_find(number);
    if (!c)
        return 0;
    for (__u32 i = 0; i < REPLY_BYTES && i < size; i++) {
        const __u64 at = at_most(c->head_bytes, REPLY_BYTES);
        const struct request_text byte = {(const void *)(address + i), 1, is_kernel};
        if (at >= REPLY_BYTES || text_read(&c->head[at], 1, &byte) < 0)
            break;
        c->head_bytes = at + 1;
    }
    return 0;
}

/* The reply's status line, which may come in pieces: true when the reply has begun, false while it may still. What
 * turns out not to be HTTP is forgotten. */
static __always_inline bool take_head(struct request_connection *c, const struct request_text *text)
{
    if (!text->at)
        return false;
    if (c->head_bytes == 0 && text->size >= REPLY_BYTES) {
        if (text_read(c->head, REPLY_BYTES, text) < 0)
            return false;
        c->head_bytes = REPLY_BYTES;
    } else {
        __u64 address = 0; /* as a number: it may be the address of a map's value */
        bpf_probe_read_kernel(&address, sizeof(address), &text->at);
        append_head(c->number, address, text->size, text->is_kernel);
    }
    __u64 start = *(__u64 *)c->head;
    if (low_bytes(start ^ REPLY_START, c->head_bytes < 7 ? c->head_bytes : 7)) {
        c->active = false;
        return false;
    }
    if (c->head_bytes < REPLY_BYTES)
        return false;
    __u32 hundreds = c->head[9] - '0', tens = c->head[10] - '0', ones = c->head[11] - '0';
    if (hundreds > 9 || tens > 9 || ones > 9) {
        c->active = false;
        return false;
    }
    __u32 status = hundreds * 100 + tens * 10 + ones;
    if (hundreds == 1 && status != 101) { /* "100 Continue": the reply is still to come */
        c->head_bytes = 0;
        stream_expect_body(c);
        return false;
    }
    c->r.status = status;
    return true;
}

/* Another status line on a connection whose reply was out: the answer to a request that came in together with the last
 * one. */
static __always_inline bool is_next_reply(const struct request_text *text)
{
    __u64 head;
    return text->size >= REPLY_BYTES && read_head(text, &head) == 8 && low_bytes(head ^ REPLY_START, 7) == 0;
}

/* After the last one was recorded. */
static __always_inline void begin_pipelined(struct request_connection *c, __u64 pid_tgid)
{
    const bool closing = c->closing;
    __u64 start = last_sent_ns(c);
    begin(c, pid_tgid, c->fd, start, start);
    c->r.line_bytes = 0;
    c->r.flags |= REQUEST_PIPELINED;
    c->closing = closing;
}

/* Accounts for `bytes` of the reply, which begin with `text`. Returns whether the connection has ended, so that the
 * reply may now be complete. */
static __always_inline bool take_reply(struct request_connection *c, const struct request_text *text, __u32 bytes,
                                       __u64 pid_tgid, __u64 now)
{
    if (!c->replied) {
        if (!take_head(c, text)) {
            c->r.bytes_out += bytes;
            return false;
        }
        c->replied = true;
        answered_note(c->r.socket);
        thread_answered(c);
    }
    c->r.bytes_out += bytes;
    c->r.duration_ns = now - c->r.start_ns;
    c->dirty = true;
    thread_replies(c, pid_tgid, now);
    return c->closing;
}
