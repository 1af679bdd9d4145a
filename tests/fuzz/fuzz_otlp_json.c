/* Arbitrary text as requests in JSON: each accepted text is a message that can be decoded. */
#include "server/otlp_json.h"

#include "server/otlp_rows.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct otlp_signal *const signals[] = {&otlp_traces, &otlp_logs, &otlp_metrics};
    for (size_t i = 0; i < array_size(signals); i++) {
        _cleanup_otlp_rows_ struct otlp_rows rows = {.to_ns = UINT64_MAX};
        _cleanup_buf_ struct buf message = {0};
        if (otlp_json_to_protobuf((const char *)data, size, signals[i]->json, &message) == 0 &&
            signals[i]->decode(cursor_make(message.data, message.size), &rows) == -EBADMSG)
            abort();
    }
    return 0;
}
