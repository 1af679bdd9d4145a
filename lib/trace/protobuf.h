/* protobuf's wire format, written into a growing text; what fails is marked there. */
#pragma once

#include "text.h"

void trace_protobuf_number(struct trace_text *out, unsigned field, uint64_t value);
void trace_protobuf_fixed64(struct trace_text *out, unsigned field, uint64_t value);
void trace_protobuf_double(struct trace_text *out, unsigned field, double value);
void trace_protobuf_bytes(struct trace_text *out, unsigned field, const void *data, size_t size);

/* protobuf's strings are UTF-8, and receivers refuse a packet for one that is not: what is not is replaced.
 */
void trace_protobuf_text(struct trace_text *out, unsigned field, const char *text, size_t size);

/* A message: what is written between the two is in it. */
size_t trace_protobuf_open(struct trace_text *out, unsigned field);
void trace_protobuf_close(struct trace_text *out, size_t begin);
