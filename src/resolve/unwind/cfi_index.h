/* Index of a file's code ranges that have unwind rules, in order: FDEs of .eh_frame, FDEs that only .debug_frame has,
 * Go's own table, and code whose layout is known without any description (PLT stubs, the entry point). 16 bytes per
 * function. */
#pragma once

#include "base/cleanup.h"
#include "resolve/unwind/cfi_ranges.h"

/* Builds the index of a file; the caller frees `*ret`. -ENOENT: the file has no unwind information; -ENOEXEC: it is
 * damaged; -EFBIG; -ENOMEM. */
int cfi_index_new(const struct elf_file *f, struct cfi_index **ret);
/* How much of a file without section headers is read to find its call frame information; 0: it has none. */
uint64_t cfi_index_bytes_by_header(const struct elf_file *f);
void cfi_index_free(struct cfi_index *index);
DEFINE_FREEP(cfi_index)
