/* Formats a tensor of a trace as numpy prints an array (default print options, numpy 1.24 and 2), as trace_summary.py
 * does: columns of equal width, lines of 75 characters, "..." for arrays of more than 1000 elements. Integers are exact
 * at any size. Data that does not parse as an array of its shape (Triton's BYTES, FP16 and 8-bit tensors) is printed
 * unchanged. */
#pragma once

#include "base/buf.h"
#include "trace/model/triton_trace.h"

/* Appends the tensor. 0, -ENOMEM, or the buffer's error. */
int tensor_text_put(struct buf *out, const struct triton_tensor *tensor);
