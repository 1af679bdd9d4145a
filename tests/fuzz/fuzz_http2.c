/* Records of HTTP/2 frames with any contents: what becomes of them are sound records of requests, and not more streams
 * than there may be. */
#include "sources/request/http2/http2_requests.h"

#include <stdlib.h>
#include <string.h>

static void check_report(void *context, uint64_t process, struct http2_report *report)
{
    const struct request_record *r = &report->request;
    const struct request_stream_record *stream = &report->stream;
    (void)process;
    if (stream->h.size_bytes && (!request_stream_record_is_sound(stream) || stream->first_ns > stream->last_ns))
        abort();
    if (!request_record_is_sound(r) || r->unread_ns > r->duration_ns + r->unread_ns || !r->id)
        abort();
    for (size_t i = r->line_bytes; i < sizeof(r->line); i++)
        if (r->line[i])
            abort();
    ++*(size_t *)context;
}

static void put_event(struct http2_requests *q, uint64_t connection, uint32_t kind, uint64_t time_ns)
{
    const struct http2_event event = {.kind = kind, .connection = connection, .time_ns = time_ns};
    const struct http2_bound bound = {
        .kind = kind, .connection = connection, .received_ns = {time_ns, 1}, .r.socket = 9};
    if (kind == HTTP2_RECORD_BOUND)
        http2_requests_take(q, &bound, sizeof(bound));
    else
        http2_requests_take(q, &event, sizeof(event));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t ended = 0;
    struct http2_requests *q;
    if (http2_requests_new(check_report, &ended, &q) < 0)
        return 0;
    const uint64_t connection = 7 | (size & 2 ? HTTP2_OVER_TLS : 0);
    struct http2_opened opened = {.kind = HTTP2_RECORD_OPENED, .connection = connection, .is_from_start = size & 1};
    opened.r.socket = 7;
    http2_requests_take(q, &opened, sizeof(opened));
    for (size_t at = 0; at + 2 < size;) { /* records, each after its flags and length */
        struct http2_frames r = {.kind = HTTP2_RECORD_FRAMES, .connection = connection, .time_ns = 1000 + at};
        const size_t length = data[at + 1], n = length < size - at - 2 ? length : size - at - 2;
        r.direction = data[at] & 1;
        r.is_after_gap = (data[at] & 0xf0) == 0xf0;
        r.is_unsent = data[at] >> 1 & 1;
        if ((data[at] & 0xf0) == 0xe0)
            put_event(q, connection, data[at] & 4 ? HTTP2_RECORD_SENT : HTTP2_RECORD_BOUND, r.time_ns);
        r.bytes = (uint16_t)n;
        memcpy(r.frames, data + at + 2, n);
        http2_requests_take(q, &r, HTTP2_FRAMES_HEAD + n);
        at += 2 + n;
    }
    if (http2_requests_bytes(q) > 64 << 20)
        abort();
    put_event(q, connection, HTTP2_RECORD_CLOSED, 1 << 20);
    http2_requests_turn(q, 1ull << 40);
    http2_requests_free(q);
    return 0;
}
