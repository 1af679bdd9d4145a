/* The header traceparent of an arbitrary client. Reading stays within the bytes, and an accepted header has IDs. */
#include "model/request_span.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct traceparent p;
    if (traceparent_parse((const char *)data, size, &p) && (!trace_link_is_set(&p.caller) || !p.caller.span_id))
        abort();
    return 0;
}
