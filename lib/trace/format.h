/* Formats a finished request as objects of Triton's trace file. */
#pragma once

#include "text.h"

#include <stddef.h>
#include <stdint.h>

struct trace_record;
struct trace_tree;
struct trace_tensor_record;

/* The name of a timestamp. Not NUL-terminated. */
const char *trace_record_name(const struct trace_record *r, size_t *ret_size);

struct trace_format_counts {
    uint64_t malformed, too_large; /* tensors written without their data */
};

/* Appends `{...},{...}`: the objects of the root, then of each child by id. */
void trace_format_tree(struct trace_text *out, struct trace_text *scratch, const struct trace_tree *tree,
                       struct trace_format_counts *counts);

/* Appends the values of a tensor in file format: `1,2,3`, or `"a","b"` for BYTES. 0; -EINVAL with the reason in
 * `why`: dtype, shape and data do not match; -EFBIG: the data was not copied. */
int trace_format_tensor(struct trace_text *out, const struct trace_tensor_record *tensor, char *why, size_t why_size);
