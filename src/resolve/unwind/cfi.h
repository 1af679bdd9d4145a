/* Builds unwind tables, in the format of probes/unwind/unwind.h, from .eh_frame, .debug_frame for functions that only
 * it describes, and other sources (cfi_index.h). A pure function of the file; runs in the publisher's thread, off the
 * hot path. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stddef.h>
#include <stdint.h>

struct unwind_table {
    void *values; /* value_count * UNWIND_VALUE_BYTES, in the layout of the BPF maps */
    size_t value_count;
    uint32_t row_count, rule_count;
    uint32_t skipped; /* FDEs that could not be used (damaged, out of range, too many) */
};

/* Builds the unwind table of a file; the caller frees `*ret`. -ENOENT: the file has no unwind information; -EFBIG: more
 * rows than a table can have; -ENOEXEC: too damaged to use; -ENOMEM. */
int cfi_build(const struct elf_file *f, struct unwind_table **ret);
/* The bytes of unwind information in the file; building a table takes about 35 ns per byte. */
uint64_t cfi_input_bytes(const struct elf_file *f);
void unwind_table_free(struct unwind_table *t);
DEFINE_FREEP(unwind_table)

/* The rule at a file offset, or NULL; the same search as on the BPF side. */
const struct unwind_rule *unwind_table_find(const struct unwind_table *t, uint32_t file_offset);
