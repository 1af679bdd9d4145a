/* Go's function table; see go_table.h. A header (magic, pointer size, counts, offsets of the tables) is followed by
 * tables, among them the names, and pairs of (offset of the function in the text, offset of its record). The
 * record's second word is the name's offset. The text address is in the header up to Go 1.25 and in the module's
 * record since; in position-independent programs it is a relocation. */
#include "resolve/symbols/go_table.h"

#include "base/cleanup.h"
#include "base/cursor.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MAGIC_1_18        0xfffffff0u
#define MAGIC_1_20        0xfffffff1u
#define HEADER_BYTES      72
#define TEXT_START_AT     24  /* in the header */
#define MODULE_TEXT_AT    176 /* in the module's record: after the header's address, six slices and three addresses */
#define FLAGS_AT_1_18     37  /* after funcID; in 1.20 startLine was added before it */
#define FLAGS_AT_1_20     41
#define FUNCTIONS_MAX     (1u << 22)
#define RELOCATIONS_MAX   (1u << 22)
#define RELOCATIONS_PIECE 2048
#define SEARCH_PIECE      ((size_t)64 << 10)
#define SEARCH_MAX        (256ull << 20)
/* Magic of either version, two zeros, the instruction size quantum (masked out), the pointer size. */
#define HEAD_MASK 0xff00fffffffffffeull
#define HEAD      (MAGIC_1_18 | 8ull << 56)

/* The value that a relocation stores at `address`; 0: no relocation. */
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

/* The address stored at an offset of a section. */
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

static const struct elf_section *first_section(const struct elf_file *file, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct elf_section *s = elf_section(file, names[i]);
        if (s && s->type == SHT_PROGBITS)
            return s;
    }
    return NULL;
}

/* Parses the header at an offset of a section. -ENOENT: not a known format. `text` stays 0 where the module's record
 * has it. */
static int read_header(const struct elf_file *file, const struct elf_section *section, uint64_t at,
                       struct go_table *ret)
{
    uint8_t header[HEADER_BYTES];
    const uint64_t size = section->size_bytes - at;
    if (size < sizeof(header) || elf_read(file, section->offset + at, header, sizeof(header)) < 0)
        return -ENOENT;
    struct cursor c = cursor_make(header, sizeof(header));
    uint32_t magic = cursor_u32(&c);
    cursor_skip(&c, 3);
    uint8_t pointer_bytes = cursor_u8(&c);
    uint64_t count = cursor_u64(&c);
    cursor_skip(&c, 16); /* files, text */
    uint64_t names = cursor_u64(&c);
    uint64_t names_end = cursor_u64(&c); /* compilation units */
    cursor_skip(&c, 8);                  /* files */
    uint64_t changes = cursor_u64(&c);
    uint64_t functions = cursor_u64(&c);
    if ((magic != MAGIC_1_18 && magic != MAGIC_1_20) || pointer_bytes != 8 || !count || count > FUNCTIONS_MAX ||
        names >= size || functions >= size || (count + 1) * 8 > size - functions)
        return -ENOENT;
    *ret = (struct go_table){.file = file,
                             .offset = section->offset + at,
                             .size = size,
                             .names = names,
                             .names_end = names_end > names && names_end <= size ? names_end : names,
                             .changes = changes < functions ? changes : functions,
                             .functions = functions,
                             .text = address_in(file, section, at + TEXT_START_AT),
                             .count = count,
                             .flags_at = magic == MAGIC_1_20 ? FLAGS_AT_1_20 : FLAGS_AT_1_18};
    return 0;
}

/* The system linker places the table of a position-independent Go program before 1.26 among all its other data.
 * Searches for the first eight bytes of a header, which are aligned. */
static int search_header(const struct elf_file *file, const struct elf_section *section, struct go_table *ret)
{
    _cleanup_free_ uint64_t *piece = malloc(SEARCH_PIECE);
    const uint64_t end = section->size_bytes < SEARCH_MAX ? section->size_bytes : SEARCH_MAX;
    for (uint64_t at = 0; piece && at < end; at += SEARCH_PIECE) {
        const size_t size = end - at < SEARCH_PIECE ? (end - at) & ~7ull : SEARCH_PIECE;
        if (elf_read(file, section->offset + at, piece, size) < 0)
            return -ENOENT;
        for (size_t i = 0; i < size / 8; i++)
            if ((piece[i] & HEAD_MASK) == HEAD && read_header(file, section, at + i * 8, ret) == 0)
                return 0;
    }
    return -ENOENT;
}

const struct elf_section *go_table_section(const struct elf_file *file, bool *ret_is_searched)
{
    static const char *const tables[] = {".gopclntab", ".data.rel.ro.gopclntab"};
    static const char *const others[] = {".data.rel.ro"};
    const struct elf_section *section = first_section(file, tables, array_size(tables));
    *ret_is_searched = !section;
    if (!section && elf_section(file, ".go.buildinfo"))
        section = first_section(file, others, array_size(others));
    return section;
}

static int find_header(const struct elf_file *file, struct go_table *ret)
{
    bool is_searched;
    const struct elf_section *section = go_table_section(file, &is_searched);
    if (!section)
        return -ENOENT;
    return is_searched ? search_header(file, section, ret) : read_header(file, section, 0, ret);
}

int go_table_find(const struct elf_file *file, struct go_table *ret)
{
    static const char *const modules[] = {".go.module", ".data.rel.ro.go.module"};
    const struct elf_section *module = first_section(file, modules, array_size(modules));
    struct go_table table;
    if (find_header(file, &table) < 0)
        return -ENOENT;
    if (!table.text && module)
        table.text = address_in(file, module, MODULE_TEXT_AT);
    if (!table.text)
        return -ENOENT;
    *ret = table;
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
    if (function >= t->count || elf_read(t->file, t->offset + t->functions + function * 8ull + 4, bytes, 4) < 0)
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

/* Each name ends with a NUL. */
int go_table_find_name(const struct go_table *t, const char *name, uint64_t *ret_offset)
{
    const size_t wanted = strlen(name) + 1;
    _cleanup_free_ char *piece = malloc(SEARCH_PIECE);
    const uint64_t end = t->names_end - t->names < SEARCH_MAX ? t->names_end : t->names + SEARCH_MAX;
    uint64_t at = t->names;
    while (piece && at < end && end - at >= wanted) {
        const size_t size = end - at < SEARCH_PIECE ? end - at : SEARCH_PIECE;
        if (elf_read(t->file, t->offset + at, piece, size) < 0)
            return -ENOENT;
        for (const char *found = piece; (found = memmem(found, size - (size_t)(found - piece), name, wanted));
             found++) {
            if (found > piece ? found[-1] == '\0' : at == t->names) {
                *ret_offset = t->offset + at + (uint64_t)(found - piece);
                return 0;
            }
        }
        at += size > wanted ? size - wanted : size; /* a match, with the NUL before it, may cross the edge */
    }
    return -ENOENT;
}

/* --- all functions ----------------------------------------------------------------------------- */

#define WINDOW_BYTES ((size_t)64 << 10)

/* A window of the table. Records are in the order of their functions, so it moves forward and is seldom read again. */
struct window {
    uint64_t at; /* in the table */
    size_t size;
    uint8_t bytes[WINDOW_BYTES];
};

struct go_table_walk {
    const struct go_table *t;
    uint32_t next;
    uint64_t reads_left; /* bounds a table with scattered records, which no linker writes */
    struct window pairs, records;
};

int go_table_walk_new(const struct go_table *t, struct go_table_walk **ret)
{
    struct go_table_walk *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->t = t;
    w->reads_left = 2 * (t->size / WINDOW_BYTES) + 16;
    *ret = w;
    return 0;
}

void go_table_walk_free(struct go_table_walk *w)
{
    free(w);
}

/* Returns an empty cursor, whose reads fail, when the table does not have these bytes. */
static struct cursor table_bytes(struct go_table_walk *walk, struct window *w, uint64_t at, size_t size)
{
    const struct go_table *t = walk->t;
    if (at > t->size || size > t->size - at)
        return cursor_make(NULL, 0);
    if (at < w->at || at - w->at > w->size || size > w->size - (at - w->at)) {
        w->at = at;
        w->size = t->size - at < sizeof(w->bytes) ? t->size - at : sizeof(w->bytes);
        if (walk->reads_left == 0 || elf_read(t->file, t->offset + at, w->bytes, w->size) < 0)
            w->size = 0;
        walk->reads_left -= walk->reads_left > 0;
    }
    return w->size < size ? cursor_make(NULL, 0) : cursor_make(w->bytes + (at - w->at), size);
}

bool go_table_next(struct go_table_walk *w, struct go_function_record *ret)
{
    const struct go_table *t = w->t;
    while (w->next < t->count && w->reads_left > 0) {
        struct cursor pair = table_bytes(w, &w->pairs, t->functions + w->next++ * 8ull, 12);
        uint64_t start = t->text + cursor_u32(&pair), at = t->functions + cursor_u32(&pair);
        uint64_t end = t->text + cursor_u32(&pair);
        struct cursor record = table_bytes(w, &w->records, at, t->flags_at + 1u);
        cursor_skip(&record, 4);
        uint64_t name = t->names + cursor_u32(&record);
        cursor_skip(&record, 8); /* arguments, deferred returns */
        uint32_t depths = cursor_u32(&record);
        cursor_seek(&record, t->flags_at);
        uint8_t flags = cursor_u8(&record);
        if (pair.failed || record.failed || name >= t->size || start >= end)
            continue;
        *ret = (struct go_function_record){
            .start = start, .end = end, .name_offset = t->offset + name, .depths = depths, .flags = flags};
        return true;
    }
    return false;
}

bool go_depths_next(struct go_depths *d)
{
    const bool is_first = d->depth == -1 && d->at == 0;
    const uint64_t change = cursor_uleb128(&d->c);
    const uint64_t bytes = change || is_first ? cursor_uleb128(&d->c) : 0;
    if (d->c.failed || !bytes || bytes > UINT32_MAX || change > UINT32_MAX)
        return false;
    d->depth += change & 1 ? ~(int64_t)(change >> 1) : (int64_t)(change >> 1);
    d->at += bytes;
    return true;
}
