/* A Go program's function table and module record, in an ELF file generated around them, so that no input is spent on
 * the ELF file: the number of functions matches the header, names are within the file, all functions have code, and
 * rules are generated for it. The first two bytes give the offset of the record; their highest bit places the table
 * within other data. */
#include "resolve/symbols/go_table.h"
#include "resolve/unwind/cfi.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MERGED 0x8000u
#define PARTS  4
#define VADDR  0x400000ull
#define PIECE  512

static const char names[] = "\0.gopclntab\0.go.module\0.rela.dyn\0.shstrtab\0.data.rel.ro\0.go.buildinfo";

static void add_section(Elf64_Shdr *section, uint32_t name, uint32_t type, uint64_t offset, uint64_t size)
{
    *section = (Elf64_Shdr){.sh_name = name,
                            .sh_type = type,
                            .sh_flags = SHF_ALLOC,
                            .sh_addr = VADDR + offset,
                            .sh_offset = offset,
                            .sh_size = size,
                            .sh_entsize = type == SHT_RELA ? sizeof(Elf64_Rela) : 0};
}

/* Table, record and the rest as relocations, consecutively, then the names, then the section headers. */
static uint8_t *make_elf(const uint8_t *data, size_t size, size_t head, size_t *ret_size)
{
    const uint64_t at = sizeof(Elf64_Ehdr), names_at = at + (size + 7) / 8 * 8,
                   headers_at = names_at + (sizeof(names) + 7) / 8 * 8;
    const size_t table = (head & ~MERGED) % (size + 1);
    const size_t module = size - table < 256 ? size - table : 256;
    Elf64_Shdr sections[PARTS + 1] = {0};
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_EXEC,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_ehsize = sizeof(header),
                         .e_shoff = headers_at,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = PARTS + 1,
                         .e_shstrndx = PARTS,
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 1};
    header.e_phoff = headers_at + sizeof(sections);
    *ret_size = header.e_phoff + sizeof(Elf64_Phdr);
    const Elf64_Phdr code = {
        .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = VADDR, .p_filesz = *ret_size, .p_memsz = *ret_size};
    uint8_t *file = calloc(1, *ret_size);
    if (!file)
        return NULL;
    add_section(&sections[1], head & MERGED ? 43 : 1, SHT_PROGBITS, at, table);
    add_section(&sections[2], head & MERGED ? 56 : 12, SHT_PROGBITS, at + table, module);
    add_section(&sections[3], 23, SHT_RELA, at + table + module, size - table - module);
    add_section(&sections[4], 33, SHT_STRTAB, names_at, sizeof(names));
    memcpy(file, &header, sizeof(header));
    memcpy(file + at, data, size);
    memcpy(file + names_at, names, sizeof(names));
    memcpy(file + headers_at, sections, sizeof(sections));
    memcpy(file + header.e_phoff, &code, sizeof(code));
    return file;
}

static void follow(const struct go_table *table, size_t file_size)
{
    struct go_function functions[PIECE];
    for (uint32_t first = 0; first < table->count; first += PIECE) {
        const size_t wanted = table->count - first < PIECE ? table->count - first : PIECE;
        if (go_table_functions(table, first, functions, PIECE) != wanted)
            abort();
        for (uint32_t i = 0; i < wanted; i++) {
            uint64_t offset;
            if (go_table_name(table, first + i, &offset) == 0 && offset >= file_size)
                abort();
        }
    }
    if (go_table_functions(table, table->count, functions, PIECE) != 0)
        abort();
    struct go_table_walk *walk = NULL;
    struct go_function_record read;
    if (go_table_walk_new(table, &walk) < 0)
        return;
    while (go_table_next(walk, &read))
        if (read.start >= read.end || read.name_offset >= file_size)
            abort();
    go_table_walk_free(walk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf_file *file = NULL;
    struct go_table table;
    size_t file_size;
    if (size < 2)
        return 0;
    uint8_t *image = make_elf(data + 2, size - 2, (size_t)(data[0] | data[1] << 8), &file_size);
    if (!image)
        return 0;
    if (elf_open_memory(image, file_size, &file) < 0)
        abort(); /* the table is valid */
    if (go_table_find(file, &table) == 0)
        follow(&table, file_size);
    _cleanup_(unwind_table_freep) struct unwind_table *rules = NULL;
    (void)cfi_build(file, &rules);
    elf_file_free(file);
    return 0;
}
