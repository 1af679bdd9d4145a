/* Finds single rules of a file by the binary search table that linkers write for unwinders (.eh_frame_hdr,
 * PT_GNU_EH_FRAME): about 10 us per rule, instead of milliseconds or seconds for a whole table. Serves samples that
 * arrive before the table is built, with the same results. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stdbool.h>
#include <stdint.h>

struct cfi_finder;

/* Takes ownership of `f` on success. -ENOENT: the file has no search table in the usual encoding; -ETIMEDOUT: its file
 * system does not respond; -ENOMEM. */
int cfi_finder_new(struct elf_file *f, struct cfi_finder **ret);
void cfi_finder_free(struct cfi_finder *s);
DEFINE_FREEP(cfi_finder)

/* Whether it finds every rule of the file: there is no other unwind information than .eh_frame. */
bool cfi_finder_is_complete(const struct cfi_finder *s);

/* The rule at a file offset; UNWIND_CFA_NONE: no rule. -ENOENT: only the whole table can answer; -EIO: the file cannot
 * be read; -ETIMEDOUT: its file system does not respond, and every later call fails as well. */
int cfi_finder_find(struct cfi_finder *s, uint32_t file_offset, struct unwind_rule *ret);
