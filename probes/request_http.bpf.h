/* HTTP/1 as far as the kernel half reads it: which bytes begin a request, which begin a reply. Part of request.bpf.c. */
#pragma once

#include "request_calls.bpf.h"

enum method_match { METHOD_NONE, METHOD_PART, METHOD_WHOLE };

static __always_inline __u64 low_bytes(__u64 v, __u32 n)
{
    return n >= 8 ? v : v & ((1ULL << (n * 8)) - 1);
}

#define BYTES8(a, b, c, d, e, f, g, h)                                                                                   \
    ((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40 |        \
     (__u64)(g) << 48 | (__u64)(h) << 56)

/* Does `head` begin with the method's `length` bytes (its space counted) and then with what can begin a target? */
static __always_inline enum method_match match_one(__u64 head, __u32 bytes, __u64 method, __u32 length)
{
    __u32 n = bytes < length ? bytes : length;
    if (low_bytes(head ^ method, n))
        return METHOD_NONE;
    if (bytes < length || (bytes == length && length < 8))
        return METHOD_PART;
    if (length >= 8)
        return METHOD_WHOLE;
    __u8 target = head >> (length * 8);
    return target == '/' || target == '*' || target == 'h' ? METHOD_WHOLE : METHOD_NONE;
}

/* `bytes`: how many of the 8 of `head` there are. A global function, as publish(): its many branches are verified once, and not again
 * for each way to get to it and with all that comes after it. */
__noinline int match_method(__u64 head, __u32 bytes)
{
    switch ((__u8)head) {
    case 'G':
        return match_one(head, bytes, BYTES8('G', 'E', 'T', ' ', 0, 0, 0, 0), 4);
    case 'P': {
        __u8 second = head >> 8;
        if (bytes < 2)
            return METHOD_PART;
        if (second == 'O')
            return match_one(head, bytes, BYTES8('P', 'O', 'S', 'T', ' ', 0, 0, 0), 5);
        if (second == 'U')
            return match_one(head, bytes, BYTES8('P', 'U', 'T', ' ', 0, 0, 0, 0), 4);
        return match_one(head, bytes, BYTES8('P', 'A', 'T', 'C', 'H', ' ', 0, 0), 6);
    }
    case 'H':
        return match_one(head, bytes, BYTES8('H', 'E', 'A', 'D', ' ', 0, 0, 0), 5);
    case 'D':
        return match_one(head, bytes, BYTES8('D', 'E', 'L', 'E', 'T', 'E', ' ', 0), 7);
    case 'O':
        return match_one(head, bytes, BYTES8('O', 'P', 'T', 'I', 'O', 'N', 'S', ' '), 8);
    case 'C':
        return match_one(head, bytes, BYTES8('C', 'O', 'N', 'N', 'E', 'C', 'T', ' '), 8);
    case 'T':
        return match_one(head, bytes, BYTES8('T', 'R', 'A', 'C', 'E', ' ', 0, 0), 6);
    }
    return METHOD_NONE;
}

#define REPLY_START   BYTES8('H', 'T', 'T', 'P', '/', '1', '.', 0)
#define REPLY_BYTES   12 /* "HTTP/1.1 200" */

/* The first bytes of a buffer: returns how many. */
static __always_inline __u32 read_head(const void *buffer, __u32 size, __u64 *ret_head)
{
    *ret_head = 0;
    if (!buffer || !size)
        return 0;
    __u64 n = at_most(size, 8);
    return bpf_probe_read_user(ret_head, n, buffer) == 0 ? n : 0;
}

/* The first bytes of a buffer, as many as are kept of a request: returns how many. */
static __always_inline __u32 read_line(char *line, const void *buffer, __u32 size)
{
    if (!buffer || !size)
        return 0;
    __u64 n = at_most(size, REQUEST_LINE_BYTES);
    return bpf_probe_read_user(line, n, buffer) == 0 ? n : 0;
}

/* Adds to the request line that is kept. */
static __always_inline void append_line(struct request_record *r, const void *buffer, __u32 size)
{
    if (!buffer || !size)
        return;
    if (r->line_bytes == 0) {
        r->line_bytes = read_line(r->line, buffer, size);
        return;
    }
    for (__u32 i = 0; i < REQUEST_LINE_BYTES; i++) {
        __u64 at = at_most(r->line_bytes, REQUEST_LINE_BYTES);
        if (i >= size || at >= REQUEST_LINE_BYTES || bpf_probe_read_user(&r->line[at], 1, buffer + i) < 0)
            return;
        r->line_bytes = at + 1;
    }
}

/* Is what was kept of the request's beginning a line of HTTP/1? Asked only where no reply told. */
static __noinline bool has_version(struct request_record *r)
{
    __u64 last = 0;
    for (__u32 i = 0; i < REQUEST_LINE_BYTES; i++) {
        if (i >= r->line_bytes)
            return false;
        char byte = r->line[i];
        if (byte == '\n')
            return false;
        last = last >> 8 | (__u64)(__u8)byte << 56;
        if (last >> 8 == REPLY_START)
            return true;
    }
    return r->line_bytes == REQUEST_LINE_BYTES; /* longer than what is kept */
}
