/* See cfi_ranges.h. */
#include "resolve/unwind/cfi_ranges.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_RANGES 256

static int add_range(struct cfi_index *index, const struct cfi_range *range)
{
    if (index->range_count == index->range_capacity) {
        size_t capacity = index->range_capacity ? index->range_capacity * 2 : FIRST_RANGES;
        struct cfi_range *ranges = reallocarray(index->ranges, capacity, sizeof(*ranges));
        if (!ranges)
            return -ENOMEM;
        index->ranges = ranges;
        index->range_capacity = capacity;
    }
    index->ranges[index->range_count++] = *range;
    return 0;
}

int cfi_ranges_add_known(struct cfi_index *index, uint64_t start, uint64_t end, const struct unwind_rule *rule)
{
    if (start >= end || end > UINT32_MAX || index->known_count == CFI_KNOWN_MAX)
        return 0;
    size_t number = index->known_count++;
    index->known[number] = *rule;
    return add_range(index, &(struct cfi_range){(uint32_t)start, (uint32_t)end, (uint32_t)number, CFI_KNOWN});
}

/* The file offsets of code at [start, end), which must be within one executable segment. */
static bool find_code_range(const struct elf_file *f, uint64_t start, uint64_t end, struct cfi_range *ret)
{
    const struct elf_segment *segments;
    size_t count = elf_segments(f, &segments);
    for (size_t i = 0; i < count; i++) {
        const struct elf_segment *s = &segments[i];
        if (!s->executable || start < s->vaddr || end - s->vaddr > s->file_bytes)
            continue;
        uint64_t offset;
        if (__builtin_add_overflow(s->offset, end - s->vaddr, &offset) || offset > UINT32_MAX)
            continue;
        ret->start = (uint32_t)(s->offset + (start - s->vaddr));
        ret->end = (uint32_t)offset;
        return true;
    }
    return false;
}

int cfi_ranges_add_code(const struct elf_file *f, struct cfi_index *index, uint64_t start, uint64_t end,
                        const struct cfi_range *as)
{
    struct cfi_range range = *as;
    if (!find_code_range(f, start, end, &range))
        return 0; /* a function that the linker discarded */
    return add_range(index, &range);
}
