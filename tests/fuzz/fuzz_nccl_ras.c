/* The status of NCCL's RAS service, as it arrives in pieces: the same object in one piece gives the same result. */
#include "sources/gpu/nccl_ras.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nccl_parser whole = {.pids = {4711, 0}, .pid_count = 2}, pieces = whole;
    int r = nccl_parse(&whole, (const char *)data, size), s = 0;
    for (size_t i = 0; i < size && s == 0; i++)
        s = nccl_parse(&pieces, (const char *)data + i, 1);
    if (r != s || whole.status.count != pieces.status.count || whole.status.count > NCCL_COMMUNICATORS_MAX)
        abort();
    for (size_t i = 0; i < whole.status.count; i++) {
        const struct nccl_communicator *c = &whole.status.communicators[i];
        if (!memchr(c->hash, 0, sizeof(c->hash)) || !memchr(c->secondary_hash, 0, sizeof(c->secondary_hash)) ||
            c->checksum != pieces.status.communicators[i].checksum ||
            !memchr(c->behind.host, 0, sizeof(c->behind.host)) || c->least > c->most || c->behind_count > c->ranks)
            abort();
    }
    (void)nccl_status_stuck(&pieces.status, &whole.status, 0);
    return 0;
}
