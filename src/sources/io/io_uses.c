/* Reads uses and paths from the kernel's tables; see io_uses.h. */
#include "sources/io/io_uses.h"

#include "sources/attach/map_access.h"
#include "sources/io/io_private.h"
#include "sources/io/io_skeleton.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

int io_uses_take(void *io_source, const struct io_use_reader *reader)
{
    struct io_source *s = io_source;
    const int fd = bpf_map__fd(s->bpf->maps.uses);
    struct io_key key, next;
    struct io_use use;
    int r = bpf_map_get_next_key(fd, NULL, &next) < 0 ? -errno : 0;
    while (r == 0) {
        key = next;
        r = bpf_map_get_next_key(fd, &key, &next) < 0 ? -errno : 0;
        if (map_take_element(fd, &key, &use))
            reader->take(reader->context, &key, &use);
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
