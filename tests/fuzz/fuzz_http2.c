/* Records of HTTP/2 frames with any contents: what becomes of them are sound records of requests, and not more streams
 * than there may be. */
#include "sources/request/http2/http2_requests.h"

#include <stdlib.h>
#include <string.h>

static void check_ended(void *context, uint64_t process, struct request_record *r)
{
    (void)process;
    if (!request_record_is_sound(r) || r->unread_ns > r->duration_ns + r->unread_ns || !r->id)
        abort();
    for (size_t i = r->line_bytes; i < sizeof(r->line); i++)
        if (r->line[i])
            abort();
    ++*(size_t *)context;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t ended = 0;
    struct http2_requests *q;
    if (http2_requests_new(check_ended, &ended, &q) < 0)
        return 0;
    struct http2_opened opened = {.kind = HTTP2_RECORD_OPENED, .number = 1, .is_from_start = size & 1};
    opened.r.socket = 7;
    http2_requests_take(q, &opened, sizeof(opened));
    for (size_t at = 0; at + 2 < size;) { /* records, each after its flags and length */
        struct http2_frames r = {.kind = HTTP2_RECORD_FRAMES, .number = 1, .socket = 7, .time_ns = 1000 + at};
        const size_t length = data[at + 1], n = length < size - at - 2 ? length : size - at - 2;
        r.direction = data[at] & 1;
        r.is_after_gap = (data[at] & 0xf0) == 0xf0;
        r.bytes = (uint16_t)n;
        memcpy(r.frames, data + at + 2, n);
        http2_requests_take(q, &r, HTTP2_FRAMES_HEAD + n);
        at += 2 + n;
    }
    if (http2_requests_bytes(q) > 64 << 20)
        abort();
    const struct http2_closed closed = {.kind = HTTP2_RECORD_CLOSED, .number = 1, .socket = 7, .time_ns = 1 << 20};
    http2_requests_take(q, &closed, sizeof(closed));
    http2_requests_free(q);
    return 0;
}
