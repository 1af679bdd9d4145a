/* All places of a file for which there is a rule, in order: the descriptions of .eh_frame, what only
 * .debug_frame has, and what has none but is known by other means (PLT stubs, the entry point). 16 bytes a
 * function. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"
#include "resolve/symbols/go_frames.h"
#include "resolve/unwind/eh_frame.h"

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stddef.h>
#include <stdint.h>

/* Where a range's rows come from; of two that overlap, the smaller one is believed. */
enum cfi_source {
    CFI_EH_FRAME,
    CFI_DEBUG_FRAME,
    CFI_GO_TABLE, /* `position` is a place in `go_changes` */
    CFI_KNOWN,    /* `position` is a number of `known` */
    CFI_SOURCES,
};

struct cfi_range {
    uint32_t start, end; /* file offsets */
    uint32_t position;   /* of the FDE in its section, if it is of one */
    uint32_t source;     /* enum cfi_source */
};

#define CFI_KNOWN_MAX 320 /* most are of go_frames.h */

struct cfi_index {
    struct eh_frame sections[CFI_GO_TABLE]; /* by source; size 0: none */
    void *section_data[CFI_GO_TABLE];       /* owned */
    uint8_t *go_changes;                    /* owned; of the stack's depth (go_table.h) */
    size_t go_changes_bytes;
    struct unwind_rule known[CFI_KNOWN_MAX];
    size_t known_count;
    struct go_frames go;      /* whose descriptions are left out */
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
int cfi_index_add_known(struct cfi_index *index, uint64_t start, uint64_t end, const struct unwind_rule *rule);

/* Adds code at these addresses; `as` says the rest. For cfi_go.c. */
int cfi_index_add_code(const struct elf_file *f, struct cfi_index *index, uint64_t start, uint64_t end,
                       const struct cfi_range *as);

/* Adds what the file's layout says without any description (cfi_known.c). */
int cfi_known_add(const struct elf_file *f, struct cfi_index *index);

/* Signal trampolines are found by their code in places without description (musl, Go, arm64's vdso). Returns
 * the offset of the next one in [from, to) and its length, or `to`. Reads at most `*budget_bytes`, which it
 * lessens. */
uint32_t cfi_known_trampoline(const struct elf_file *f, uint32_t from, uint32_t to, size_t *budget_bytes,
                              uint32_t *ret_size, struct unwind_rule *ret_rule);

/* From where on the rule of a trampoline at `at` is to hold: handlers return to its first byte, and callers
 * are looked up by the byte before, where there is padding and no code. */
uint32_t cfi_known_trampoline_from(const struct elf_file *f, uint32_t at);
