/* Memory layout of the packed symbol table, shared by its builder (kallsyms_read.c) and its lookup (kallsyms.c). */
#pragma once

#include <stdint.h>

#define KALLSYMS_BLOCK     64  /* symbols per block: the names of a block are scanned linearly */
#define KALLSYMS_LONG_NAME 255 /* followed by two bytes of length; a length of 0 is padding before the next symbol */
#define KALLSYMS_PAGE      4096

struct kallsyms_region { /* region 0 is the kernel; the others are modules and pseudo-modules ("bpf") */
    char *name;
    uint64_t end; /* 0: unknown; symbols then end with their page */
};

struct kallsyms_block {
    uint64_t base;
    uint32_t first; /* index in deltas */
    uint32_t names; /* offset in names */
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
