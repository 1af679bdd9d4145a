/* A tensor of a trace as numpy prints an array (print options at their defaults, numpy 1.24 and 2), which is how
 * trace_summary.py shows it: columns of one width, lines of 75 characters, "..." where there are more than 1000
 * elements. Integers are exact, whatever their size; what is no array of its shape (Triton's own BYTES, FP16 and 8-bit
 * tensors) is shown as it stands in the file. */
#pragma once

#include "base/buf.h"
#include "model/triton_trace.h"

/* -ENOMEM, or the buffer's error. */
int tensor_text_put(struct buf *out, const struct triton_tensor *tensor);
