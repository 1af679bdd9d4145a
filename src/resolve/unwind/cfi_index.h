/* Index of a file's code ranges that have unwind rules, in order: FDEs of .eh_frame, FDEs that only .debug_frame has,
 * Go's own table, and code whose layout is known without any description (PLT stubs, the entry point). 16 bytes per
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

/* Source of a range's rows; of two overlapping ranges, the lower value takes precedence. */
enum cfi_source {
    CFI_EH_FRAME,
    CFI_DEBUG_FRAME,
    CFI_GO_TABLE, /* `position` is an offset in `go_changes` */
    CFI_KNOWN,    /* `position` is an index of `known` */
    CFI_SOURCES,
};

struct cfi_range {
    uint32_t start, end; /* file offsets */
    uint32_t position;   /* offset of the FDE in its section, or see enum cfi_source */
    uint32_t source;     /* enum cfi_source */
};

#define CFI_KNOWN_MAX 320 /* most are from go_frames.h */

struct cfi_index {
    struct eh_frame sections[CFI_GO_TABLE]; /* by source; size 0: absent */
    void *section_data[CFI_GO_TABLE];       /* owned */
    uint8_t *go_changes;                    /* owned; changes of the stack depth (go_table.h) */
    size_t go_changes_bytes;
    struct unwind_rule known[CFI_KNOWN_MAX];
    size_t known_count;
    struct go_frames go;      /* functions whose FDEs are ignored */
    struct cfi_range *ranges; /* sorted by start, disjoint */
    size_t range_count, range_capacity;
    uint32_t skipped; /* unusable entries and sections */
};

/* Builds the index of a file; the caller frees `*ret`. -ENOENT: the file has no unwind information; -ENOEXEC: it is
 * damaged; -EFBIG; -ENOMEM. */
int cfi_index_new(const struct elf_file *f, struct cfi_index **ret);
void cfi_index_free(struct cfi_index *index);
DEFINE_FREEP(cfi_index)

/* Adds a range with a single rule, in file offsets. Ignores an invalid range, and ranges beyond CFI_KNOWN_MAX. For
 * cfi_known.c. */
int cfi_index_add_known(struct cfi_index *index, uint64_t start, uint64_t end, const struct unwind_rule *rule);

/* Adds code at these virtual addresses, with source and position from `as`. Ignores code outside the file's executable
 * segments. For cfi_go.c. */
int cfi_index_add_code(const struct elf_file *f, struct cfi_index *index, uint64_t start, uint64_t end,
                       const struct cfi_range *as);

/* Adds code whose layout is known without any description (cfi_known.c). */
int cfi_known_add(const struct elf_file *f, struct cfi_index *index);

/* Searches for signal trampolines in code without description (musl, Go, arm64's vdso), by their instructions. Returns
 * the offset of the next one in [from, to) and its length, or `to`. Reads at most `*budget_bytes`, which is reduced by
 * the bytes read. */
uint32_t cfi_known_trampoline(const struct elf_file *f, uint32_t from, uint32_t to, size_t *budget_bytes,
                              uint32_t *ret_size, struct unwind_rule *ret_rule);

/* The start offset of the rule of a trampoline at `at`. Handlers return to its first byte, and callers are
 * looked up by the byte before, so padding before it is included. */
uint32_t cfi_known_trampoline_from(const struct elf_file *f, uint32_t at);
