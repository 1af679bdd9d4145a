/* Unwind rules of Go functions from Go's own table (pclntab), for programs stripped of .debug_frame, which Go's linker
 * writes from the same data. Walking by frame pointers alone would silently omit the caller of each function without a
 * frame (memmove, hashes, many leaf functions). x86-64. */
#pragma once

#include "resolve/symbols/go_table.h"
#include "resolve/unwind/cfi_ranges.h"

/* Adds the functions of Go's table to the index, except those in `index->go`. Adds nothing if there is no table, or a
 * .debug_frame. */
int cfi_go_add(const struct elf_file *f, struct cfi_index *index);

/* Iterates over the rules of a range from its start: call cfi_go_next until it returns false. */
struct cfi_go_rows {
    struct go_depths depths;
    uint64_t size; /* size of the range */
};
struct cfi_go_rows cfi_go_rows(const struct cfi_index *index, const struct cfi_range *range);
/* `ret_at`: distance of the rule's start from the range's start. */
bool cfi_go_next(struct cfi_go_rows *rows, uint32_t *ret_at, struct unwind_rule *ret);

/* Adds the saved frame pointer to a rule of a Go function: directly below the return address, once the function has a
 * frame. Neither .debug_frame nor Go's table describes it. The frame pointer leads to the stack that systemstack() was
 * called on. */
void cfi_go_save_fp(struct unwind_rule *rule);
