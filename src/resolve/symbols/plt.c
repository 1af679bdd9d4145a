/* PLT stubs; see plt.h. x86-64: .plt, .plt.sec (with IBT) and .plt.got, whose stubs are `jmp *slot(%rip)` with
 * prefixes before and padding after; the lazy half of a stub, `push $n; jmp`, is identified by its number. arm64:
 * `adrp x16; ldr x17, [x16, #slot]; add; br x17`. */
#include "resolve/symbols/plt.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PLT_BYTES_MAX  (4u << 20) /* per section: 256 Ki stubs */
#define RELOC_PIECE    4096       /* relocations read at a time */
#define RELOCS_MAX     (1u << 22) /* relocations read in .rela.dyn */
#define SLOTS_MAX      (1u << 18)
#define X86_STUB_BYTES 16
#define ARM_STUB_BYTES 16

struct slot {
    uint64_t address;
    uint32_t symbol; /* index in .dynsym; replaced by its name's offset */
};

struct plt {
    struct plt_stub *stubs;
    size_t count, capacity;
};

struct slots {
    struct slot *slots; /* sorted by address after reading */
    size_t count, capacity;
    uint32_t *by_number; /* symbols in the order of .rela.plt */
    size_t number_count;
};

static void slots_clear(struct slots *s)
{
    free(s->slots);
    free(s->by_number);
}

void plt_free(struct plt *p)
{
    if (!p)
        return;
    free(p->stubs);
    free(p);
}

size_t plt_stubs(const struct plt *p, const struct plt_stub **ret)
{
    *ret = p ? p->stubs : NULL;
    return p ? p->count : 0;
}

size_t plt_bytes(const struct plt *p)
{
    return p ? sizeof(*p) + p->capacity * sizeof(*p->stubs) : 0;
}

static bool is_slot_relocation(uint16_t machine, uint32_t type)
{
    return machine == EM_AARCH64 ? type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT
                                 : type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
}

static int add_slot(struct slots *s, uint64_t address, uint32_t symbol)
{
    if (s->count == SLOTS_MAX)
        return -E2BIG;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 256;
        struct slot *grown = realloc(s->slots, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        s->slots = grown;
        s->capacity = capacity;
    }
    s->slots[s->count++] = (struct slot){.address = address, .symbol = symbol};
    return 0;
}

/* Adds the slots of one relocation section; `numbered`: stores their order too, for lazy stubs. */
static int read_relocations(const struct elf_file *file, const struct elf_section *section, bool numbered,
                            struct slots *s)
{
    if (!section || section->type != SHT_RELA || section->entry_bytes != sizeof(Elf64_Rela))
        return 0;
    uint64_t left = section->size_bytes / sizeof(Elf64_Rela);
    if (left > RELOCS_MAX)
        left = RELOCS_MAX;
    _cleanup_free_ Elf64_Rela *piece = malloc(RELOC_PIECE * sizeof(*piece));
    if (!piece)
        return -ENOMEM;
    if (numbered) {
        s->by_number = calloc(left < SLOTS_MAX ? left + 1 : SLOTS_MAX, sizeof(*s->by_number));
        if (!s->by_number)
            return -ENOMEM;
    }
    for (uint64_t offset = section->offset; left;) {
        size_t count = left < RELOC_PIECE ? left : RELOC_PIECE;
        if (elf_read(file, offset, piece, count * sizeof(*piece)) < 0)
            return 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t symbol = ELF64_R_SYM(piece[i].r_info);
            if (numbered && s->number_count < SLOTS_MAX)
                s->by_number[s->number_count++] = symbol;
            if (!symbol || !is_slot_relocation(elf_machine(file), ELF64_R_TYPE(piece[i].r_info)))
                continue;
            int r = add_slot(s, piece[i].r_offset, symbol);
            if (r < 0)
                return r;
        }
        offset += count * sizeof(*piece);
        left -= count;
    }
    return 0;
}

static int compare_slots(const void *a, const void *b)
{
    uint64_t x = ((const struct slot *)a)->address, y = ((const struct slot *)b)->address;
    return x < y ? -1 : x > y;
}

/* The symbol of a slot; 0: none. */
static uint32_t slot_symbol(const struct slots *s, uint64_t address)
{
    struct slot key = {.address = address};
    const struct slot *found = s->count ? bsearch(&key, s->slots, s->count, sizeof(key), compare_slots) : NULL;
    return found ? found->symbol : 0;
}

static int add_stub(struct plt *p, uint64_t start, uint32_t size, uint32_t symbol)
{
    if (!symbol)
        return 0;
    if (p->count == p->capacity) {
        size_t capacity = p->capacity ? p->capacity * 2 : 64;
        struct plt_stub *grown = realloc(p->stubs, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        p->stubs = grown;
        p->capacity = capacity;
    }
    p->stubs[p->count++] = (struct plt_stub){.start = start, .size = size, .name = symbol};
    return 0;
}

static uint32_t u32_at(const uint8_t *at)
{
    return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The symbol that the x86-64 stub at `code` calls. */
static uint32_t x86_stub_symbol(const struct slots *s, const uint8_t *code, size_t size, uint64_t address)
{
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t at = 0;
    if (size >= 4 && !memcmp(code, endbr64, 4))
        at = 4;
    bool is_push = at + 5 <= size && code[at] == 0x68;
    if (is_push) {
        uint32_t number = u32_at(code + at + 1);
        return number < s->number_count ? s->by_number[number] : 0;
    }
    if (at < size && code[at] == 0xf2) /* bnd */
        at++;
    if (at + 6 > size || code[at] != 0xff || code[at + 1] != 0x25)
        return 0;
    return slot_symbol(s, address + at + 6 + (int64_t)(int32_t)u32_at(code + at + 2));
}

/* The stubs of .plt.got are 8 bytes without IBT, all others 16. */
static int x86_stubs(struct plt *p, const struct slots *s, const uint8_t *code, size_t size, uint64_t address,
                     bool may_be_short)
{
    size_t stub = may_be_short && size >= 8 && code[0] == 0xff && code[6] == 0x66 && code[7] == 0x90
                      ? X86_STUB_BYTES / 2
                      : X86_STUB_BYTES;
    for (size_t at = 0; at < size; at += stub) {
        size_t here = size - at < stub ? size - at : stub;
        int r = add_stub(p, address + at, here, x86_stub_symbol(s, code + at, here, address + at));
        if (r < 0)
            return r;
    }
    return 0;
}

/* Stubs are found by their adrp and ldr; a landing pad before them and everything up to the next stub belong to
 * them. */
static int arm_stubs(struct plt *p, const struct slots *s, const uint8_t *code, size_t size, uint64_t address)
{
    for (size_t at = 0; at + ARM_STUB_BYTES <= size;) {
        size_t start = at;
        size_t first = u32_at(code + at) == 0xd503245f ? at + 4 : at; /* bti c */
        uint32_t adrp = u32_at(code + first), ldr = first + 8 <= size ? u32_at(code + first + 4) : 0;
        if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211) {
            at += 4;
            continue;
        }
        int64_t pages = (int64_t)(((uint64_t)(adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)) << 43) >> 43;
        uint64_t slot = ((address + first) & ~0xfffull) + pages * 4096 + (ldr >> 10 & 0xfff) * 8;
        for (at = first + 4; at + 4 <= size && u32_at(code + at) != 0xd61f0220;) /* br x17 */
            at += 4;
        at += 4;
        while (at + 4 <= size && u32_at(code + at) == 0xd503201f) /* nop */
            at += 4;
        int r = add_stub(p, address + start, (at < size ? at : size) - start, slot_symbol(s, slot));
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_section(const struct elf_file *file, const char *name, const struct slots *s, struct plt *p)
{
    const struct elf_section *section = elf_section(file, name);
    if (!section || section->type != SHT_PROGBITS || !(section->flags & SHF_EXECINSTR))
        return 0;
    _cleanup_free_ void *code = NULL;
    size_t size;
    if (elf_section_data(file, section, PLT_BYTES_MAX, &code, &size) < 0)
        return 0;
    return elf_machine(file) == EM_AARCH64 ? arm_stubs(p, s, code, size, section->vaddr)
                                           : x86_stubs(p, s, code, size, section->vaddr, !strcmp(name, ".plt.got"));
}

/* Replaces symbol indexes by offsets of names; stubs of symbols without a name are dropped. */
static void name_stubs(struct plt *p, const struct elf_file *file, const struct elf_section *symbols)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        Elf64_Sym symbol;
        uint64_t offset = (uint64_t)p->stubs[i].name * sizeof(symbol);
        if (offset > symbols->size_bytes - sizeof(symbol) ||
            elf_read(file, symbols->offset + offset, &symbol, sizeof(symbol)) < 0 || !symbol.st_name)
            continue;
        p->stubs[kept] = p->stubs[i];
        p->stubs[kept++].name = symbol.st_name;
    }
    p->count = kept;
}

int plt_read(const struct elf_file *file, struct plt **ret)
{
    static const char *const sections[] = {".plt", ".plt.sec", ".plt.got"};
    const struct elf_section *symbols = elf_section(file, ".dynsym");
    if (!symbols || symbols->entry_bytes != sizeof(Elf64_Sym) || symbols->size_bytes < sizeof(Elf64_Sym))
        return -ENOENT;
    _cleanup_(plt_freep) struct plt *p = calloc(1, sizeof(*p));
    _cleanup_(slots_clear) struct slots s = {0};
    if (!p)
        return -ENOMEM;
    int r = read_relocations(file, elf_section(file, ".rela.plt"), true, &s);
    if (r == 0 && elf_section(file, ".plt.got"))
        r = read_relocations(file, elf_section(file, ".rela.dyn"), false, &s);
    if (r < 0)
        return r;
    if (s.count)
        qsort(s.slots, s.count, sizeof(*s.slots), compare_slots);
    for (size_t i = 0; i < array_size(sections) && r == 0; i++)
        r = read_section(file, sections[i], &s, p);
    if (r < 0)
        return r;
    name_stubs(p, file, symbols);
    if (!p->count)
        return -ENOENT;
    *ret = take_ptr(p);
    return 0;
}
