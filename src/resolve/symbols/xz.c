/* xz; see xz.h. */
#include "resolve/symbols/xz.h"

#include <errno.h>
#include <lzma.h>
#include <stdint.h>
#include <stdlib.h>

#define DECODER_BYTES_MAX (34u << 20) /* xz -8 takes 33 MiB, the usual level 9 MiB */
#define PIECE_BYTES       (64u << 10)

struct xz {
    lzma_stream stream;
    xz_take *take;
    void *context;
    size_t unpacked;
    bool has_ended; /* the data have ended: later bytes are ignored */
    uint8_t piece[PIECE_BYTES];
};

int xz_new(xz_take *take, void *context, struct xz **ret)
{
    struct xz *x = calloc(1, sizeof(*x));
    if (!x)
        return -ENOMEM;
    x->stream = (lzma_stream)LZMA_STREAM_INIT;
    x->take = take;
    x->context = context;
    if (lzma_stream_decoder(&x->stream, DECODER_BYTES_MAX, 0) != LZMA_OK) {
        free(x);
        return -ENOMEM;
    }
    *ret = x;
    return 0;
}

void xz_free(struct xz *x)
{
    if (!x)
        return;
    lzma_end(&x->stream);
    free(x);
}

int xz_add(struct xz *x, const void *data, size_t size, bool is_last)
{
    x->stream.next_in = data;
    x->stream.avail_in = size;
    while (!x->has_ended && (x->stream.avail_in || is_last)) {
        x->stream.next_out = x->piece;
        x->stream.avail_out = sizeof(x->piece);
        const lzma_ret state = lzma_code(&x->stream, is_last ? LZMA_FINISH : LZMA_RUN);
        const size_t n = sizeof(x->piece) - x->stream.avail_out;
        if (state != LZMA_OK && state != LZMA_STREAM_END)
            return -ENOEXEC;
        x->has_ended = state == LZMA_STREAM_END;
        x->unpacked += n;
        if (x->unpacked > XZ_UNPACKED_MAX)
            return -EFBIG;
        const int r = x->take(x->context, x->piece, n);
        if (r < 0)
            return r;
    }
    return is_last && !x->has_ended ? -ENOEXEC : 0;
}
