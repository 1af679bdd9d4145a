/* Finds the dynamic symbol by its hash (DT_GNU_HASH: a Bloom filter, buckets, chains), then the relocation that
 * refers to it. For the access models see Ulrich Drepper, "ELF Handling For Thread-Local Storage". */
#include "resolve/elf/thread_context.h"

#include "resolve/elf/elf.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define NAME             "otel_thread_ctx_v1"
#define CHAIN_MAX        4096
#define RELOCATIONS_MAX  (1u << 20) /* per section */
#define RELOCATIONS_EACH 128        /* read at a time */

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool is_named(const struct elf_file *f, const struct elf_section *strings, uint32_t name)
{
    char text[sizeof(NAME)];
    return strings && name < strings->size_bytes && strings->size_bytes - name >= sizeof(text) &&
           elf_read(f, strings->offset + name, text, sizeof(text)) == 0 && memcmp(text, NAME, sizeof(text)) == 0;
}

static bool is_wanted(const struct elf_file *f, const struct elf_section *symbols, const struct elf_section *strings,
                      uint64_t index, Elf64_Sym *ret)
{
    return index < symbols->size_bytes / sizeof(*ret) &&
           elf_read(f, symbols->offset + index * sizeof(*ret), ret, sizeof(*ret)) == 0 &&
           ELF64_ST_TYPE(ret->st_info) == STT_TLS && ret->st_shndx != SHN_UNDEF && is_named(f, strings, ret->st_name);
}

/* Reads `size` bytes of a table; -ENOEXEC past its end. */
static int read_word(const struct elf_file *f, const struct elf_section *table, uint64_t offset, void *ret, size_t size)
{
    if (offset > table->size_bytes || table->size_bytes - offset < size)
        return -ENOEXEC;
    return elf_read(f, table->offset + offset, ret, size);
}

static int find_symbol(const struct elf_file *f, uint64_t *ret_index, Elf64_Sym *ret)
{
    const struct elf_section *table = elf_section(f, ".gnu.hash"), *symbols = elf_section(f, ".dynsym"),
                             *strings = elf_section(f, ".dynstr");
    struct {
        uint32_t buckets, first, filter_words, shift;
    } head;
    uint64_t filter;
    uint32_t index, link;
    if (!table || !symbols || !strings || read_word(f, table, 0, &head, sizeof(head)) < 0 || !head.buckets ||
        !head.filter_words)
        return -ENOENT;
    const uint32_t hash = hash_of(NAME);
    int r = read_word(f, table, sizeof(head) + (uint64_t)(hash / 64 % head.filter_words) * 8, &filter, sizeof(filter));
    if (r < 0)
        return r;
    if (!(filter >> hash % 64 & 1) || !(filter >> (hash >> head.shift % 32) % 64 & 1))
        return -ENOENT;
    const uint64_t buckets = sizeof(head) + (uint64_t)head.filter_words * 8,
                   chains = buckets + (uint64_t)head.buckets * 4;
    r = read_word(f, table, buckets + (uint64_t)(hash % head.buckets) * 4, &index, sizeof(index));
    if (r < 0 || index < head.first)
        return r < 0 ? r : -ENOENT;
    for (unsigned length = 0; length < CHAIN_MAX; length++, index++) {
        r = read_word(f, table, chains + (uint64_t)(index - head.first) * 4, &link, sizeof(link));
        if (r < 0)
            return r;
        if ((link | 1) == (hash | 1) && is_wanted(f, symbols, strings, index, ret)) {
            *ret_index = index;
            return 0;
        }
        if (link & 1)
            break;
    }
    return -ENOENT;
}

static enum thread_context_kind kind_of(uint32_t relocation)
{
    switch (relocation) {
    case R_X86_64_TLSDESC:
        return THREAD_CONTEXT_DESCRIPTOR;
    case R_X86_64_DTPMOD64:
        return THREAD_CONTEXT_GOT_PAIR;
    case R_X86_64_TPOFF64:
        return THREAD_CONTEXT_GOT_OFFSET;
    default:
        return THREAD_CONTEXT_NONE;
    }
}

/* A relocation of a symbol bound at link time names it only by its value. A module number belongs to all of a
 * module's variables, so it cannot identify the symbol that way. */
static bool is_of(const Elf64_Rela *r, uint64_t index, const Elf64_Sym *symbol)
{
    const uint64_t named = ELF64_R_SYM(r->r_info);
    return named == index ||
           (named == 0 && ELF64_R_TYPE(r->r_info) != R_X86_64_DTPMOD64 && (uint64_t)r->r_addend == symbol->st_value);
}

static int find_relocation(const struct elf_file *f, const struct elf_section *section, uint64_t index,
                           const Elf64_Sym *symbol, struct thread_context_symbol *ret)
{
    Elf64_Rela some[RELOCATIONS_EACH];
    uint64_t count = section ? section->size_bytes / sizeof(*some) : 0;
    if (count > RELOCATIONS_MAX)
        count = RELOCATIONS_MAX;
    for (uint64_t at = 0; at < count; at += RELOCATIONS_EACH) {
        const size_t n = count - at < RELOCATIONS_EACH ? count - at : RELOCATIONS_EACH;
        int r = elf_read(f, section->offset + at * sizeof(*some), some, n * sizeof(*some));
        if (r < 0)
            return r;
        for (size_t i = 0; i < n; i++) {
            const enum thread_context_kind kind = kind_of(ELF64_R_TYPE(some[i].r_info));
            if (kind == THREAD_CONTEXT_NONE || !is_of(&some[i], index, symbol))
                continue;
            ret->kind = kind;
            ret->place = some[i].r_offset;
            return 0;
        }
    }
    return -ENOENT;
}

/* A program needs no relocation for its own variables: its TLS block ends at the thread pointer. */
static int find_offset(const struct elf_file *f, const Elf64_Sym *symbol, struct thread_context_symbol *ret)
{
    uint64_t block_bytes;
    int r = elf_section(f, ".interp") ? elf_tls_block_bytes(f, &block_bytes) : -ENOENT;
    if (r < 0)
        return r;
    ret->kind = THREAD_CONTEXT_OFFSET;
    ret->place = symbol->st_value - block_bytes;
    return 0;
}

static int find_code(const struct elf_file *f, uint64_t *ret)
{
    const struct elf_segment *segments;
    const size_t count = elf_segments(f, &segments);
    for (size_t i = 0; i < count; i++)
        if (segments[i].executable) {
            *ret = segments[i].vaddr - segments[i].offset;
            return 0;
        }
    return -ENOENT;
}

int thread_context_read(const struct elf_file *f, struct thread_context_symbol *ret)
{
    struct thread_context_symbol found = {0};
    Elf64_Sym symbol;
    uint64_t index;
    if (elf_machine(f) != EM_X86_64)
        return -ENOENT;
    int r = find_symbol(f, &index, &symbol);
    if (r < 0)
        return r;
    r = find_relocation(f, elf_section(f, ".rela.dyn"), index, &symbol, &found);
    if (r == -ENOENT)
        r = find_relocation(f, elf_section(f, ".rela.plt"), index, &symbol, &found);
    if (r == -ENOENT)
        r = find_offset(f, &symbol, &found);
    if (r == 0)
        r = find_code(f, &found.code_vaddr);
    if (r < 0)
        return r;
    *ret = found;
    return 0;
}
