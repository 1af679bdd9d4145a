/* Which code of a process lies where, as it was told by and by: ranges of addresses, each with the place of its
 * description in the file that tells. A range takes the place of all that it overlaps, wholly: what is left of code
 * that was written over is no code. Bounded; of too many, those that were told first are forgotten. 16 bytes a range;
 * not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_range {
    uint64_t start;
    uint32_t size;
    uint32_t place; /* where in the file; what is told later lies further on */
};

struct code_ranges_block;

/* Zero-initialised it is empty. */
struct code_ranges {
    struct code_ranges_block **blocks; /* none is empty; sorted */
    size_t block_count, capacity;
    size_t count; /* of ranges */
};

void code_ranges_clear(struct code_ranges *c);

/* Forgets what lies in [start, start + size), wholly; `size` > 0, and the end is no overflow. */
void code_ranges_remove(struct code_ranges *c, uint64_t start, uint32_t size);
/* ... and puts the range there. -ENOMEM: what it overlapped is gone all the same. */
int code_ranges_put(struct code_ranges *c, const struct code_range *range);

/* The range that holds `address`. */
bool code_ranges_find(const struct code_ranges *c, uint64_t address, struct code_range *ret);

/* Forgets those told first until at most `count` are left. */
void code_ranges_keep(struct code_ranges *c, size_t count);

size_t code_ranges_bytes(const struct code_ranges *c); /* memory held */
