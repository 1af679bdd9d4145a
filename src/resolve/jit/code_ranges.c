/* Address ranges of JIT code; see code_ranges.h.
 *
 * Sorted blocks of up to 256 ranges, so that an insertion moves a few KiB at most, in any order of insertion: runtimes
 * emit code in no particular order, and describe the same address again and again. */
#include "resolve/jit/code_ranges.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_RANGES 256

struct code_ranges_block {
    size_t count;
    struct code_range ranges[BLOCK_RANGES];
};

void code_ranges_clear(struct code_ranges *c)
{
    for (size_t i = 0; i < c->block_count; i++)
        free(c->blocks[i]);
    free(c->blocks);
    *c = (struct code_ranges){0};
}

/* The last block that begins at or before `address`; 0 if all begin after it. */
static size_t find_block(const struct code_ranges *c, uint64_t address)
{
    size_t low = 0, high = c->block_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (c->blocks[middle]->ranges[0].start <= address)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The number of the block's ranges that begin at or before `address`. */
static size_t count_up_to(const struct code_ranges_block *b, uint64_t address)
{
    size_t low = 0, high = b->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (b->ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool code_ranges_find(const struct code_ranges *c, uint64_t address, struct code_range *ret)
{
    if (c->block_count == 0)
        return false;
    const struct code_ranges_block *b = c->blocks[find_block(c, address)];
    const size_t n = count_up_to(b, address);
    if (n == 0 || address - b->ranges[n - 1].start >= b->ranges[n - 1].size)
        return false;
    *ret = b->ranges[n - 1];
    return true;
}

static void remove_block(struct code_ranges *c, size_t block)
{
    free(c->blocks[block]);
    c->block_count--;
    memmove(c->blocks + block, c->blocks + block + 1, (c->block_count - block) * sizeof(*c->blocks));
}

/* Removes the overlapping ranges of one block. True: ranges of the next block may overlap as well. */
static bool remove_overlap(struct code_ranges *c, size_t block, uint64_t start, uint64_t end)
{
    struct code_ranges_block *b = c->blocks[block];
    size_t first = count_up_to(b, start);
    if (first > 0 && start - b->ranges[first - 1].start < b->ranges[first - 1].size)
        first--;
    const size_t last = count_up_to(b, end - 1);
    const bool may_continue = last == b->count;
    if (last > first) {
        memmove(b->ranges + first, b->ranges + last, (b->count - last) * sizeof(*b->ranges));
        b->count -= last - first;
        c->count -= last - first;
    }
    return may_continue;
}

void code_ranges_remove(struct code_ranges *c, uint64_t start, uint32_t size)
{
    assert(size > 0 && start <= UINT64_MAX - size);
    size_t block = find_block(c, start);
    bool may_continue = true;
    while (may_continue && block < c->block_count) {
        may_continue = remove_overlap(c, block, start, start + size);
        if (c->blocks[block]->count == 0)
            remove_block(c, block);
        else
            block++;
    }
}

/* Inserts an empty block at index `block`. */
static int add_block(struct code_ranges *c, size_t block)
{
    if (c->block_count == c->capacity) {
        const size_t capacity = c->capacity ? 2 * c->capacity : 16;
        struct code_ranges_block **blocks = realloc(c->blocks, capacity * sizeof(*blocks));
        if (!blocks)
            return -ENOMEM;
        c->blocks = blocks;
        c->capacity = capacity;
    }
    struct code_ranges_block *b = malloc(sizeof(*b));
    if (!b)
        return -ENOMEM;
    b->count = 0;
    memmove(c->blocks + block + 1, c->blocks + block, (c->block_count - block) * sizeof(*c->blocks));
    c->blocks[block] = b;
    c->block_count++;
    return 0;
}

/* Splits a full block, moving its second half to a new block after it. When code is only ever appended, only one range
 * moves, so blocks stay full. */
static int split_block(struct code_ranges *c, size_t block, size_t at)
{
    const bool is_end = block + 1 == c->block_count && at == BLOCK_RANGES;
    const size_t kept = is_end ? BLOCK_RANGES - 1 : BLOCK_RANGES / 2;
    int r = add_block(c, block + 1);
    if (r < 0)
        return r;
    struct code_ranges_block *from = c->blocks[block], *to = c->blocks[block + 1];
    to->count = from->count - kept;
    from->count = kept;
    memcpy(to->ranges, from->ranges + kept, to->count * sizeof(*to->ranges));
    return 0;
}

int code_ranges_put(struct code_ranges *c, const struct code_range *range)
{
    code_ranges_remove(c, range->start, range->size);
    if (c->block_count == 0) {
        int r = add_block(c, 0);
        if (r < 0)
            return r;
    }
    size_t block = find_block(c, range->start), at = count_up_to(c->blocks[block], range->start);
    if (c->blocks[block]->count == BLOCK_RANGES) {
        int r = split_block(c, block, at);
        if (r < 0)
            return r;
        if (at > c->blocks[block]->count) {
            at -= c->blocks[block]->count;
            block++;
        }
    }
    struct code_ranges_block *b = c->blocks[block];
    memmove(b->ranges + at + 1, b->ranges + at, (b->count - at) * sizeof(*b->ranges));
    b->ranges[at] = *range;
    b->count++;
    c->count++;
    return 0;
}

/* The lowest and the highest file offset of all ranges. */
static void place_bounds(const struct code_ranges *c, uint32_t *ret_first, uint32_t *ret_last)
{
    *ret_first = UINT32_MAX;
    *ret_last = 0;
    for (size_t i = 0; i < c->block_count; i++) {
        for (size_t n = 0; n < c->blocks[i]->count; n++) {
            const uint32_t place = c->blocks[i]->ranges[n].place;
            *ret_first = place < *ret_first ? place : *ret_first;
            *ret_last = place > *ret_last ? place : *ret_last;
        }
    }
}

/* Evicts the ranges with file offsets up to `place`, and compacts the others into as few blocks as possible. */
static void evict_up_to(struct code_ranges *c, uint32_t place)
{
    size_t to = 0, kept = 0;
    for (size_t i = 0; i < c->block_count; i++) {
        const struct code_ranges_block *from = c->blocks[i];
        const size_t count = from->count;
        for (size_t n = 0; n < count; n++) {
            if (from->ranges[n].place <= place)
                continue;
            if (kept == BLOCK_RANGES) {
                c->blocks[to++]->count = kept;
                kept = 0;
            }
            c->blocks[to]->ranges[kept++] = from->ranges[n];
        }
    }
    c->count = to * BLOCK_RANGES + kept;
    if (kept)
        c->blocks[to++]->count = kept;
    for (size_t i = to; i < c->block_count; i++)
        free(c->blocks[i]);
    c->block_count = to;
}

void code_ranges_keep(struct code_ranges *c, size_t count)
{
    while (c->count > count) {
        uint32_t first, last;
        place_bounds(c, &first, &last);
        evict_up_to(c, first + (last - first) / 2);
    }
}

size_t code_ranges_bytes(const struct code_ranges *c)
{
    return c->block_count * sizeof(struct code_ranges_block) + c->capacity * sizeof(*c->blocks);
}
