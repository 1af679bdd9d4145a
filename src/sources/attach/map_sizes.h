/* What BPF maps take of the kernel's memory. */
#pragma once

#include <stddef.h>

struct bpf_map;

/* The largest ring of no more than `wanted` bytes: a power of two, and not too small to be of use. */
size_t map_sizes_ring(size_t wanted);
/* Bytes that the map holds whatever is in it, on so many possible CPUs. */
size_t map_sizes_bytes(const struct bpf_map *map, int cpus);
