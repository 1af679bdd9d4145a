/* Lookup in the packed kernel symbol table; see kallsyms.h. It is built in kallsyms_read.c. */
#include "resolve/kernel/kallsyms.h"

#include "resolve/kernel/kallsyms_private.h"

#include <string.h>

void kallsyms_free(struct kallsyms *k)
{
    if (!k)
        return;
    for (uint32_t i = 0; i < k->region_count; i++)
        free(k->regions[i].name);
    free(k->regions);
    free(k->blocks);
    free(k->deltas);
    free(k->names);
    free(k);
}

/* The last block that begins at or before the address; NULL: no such block. */
static const struct kallsyms_block *find_block(const struct kallsyms *k, uint64_t address)
{
    uint32_t low = 0, high = k->block_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (k->blocks[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &k->blocks[low - 1] : NULL;
}

/* Copies the name of symbol `index` of a block. Padding has the name of the function after it, with "__pfx_". */
static void copy_name(const struct kallsyms *k, const struct kallsyms_block *b, uint32_t index, char *to)
{
    const uint8_t *at = k->names + b->names;
    size_t size = 0;
    for (uint32_t i = 0;; i++) {
        bool is_padding = *at == 0;
        size = *at++;
        if (size == KALLSYMS_LONG_NAME) {
            size = at[0] | at[1] << 8;
            at += 2;
        }
        if (i == index && is_padding) {
            memcpy(to, "__pfx_", 6);
            to += 6;
            index++;
            continue;
        }
        if (i == index)
            break;
        at += size;
    }
    memcpy(to, at, size);
    to[size] = '\0';
}

bool kallsyms_find(const struct kallsyms *k, uint64_t address, struct kallsyms_symbol *ret)
{
    const struct kallsyms_block *b = find_block(k, address);
    if (!b)
        return false;
    const struct kallsyms_region *region = &k->regions[b->region];
    const uint32_t *deltas = k->deltas + b->first;
    uint32_t low = 1, high = b->count; /* deltas[0] is 0 */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->base + deltas[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t index = low - 1;
    uint64_t start = b->base + deltas[index];
    uint64_t limit = region->end ? region->end : (start | (KALLSYMS_PAGE - 1)) + 1;
    if (address >= limit)
        return false;
    ret->start = start;
    ret->module = region->name;
    copy_name(k, b, index, ret->name);
    return true;
}

bool kallsyms_is_core(const struct kallsyms *k, uint64_t address)
{
    return k->core_start <= address && address < k->regions[0].end;
}

size_t kallsyms_bytes(const struct kallsyms *k)
{
    return sizeof(*k) + k->region_count * sizeof(*k->regions) + k->block_count * sizeof(*k->blocks) +
           k->count * sizeof(*k->deltas) + k->name_bytes;
}

uint32_t kallsyms_count(const struct kallsyms *k)
{
    return k->count;
}
