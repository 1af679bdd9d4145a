/* Protobuf encoding into a growing text; errors are flagged in the text. */
#pragma once

#include "text.h"

void trace_protobuf_number(struct trace_text *out, unsigned field, uint64_t value);
void trace_protobuf_fixed64(struct trace_text *out, unsigned field, uint64_t value);
void trace_protobuf_double(struct trace_text *out, unsigned field, double value);
/* Elements of a field of packed values; see trace_protobuf_open. */
void trace_protobuf_packed_fixed64(struct trace_text *out, uint64_t value);
void trace_protobuf_packed_double(struct trace_text *out, double value);
void trace_protobuf_bytes(struct trace_text *out, unsigned field, const void *data, size_t size);

/* Writes a string. Invalid UTF-8 is replaced, because receivers reject a packet for it. */
void trace_protobuf_text(struct trace_text *out, unsigned field, const char *text, size_t size);

/* Encloses the bytes written between the two calls in a field: a message, or packed values. */
size_t trace_protobuf_open(struct trace_text *out, unsigned field);
void trace_protobuf_close(struct trace_text *out, size_t begin);
