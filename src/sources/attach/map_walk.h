/* Visits the elements of a BPF hash map in batches. Unlike a walk from key to key, which starts again at the first key
 * when the key that it stands on is deleted, a walk by batches takes one pass, and one system call for many elements:
 *
 *     _cleanup_(map_walk_end) struct map_walk walk;
 *     for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &value);)
 *         ...                                                    deletes elements, if it wants to
 *     return walk.error;
 *
 * An element that is in the map during the whole walk is visited exactly once; one that is added or deleted meanwhile,
 * at most once. `value` is the value at the time of its batch: map_take_element (map_access.h) returns the last one.
 * The steps are bounded: at most one system call for each bucket of the map. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_walk {
    int fd;
    size_t key_bytes, value_bytes;
    char *keys, *values;        /* the batch: room for `max` elements */
    uint32_t max, count, index; /* elements; `index`: the next one to return */
    uint32_t position;          /* the kernel's: where the next batch begins */
    bool has_begun, is_last;    /* of the batches */
    int error;                  /* -errno if the walk ended early, else 0 */
};

/* `map_fd`: of a hash map (also an LRU one, but none per CPU). -1, a map that was not created, counts as empty. */
void map_walk_begin(struct map_walk *walk, int map_fd);

/* Copies the next element; `ret_value` may be NULL. False at the end of the map, or after an error. */
bool map_walk_next(struct map_walk *walk, void *ret_key, void *ret_value);

/* Frees the batch; `error` stays. Must follow map_walk_begin. */
void map_walk_end(struct map_walk *walk);
