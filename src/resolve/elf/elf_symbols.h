/* A whole symbol table of an ELF file with its names in memory, for callers that search it repeatedly. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <elf.h>
#include <stddef.h>

struct elf_symbols {
    Elf64_Sym *all;
    size_t count;
    char *names; /* NUL-terminated: one byte more than name_bytes */
    size_t name_bytes;
};

/* Reads the section `table` (".dynsym", ".symtab") and its names, at most `max_bytes` each. The caller frees `ret`'s
 * contents with elf_symbols_free. -ENOENT: no such section; errors of elf_section_data. */
int elf_symbols_read(const struct elf_file *f, const char *table, size_t max_bytes, struct elf_symbols *ret);
void elf_symbols_free(struct elf_symbols *s);

/* Borrowed. NULL: the symbol is undefined here, or its name is out of range. */
const char *elf_symbols_name(const struct elf_symbols *s, const Elf64_Sym *symbol);
