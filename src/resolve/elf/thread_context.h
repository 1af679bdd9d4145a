/* How the code of a file accesses `otel_thread_ctx_v1`, the thread-local variable of OTEP 4947 ("Thread Context"),
 * if it has one: from its dynamic symbol and the relocation that its code uses (probes/thread_context.h). x86-64
 * only; other files have none. */
#pragma once

#include <linux/types.h>

#include "probes/thread_context.h"

#include <stdint.h>

struct elf_file;

struct thread_context_symbol {
    enum thread_context_kind kind;
    uint64_t place;      /* an offset, or an address as in the file */
    uint64_t code_vaddr; /* of the first executable segment, minus its file offset */
};

/* Cheap for the many files without it: one lookup in the hash table of symbols. -ENOENT: it has none, or none that
 * can be accessed; errors of elf_read. */
int thread_context_read(const struct elf_file *f, struct thread_context_symbol *ret);
