/* See zstd.h. Uses the search strategy of zstd levels 18 and 19 with tables sized for packets of about 1 MiB: the
 * default tables need 35 MiB of memory and gain a tenth of a percent. */
#include "zstd.h"

#include <errno.h>
#include <zstd.h>
#include <zstd_errors.h>

static const struct {
    ZSTD_cParameter name;
    int value;
} parameters[] = {
    {ZSTD_c_windowLog, 20}, {ZSTD_c_hashLog, 17},      {ZSTD_c_chainLog, 18},           {ZSTD_c_searchLog, 6},
    {ZSTD_c_minMatch, 3},   {ZSTD_c_targetLength, 64}, {ZSTD_c_strategy, ZSTD_btultra},
};

static size_t bound(size_t size)
{
    return ZSTD_compressBound(size);
}

/* The context is not kept, to save memory between packets. */
static int pack(const void *data, size_t size, void *to, size_t room, size_t *ret_size)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    size_t done = 0;
    if (!z)
        return -ENOMEM;
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]) && !ZSTD_isError(done); i++)
        done = ZSTD_CCtx_setParameter(z, parameters[i].name, parameters[i].value);
    if (!ZSTD_isError(done))
        done = ZSTD_compress2(z, to, room, data, size);
    ZSTD_freeCCtx(z);
    if (ZSTD_isError(done))
        return ZSTD_getErrorCode(done) == ZSTD_error_memory_allocation ? -ENOMEM : -EIO;
    *ret_size = done;
    return 0;
}

static int unpack(const void *data, size_t size, void *to, size_t room, size_t *ret_size)
{
    const size_t done = ZSTD_decompress(to, room, data, size);
    if (ZSTD_isError(done))
        return ZSTD_getErrorCode(done) == ZSTD_error_memory_allocation ? -ENOMEM : -EBADMSG;
    *ret_size = done;
    return 0;
}

const struct otlp_encoding otlp_zstd = {"zstd", bound, pack, unpack};
