/* The section begins with 32 bytes (a magic string, the pointer size, flags), followed since Go 1.18 by the
 * length-prefixed version (Go's src/debug/buildinfo). The field offsets come from the debug information of programs
 * built with each version; all patch releases examined agree. The thread's variable is the last of the program's TLS
 * block where Go's own linker places it, or where the block contains nothing else; otherwise its symbol locates it. */
#include "resolve/elf/go_labels.h"

#include "resolve/elf/go_waits.h"

#include "base/cleanup.h"
#include "base/cursor.h"
#include "resolve/elf/elf.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES  32
#define FLAGS_AT      15
#define FLAG_INLINE   2 /* the version string follows */
#define SYMBOLS_MAX   (1u << 20)
#define SYMBOLS_EACH  256 /* read at a time */
#define POINTER_BYTES 8
#define FIRST_MINOR   18
#define CREATOR_MINOR 21 /* since then g has the id of the goroutine that created it, */
#define CREATOR_AT    72 /* so many bytes before its labels */
static const char magic[] = "\xff Go buildinf:";
static const char thread_variable[] = "runtime.tlsg";

/* Go 1.18, 1.19 and so on. */
static const struct {
    uint16_t kind, g_m, g_labels, m_curg, g_sched, sched_bp, g_status;
} layouts[] = {
    {GO_LABELS_MAP, 0x30, 0x168, 0xc0, 0x38, 0x30, 0x90},  /* 1.18 */
    {GO_LABELS_MAP, 0x30, 0x168, 0xc0, 0x38, 0x30, 0x90},  /* 1.19 */
    {GO_LABELS_MAP, 0x30, 0x168, 0xc0, 0x38, 0x30, 0x90},  /* 1.20 */
    {GO_LABELS_MAP, 0x30, 0x158, 0xc0, 0x38, 0x30, 0x90},  /* 1.21 */
    {GO_LABELS_MAP, 0x30, 0x158, 0xc0, 0x38, 0x30, 0x90},  /* 1.22 */
    {GO_LABELS_MAP, 0x30, 0x160, 0xc0, 0x38, 0x30, 0x98},  /* 1.23 */
    {GO_LABELS_LIST, 0x30, 0x160, 0xc0, 0x38, 0x30, 0x98}, /* 1.24 */
    {GO_LABELS_LIST, 0x30, 0x158, 0xb8, 0x38, 0x28, 0x90}, /* 1.25 */
    {GO_LABELS_LIST, 0x30, 0x160, 0xb8, 0x38, 0x28, 0x90}, /* 1.26 */
};

/* False for a release candidate or a development version, whose fields may still have moved; "go1.26.1
 * X:boringcrypto" has the normal layout. */
static bool layout_of(const char *version, struct go_labels_layout *ret, struct go_stack_layout *ret_stacks)
{
    char *end;
    if (strncmp(version, "go1.", 4) != 0 || version[4] < '1' || version[4] > '9')
        return false;
    const unsigned long minor = strtoul(version + 4, &end, 10);
    if ((*end && *end != '.' && *end != ' ') || minor < FIRST_MINOR || minor - FIRST_MINOR >= array_size(layouts))
        return false;
    ret->kind = layouts[minor - FIRST_MINOR].kind;
    ret->g_m = layouts[minor - FIRST_MINOR].g_m;
    ret->g_labels = layouts[minor - FIRST_MINOR].g_labels;
    ret->m_curg = layouts[minor - FIRST_MINOR].m_curg;
    ret->g_status = go_waits_set((unsigned)minor, ret->waits) ? layouts[minor - FIRST_MINOR].g_status : 0;
    ret->g_sched = layouts[minor - FIRST_MINOR].g_sched;
    ret->g_creator = minor < CREATOR_MINOR ? 0 : ret->g_labels - CREATOR_AT;
    *ret_stacks = (struct go_stack_layout){.g_m = ret->g_m,
                                           .m_curg = ret->m_curg,
                                           .g_sched = layouts[minor - FIRST_MINOR].g_sched,
                                           .sched_bp = layouts[minor - FIRST_MINOR].sched_bp};
    return true;
}

/* `ret` is "" where there is no version to read. */
static int read_version(const struct elf_file *f, const struct elf_section *s, char *ret, size_t size)
{
    uint8_t bytes[HEADER_BYTES + 2 + 64] = {0};
    const size_t there = s->size_bytes < sizeof(bytes) ? s->size_bytes : sizeof(bytes);
    int r = elf_read(f, s->offset, bytes, there);
    if (r < 0)
        return r;
    struct cursor c = cursor_make(bytes, there);
    const void *head = cursor_bytes(&c, HEADER_BYTES);
    if (!head || memcmp(bytes, magic, sizeof(magic) - 1) != 0)
        return -ENOENT;
    const uint64_t length = cursor_uleb128(&c);
    const size_t bytes_left = cursor_left(&c), count = length < bytes_left ? length : bytes_left;
    ret[0] = '\0';
    if (!(bytes[FLAGS_AT] & FLAG_INLINE))
        return 0;
    const char *text = cursor_bytes(&c, count < size ? count : size - 1);
    if (text)
        memcpy(ret, text, count < size ? count : size - 1);
    ret[count < size ? count : size - 1] = '\0';
    return 0;
}

static bool is_variable(const struct elf_file *f, const struct elf_section *strings, const Elf64_Sym *symbol)
{
    char name[sizeof(thread_variable)];
    return ELF64_ST_TYPE(symbol->st_info) == STT_TLS && symbol->st_name < strings->size_bytes &&
           strings->size_bytes - symbol->st_name >= sizeof(name) &&
           elf_read(f, strings->offset + symbol->st_name, name, sizeof(name)) == 0 &&
           memcmp(name, thread_variable, sizeof(name)) == 0;
}

/* The variable's offset in the TLS block. */
static int find_symbol(const struct elf_file *f, uint64_t *ret)
{
    const struct elf_section *symbols = elf_section(f, ".symtab"), *strings = elf_section(f, ".strtab");
    uint64_t left = symbols && strings ? symbols->size_bytes / sizeof(Elf64_Sym) : 0;
    if (left > SYMBOLS_MAX)
        left = SYMBOLS_MAX;
    Elf64_Sym some[SYMBOLS_EACH];
    for (uint64_t at = 0; at < left; at += SYMBOLS_EACH) {
        const size_t n = left - at < SYMBOLS_EACH ? left - at : SYMBOLS_EACH;
        int r = elf_read(f, symbols->offset + at * sizeof(*some), some, n * sizeof(*some));
        if (r < 0)
            return r;
        for (size_t i = 0; i < n; i++)
            if (is_variable(f, strings, &some[i])) {
                *ret = some[i].st_value;
                return 0;
            }
    }
    return -ENOENT;
}

/* For a program: its TLS block ends at the thread pointer. */
static int find_thread_g(const struct elf_file *f, int64_t *ret)
{
    uint64_t block_bytes = 0, place = 0;
    if (elf_type(f) == ET_DYN && !elf_section(f, ".interp"))
        return -ENOENT; /* a library, or a program that looks like one */
    int r = elf_tls_block_bytes(f, &block_bytes);
    if (r == 0 && block_bytes > POINTER_BYTES)
        r = find_symbol(f, &place);
    else if (r == -ENOENT) { /* Go's linker writes no PT_TLS header for its one variable */
        block_bytes = POINTER_BYTES;
        r = 0;
    }
    if (r < 0)
        return r;
    if (place >= block_bytes)
        return -ENOENT;
    *ret = (int64_t)(place - block_bytes);
    return 0;
}

int go_labels_read(const struct elf_file *f, struct go_labels_file *ret)
{
    struct go_labels_file found = {.layout.kind = GO_LABELS_UNKNOWN};
    const struct elf_section *info = elf_section(f, ".go.buildinfo");
    if (!info || info->type != SHT_PROGBITS)
        return -ENOENT;
    int r = read_version(f, info, found.version, sizeof(found.version));
    if (r < 0)
        return r;
    struct go_labels_layout layout = {0};
    struct go_stack_layout stacks = {0};
    int64_t thread_g;
    if (elf_machine(f) == EM_X86_64 && layout_of(found.version, &layout, &stacks)) {
        r = find_thread_g(f, &thread_g);
        if (r < 0 && r != -ENOENT && r != -ENOEXEC)
            return r;
        layout.thread_g = stacks.thread_g = thread_g;
        if (r == 0) {
            found.layout = layout;
            found.stacks = stacks;
        }
    }
    *ret = found;
    return 0;
}
