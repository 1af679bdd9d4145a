/* Reads a file that may be compressed with gzip or zstd; see packed_file.h. */
#include "import/packed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#define BUFFER_BYTES    ((size_t)256 << 10)
#define ZSTD_WINDOW_LOG 27 /* 128 MiB: the limit that zstd decompresses by default */

enum packing { PLAIN, GZIP, ZSTD };

struct packed_file {
    int fd;
    enum packing packing;
    uint64_t position, size;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool inside; /* inside a compressed stream: the file must not end here */
    int error;   /* of decompression; the bytes before it have been returned */
    size_t at, filled;
    unsigned char buffer[BUFFER_BYTES];
};

void packed_file_free(struct packed_file *f)
{
    if (!f)
        return;
    if (f->packing == GZIP)
        inflateEnd(&f->gzip);
    ZSTD_freeDStream(f->zstd);
    if (f->fd > STDIN_FILENO)
        close(f->fd);
    free(f);
}

static ssize_t read_some(struct packed_file *f, void *to, size_t size)
{
    ssize_t n;
    do
        n = read(f->fd, to, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    f->position += (uint64_t)n;
    return n;
}

/* Reads until there are enough bytes for detection, because a pipe may return them one by one. */
static int fill(struct packed_file *f)
{
    f->at = f->filled = 0;
    while (f->filled < 4) {
        ssize_t n = read_some(f, f->buffer + f->filled, BUFFER_BYTES - f->filled);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        f->filled += (size_t)n;
    }
    return 0;
}

static int find_packing(struct packed_file *f)
{
    static const unsigned char gzip[] = {0x1F, 0x8B}, zstd[] = {0x28, 0xB5, 0x2F, 0xFD};
    int r = fill(f);
    if (r < 0)
        return r;
    if (f->filled >= sizeof(gzip) && memcmp(f->buffer, gzip, sizeof(gzip)) == 0) {
        if (inflateInit2(&f->gzip, 15 + 16) != Z_OK)
            return -ENOMEM;
        f->packing = GZIP;
    } else if (f->filled >= sizeof(zstd) && memcmp(f->buffer, zstd, sizeof(zstd)) == 0) {
        f->zstd = ZSTD_createDStream();
        if (!f->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(f->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG)))
            return -ENOMEM;
        f->packing = ZSTD;
    }
    return 0;
}

int packed_file_open(const char *path, struct packed_file **ret)
{
    _cleanup_(packed_file_freep) struct packed_file *f = malloc(sizeof(*f));
    if (!f)
        return -ENOMEM;
    memset(f, 0, offsetof(struct packed_file, buffer));
    f->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (f->fd < 0)
        return -errno;
    struct stat st;
    if (fstat(f->fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    f->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    int r = find_packing(f);
    if (r < 0)
        return r;
    *ret = take_ptr(f);
    return 0;
}

static ssize_t read_plain(struct packed_file *f, void *to, size_t size)
{
    size_t n = f->filled - f->at;
    if (n == 0)
        return read_some(f, to, size);
    if (n > size)
        n = size;
    memcpy(to, f->buffer + f->at, n);
    f->at += n;
    return (ssize_t)n;
}

/* One step: 1 at the end of a compressed stream, 0, or -errno. Advances `at` and returns the number of bytes written.
 */
static int unpack_gzip(struct packed_file *f, void *to, size_t size, size_t *ret_given)
{
    f->gzip.next_in = f->buffer + f->at;
    f->gzip.avail_in = (uInt)(f->filled - f->at);
    f->gzip.next_out = to;
    f->gzip.avail_out = size < UINT32_MAX ? (uInt)size : UINT32_MAX;
    size_t room = f->gzip.avail_out;
    int z = inflate(&f->gzip, Z_NO_FLUSH);
    f->at = f->filled - f->gzip.avail_in;
    *ret_given = room - f->gzip.avail_out;
    if (z == Z_STREAM_END)
        return inflateReset(&f->gzip) == Z_OK ? 1 : -EBADMSG;
    return z == Z_OK || z == Z_BUF_ERROR ? 0 : z == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
}

static int unpack_zstd(struct packed_file *f, void *to, size_t size, size_t *ret_given)
{
    ZSTD_inBuffer in = {f->buffer, f->filled, f->at};
    ZSTD_outBuffer out = {to, size, 0};
    size_t left = ZSTD_decompressStream(f->zstd, &out, &in);
    f->at = in.pos;
    *ret_given = out.pos;
    return ZSTD_isError(left) ? -EBADMSG : left == 0;
}

static ssize_t read_packed(struct packed_file *f, void *to, size_t size)
{
    while (!f->error) {
        if (f->at == f->filled) {
            int r = fill(f);
            if (r < 0)
                return r;
        }
        bool at_end = f->at == f->filled;
        if (at_end && !f->inside)
            return 0;
        size_t given = 0;
        int r = f->packing == GZIP ? unpack_gzip(f, to, size, &given) : unpack_zstd(f, to, size, &given);
        f->error = r < 0 ? r : 0;
        f->inside = r == 0;
        if (given)
            return (ssize_t)given;
        if (r < 0)
            return r;
        if (at_end && f->inside)
            return -ENODATA;
    }
    return f->error;
}

ssize_t packed_file_read(struct packed_file *f, void *to, size_t size)
{
    return f->packing == PLAIN ? read_plain(f, to, size) : read_packed(f, to, size);
}

uint64_t packed_file_position(const struct packed_file *f)
{
    return f->position;
}

uint64_t packed_file_size(const struct packed_file *f)
{
    return f->size;
}
