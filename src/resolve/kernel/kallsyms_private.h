/* How the packed table of kernel symbols lies in memory: shared by its maker (kallsyms_read.c) and its reader
 * (kallsyms.c). */
#pragma once

#include <stdint.h>

#define KALLSYMS_BLOCK 64 /* symbols a block: names of one block are walked one by one */
#define KALLSYMS_LONG_NAME                                                                                             \
    255 /* then two bytes of length follow; a length of 0 is padding in front of the next symbol */
#define KALLSYMS_PAGE 4096

struct kallsyms_region { /* 0 is the kernel; the others are modules and what poses as one ("bpf") */
    char *name;
    uint64_t end; /* 0: unknown; then a symbol does not go past its page */
};

struct kallsyms_block {
    uint64_t base;
    uint32_t first; /* in deltas */
    uint32_t names; /* in names */
    uint16_t region;
    uint16_t count;
};

struct kallsyms {
    struct kallsyms_region *regions;
    struct kallsyms_block *blocks;
    uint32_t *deltas;
    uint8_t *names;
    uint32_t region_count, block_count, count;
    uint32_t name_bytes;
    uint64_t core_start;
};
