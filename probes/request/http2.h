/* What the BPF programs copy of a connection that speaks HTTP/2 (http2.bpf.h), on the ring `http2_ring`. The source
 * puts streams together from it, and writes a request_record for each request that gets one
 * (src/sources/request/http2/http2_requests.h). These records never leave the source: they hold header fields.
 *
 * HPACK needs every block of header fields in order, so all of them are copied. Of request bodies, the first two
 * fields of a message are copied where the first DATA of a frame begins as gRPC's ModelInferRequest does, and the type
 * of its first tensor where they are followed by one; of messages of gRPC in replies, and in the requests of clients,
 * the length; of other payloads nothing. */
#pragma once

#if !defined(__bpf__)
#include <linux/types.h>
#endif

#include "probes/request.h"

#define HTTP2_PREFACE       0x5448202a20495250ULL /* "PRI * HT" */
#define HTTP2_PREFACE_BYTES 24
#define HTTP2_HEAD_BYTES    9
#define HTTP2_BLOCK_MAX     16384 /* of one frame; longer ones are cut */

enum http2_frame_type {
    HTTP2_DATA,
    HTTP2_HEADERS,
    HTTP2_PRIORITY,
    HTTP2_RST_STREAM,
    HTTP2_SETTINGS,
    HTTP2_PUSH_PROMISE,
    HTTP2_PING,
    HTTP2_GOAWAY,
    HTTP2_WINDOW_UPDATE,
    HTTP2_CONTINUATION,
    /* Not of the protocol: written by the BPF program ahead of the head of a DATA frame. */
    HTTP2_MESSAGE = 0xf0, /* the frame begins with a message of gRPC, whose length these 4 bytes are; */
    HTTP2_FIELD_1 = 0xf1, /* the bytes of the message's field 1, */
    HTTP2_FIELD_2 = 0xf2, /* of field 2, */
    HTTP2_TENSOR = 0xf5,  /* and of the type of the tensor that is field 5: "FP32" */
};

enum http2_flags { HTTP2_END_STREAM = 1, HTTP2_END_HEADERS = 4, HTTP2_PADDED = 8, HTTP2_HAS_PRIORITY = 32 };

enum http2_direction { HTTP2_RECEIVED, HTTP2_SENT };

enum http2_record_kind {
    HTTP2_RECORD_OPENED = 1, /* struct http2_opened */
    HTTP2_RECORD_FRAMES,     /* struct http2_frames */
    HTTP2_RECORD_CLOSED,     /* struct http2_event */
    HTTP2_RECORD_BOUND,      /* struct http2_bound */
    HTTP2_RECORD_SENT,       /* struct http2_event: the bytes written before, with is_unsent, are sent */
};

/* In each record, `connection` is its name: the socket's. If it is over TLS, it is the name of an object of the
 * program's TLS library, with the highest bit: its socket may not be known yet (HTTP2_RECORD_BOUND). */
#define HTTP2_OVER_TLS (1ULL << 63)

/* The server accepted a connection, or one was found in its middle. */
struct http2_opened {
    __u32 kind;
    __u32 is_from_start; /* it began with its preface; 0: it was found in its middle */
    __u64 connection;
    __u64 process;           /* request_process_name */
    struct request_record r; /* what all its requests have in common; over TLS, that follows (struct http2_bound) */
};

/* The socket of a connection over TLS is known, or is another one. */
struct http2_bound {
    __u32 kind;
    __u32 reserved;
    __u64 connection;
    __u64 process;
    __u64 arrival_ns[2], received_ns[2]; /* of the last two receives on it; the latest first */
    struct request_record r;
};

/* Frames that one system call received or sent. They follow each other in `frames` as on the wire, without those that
 * nothing is kept of, and of each only the first http2_kept() bytes of its payload. A frame may be continued in the
 * next record of its direction. A DATA frame is there only when its payload is complete. */
#define HTTP2_FRAMES_BYTES 4608

struct http2_frames {
    __u32 kind;
    __u16 bytes; /* of frames */
    __u8 direction;
    __u8 is_after_gap; /* bytes were missed before this record, which begins with a frame */
    __u64 connection;
    __u64 time_ns;
    __u64 arrival_ns; /* of the first byte that was received; 0: not known */
    __u32 pid, tid;
    __u8 is_unsent; /* they are in memory of the program; HTTP2_RECORD_SENT follows when they are sent */
    __u8 reserved[7];
    __u8 frames[HTTP2_FRAMES_BYTES];
};
#define HTTP2_FRAMES_HEAD __builtin_offsetof(struct http2_frames, frames)

struct http2_event {
    __u32 kind;
    __u32 reserved;
    __u64 connection;
    __u64 time_ns;
};

static inline __u32 http2_length(const __u8 *head)
{
    return (__u32)head[0] << 16 | (__u32)head[1] << 8 | head[2];
}

static inline __u32 http2_stream(const __u8 *head)
{
    return ((__u32)head[5] << 24 | (__u32)head[6] << 16 | (__u32)head[7] << 8 | head[8]) & 0x7fffffff;
}

/* Whether frames of this type carry nothing of a request or a reply: each end of a connection sends them by itself. */
static inline int http2_is_control(__u32 type)
{
    return type == HTTP2_PRIORITY || type == HTTP2_SETTINGS || type == HTTP2_PING || type == HTTP2_WINDOW_UPDATE;
}

/* How many bytes of its payload are copied. */
static inline __u32 http2_kept(__u32 type, __u32 length)
{
    switch (type) {
    case HTTP2_HEADERS:
    case HTTP2_CONTINUATION:
    case HTTP2_PUSH_PROMISE:
        return length < HTTP2_BLOCK_MAX ? length : HTTP2_BLOCK_MAX;
    case HTTP2_RST_STREAM:
        return length < 4 ? length : 4;
    case HTTP2_MESSAGE:
    case HTTP2_FIELD_1:
    case HTTP2_FIELD_2:
    case HTTP2_TENSOR:
        return length;
    default:
        return 0;
    }
}

/* Whether frames of this type are copied. */
static inline int http2_is_copied(__u32 type)
{
    return type == HTTP2_DATA || type == HTTP2_HEADERS || type == HTTP2_CONTINUATION || type == HTTP2_PUSH_PROMISE ||
           type == HTTP2_RST_STREAM || type == HTTP2_GOAWAY;
}
