/* Memory use of BPF maps. */
#pragma once

#include <stddef.h>

struct bpf_map;

/* The largest power of two not above `wanted` bytes, between the useful minimum and maximum of a ring buffer. */
size_t map_sizes_ring(size_t wanted);
/* Bytes that the map occupies regardless of its contents, with `cpus` possible CPUs. */
size_t map_sizes_bytes(const struct bpf_map *map, int cpus);
