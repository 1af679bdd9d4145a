/* Text that grows: what JSON is written into. An append that finds no memory marks the text as failed and all
 * later ones do nothing, so that a writer checks once, at the end. */
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
void trace_text_clear(struct trace_text *t); /* keeps the memory, unless it is much */
char *trace_text_take(struct trace_text *t); /* the text with a NUL, the caller's; NULL when anything failed */

void trace_text_put(struct trace_text *t, const void *data, size_t size);
void trace_text_puts(struct trace_text *t, const char *text);
void trace_text_putc(struct trace_text *t, char c);
void trace_text_put_u64(struct trace_text *t, uint64_t value);
void trace_text_put_i64(struct trace_text *t, int64_t value);
void trace_text_put_seconds(struct trace_text *t, uint64_t ns); /* 0.25, 1.0: exact */

/* A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD; NUL and other control characters are
 * escaped: what comes out is valid whatever came in. */
void trace_text_put_json(struct trace_text *t, const char *text, size_t size);

/* The text itself, as UTF-8: likewise. */
void trace_text_put_utf8(struct trace_text *t, const char *text, size_t size);

/* trace_text_put_json, but a byte that is not UTF-8 becomes \udcXX, as Python's surrogateescape has it:
 * nothing is lost.
 */
void trace_text_put_json_bytes(struct trace_text *t, const char *text, size_t size);
