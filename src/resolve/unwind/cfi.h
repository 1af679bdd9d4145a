/* From .eh_frame (and .debug_frame where there is no other) to unwinding rows as probes/unwind/unwind.h
 * defines them. A pure function of the file; run off the hot path by the publisher's thread. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stddef.h>
#include <stdint.h>

struct unwind_table {
    void *values; /* value_count * UNWIND_VALUE_BYTES, ready for the kernel's tables */
    size_t value_count;
    uint32_t row_count, rule_count;
    uint32_t skipped; /* descriptions that could not be used (damaged, too far, too many) */
};

/* -ENOENT: the file has no unwinding information; -EFBIG: more rows than a table holds; -ENOEXEC: damaged
 * beyond use. */
int cfi_build(const struct elf_file *f, struct unwind_table **ret);
/* How much there is to read: building costs about 35 ns a byte. */
uint64_t cfi_input_bytes(const struct elf_file *f);
void unwind_table_free(struct unwind_table *t);
DEFINE_FREEP(unwind_table)

/* The rule at a file offset, or NULL: the same search as in the kernel half. */
const struct unwind_rule *unwind_table_find(const struct unwind_table *t, uint32_t file_offset);
