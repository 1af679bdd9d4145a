/* Follows the kernel's allocation of each map type; see map_sizes.h. */
#include "sources/attach/map_sizes.h"

#include <bpf/libbpf.h>

#include <linux/bpf.h>

#define RING_MIN_BYTES (256U << 10)
#define RING_MAX_BYTES (512U << 20)

size_t map_sizes_ring(size_t wanted)
{
    size_t size = RING_MIN_BYTES;

    while (size * 2 <= wanted && size < RING_MAX_BYTES)
        size *= 2;
    return size;
}

size_t map_sizes_bytes(const struct bpf_map *map, int cpus)
{
    size_t value = (bpf_map__value_size(map) + 7) & ~7U, entries = bpf_map__max_entries(map);

    switch (bpf_map__type(map)) {
    case BPF_MAP_TYPE_RINGBUF:
        return entries + 3 * 4096;
    case BPF_MAP_TYPE_PERCPU_ARRAY:
        return entries * value * (size_t)cpus;
    case BPF_MAP_TYPE_HASH: /* buckets, and the elements if preallocated */
        return entries * 16 + (bpf_map__map_flags(map) & BPF_F_NO_PREALLOC ? 0 : entries * (value + 64));
    default:
        return entries * value;
    }
}
