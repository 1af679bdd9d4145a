/* gzip and zstd, within a limit; see inflate.h. */
#include "server/inflate.h"

#include <errno.h>
#include <stdbool.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

#define WINDOW_LOG_MAX 23 /* 8 MiB of memory: what zstd's levels up to 19 use */

static int inflate_gzip(struct buf *out, const void *data, size_t size)
{
    unsigned char chunk[16384];
    z_stream z = {.next_in = (void *)data, .avail_in = (uInt)size};
    int state = inflateInit2(&z, 15 + 16), r = 0;
    if (state != Z_OK)
        return -ENOMEM;
    do {
        z.next_out = chunk;
        z.avail_out = sizeof(chunk);
        state = inflate(&z, Z_NO_FLUSH);
        r = buf_append(out, chunk, sizeof(chunk) - z.avail_out);
    } while (r == 0 && state == Z_OK);
    if (r == 0)
        r = state == Z_STREAM_END && z.avail_in == 0 ? 0 : state == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    inflateEnd(&z);
    return r;
}

static int inflate_zstd(struct buf *out, const void *data, size_t size)
{
    unsigned char chunk[16384];
    ZSTD_inBuffer in = {data, size, 0};
    ZSTD_DStream *z = ZSTD_createDStream();
    size_t left = 1;
    int r = z && !ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)) ? 0 : -ENOMEM;
    for (bool is_full = true; r == 0 && left && (in.pos < in.size || is_full);) {
        ZSTD_outBuffer to = {chunk, sizeof(chunk), 0};
        left = ZSTD_decompressStream(z, &to, &in);
        is_full = to.pos == to.size;
        r = ZSTD_isError(left) ? -EBADMSG : buf_append(out, chunk, to.pos);
    }
    ZSTD_freeDStream(z);
    return r < 0 ? r : left || in.pos < in.size ? -EBADMSG : 0;
}

int inflate_body(struct buf *out, const char *encoding, const void *data, size_t size, size_t max)
{
    out->max_bytes = max;
    if (!encoding || !*encoding || strcasecmp(encoding, "identity") == 0)
        return size ? buf_append(out, data, size) : 0;
    if (strcasecmp(encoding, "gzip") == 0)
        return inflate_gzip(out, data, size);
    return strcasecmp(encoding, "zstd") == 0 ? inflate_zstd(out, data, size) : -EOPNOTSUPP;
}
