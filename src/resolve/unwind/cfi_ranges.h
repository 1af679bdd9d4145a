/* Code ranges of a file with their unwind rules, as cfi_index.h collects them: 16 bytes per function. */
#pragma once

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

/* Adds a range with a single rule, in file offsets. Ignores an invalid range, and ranges beyond CFI_KNOWN_MAX.
 * 0 or -ENOMEM. */
int cfi_ranges_add_known(struct cfi_index *index, uint64_t start, uint64_t end, const struct unwind_rule *rule);

/* Adds code at these virtual addresses, with source and position from `as`. Ignores code outside the file's executable
 * segments. 0 or -ENOMEM. */
int cfi_ranges_add_code(const struct elf_file *f, struct cfi_index *index, uint64_t start, uint64_t end,
                        const struct cfi_range *as);
