/* The binary search table that linkers write for unwinders (.eh_frame_hdr, PT_GNU_EH_FRAME): where the code of each FDE
 * begins. Read from the file at each search. */
#pragma once

#include "resolve/elf/elf.h"

#include <stdint.h>

struct frame_table { /* plain data; the file is borrowed */
    const struct elf_file *file;
    uint64_t header_vaddr, offset;
    uint32_t count;
};

/* -ENOENT: the file has no such table in the usual encoding; -ETIMEDOUT: its file system does not respond. */
int frame_table_open(const struct elf_file *file, struct frame_table *ret);

struct frame_table_entry { /* virtual addresses */
    uint64_t code, fde;
    uint64_t next; /* where the code of the next entry begins; UINT64_MAX: it is the last one */
};

/* The last entry whose code begins at or before `vaddr`. -ENOENT: none; -EIO: the file cannot be read. */
int frame_table_search(const struct frame_table *t, uint64_t vaddr, struct frame_table_entry *ret);
