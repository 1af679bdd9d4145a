/* HTTP/1 parsing for request tracing: which bytes begin a request, which begin a reply. Part of request.bpf.c. */
#pragma once

#include "probes/request/request_calls.bpf.h"

enum method_match { METHOD_NONE, METHOD_PART, METHOD_WHOLE };

static __always_inline __u64 low_bytes(__u64 v, __u32 n)
{
    return n >= 8 ? v : v & ((1ULL << (n * 8)) - 1);
}

#define BYTES8(a, b, c, d, e, f, g, h)                                                                                 \
    ((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40 |        \
     (__u64)(g) << 48 | (__u64)(h) << 56)

/* Does `head` begin with the method's `length` bytes (its space counted) and then with a possible start of a target? */
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

/* The methods of HTTP, of WebDAV, and those that caches and search servers know. `bytes`: how many of the 8 of `head`
 * there are. A global function, as publish(): its many branches are verified once, and not again for each way to get to
 * it and with all that comes after it. */
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
            return (__u8)(head >> 16) == 'R' ? match_one(head, bytes, BYTES8('P', 'U', 'R', 'G', 'E', ' ', 0, 0), 6)
                                             : match_one(head, bytes, BYTES8('P', 'U', 'T', ' ', 0, 0, 0, 0), 4);
        if (second == 'R')
            return (__u8)(head >> 32) == 'P'
                       ? match_one(head, bytes, BYTES8('P', 'R', 'O', 'P', 'P', 'A', 'T', 'C'), 8)
                       : match_one(head, bytes, BYTES8('P', 'R', 'O', 'P', 'F', 'I', 'N', 'D'), 8);
        return match_one(head, bytes, BYTES8('P', 'A', 'T', 'C', 'H', ' ', 0, 0), 6);
    }
    case 'H':
        return match_one(head, bytes, BYTES8('H', 'E', 'A', 'D', ' ', 0, 0, 0), 5);
    case 'D':
        return match_one(head, bytes, BYTES8('D', 'E', 'L', 'E', 'T', 'E', ' ', 0), 7);
    case 'O':
        return match_one(head, bytes, BYTES8('O', 'P', 'T', 'I', 'O', 'N', 'S', ' '), 8);
    case 'C':
        if ((__u8)(head >> 16) == 'P')
            return match_one(head, bytes, BYTES8('C', 'O', 'P', 'Y', ' ', 0, 0, 0), 5);
        return match_one(head, bytes, BYTES8('C', 'O', 'N', 'N', 'E', 'C', 'T', ' '), 8);
    case 'T':
        return match_one(head, bytes, BYTES8('T', 'R', 'A', 'C', 'E', ' ', 0, 0), 6);
    case 'M':
        if ((__u8)(head >> 8) == 'O')
            return match_one(head, bytes, BYTES8('M', 'O', 'V', 'E', ' ', 0, 0, 0), 5);
        return match_one(head, bytes, BYTES8('M', 'K', 'C', 'O', 'L', ' ', 0, 0), 6);
    case 'L':
        return match_one(head, bytes, BYTES8('L', 'O', 'C', 'K', ' ', 0, 0, 0), 5);
    case 'U':
        return match_one(head, bytes, BYTES8('U', 'N', 'L', 'O', 'C', 'K', ' ', 0), 7);
    case 'R':
        return match_one(head, bytes, BYTES8('R', 'E', 'P', 'O', 'R', 'T', ' ', 0), 7);
    case 'S':
        return match_one(head, bytes, BYTES8('S', 'E', 'A', 'R', 'C', 'H', ' ', 0), 7);
    case 'Q':
        return match_one(head, bytes, BYTES8('Q', 'U', 'E', 'R', 'Y', ' ', 0, 0), 6);
    }
    return METHOD_NONE;
}

/* As match_method: what nearly all requests begin with costs no call. */
static __always_inline int match_start(__u64 head, __u32 bytes)
{
    if (bytes >= 8 && low_bytes(head ^ BYTES8('G', 'E', 'T', ' ', '/', 0, 0, 0), 5) == 0)
        return METHOD_WHOLE;
    return match_method(head, bytes);
}

#define REPLY_START BYTES8('H', 'T', 'T', 'P', '/', '1', '.', 0)
#define REPLY_BYTES 12 /* "HTTP/1.1 200" */

/* Bytes that a program received or sent: `at` is NULL where there are none to see. */
struct request_text {
    const void *at;
    __u32 size;
    bool is_kernel; /* a copy in kernel memory; else in the program's own */
};

/* Of a system call that took `bytes`. */
static __always_inline struct request_text text_of_call(const struct request_syscall *call, __u32 bytes)
{
    struct request_text text = {};
    text.at = syscall_buffer(call, &text.size);
    if (bytes < text.size)
        text.size = bytes;
    return text;
}

static __always_inline long text_read(void *to, __u64 bytes, const struct request_text *text)
{
    return text->is_kernel ? bpf_probe_read_kernel(to, bytes, text->at) : bpf_probe_read_user(to, bytes, text->at);
}

/* The first bytes: returns how many. */
static __always_inline __u32 read_head(const struct request_text *text, __u64 *ret_head)
{
    *ret_head = 0;
    if (!text->at || !text->size)
        return 0;
    __u64 n = at_most(text->size, 8);
    return text_read(ret_head, n, text) == 0 ? n : 0;
}

/* The first bytes, as many as are kept of a request: returns how many. */
static __always_inline __u32 read_line(char *line, const struct request_text *text)
{
    if (!text->at || !text->size)
        return 0;
    __u64 n = at_most(text->size, REQUEST_LINE_BYTES);
    return text_read(line, n, text) == 0 ? n : 0;
}

/* Adds to the request line that is kept. */
static __always_inline void append_line(struct request_record *r, const struct request_text *text)
{
    if (!text->at || !text->size)
        return;
    if (r->line_bytes == 0) {
        r->line_bytes = read_line(r->line, text);
        return;
    }
    __u64 at = at_most(r->line_bytes, REQUEST_LINE_BYTES),
          more = at_most(text->size, at_most(REQUEST_LINE_BYTES - at, REQUEST_LINE_BYTES));
    if (text_read(&r->line[at], more, text) == 0)
        r->line_bytes = at + more;
}

/* Positions of a line examined per step: verified once for all steps. */
#define LINE_PIECE 16
enum { LINE_GOES_ON, LINE_HAS_VERSION, LINE_HAS_NONE };

__noinline int version_in_piece(__u64 number, __u32 from)
{
    struct request_connection *c = connection_find(number);
    if (!c)
        return LINE_HAS_NONE;
    const char *line = c->r.line + at_most(from, REQUEST_LINE_BYTES - LINE_PIECE);
    __s64 left = c->r.line_bytes - (__s64)from;
    for (int i = 0; i < LINE_PIECE; i++) {
        if (i >= left || line[i] == '\n')
            return LINE_HAS_NONE;
        if (i + 7 <= left && low_bytes(*(const __u64 *)&line[i], 7) == REPLY_START)
            return LINE_HAS_VERSION;
    }
    return LINE_GOES_ON;
}

/* Whether the stored start of the request is an HTTP/1 request line, or a line longer than the stored bytes. Needed
 * only if no reply was seen. */
static __always_inline bool has_version(struct request_connection *c)
{
    int says = LINE_GOES_ON;
    for (__u32 from = 0; from < REQUEST_LINE_BYTES && says == LINE_GOES_ON; from += LINE_PIECE)
        says = version_in_piece(c->number, from);
    return says != LINE_HAS_NONE;
}
