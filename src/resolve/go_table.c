/* Go's table of functions; see go_table.h. Header (magic, pointer size, counts, offsets of the parts), then
 * among the parts the names and pairs of (place in the text, place of the function's record); the record's
 * second word is its name. Where the text begins stands in the header up to Go 1.25 and in the module's
 * record since; in position-independent programs as a relocation. */
#include "resolve/go_table.h"

#include "base/cleanup.h"
#include "base/cursor.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MAGIC_1_18    0xfffffff0u
#define MAGIC_1_20    0xfffffff1u
#define HEADER_BYTES  72
#define TEXT_START_AT 24 /* in the header */
#define MODULE_TEXT_AT                                                                                       \
    176 /* in the module's record: after the header's address, six slices and three addresses */
#define FUNCTIONS_MAX     (1u << 22)
#define RELOCATIONS_MAX   (1u << 22)
#define RELOCATIONS_PIECE 2048

/* The value that a relocation will put at `address`; 0: none does. */
static uint64_t relocated(const struct elf_file *file, uint64_t address)
{
    const struct elf_section *section = elf_section(file, ".rela.dyn");
    if (!section || section->type != SHT_RELA || section->entry_bytes != sizeof(Elf64_Rela))
        return 0;
    uint64_t left = section->size_bytes / sizeof(Elf64_Rela);
    if (left > RELOCATIONS_MAX)
        left = RELOCATIONS_MAX;
    _cleanup_free_ Elf64_Rela *piece = malloc(RELOCATIONS_PIECE * sizeof(*piece));
    for (uint64_t offset = section->offset; piece && left;) {
        size_t count = left < RELOCATIONS_PIECE ? left : RELOCATIONS_PIECE;
        if (elf_read(file, offset, piece, count * sizeof(*piece)) < 0)
            return 0;
        for (size_t i = 0; i < count; i++)
            if (piece[i].r_offset == address)
                return piece[i].r_addend;
        offset += count * sizeof(*piece);
        left -= count;
    }
    return 0;
}

/* The address that stands at a place in a section. */
static uint64_t address_in(const struct elf_file *file, const struct elf_section *section, uint64_t at)
{
    uint8_t bytes[8];
    if (section->type != SHT_PROGBITS || section->size_bytes < at + sizeof(bytes) ||
        elf_read(file, section->offset + at, bytes, sizeof(bytes)) < 0)
        return 0;
    struct cursor c = cursor_make(bytes, sizeof(bytes));
    uint64_t value = cursor_u64(&c);
    return value ? value : relocated(file, section->vaddr + at);
}

static const struct elf_section *first_section(const struct elf_file *file, const char *const *names,
                                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct elf_section *s = elf_section(file, names[i]);
        if (s && s->type == SHT_PROGBITS)
            return s;
    }
    return NULL;
}

int go_table_find(const struct elf_file *file, struct go_table *ret)
{
    static const char *const tables[] = {".gopclntab", ".data.rel.ro.gopclntab"};
    static const char *const modules[] = {".go.module", ".data.rel.ro.go.module"};
    const struct elf_section *section = first_section(file, tables, array_size(tables));
    uint8_t header[HEADER_BYTES];
    if (!section || section->size_bytes < sizeof(header) ||
        elf_read(file, section->offset, header, sizeof(header)) < 0)
        return -ENOENT;
    struct cursor c = cursor_make(header, sizeof(header));
    uint32_t magic = cursor_u32(&c);
    cursor_skip(&c, 3);
    uint8_t pointer_bytes = cursor_u8(&c);
    uint64_t count = cursor_u64(&c);
    cursor_skip(&c, 16); /* files, text */
    uint64_t names = cursor_u64(&c);
    cursor_skip(&c, 24); /* compilation units, files, tables by address */
    uint64_t functions = cursor_u64(&c);
    if ((magic != MAGIC_1_18 && magic != MAGIC_1_20) || pointer_bytes != 8 || !count ||
        count > FUNCTIONS_MAX || names >= section->size_bytes || functions >= section->size_bytes ||
        (count + 1) * 8 > section->size_bytes - functions)
        return -ENOENT;
    uint64_t text = address_in(file, section, TEXT_START_AT);
    const struct elf_section *module = first_section(file, modules, array_size(modules));
    if (!text && module)
        text = address_in(file, module, MODULE_TEXT_AT);
    if (!text)
        return -ENOENT;
    *ret = (struct go_table){.file = file,
                             .offset = section->offset,
                             .size = section->size_bytes,
                             .names = names,
                             .functions = functions,
                             .text = text,
                             .count = count};
    return 0;
}

size_t go_table_functions(const struct go_table *t, uint32_t first, struct go_function *ret, size_t max)
{
    if (first >= t->count)
        return 0;
    size_t count = t->count - first < max ? t->count - first : max;
    size_t size = (count + 1) * 8; /* one more: the end of the last */
    _cleanup_free_ uint8_t *pairs = malloc(size);
    if (!pairs || elf_read(t->file, t->offset + t->functions + first * 8ull, pairs, size) < 0)
        return 0;
    struct cursor c = cursor_make(pairs, size);
    uint64_t start = t->text + cursor_u32(&c);
    for (size_t i = 0; i < count; i++) {
        cursor_skip(&c, 4);
        uint64_t end = t->text + cursor_u32(&c);
        ret[i] = (struct go_function){.start = start, .end = end};
        start = end;
    }
    return count;
}

int go_table_name(const struct go_table *t, uint32_t function, uint64_t *ret_offset)
{
    uint8_t bytes[4];
    struct cursor c;
    if (function >= t->count ||
        elf_read(t->file, t->offset + t->functions + function * 8ull + 4, bytes, 4) < 0)
        return -ENOENT;
    c = cursor_make(bytes, 4);
    uint64_t record = t->functions + cursor_u32(&c);
    if (record > t->size || t->size - record < 8 || elf_read(t->file, t->offset + record + 4, bytes, 4) < 0)
        return -ENOENT;
    c = cursor_make(bytes, 4);
    uint64_t name = t->names + cursor_u32(&c);
    if (name >= t->size)
        return -ENOENT;
    *ret_offset = t->offset + name;
    return 0;
}
