/* Replies that are streams of server-sent events: when the first byte and the tokens were sent, and how many; and the
 * model that a request of OpenAI's API names. Part of request.bpf.c; the bytes are read by stream_scan.h.
 *
 * A reply is read where it can be a stream: from its second send on. Its first send, with the header, is read only if
 * its process has sent a stream before, or if the request is one of OpenAI's API. So the first send of a server's first
 * stream may hold an event that is not counted (REQUEST_STREAM_LATE). */
#pragma once

#include "probes/request/request_http.bpf.h"
#include "probes/request/stream_scan.h"

#define SCAN_PIECE       64
#define SCAN_STEP        4
#define SCAN_PIECES_MAX  256 /* of one send, or of one request */
#define SCAN_PIECES      16  /* verified once for all */
#define SCAN_PARTS_MAX   16  /* of a vector */
#define STREAM_PROCESSES 1024
#define STREAM_COPY      0x10000 /* in place of a system call: a copy in kernel memory */

/* struct request_connection, `stream`: how many sends of its reply there were, none of them one of a stream, */
enum {
    STREAM_SENDS_MAX = 4, /* no stream, then */
    STREAM_NONE = STREAM_SENDS_MAX,
    STREAM_IN_HEAD,    /* its header is read */
    STREAM_IN_SIZE,    /* it may be: the line before a chunk has been sent */
    STREAM_FOUND,      /* or it is one */
    STREAM_API = 0x80, /* and with it: the request is one of OpenAI's API */
};

/* Of each connection, at its place; valid as its `stream` says. */
struct request_stream {
    struct stream_scan scan;
    __u64 first_byte_ns;     /* of the reply; likewise: */
    __u64 first_ns, last_ns; /* of the tokens, or of the chunks while there are no tokens; since the request began */
    __u32 unread_sends;      /* not all of their bytes were read */
    __u32 pieces_left;
    __u32 flags;            /* REQUEST_STREAM_LATE */
    bool is_reported;       /* as ended */
    bool is_first;          /* the first token, or chunk, was just sent */
    bool is_copy;           /* the text is read from kernel memory */
    __u8 piece[SCAN_PIECE]; /* being read; the stack has no room for it */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, REQUEST_CONNECTIONS_MAX);
    __type(key, __u32);
    __type(value, struct request_stream);
} streams SEC(".maps");

/* Processes that have sent a stream: names, shortened, at their low bits. */
static volatile __u32 stream_processes[STREAM_PROCESSES];

static __always_inline struct request_stream *stream_find(__u64 number)
{
    __u32 index = number - 1;
    return bpf_map_lookup_elem(&streams, &index);
}

static __always_inline volatile __u32 *stream_process_place(__u64 name)
{
    return &stream_processes[table_index(name, STREAM_PROCESSES - 1)];
}

static __always_inline __u8 stream_state(const struct request_connection *c)
{
    return c->stream & ~STREAM_API;
}

/* Whether there is something to report of the reply beyond its duration. */
static __always_inline bool stream_is_known(const struct request_connection *c)
{
    return c->stream & STREAM_API || c->stream == STREAM_FOUND;
}

/* The last chunk of a stream was sent. */
static __always_inline bool stream_has_ended(const struct request_connection *c)
{
    const struct request_stream *st = stream_state(c) == STREAM_FOUND ? stream_find(c->number) : NULL;
    return st && st->scan.place == STREAM_PLACE_END;
}

/* More of the reply is to come. */
static __always_inline bool stream_is_open(const struct request_connection *c)
{
    return stream_state(c) == STREAM_FOUND && !stream_has_ended(c);
}

/* The bytes [from, end) of the piece, at most SCAN_STEP. It is a function, so that the verifier follows each of its few
 * iterations once. This is still most of the verifier's work for the request programs. */
__noinline int stream_scan_step(__u64 number, __u32 from, __u32 end)
{
    struct request_stream *st = stream_find(number);
    if (!st)
        return 0;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < SCAN_STEP; i++) {
        if (from + i >= end)
            break;
        stream_scan_byte(&st->scan, st->piece[at_most(from + i, SCAN_PIECE - 1)]);
    }
    return 0;
}

static __always_inline long stream_read(const struct request_stream *st, void *to, __u64 bytes, __u64 address)
{
    return st->is_copy ? bpf_probe_read_kernel(to, bytes, (const void *)address)
                       : bpf_probe_read_user(to, bytes, (const void *)address);
}

/* Reads up to SCAN_PIECE bytes. Returns 0: they cannot be read. */
__noinline int stream_scan_piece(__u64 number, __u64 address, __u32 bytes)
{
    struct request_stream *st = stream_find(number);
    __u64 n = at_most(bytes, SCAN_PIECE);
    if (!st || stream_read(st, st->piece, n, address) < 0)
        return 0;
    for (__u32 from = 0; from < SCAN_PIECE; from += SCAN_STEP)
        if (from < n)
            stream_scan_step(number, from, n);
    return 1;
}

static __always_inline bool stream_is_over(const struct request_stream *st)
{
    const __u8 place = *(volatile const __u8 *)&st->scan.place;
    return place == STREAM_PLACE_NONE || place == STREAM_PLACE_LOST || place == STREAM_PLACE_END;
}

/* Reads some pieces of a buffer. Returns how many bytes it has read; all of them if the rest of the stream does not
 * matter. */
__noinline __u32 stream_scan_pieces(__u64 number, __u64 address, __u32 bytes)
{
    struct request_stream *st = stream_find(number);
    __u32 done = 0;
    if (!st)
        return bytes;
    for (__u32 i = 0; i < SCAN_PIECES && done < bytes; i++) {
        if (stream_is_over(st))
            return bytes;
        if (!st->pieces_left || !stream_scan_piece(number, address + done, bytes - done))
            break;
        st->pieces_left--;
        done += SCAN_PIECE;
    }
    return done;
}

/* Reads the bytes of a buffer as far as pieces are left. Returns how many were not read although they matter. In two
 * loops, in two functions: the verifier follows each once. */
__noinline __u32 stream_scan_buffer(__u64 number, __u64 address, __u32 bytes)
{
    __u32 done = 0;
    for (__u32 i = 0; i < SCAN_PIECES_MAX / SCAN_PIECES && done < bytes; i++) {
        const __u32 more = stream_scan_pieces(number, address + done, bytes - done);
        done += more;
        if (more < SCAN_PIECES * SCAN_PIECE)
            break;
    }
    return done < bytes ? bytes - done : 0;
}

struct stream_vector {
    __u64 base, size; /* of a part; in a message, of the vector: where it is, and how many parts it has */
};

/* Finds what a send took, from its second and third argument: a buffer (`*ret_parts` 0), or a vector. False: its bytes
 * cannot be seen. */
static __always_inline bool stream_find_bytes(__s32 syscall, __u32 third, __u64 *address, __u32 *ret_parts)
{
    struct stream_vector vector;
    *ret_parts = 0;
    switch (syscall) {
    case STREAM_COPY:
    case NR_write:
    case NR_sendto:
        return true;
    case NR_writev:
        *ret_parts = at_most(third, SCAN_PARTS_MAX + 1);
        return true;
    case NR_sendmsg:
        if (bpf_probe_read_user(&vector, sizeof(vector), (const void *)(*address + 16)) < 0)
            return false;
        *address = vector.base;
        *ret_parts = at_most(vector.size, SCAN_PARTS_MAX + 1);
        return true;
    }
    return false;
}

/* Reads the `bytes` that a send took: from a buffer of `known` bytes (`parts` 0), or from the parts of a vector. */
static __always_inline void stream_scan_send(struct request_stream *st, __u64 number, __u64 address, __u64 parts,
                                             __u32 known, __u32 bytes)
{
    __u32 unread = 0;
    struct stream_vector part = {.base = address, .size = known};
    st->pieces_left = SCAN_PIECES_MAX;
    for (__u32 i = 0; i < SCAN_PARTS_MAX && bytes && !unread; i++) {
        if (i >= parts ? i > 0
                       : bpf_probe_read_user(&part, sizeof(part), (const void *)(address + i * sizeof(part))) < 0)
            break;
        const __u32 size = at_most(part.size, bytes);
        if (size)
            unread = stream_scan_buffer(number, part.base, size);
        bytes -= size;
    }
    if (!unread && !bytes)
        return;
    stream_scan_skip(&st->scan, unread + bytes);
    st->unread_sends++;
    lose(REQUEST_LOSS_STREAM_UNREAD);
}

/* Reads the first bytes of a buffer or vector, up to STREAM_BEGINNING_BYTES of its first four parts. Node.js sends the
 * size of a chunk, CR LF, and the chunk as separate parts. Returns the number of bytes read. */
static __always_inline __u32 stream_read_beginning(struct request_stream *st, __u64 address, __u64 parts, __u32 bytes)
{
    struct stream_vector part = {.base = address, .size = bytes};
    __u64 n = 0;
    for (__u32 i = 0; i < 4 && n < STREAM_BEGINNING_BYTES; i++) {
        if (i >= parts && i > 0)
            break;
        if (parts && bpf_probe_read_user(&part, sizeof(part), (const void *)(address + i * sizeof(part))) < 0)
            break;
        const __u64 at = at_most(n, STREAM_BEGINNING_BYTES),
                    size = at_most(at_most(part.size, bytes), STREAM_BEGINNING_BYTES);
        if (stream_read(st, &st->piece[at], size, part.base) < 0)
            break;
        n += size;
        bytes -= size;
    }
    return at_most(n, STREAM_BEGINNING_BYTES);
}

/* The kind of data that the first `bytes` of the piece begin a stream with (enum stream_beginning). A global function:
 * verified once. */
__noinline int stream_beginning_of_piece(__u64 number, __u32 bytes)
{
    const struct request_stream *st = stream_find(number);
    return st ? stream_find_beginning((const char *)st->piece, at_most(bytes, STREAM_BEGINNING_BYTES))
              : STREAM_BEGINS_NOTHING;
}

/* A later send of a reply: does it begin a stream, and where? */
static __always_inline int stream_beginning_of(const struct request_connection *c, struct request_stream *st,
                                               __u64 address, __u64 parts, __u32 bytes)
{
    return stream_beginning_of_piece(c->number, stream_read_beginning(st, address, parts, bytes));
}

static __always_inline void stream_begin(struct request_connection *c, struct request_stream *st, __u8 place,
                                         __u64 first_byte_ns, __u32 flags)
{
    if (!(c->stream & STREAM_API))
        st->scan.model_bytes = 0;
    stream_scan_begin(&st->scan, place);
    st->first_byte_ns = first_byte_ns;
    st->first_ns = st->last_ns = 0;
    st->unread_sends = 0;
    st->flags = flags;
    st->is_reported = st->is_first = false;
}

static __always_inline void set_stream_state(struct request_connection *c, __u8 state)
{
    c->stream = (c->stream & STREAM_API) | state;
}

/* Before a send is read: true if it is to be. */
static __always_inline bool stream_open(struct request_connection *c, struct request_stream *st, __u64 address,
                                        __u64 parts, __u32 bytes, __u64 now)
{
    const __u8 state = stream_state(c);
    if (state == STREAM_IN_HEAD || state == STREAM_FOUND)
        return true;
    if (state == 0) {
        stream_begin(c, st, STREAM_PLACE_HEAD, now - c->r.start_ns, 0);
        set_stream_state(c, STREAM_IN_HEAD);
        return true;
    }
    const int beginning = stream_beginning_of(c, st, address, parts, bytes);
    if (state == STREAM_IN_SIZE) {
        set_stream_state(c, beginning == STREAM_BEGINS_EVENT ? STREAM_FOUND : STREAM_NONE);
        return beginning == STREAM_BEGINS_EVENT;
    }
    if (beginning == STREAM_BEGINS_NOTHING) {
        set_stream_state(c, state + 1);
        return false;
    }
    stream_begin(c, st, beginning == STREAM_BEGINS_EVENT ? STREAM_PLACE_BODY : STREAM_PLACE_SIZE, c->r.duration_ns,
                 REQUEST_STREAM_LATE);
    set_stream_state(c, beginning == STREAM_BEGINS_CHUNK_SIZE ? STREAM_IN_SIZE : STREAM_FOUND);
    return true;
}

/* After a send was read. */
static __always_inline void stream_note(struct request_connection *c, struct request_stream *st, __u32 chunks,
                                        __u32 tokens, __u64 now)
{
    const __u32 tokens_now = st->scan.tokens, chunks_now = st->scan.chunks;
    const __u32 before = tokens_now ? tokens : chunks, after = tokens_now ?: chunks_now;
    if (after > before) {
        st->last_ns = now - c->r.start_ns;
        if (!before) {
            st->first_ns = st->last_ns;
            st->is_first = true;
        }
    }
    if (stream_state(c) != STREAM_IN_HEAD || st->scan.place == STREAM_PLACE_HEAD)
        return;
    set_stream_state(c, st->scan.place == STREAM_PLACE_NONE ? STREAM_NONE : STREAM_FOUND);
}

/* `bytes` of a reply were sent. `address`: the second argument of the call; `call`: its number, and in the low half the
 * third argument. Of STREAM_COPY: where the copy is, and how many bytes it has, which are the first ones. A global
 * function: verified once. */
__noinline int stream_send(__u64 number, __u64 address, __u64 call, __u32 bytes, __u64 now)
{
    struct request_connection *c = connection_find(number);
    struct request_stream *st = stream_find(number);
    __u32 parts, known = bytes;
    if (!c || !st || !stream_find_bytes(call >> 32, call, &address, &parts))
        return 0;
    st->is_copy = call >> 32 == STREAM_COPY;
    if (st->is_copy)
        known = at_most((__u32)call, bytes);
    if (!stream_open(c, st, address, parts, known, now))
        return 0;
    const __u32 chunks = st->scan.chunks, tokens = st->scan.tokens;
    stream_scan_send(st, number, address, parts, known, bytes);
    stream_note(c, st, chunks, tokens, now);
    if (stream_state(c) == STREAM_FOUND)
        *stream_process_place(c->process) = c->process >> 10;
    return 0;
}

/* A send of a reply, ahead of all else that is noted of it; arguments as of stream_send. Of most replies, it reads one
 * byte of the connection. */
static __always_inline void stream_take_send(struct request_connection *c, __u64 address, __u64 call, __u32 bytes,
                                             __u64 now)
{
    if (!c->replied) /* also behind a status of 100, which is no reply */
        c->stream &= STREAM_API;
    if (stream_state(c) == STREAM_NONE)
        return;
    if (c->stream == 0 && *stream_process_place(c->process) != (__u32)(c->process >> 10))
        c->stream = 1;
    else
        stream_send(c->number, address, call, bytes, now);
}

/* ---- requests ---- */

enum { STREAM_REQUEST_BEGINS = 1, STREAM_REQUEST_IS_COPY = 2 };

__noinline int stream_read_request(__u64 number, __u64 address, __u32 bytes, int how)
{
    struct request_stream *st = stream_find(number);
    if (!st)
        return 0;
    st->is_copy = how & STREAM_REQUEST_IS_COPY;
    if (how & STREAM_REQUEST_BEGINS) {
        stream_scan_begin(&st->scan, STREAM_PLACE_REQUEST);
        st->scan.model_bytes = 0;
        st->pieces_left = SCAN_PIECES_MAX;
        st->is_reported = false;
    }
    if (stream_scan_buffer(number, address, bytes))
        st->scan.place = STREAM_PLACE_NONE;
    return 0;
}

/* "POST /v1/" */
static __always_inline bool stream_is_api(const char *line, __u32 bytes)
{
    return bytes > 9 && *(const __u64 *)line == BYTES8('P', 'O', 'S', 'T', ' ', '/', 'v', '1') && line[8] == '/';
}

/* A request begins. `address` 0: its bytes cannot be seen. */
static __always_inline void stream_take_request(struct request_connection *c, __u64 address, __u32 size, bool is_copy)
{
    c->stream = 0;
    if (!address || !stream_is_api(c->r.line, c->r.line_bytes))
        return;
    c->stream = STREAM_API;
    stream_read_request(c->number, address, size, STREAM_REQUEST_BEGINS | (is_copy ? STREAM_REQUEST_IS_COPY : 0));
}

/* A reply of status 100 was sent, and scanned as the head of a reply: the body of the request comes next. */
static __always_inline void stream_expect_body(struct request_connection *c)
{
    struct request_stream *st = c->stream & STREAM_API ? stream_find(c->number) : NULL;
    if (!st || st->scan.model_bytes)
        return;
    c->stream = STREAM_API;
    stream_scan_begin(&st->scan, STREAM_PLACE_JSON);
}

/* More of it. */
static __always_inline void stream_take_more(struct request_connection *c, __u64 address, __u32 size, bool is_copy)
{
    if (c->stream & STREAM_API && address)
        stream_read_request(c->number, address, size, is_copy ? STREAM_REQUEST_IS_COPY : 0);
}
