/* Address ranges of a process's JIT code, each with the file offset of its description in the perf map or jitdump. A
 * new range replaces every range that it overlaps, entirely: partly overwritten code is no longer valid. Bounded:
 * beyond the limit the ranges with the lowest file offsets, which were written first, are evicted. 16 bytes per range.
 * Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_range {
    uint64_t start;
    uint32_t size;
    uint32_t place; /* offset in the file; later descriptions have higher offsets */
};

struct code_ranges_block;

/* An empty set is zero-initialised. */
struct code_ranges {
    struct code_ranges_block **blocks; /* sorted by address; no block is empty */
    size_t block_count, capacity;
    size_t count; /* number of ranges */
};

/* Removes all ranges and frees the memory. */
void code_ranges_clear(struct code_ranges *c);

/* Removes every range that overlaps [start, start + size). `size` must be > 0; the end must not overflow. */
void code_ranges_remove(struct code_ranges *c, uint64_t start, uint32_t size);
/* Removes the overlapping ranges and adds `range` (size and end as above). -ENOMEM: the overlapping ranges are removed,
 * `range` is not added. */
int code_ranges_put(struct code_ranges *c, const struct code_range *range);

/* Finds the range that contains `address`. False: not found. */
bool code_ranges_find(const struct code_ranges *c, uint64_t address, struct code_range *ret);

/* Evicts the ranges that were written first, until at most `count` are left. May evict more than necessary. */
void code_ranges_keep(struct code_ranges *c, size_t count);

size_t code_ranges_bytes(const struct code_ranges *c); /* memory held */
