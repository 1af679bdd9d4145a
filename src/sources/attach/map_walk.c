/* See map_walk.h. The batches of a hash map consist of whole buckets. */
#include "sources/attach/map_walk.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES 65536u

void map_walk_begin(struct map_walk *walk, int map_fd)
{
    struct bpf_map_info info = {0};
    uint32_t bytes = sizeof(info);
    *walk = (struct map_walk){.fd = map_fd, .is_last = map_fd < 0};
    if (map_fd < 0)
        return;
    if (bpf_obj_get_info_by_fd(map_fd, &info, &bytes) < 0)
        walk->error = -errno;
    walk->key_bytes = info.key_size;
    walk->value_bytes = info.value_size;
}

static bool make_room(struct map_walk *w, uint32_t max)
{
    char *keys = realloc(w->keys, max * w->key_bytes);
    if (keys)
        w->keys = keys;
    char *values = realloc(w->values, max * w->value_bytes);
    if (values)
        w->values = values;
    if (!keys || !values)
        return false;
    w->max = max;
    return true;
}

static bool make_first_room(struct map_walk *w)
{
    const uint32_t max = BATCH_BYTES / (uint32_t)(w->key_bytes + w->value_bytes);
    return make_room(w, max ? max : 1);
}

/* -ENOSPC: the next bucket holds more elements than the batch has room for. */
static int read_buckets(struct map_walk *w)
{
    uint32_t *from = w->has_begun ? &w->position : NULL, next = 0;
    w->count = w->max;
    const int r = bpf_map_lookup_batch(w->fd, from, &next, w->keys, w->values, &w->count, NULL) < 0 ? -errno : 0;
    w->index = 0;
    if (r < 0 && r != -ENOENT) {
        w->count = 0;
        return r;
    }
    w->position = next;
    w->has_begun = true;
    w->is_last = r == -ENOENT;
    return 0;
}

static int read_batch(struct map_walk *w)
{
    if (!w->max && !make_first_room(w))
        return -ENOMEM;
    int r;
    while ((r = read_buckets(w)) == -ENOSPC)
        if (!make_room(w, 2 * w->max))
            return -ENOMEM;
    return r;
}

bool map_walk_next(struct map_walk *walk, void *ret_key, void *ret_value)
{
    while (walk->index == walk->count) {
        if (walk->is_last || walk->error)
            return false;
        walk->error = read_batch(walk);
    }
    memcpy(ret_key, walk->keys + walk->index * walk->key_bytes, walk->key_bytes);
    if (ret_value)
        memcpy(ret_value, walk->values + walk->index * walk->value_bytes, walk->value_bytes);
    walk->index++;
    return true;
}

void map_walk_end(struct map_walk *walk)
{
    free(walk->keys);
    free(walk->values);
    walk->keys = walk->values = NULL;
    walk->count = walk->index = walk->max = 0;
    walk->is_last = true;
}
