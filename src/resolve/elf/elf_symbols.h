/* A symbol table of an ELF file with its names, whole in memory: for who looks for several of them. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <elf.h>
#include <stddef.h>

struct elf_symbols {
    Elf64_Sym *all;
    size_t count;
    char *names; /* end: there is one byte more than name_bytes */
    size_t name_bytes;
};

/* Of the section `table` (".dynsym", ".symtab"); it and its names of at most `max_bytes` each. -ENOENT: there is none;
 * errors of elf_section_data. The caller frees it. */
int elf_symbols_read(const struct elf_file *f, const char *table, size_t max_bytes, struct elf_symbols *ret);
void elf_symbols_free(struct elf_symbols *s);

/* Borrowed. NULL: it is defined elsewhere, or has no name that is there. */
const char *elf_symbols_name(const struct elf_symbols *s, const Elf64_Sym *symbol);
