/* Records of HTTP/2 frames, and what becomes of them: for tests of http2_requests.h. */
#pragma once

#include "sources/request/http2/http2_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ENDED_MAX 64

struct fixture {
    struct http2_requests *requests;
    struct request_record ended[ENDED_MAX];
    struct request_stream_record streams[ENDED_MAX]; /* of those */
    size_t count, open_count;
    uint32_t piece; /* bytes of a record; 0: all in one */
    bool is_unsent; /* what the server sends is only written */
};

static inline void keep(void *context, uint64_t process, struct http2_report *r)
{
    struct fixture *f = context;
    assert_int_equal(process, 99);
    assert_true(request_record_is_sound(&r->request));
    if (f->count < ENDED_MAX) {
        f->ended[f->count] = r->request;
        f->streams[f->count] = r->stream;
    }
    f->count++;
    f->open_count += r->is_open;
    if (r->is_open)
        r->request.weight = 3;
}

static inline void open_on(struct fixture *f, bool is_from_start)
{
    struct http2_opened o = {
        .kind = HTTP2_RECORD_OPENED, .connection = 5, .process = 99, .is_from_start = is_from_start};
    *f = (struct fixture){.piece = f->piece};
    assert_int_equal(http2_requests_new(keep, f, &f->requests), 0);
    o.r.socket = 5;
    o.r.local_port = 8080;
    http2_requests_take(f->requests, &o, sizeof(o));
}

static inline void put_record(struct fixture *f, uint8_t direction, uint64_t time_ns, const void *bytes, size_t size,
                              bool gap)
{
    struct http2_frames r = {.kind = HTTP2_RECORD_FRAMES,
                             .connection = 5,
                             .time_ns = time_ns,
                             .arrival_ns = direction ? 0 : time_ns - 10,
                             .pid = 7,
                             .tid = 8,
                             .bytes = (uint16_t)size,
                             .direction = direction,
                             .is_unsent = direction == HTTP2_SENT && f->is_unsent,
                             .is_after_gap = gap};
    memcpy(r.frames, bytes, size);
    http2_requests_take(f->requests, &r, HTTP2_FRAMES_HEAD + size);
}

/* A frame, in records of f->piece bytes. */
static inline void put_frame(struct fixture *f, uint8_t direction, uint64_t time_ns, uint8_t type, uint8_t flags,
                             uint32_t stream, const void *payload, uint32_t size)
{
    uint8_t frame[4096] = {
        (uint8_t)(size >> 16),   (uint8_t)(size >> 8),    (uint8_t)size,          type,           flags,
        (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    const uint32_t kept = http2_kept(type, size);
    memcpy(frame + HTTP2_HEAD_BYTES, payload, kept);
    const uint32_t all = HTTP2_HEAD_BYTES + kept, piece = f->piece ? f->piece : all;
    for (uint32_t at = 0; at < all; at += piece)
        put_record(f, direction, time_ns, frame + at, piece < all - at ? piece : all - at, false);
}

/* :method POST, :path /a.B/C (inserted), content-type application/grpc (inserted) */
static const char grpc_request[] = "\x83\x44\x06/a.B/C\x5f\x10"
                                   "application/grpc";
/* :status 200, content-type (inserted) */
static const char grpc_reply[] = "\x88\x5f\x10"
                                 "application/grpc";
/* grpc-status 5 (inserted) */
static const char not_found[] = "\x40\x0bgrpc-status\x01"
                                "5";
#define BYTES(text) text, sizeof(text) - 1
