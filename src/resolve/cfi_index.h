/* All places of a file for which there is a rule, in order: the descriptions of .eh_frame, what only
 * .debug_frame has, and what has none but is known by other means (PLT stubs, the entry point). 16 bytes a
 * function. */
#pragma once

#include "base/cleanup.h"
#include "resolve/eh_frame.h"
#include "resolve/elf.h"

#include <linux/types.h>

#include "../../probes/unwind.h"

#include <stddef.h>
#include <stdint.h>

/* Where a range's rows come from; of two that overlap, the smaller one is believed. */
enum cfi_source {
    CFI_EH_FRAME,
    CFI_DEBUG_FRAME,
    CFI_KNOWN, /* `position` is a number of `known` */
    CFI_SOURCES,
};

struct cfi_range {
    uint32_t start, end; /* file offsets */
    uint32_t position;   /* of the FDE in its section */
    uint32_t source;     /* enum cfi_source */
};

#define CFI_KNOWN_MAX 16

struct cfi_index {
    struct eh_frame sections[CFI_KNOWN]; /* by source; size 0: none */
    void *section_data[CFI_KNOWN];       /* owned */
    struct unwind_rule known[CFI_KNOWN_MAX];
    size_t known_count;
    struct cfi_range *ranges; /* sorted by start, disjoint */
    size_t range_count, range_capacity;
    uint32_t skipped;
};

/* -ENOENT: nothing is known of this file. */
int cfi_index_new(const struct elf_file *f, struct cfi_index **ret);
void cfi_index_free(struct cfi_index *index);
DEFINE_FREEP(cfi_index)

/* Adds a range that has one rule; a range outside the file's code, or one too many, is left out. For
 * cfi_known.c. */
int cfi_index_add_known(struct cfi_index *index, uint64_t start, uint64_t end,
                        const struct unwind_rule *rule);

/* Adds what the file's layout says without any description (cfi_known.c). */
int cfi_known_add(const struct elf_file *f, struct cfi_index *index);

/* Signal trampolines are found by their code in places without description (musl, Go, arm64's vdso). Returns
 * the offset of the next one in [from, to) and its length, or `to`. Reads at most `*budget_bytes`, which it
 * lessens. */
uint32_t cfi_known_trampoline(const struct elf_file *f, uint32_t from, uint32_t to, size_t *budget_bytes,
                              uint32_t *ret_size, struct unwind_rule *ret_rule);
