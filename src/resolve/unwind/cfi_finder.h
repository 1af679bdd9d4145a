/* One rule of a file at a time, by the search table that linkers put beside .eh_frame for unwinders
 * (PT_GNU_EH_FRAME): some 10 us a rule instead of the milliseconds or seconds of a whole table. Serves the
 * samples that come before a table is built; says the same as the table will. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stdint.h>

struct cfi_finder;

/* Takes `f` on success. -ENOENT: the file has no search table of the usual kind. */
int cfi_finder_new(struct elf_file *f, struct cfi_finder **ret);
void cfi_finder_free(struct cfi_finder *s);
DEFINE_FREEP(cfi_finder)

/* The rule at a file offset, UNWIND_CFA_NONE where there is none. -ENOENT: cannot be told without the whole
 * table; -EIO: the file cannot be read; -ETIMEDOUT: it does not answer, and will not to this finder. */
int cfi_finder_find(struct cfi_finder *s, uint32_t file_offset, struct unwind_rule *ret);
