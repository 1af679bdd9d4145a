/* A growing byte buffer with a size limit, for output and for reading files.
 *
 * Errors stick: after a failed append (out of memory, or past `max_bytes`) every further append does nothing and
 * buf_error() returns the first error. A writer of many small pieces therefore checks once, at its end. Not
 * thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* owned; NUL-terminated whenever size > 0, the NUL not counted */
    size_t size;
    size_t capacity;
    size_t max_bytes; /* 0: BUF_MAX_BYTES */
    int error;        /* 0 or the first -errno */
};

#define BUF_MAX_BYTES ((size_t)1 << 30)

/* Zero-initialised (`struct buf b = {0}`) is an empty buffer. Frees the contents, not `b`; leaves `b` empty. */
void buf_clear(struct buf *b);

int buf_append(struct buf *b, const void *data, size_t size);
int buf_puts(struct buf *b, const char *text);
int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD, so the result is always
 * valid. Control characters (utf8_is_control) are escaped. */
int buf_put_json_string(struct buf *b, const char *text);

/* Appends `text` with U+FFFD for every byte that is not UTF-8. */
int buf_put_utf8(struct buf *b, const char *text);

/* Appends a name that is shown to people: as buf_put_utf8, with '?' for each control character (utf8_is_control). */
int buf_put_shown(struct buf *b, const char *text);

/* 0, or the first error of any append. */
int buf_error(const struct buf *b);

/* Appends a whole file (also of /proc, where sizes are unknown) of at most `max_bytes`; -EFBIG when it is larger. */
int buf_read_fd(struct buf *b, int fd, size_t max_bytes);
int buf_read_file(struct buf *b, const char *path, size_t max_bytes);

/* Appends `in`, compressed with gzip (RFC 1952), to `out`. */
int buf_gzip(struct buf *out, const void *in, size_t size);
/* The same in zlib's own format (RFC 1950). */
int buf_zlib(struct buf *out, const void *in, size_t size);

#define _cleanup_buf_ _cleanup_(buf_clear)
