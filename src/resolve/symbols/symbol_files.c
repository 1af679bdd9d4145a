/* The sources of one object's names; see symbol_files.h. */
#include "resolve/symbols/symbol_files.h"

#include "resolve/elf/debug_files.h"
#include "resolve/elf/frame_table.h"
#include "resolve/symbols/go_table.h"
#include "resolve/symbols/plt.h"
#include "resolve/symbols/unpacker.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PIECE_BYTES (64u << 10)
#define PACKED_MAX  (16u << 20) /* of .gnu_debugdata */
#define RANK_BYTES  80          /* length of names compared to break ties */

enum source_kind { SOURCE_TABLE, SOURCE_PLT, SOURCE_GO };

struct source {
    enum source_kind kind;
    const struct elf_file *file;
    struct elf_section symbols, strings;
    uint32_t first, count; /* numbers of its functions */
};

struct symbol_files {
    struct elf_file *main, *debug, *mini; /* mini: .gnu_debugdata */
    struct plt *plt;
    struct go_table go;
    struct frame_table frames; /* of `main`; count 0: none */
    size_t mini_bytes;
    struct source sources[SYMBOL_SOURCES_MAX];
    size_t source_count;
};

void symbol_files_free(struct symbol_files *f)
{
    if (!f)
        return;
    plt_free(f->plt);
    elf_file_free(f->main);
    elf_file_free(f->debug);
    elf_file_free(f->mini);
    free(f);
}

/* `count` is cut to SYMBOL_NUMBER_MAX. */
static void add_source(struct symbol_files *f, struct source s, uint64_t count)
{
    const struct source *last = f->source_count ? &f->sources[f->source_count - 1] : NULL;
    s.first = last ? last->first + last->count : 0;
    s.count = (uint32_t)(count < SYMBOL_NUMBER_MAX ? count : SYMBOL_NUMBER_MAX);
    f->sources[f->source_count++] = s;
}

/* Adds the table `name` of a file; true when it exists and is well-formed. */
static bool add_table(struct symbol_files *f, const struct elf_file *file, const char *name)
{
    const struct elf_section *symbols = elf_section(file, name), *sections;
    size_t count = elf_sections(file, &sections);
    if (!symbols || symbols->type == SHT_NOBITS || symbols->entry_bytes != sizeof(Elf64_Sym) ||
        (symbols->flags & SHF_COMPRESSED) || symbols->link >= count || f->source_count == SYMBOL_SOURCES_MAX)
        return false;
    const struct elf_section *strings = &sections[symbols->link];
    if (strings->type != SHT_STRTAB || (strings->flags & SHF_COMPRESSED) || symbols->size_bytes < 2 * sizeof(Elf64_Sym))
        return false;
    add_source(f, (struct source){.kind = SOURCE_TABLE, .file = file, .symbols = *symbols, .strings = *strings},
               symbols->size_bytes / sizeof(Elf64_Sym));
    return true;
}

/* PLT stubs are named by the object's own .dynsym. */
static void add_plt(struct symbol_files *f)
{
    const struct elf_section *symbols = elf_section(f->main, ".dynsym"), *sections;
    size_t count = elf_sections(f->main, &sections);
    if (!symbols || symbols->link >= count || f->source_count == SYMBOL_SOURCES_MAX || plt_read(f->main, &f->plt) < 0)
        return;
    const struct plt_stub *stubs;
    add_source(
        f,
        (struct source){.kind = SOURCE_PLT, .file = f->main, .symbols = *symbols, .strings = sections[symbols->link]},
        plt_stubs(f->plt, &stubs));
}

/* Names of Go functions, used when there is no .symtab. */
static void add_go(struct symbol_files *f)
{
    if (f->source_count == SYMBOL_SOURCES_MAX || go_table_find(f->main, &f->go) < 0)
        return;
    add_source(f,
               (struct source){.kind = SOURCE_GO,
                               .file = f->main,
                               .strings = {.type = SHT_STRTAB, .offset = f->go.offset, .size_bytes = f->go.size}},
               f->go.count);
}

/* Opens the small ELF file in .gnu_debugdata. -EAGAIN: it cannot be unpacked at present; 0: also without one. */
static int open_mini(struct symbol_files *f, struct name_process *unpacker)
{
    const struct elf_section *section = elf_section(f->main, ".gnu_debugdata");
    _cleanup_free_ void *packed = NULL;
    _cleanup_free_ uint8_t *data = NULL;
    size_t packed_size, size;
    if (!section || elf_section_data(f->main, section, PACKED_MAX, &packed, &packed_size) < 0)
        return 0;
    const int r = unpacker_unpack(unpacker, packed, packed_size, &data, &size);
    if (r < 0)
        return r == -EAGAIN ? r : 0;
    if (elf_open_memory(data, size, &f->mini) < 0)
        return 0;
    take_ptr(data);
    f->mini_bytes = size;
    add_table(f, f->mini, ".symtab");
    return 0;
}

int symbol_files_open(int fd, const struct symbol_files_options *options, struct symbol_files **ret)
{
    _cleanup_close_ int own = fd;
    _cleanup_(symbol_files_freep) struct symbol_files *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    int r = elf_open(fd, &f->main);
    if (r < 0)
        return r;
    take_fd(&own);
    bool has_all = add_table(f, f->main, ".symtab");
    if (!has_all) {
        struct debug_search search = {.path = options->path,
                                      .build_id = options->build_id,
                                      .root = options->debug_root,
                                      .open_in_own_root = options->open_in_own_root,
                                      .open_in_process_root = options->open_in_process_root,
                                      .context = options->context};
        r = debug_files_find(f->main, &search, &f->debug);
        if (r == -EAGAIN) /* otherwise the names would be missing permanently */
            return r;
        if (r == 0)
            has_all = add_table(f, f->debug, ".symtab");
        else if ((r = open_mini(f, options->unpacker)) < 0)
            return r;
    }
    add_table(f, f->main, ".dynsym");
    add_plt(f);
    (void)frame_table_open(f->main, &f->frames); /* an error of the file system: symbol_files_error */
    if (!has_all)
        add_go(f);
    r = symbol_files_error(f);
    if (r < 0)
        return r;
    *ret = take_ptr(f);
    return 0;
}

int symbol_files_error(const struct symbol_files *f)
{
    int r = elf_error(f->main);
    return r < 0 || !f->debug ? r : elf_error(f->debug);
}

bool symbol_files_function_between(const struct symbol_files *f, uint64_t start, uint64_t address)
{
    struct frame_table_entry last;
    return f->frames.count && frame_table_search(&f->frames, address, &last) == 0 && last.code > start;
}

size_t symbol_files_segments(const struct symbol_files *f, const struct elf_segment **ret)
{
    return elf_segments(f->main, ret);
}

int symbol_files_vaddr(const struct symbol_files *f, uint64_t offset, uint64_t *ret)
{
    const struct elf_segment *segments;
    size_t count = elf_segments(f->main, &segments);
    for (int executable = 1; executable >= 0; executable--)
        for (size_t i = 0; i < count; i++) {
            const struct elf_segment *s = &segments[i];
            if (s->executable != (bool)executable || offset < s->offset || offset - s->offset >= s->file_bytes)
                continue;
            *ret = s->vaddr + (offset - s->offset);
            return 0;
        }
    return -ENOENT;
}

/* Functions before untyped labels, then global before local before weak. */
static uint8_t rank_of(unsigned type, unsigned binding)
{
    return (type == STT_NOTYPE ? 4 : 0) + (binding == STB_LOCAL ? 1 : binding == STB_WEAK ? 2 : 0);
}

/* False: not a function of this object. */
static bool entry_from(const Elf64_Sym *s, const struct elf_section *sections, size_t section_count,
                       struct symbol_entry *ret)
{
    unsigned type = ELF64_ST_TYPE(s->st_info);
    if (!s->st_name || s->st_name >= SYMBOL_NAME_MAX || s->st_shndx == SHN_UNDEF || s->st_shndx >= section_count ||
        (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
        return false;
    const struct elf_section *section = &sections[s->st_shndx];
    uint64_t section_end = section->vaddr + section->size_bytes;
    if (!(section->flags & SHF_EXECINSTR) || s->st_value < section->vaddr || s->st_value >= section_end ||
        s->st_size > UINT64_MAX - s->st_value)
        return false;
    ret->start = s->st_value;
    ret->end = s->st_value + s->st_size;
    ret->section_end = section_end;
    ret->name = s->st_name;
    ret->rank = rank_of(type, ELF64_ST_BIND(s->st_info));
    return true;
}

/* Assembler labels that mark places for tools ("$x") or for the assembler (".L12"), not functions. */
static bool is_marker(const struct symbol_files *f, const struct symbol_entry *e)
{
    char name[4];
    return symbol_files_name(f, e->source, e->name, name, sizeof(name)) < 0 || !*name || *name == '$' ||
           !strncmp(name, ".L", 2);
}

/* Fills the function of an entry of a table. False: the entry is no function, or only a marker. */
static bool function_of(const struct symbol_files *f, uint8_t source, const Elf64_Sym *symbol,
                        const struct elf_section *sections, size_t section_count, struct symbol_entry *ret)
{
    *ret = (struct symbol_entry){.source = source};
    return entry_from(symbol, sections, section_count, ret) && !(ret->rank >= 4 && is_marker(f, ret));
}

static int scan_table(const struct symbol_files *f, uint8_t source, symbol_take *take, void *context)
{
    const struct source *s = &f->sources[source];
    const struct elf_section *sections;
    size_t section_count = elf_sections(s->file, &sections);
    _cleanup_free_ Elf64_Sym *piece = malloc(PIECE_BYTES);
    if (!piece)
        return -ENOMEM;
    for (uint64_t first = 0; first < s->count;) {
        size_t count = PIECE_BYTES / sizeof(*piece);
        if (count > s->count - first)
            count = s->count - first;
        if (elf_read(s->file, s->symbols.offset + first * sizeof(*piece), piece, count * sizeof(*piece)) < 0)
            return 0; /* truncated: the symbols before have been reported */
        for (size_t i = 0; i < count; i++) {
            struct symbol_entry e;
            if (!function_of(f, source, &piece[i], sections, section_count, &e))
                continue;
            e.number = s->first + (uint32_t)(first + i);
            int r = take(&e, context);
            if (r)
                return r;
        }
        first += count;
    }
    return 0;
}

/* The function with index `i` of a source, below its count; likewise plt_entry and go_entry. */
static int table_entry(const struct symbol_files *f, uint8_t source, uint32_t i, struct symbol_entry *ret)
{
    const struct source *s = &f->sources[source];
    const struct elf_section *sections;
    size_t section_count = elf_sections(s->file, &sections);
    Elf64_Sym symbol;
    return elf_read(s->file, s->symbols.offset + i * sizeof(symbol), &symbol, sizeof(symbol)) == 0 &&
                   function_of(f, source, &symbol, sections, section_count, ret)
               ? 0
               : -ENOENT;
}

static int plt_entry(const struct symbol_files *f, uint8_t source, uint32_t i, struct symbol_entry *ret)
{
    const struct plt_stub *stubs;
    if (i >= plt_stubs(f->plt, &stubs))
        return -ENOENT;
    *ret = (struct symbol_entry){.start = stubs[i].start,
                                 .end = stubs[i].start + stubs[i].size,
                                 .section_end = stubs[i].start + stubs[i].size,
                                 .name = stubs[i].name,
                                 .source = source,
                                 .rank = 3};
    return 0;
}

static int scan_plt(const struct symbol_files *f, uint8_t source, symbol_take *take, void *context)
{
    struct symbol_entry e;
    for (uint32_t i = 0; plt_entry(f, source, i, &e) == 0; i++) {
        e.number = f->sources[source].first + i;
        int r = take(&e, context);
        if (r)
            return r;
    }
    return 0;
}

/* False: an empty function. */
static bool go_function_entry(const struct go_function *function, uint8_t source, uint32_t i, struct symbol_entry *ret)
{
    *ret = (struct symbol_entry){.start = function->start,
                                 .end = function->end,
                                 .section_end = function->end,
                                 .name = i,
                                 .source = source,
                                 .rank = 1};
    return function->end > function->start;
}

static int go_entry(const struct symbol_files *f, uint8_t source, uint32_t i, struct symbol_entry *ret)
{
    struct go_function function;
    return go_table_functions(&f->go, i, &function, 1) == 1 && go_function_entry(&function, source, i, ret) ? 0
                                                                                                            : -ENOENT;
}

static int scan_go(const struct symbol_files *f, uint8_t source, symbol_take *take, void *context)
{
    struct go_function functions[256];
    size_t count;
    for (uint32_t first = 0; first < f->sources[source].count &&
                             (count = go_table_functions(&f->go, first, functions, array_size(functions)));
         first += count)
        for (size_t i = 0; i < count; i++) {
            struct symbol_entry e;
            if (!go_function_entry(&functions[i], source, first + (uint32_t)i, &e))
                continue;
            e.number = f->sources[source].first + first + (uint32_t)i;
            int r = take(&e, context);
            if (r)
                return r;
        }
    return 0;
}

int symbol_files_scan(const struct symbol_files *f, symbol_take *take, void *context)
{
    static int (*const scans[])(const struct symbol_files *, uint8_t, symbol_take *, void *) = {
        [SOURCE_TABLE] = scan_table,
        [SOURCE_PLT] = scan_plt,
        [SOURCE_GO] = scan_go,
    };
    for (uint8_t i = 0; i < f->source_count; i++) {
        int r = scans[f->sources[i].kind](f, i, take, context);
        if (r)
            return r;
    }
    return 0;
}

int symbol_files_entry(const struct symbol_files *f, uint32_t number, struct symbol_entry *ret)
{
    static int (*const readers[])(const struct symbol_files *, uint8_t, uint32_t, struct symbol_entry *) = {
        [SOURCE_TABLE] = table_entry,
        [SOURCE_PLT] = plt_entry,
        [SOURCE_GO] = go_entry,
    };
    uint8_t source = 0;
    while (source < f->source_count && number - f->sources[source].first >= f->sources[source].count)
        source++;
    if (source == f->source_count)
        return -ENOENT;
    const struct source *s = &f->sources[source];
    int r = readers[s->kind](f, source, number - s->first, ret);
    if (r == 0)
        ret->number = number;
    return r;
}

uint32_t symbol_files_count(const struct symbol_files *f)
{
    const struct source *last = f->source_count ? &f->sources[f->source_count - 1] : NULL;
    return last ? last->first + last->count : 0;
}

/* Reads up to size - 1 bytes of a string, within the section. */
static int read_string(const struct source *s, uint64_t name, char *ret, size_t size)
{
    if (name >= s->strings.size_bytes || !size)
        return -ENOENT;
    size_t wanted = size - 1;
    if (wanted > s->strings.size_bytes - name)
        wanted = s->strings.size_bytes - name;
    size_t got = 0;
    while (got < wanted) { /* most names are short: small reads first */
        size_t step = got ? got * 3 : 128;
        if (step > wanted - got)
            step = wanted - got;
        if (elf_read(s->file, s->strings.offset + name + got, ret + got, step) < 0)
            return -EIO;
        if (memchr(ret + got, '\0', step))
            return 0;
        got += step;
    }
    ret[got] = '\0';
    return 0;
}

int symbol_files_name(const struct symbol_files *f, uint8_t source, uint32_t name, char *ret, size_t size)
{
    if (source >= f->source_count)
        return -ENOENT;
    const struct source *s = &f->sources[source];
    int r;
    if (s->kind == SOURCE_GO) {
        uint64_t offset;
        r = go_table_name(&f->go, name, &offset);
        return r < 0 ? r : read_string(s, offset - f->go.offset, ret, size);
    }
    r = read_string(s, name, ret, size);
    if (r < 0)
        return r;
    char *version = strchr(ret, '@'); /* "memcpy@@GLIBC_2.14" */
    if (version && version != ret)
        *version = '\0';
    size_t used = strlen(ret);
    if (s->kind == SOURCE_PLT && used + sizeof("@plt") <= size)
        memcpy(ret + used, "@plt", sizeof("@plt"));
    return 0;
}

bool symbol_files_prefer(const struct symbol_files *f, const struct symbol_entry *a, const struct symbol_entry *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank;
    if (a->source != b->source) /* tables of one object repeat each other; no need to read the names */
        return a->source < b->source;
    if (a->name == b->name)
        return false;
    char x[RANK_BYTES] = "", y[RANK_BYTES] = "";
    (void)symbol_files_name(f, a->source, a->name, x, sizeof(x));
    (void)symbol_files_name(f, b->source, b->name, y, sizeof(y));
    size_t x_score = strspn(x, "_"), y_score = strspn(y, "_");
    if (x_score == y_score) {
        x_score = strlen(x);
        y_score = strlen(y);
    }
    if (x_score != y_score)
        return x_score < y_score;
    int order = strcmp(x, y);
    return order ? order < 0 : a->name < b->name;
}

size_t symbol_files_bytes(const struct symbol_files *f)
{
    return sizeof(*f) + f->mini_bytes + plt_bytes(f->plt);
}
