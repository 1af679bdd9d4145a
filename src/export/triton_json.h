/* Triton's trace JSON of OpenTelemetry's spans: those that carry Triton's attributes, with the moments of the request
 * above them and of the spans within them. */
#pragma once

#include "base/buf.h"
#include "model/otlp_spans.h"

struct triton_json_losses {
    uint64_t spans;     /* that belong to no model's span: not in the output */
    uint64_t events;    /* that whoever exported the spans had left out */
    uint64_t too_early; /* moments before the clock's zero, written as 0 */
};

/* `zero_ns` is taken off every time. */
int triton_json_write(struct buf *out, struct otlp_spans *spans, uint64_t zero_ns,
                      struct triton_json_losses *ret_losses);
