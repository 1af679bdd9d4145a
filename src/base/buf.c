/* A growing byte buffer with a size limit; see buf.h. */
#include "base/buf.h"

#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <zlib.h>

void buf_clear(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->size = b->capacity = 0;
    b->error = 0;
}

static int buf_fail(struct buf *b, int error)
{
    if (!b->error)
        b->error = error;
    return b->error;
}

/* Reserves space for `more` bytes and the NUL. */
static int buf_reserve(struct buf *b, size_t more)
{
    size_t max = b->max_bytes && b->max_bytes < SIZE_MAX / 4 ? b->max_bytes : BUF_MAX_BYTES;
    if (b->error)
        return b->error;
    if (more > max || b->size > max - more)
        return buf_fail(b, -EFBIG);
    size_t need = b->size + more + 1;
    if (need <= b->capacity)
        return 0;
    size_t capacity = b->capacity ? b->capacity : 256;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(b->data, capacity);
    if (!data)
        return buf_fail(b, -ENOMEM);
    b->data = data;
    b->capacity = capacity;
    return 0;
}

int buf_append(struct buf *b, const void *data, size_t size)
{
    int r = buf_reserve(b, size);
    if (r < 0)
        return r;
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    b->data[b->size] = '\0';
    return 0;
}

int buf_puts(struct buf *b, const char *text)
{
    return buf_append(b, text, strlen(text));
}

int buf_putc(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

int buf_printf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    int r = n < 0 ? buf_fail(b, -EINVAL) : buf_reserve(b, n);
    if (r == 0) {
        vsnprintf(b->data + b->size, n + 1, format, again);
        b->size += n;
    }
    va_end(again);
    return r;
}

/* Number of bytes from `text` on that are printable ASCII and need no escaping in JSON: nearly all of nearly every
 * name. */
static size_t json_plain_length(const char *text)
{
    size_t n = 0;
    while (text[n] >= 0x20 && text[n] < 0x7F && !strchr("\"\\<>&", text[n]))
        n++;
    return n;
}

int buf_put_json_string(struct buf *b, const char *text)
{
    buf_putc(b, '"');
    while (*text && !b->error) {
        size_t plain = json_plain_length(text);
        buf_append(b, text, plain);
        text += plain;
        if (!*text)
            break;
        size_t n = utf8_length(text);
        if (n == 0)
            buf_puts(b, "\\ufffd");
        else if (*text == '"' || *text == '\\')
            buf_printf(b, "\\%c", *text);
        else if (n == 1) /* control characters; and < > &, so that the result is safe inside <script> */
            buf_printf(b, "\\u%04x", (unsigned char)*text);
        else if (utf8_at_control(text))
            buf_printf(b, "\\u%04x", utf8_decode(text));
        else
            buf_append(b, text, n);
        text += n ? n : 1;
    }
    return buf_putc(b, '"');
}

int buf_put_utf8(struct buf *b, const char *text)
{
    while (*text && !b->error) {
        const char *end = text;
        size_t n;
        while (*end && (n = utf8_length(end)) > 0)
            end += n;
        buf_append(b, text, end - text);
        if (*end) {
            buf_puts(b, UTF8_REPLACEMENT);
            end++;
        }
        text = end;
    }
    return b->error;
}

int buf_put_shown(struct buf *b, const char *text)
{
    for (size_t n; *text && !b->error; text += n ? n : 1) {
        n = utf8_length(text);
        if (n == 0)
            buf_puts(b, UTF8_REPLACEMENT);
        else if (utf8_at_control(text))
            buf_putc(b, '?');
        else
            buf_append(b, text, n);
    }
    return b->error;
}

int buf_error(const struct buf *b)
{
    return b->error;
}

int buf_read_fd(struct buf *b, int fd, size_t max_bytes)
{
    size_t start = b->size;
    for (;;) {
        int r = buf_reserve(b, 4096);
        if (r < 0)
            return r;
        ssize_t n = read(fd, b->data + b->size, b->capacity - b->size - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        b->size += n;
        b->data[b->size] = '\0';
        if (n == 0)
            return 0;
        if (b->size - start > max_bytes)
            return -EFBIG;
    }
}

int buf_read_file(struct buf *b, const char *path, size_t max_bytes)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return buf_read_fd(b, fd, max_bytes);
}

/* `window_bits` selects zlib's format. */
static int buf_deflate(struct buf *out, const void *in, size_t size, int window_bits)
{
    z_stream z = {0};
    if (size > UINT32_MAX) /* zlib's counters are 32-bit */
        return buf_fail(out, -EFBIG);
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return buf_fail(out, -ENOMEM);
    int r = buf_reserve(out, deflateBound(&z, size));
    if (r == 0) {
        z.next_in = (Bytef *)in;
        z.avail_in = size;
        z.next_out = (Bytef *)out->data + out->size;
        z.avail_out = out->capacity - out->size - 1;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END) {
            out->size += z.total_out;
            out->data[out->size] = '\0';
        } else {
            r = buf_fail(out, -EIO);
        }
    }
    deflateEnd(&z);
    return r;
}

int buf_gzip(struct buf *out, const void *in, size_t size)
{
    return buf_deflate(out, in, size, MAX_WBITS + 16);
}

int buf_zlib(struct buf *out, const void *in, size_t size)
{
    return buf_deflate(out, in, size, MAX_WBITS);
}
