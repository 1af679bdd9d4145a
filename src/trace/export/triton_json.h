/* Converts OpenTelemetry spans to Triton's trace JSON: spans with Triton's attributes become traces, with the
 * timestamps of their request span and of their inner spans. */
#pragma once

#include "base/buf.h"
#include "trace/model/otlp_spans.h"

struct triton_json_losses {
    uint64_t spans;     /* spans without a model's span as relative: not in the output */
    uint64_t events;    /* events dropped by the exporter of the spans */
    uint64_t too_early; /* timestamps before zero_ns, written as 0 */
};

/* Appends the JSON array; subtracts `zero_ns` from every time. Adds to `ret_losses`. 0, -ENOMEM, or the buffer's error.
 */
int triton_json_write(struct buf *out, struct otlp_spans *spans, uint64_t zero_ns,
                      struct triton_json_losses *ret_losses);
