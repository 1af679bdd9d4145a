/* Reads uses and paths from the kernel's tables; see io_uses.h. */
#include "sources/io/io_uses.h"

#include "sources/io/io_private.h"
#include "sources/io/io_skeleton.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

#define BATCH 512

/* Many at once: one by one, on a busy node, it would take so long that the first and the last one are of other
 * intervals. */
int io_uses_take(void *io_source, const struct io_use_reader *reader)
{
    struct io_source *s = io_source;
    const int fd = bpf_map__fd(s->bpf->maps.uses);
    _cleanup_free_ struct io_use_key *keys = calloc(BATCH, sizeof(*keys));
    _cleanup_free_ struct io_use *uses = calloc(BATCH, sizeof(*uses));
    uint32_t from = 0, to = 0;
    int r = keys && uses ? 0 : -ENOMEM;
    for (bool is_first = true; r == 0; is_first = false, from = to) {
        uint32_t count = BATCH;
        r = bpf_map_lookup_and_delete_batch(fd, is_first ? NULL : &from, &to, keys, uses, &count, NULL) < 0 ? -errno
                                                                                                            : 0;
        for (uint32_t i = 0; (r == 0 || r == -ENOENT) && i < count; i++) /* ENOENT: the last ones */
            reader->take(reader->context, &keys[i], &uses[i]);
    }
    return r == -ENOENT ? 0 : r;
}

bool io_failed_path(void *io_source, __u64 hash, struct io_path *ret)
{
    struct io_source *s = io_source;
    const bool is_found = bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.failed_paths), &hash, ret) == 0;
    ret->text[sizeof(ret->text) - 1] = '\0';
    return is_found;
}
