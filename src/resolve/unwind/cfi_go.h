/* Unwinding rules of Go's functions from Go's own table, for programs that were stripped of .debug_frame, which Go's
 * linker writes from the same table. By frame pointers alone the caller of each function without a frame of its own
 * (memmove, hashes, many a leaf) would be left out, and nobody could tell. x86-64. */
#pragma once

#include "resolve/symbols/go_table.h"
#include "resolve/unwind/cfi_index.h"

/* Adds its functions to the index, but those of `index->go`. Nothing where there is no table, or a .debug_frame. */
int cfi_go_add(const struct elf_file *f, struct cfi_index *index);

/* The rules along a range, from its start on: cfi_go_next until it says no. */
struct cfi_go_rows {
    struct go_depths depths;
    uint64_t size; /* of the range */
};
struct cfi_go_rows cfi_go_rows(const struct cfi_index *index, const struct cfi_range *range);
/* `ret_at`: the distance from the range's start from which on the rule holds. */
bool cfi_go_next(struct cfi_go_rows *rows, uint32_t *ret_at, struct unwind_rule *ret);

/* A rule of one of Go's functions, of either source, does not say where the caller's frame pointer is: right below
 * the return address, once there is a frame. It leads over to the stack that systemstack() was called on. */
void cfi_go_save_fp(struct unwind_rule *rule);
