/* The addresses of some symbols of an ELF file, by their names, without its symbol table in memory: that of a large
 * program has tens of MiB. */
#pragma once

#include "resolve/elf/elf.h"

#include <stddef.h>
#include <stdint.h>

/* Sets addresses[i] to the address of the symbol names[i] of type `type` (STT_FUNC, STT_OBJECT), if the section `table`
 * (".dynsym", ".symtab") defines it, and leaves it otherwise. `count`: at most 16, each of fewer than 64 characters.
 * -ENOENT: no such section; -EFBIG: it or its names exceed `max_bytes`; -ENOEXEC: it cannot be read (elf_error), or is
 * compressed; -ENOMEM. */
int elf_addresses_find(const struct elf_file *f, const char *table, uint64_t max_bytes, unsigned type,
                       const char *const *names, size_t count, uint64_t *addresses);
