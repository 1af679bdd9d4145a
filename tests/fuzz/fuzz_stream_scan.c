/* Any bytes as a reply, or as a request of OpenAI's API, some of them not read: the counts and the model keep to their
 * bounds. */
#include <linux/types.h>

#include "probes/request/stream_scan.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum stream_place places[] = {STREAM_PLACE_HEAD, STREAM_PLACE_BODY, STREAM_PLACE_SIZE,
                                               STREAM_PLACE_REQUEST};
    struct stream_scan s = {0};
    if (size < 2)
        return 0;
    stream_scan_begin(&s, places[data[0] % 4]);
    for (size_t i = 2; i < size; i++) {
        if (i % 256 == data[1])
            stream_scan_skip(&s, data[i]);
        stream_scan_byte(&s, data[i]);
        if (s.tokens > s.chunks || s.chunks > size || s.model_bytes >= REQUEST_MODEL_BYTES || s.usage > 999999999 ||
            s.place > STREAM_PLACE_JSON || s.line > STREAM_LINE_OTHER || s.value > STREAM_VALUE_MODEL)
            abort();
    }
    return 0;
}
