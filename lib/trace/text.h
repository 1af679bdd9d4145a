/* A growing text buffer, for JSON. An append that runs out of memory marks the text as failed, and later appends do
 * nothing, so that a writer checks once, at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_text {
    char *data; /* not NUL-terminated; see trace_text_take */
    size_t size, capacity;
    bool failed;
};

void trace_text_free(struct trace_text *t);
void trace_text_clear(struct trace_text *t); /* keeps the memory unless it is large */
char *trace_text_take(struct trace_text *t); /* the NUL-terminated text, owned by the caller; NULL if any append
                                              * failed */

void trace_text_put(struct trace_text *t, const void *data, size_t size);
void trace_text_puts(struct trace_text *t, const char *text);
void trace_text_putc(struct trace_text *t, char c);
void trace_text_put_u64(struct trace_text *t, uint64_t value);
/* Appends `before`, the number and a quote, because OTLP/JSON writes 64-bit numbers as strings. */
void trace_text_put_quoted_u64(struct trace_text *t, const char *before, uint64_t value);
void trace_text_put_i64(struct trace_text *t, int64_t value);
void trace_text_put_seconds(struct trace_text *t, uint64_t ns); /* 0.25, 1.0: exact */

/* Appends a quoted JSON string. Invalid UTF-8 becomes U+FFFD; NUL and other control characters are escaped: the
 * output is always valid. */
void trace_text_put_json(struct trace_text *t, const char *text, size_t size);

/* The length of the valid UTF-8 sequence at `p` (Unicode 15, table 3-7) in `size` bytes, at least one; 0: invalid. */
size_t trace_utf8_length(const unsigned char *p, size_t size);

/* Appends the text itself as UTF-8, replacing invalid sequences likewise. */
void trace_text_put_utf8(struct trace_text *t, const char *text, size_t size);

/* Like trace_text_put_json, but a byte that is not UTF-8 becomes \udcXX, as in Python's surrogateescape: lossless. */
void trace_text_put_json_bytes(struct trace_text *t, const char *text, size_t size);
