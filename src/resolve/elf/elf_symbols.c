/* Reads symbol tables; see elf_symbols.h. */
#include "resolve/elf/elf_symbols.h"

#include <errno.h>
#include <stdlib.h>

int elf_symbols_read(const struct elf_file *f, const char *table, size_t max_bytes, struct elf_symbols *ret)
{
    const struct elf_section *sections, *symbols = elf_section(f, table);
    const size_t count = elf_sections(f, &sections);
    if (!symbols || symbols->link >= count)
        return -ENOENT;
    _cleanup_free_ void *data = NULL, *names = NULL;
    size_t size, name_bytes;
    int r = elf_section_data(f, symbols, max_bytes, &data, &size);
    if (r == 0)
        r = elf_section_data(f, &sections[symbols->link], max_bytes, &names, &name_bytes);
    if (r < 0)
        return r;
    ((char *)names)[name_bytes] = '\0';
    *ret = (struct elf_symbols){take_ptr(data), size / sizeof(Elf64_Sym), take_ptr(names), name_bytes};
    return 0;
}

void elf_symbols_free(struct elf_symbols *s)
{
    free(s->all);
    free(s->names);
}

const char *elf_symbols_name(const struct elf_symbols *s, const Elf64_Sym *symbol)
{
    return symbol->st_shndx != SHN_UNDEF && symbol->st_name < s->name_bytes ? s->names + symbol->st_name : NULL;
}
