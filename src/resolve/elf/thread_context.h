/* How the code of a file gets at `otel_thread_ctx_v1`, its threads' own variable of OTEP 4947 ("Thread Context"), where
 * it has one: by its dynamic symbol and the relocation that its code uses (probes/thread_context.h). x86-64; in other
 * files there is none. */
#pragma once

#include <linux/types.h>

#include "probes/thread_context.h"

#include <stdint.h>

struct elf_file;

struct thread_context_symbol {
    enum thread_context_kind kind;
    uint64_t place;      /* an offset, or an address as in the file */
    uint64_t code_vaddr; /* of the first executable segment, less its place in the file */
};

/* Cheap for a file without it, as all but a few are: a look into the symbols' hash table. -ENOENT: it has none, or one
 * that cannot be got at; errors of elf_read. */
int thread_context_read(const struct elf_file *f, struct thread_context_symbol *ret);
