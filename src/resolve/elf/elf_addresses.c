/* Two passes in windows: the first one over the names finds where the wanted ones begin, the second one over the
 * symbols finds those whose names begin there. Linkers let a symbol share the end of a longer symbol's name. */
#include "resolve/elf/elf_addresses.h"

#include "base/cleanup.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES 49152 /* whole symbols */
#define NAME_BYTES   64    /* a wanted name has fewer */
#define WANTED_MAX   16
#define PLACES_MAX   4096 /* ends of longer names that are equal to a wanted one, too */

_Static_assert(WINDOW_BYTES % sizeof(Elf64_Sym) == 0, "windows end between symbols");

/* Where a name begins in the string table. */
struct place {
    uint32_t at;
    uint8_t name; /* number of a wanted name */
};

struct wanted {
    const char *name;
    size_t length;
    uint64_t last, mask; /* the last eight characters, or fewer */
};

struct search {
    struct wanted wanted[WANTED_MAX];
    size_t count;
    bool is_last[256]; /* characters that a wanted name ends with */
    struct place places[PLACES_MAX];
    size_t place_count;
    char window[NAME_BYTES + WINDOW_BYTES]; /* in front, the last bytes of the one before */
};

static void add_wanted(struct search *s, const char *name)
{
    struct wanted w = {.name = name, .length = strlen(name)};
    const size_t bytes = w.length < sizeof(w.last) ? w.length : sizeof(w.last);
    assert(w.length > 0 && w.length < NAME_BYTES && s->count < WANTED_MAX);
    memcpy((char *)&w.last + sizeof(w.last) - bytes, name + w.length - bytes, bytes);
    memset((char *)&w.mask + sizeof(w.mask) - bytes, 0xff, bytes);
    s->is_last[(unsigned char)name[w.length - 1]] = true;
    s->wanted[s->count++] = w;
}

static void note_place(struct search *s, uint64_t at, size_t name)
{
    if (s->place_count < PLACES_MAX && at <= UINT32_MAX)
        s->places[s->place_count++] = (struct place){(uint32_t)at, (uint8_t)name};
}

/* `end`: the NUL of a name, at `offset` of the table. NAME_BYTES in front of it can be read. */
static void note_wanted_ends(struct search *s, const char *end, uint64_t offset)
{
    uint64_t last;
    memcpy(&last, end - sizeof(last), sizeof(last));
    for (size_t n = 0; n < s->count; n++) {
        const struct wanted *w = &s->wanted[n];
        if ((last & w->mask) == w->last && w->length <= offset && memcmp(end - w->length, w->name, w->length) == 0)
            note_place(s, offset - w->length, n);
    }
}

static int find_places(const struct elf_file *f, const struct elf_section *strings, struct search *s)
{
    char *const begin = s->window + NAME_BYTES;
    memset(s->window, 0, NAME_BYTES);
    for (uint64_t done = 0; done < strings->size_bytes; done += WINDOW_BYTES) {
        const uint64_t left = strings->size_bytes - done;
        const size_t size = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        if (elf_read(f, strings->offset + done, begin, size) < 0)
            return -ENOEXEC;
        for (size_t i = 0; i < size; i++) /* a made table may have names of one byte: no call for each */
            if (begin[i] == '\0' && s->is_last[(unsigned char)begin[(ptrdiff_t)i - 1]])
                note_wanted_ends(s, begin + i, done + i);
        memcpy(s->window, begin + WINDOW_BYTES - NAME_BYTES, NAME_BYTES);
    }
    return 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void take_symbols(const struct search *s, const Elf64_Sym *symbols, size_t count, unsigned type,
                         uint64_t *addresses)
{
    for (size_t i = 0; i < count; i++) {
        if (ELF64_ST_TYPE(symbols[i].st_info) != type || symbols[i].st_shndx == SHN_UNDEF)
            continue;
        const struct place key = {.at = symbols[i].st_name},
                           *found = bsearch(&key, s->places, s->place_count, sizeof(key), compare_places);
        if (found)
            addresses[found->name] = symbols[i].st_value;
    }
}

static int find_symbols(const struct elf_file *f, const struct elf_section *symbols, struct search *s, unsigned type,
                        uint64_t *addresses)
{
    for (uint64_t done = 0; done < symbols->size_bytes; done += WINDOW_BYTES) {
        Elf64_Sym window[WINDOW_BYTES / sizeof(Elf64_Sym)];
        const uint64_t left = symbols->size_bytes - done;
        const size_t size = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        if (elf_read(f, symbols->offset + done, window, size) < 0)
            return -ENOEXEC;
        take_symbols(s, window, size / sizeof(*window), type, addresses);
    }
    return 0;
}

static int check_section(const struct elf_section *s, uint64_t max_bytes)
{
    if (s->type == SHT_NOBITS || s->flags & SHF_COMPRESSED)
        return -ENOEXEC;
    return s->size_bytes > max_bytes ? -EFBIG : 0;
}

int elf_addresses_find(const struct elf_file *f, const char *table, uint64_t max_bytes, unsigned type,
                       const char *const *names, size_t count, uint64_t *addresses)
{
    const struct elf_section *sections, *symbols = elf_section(f, table);
    const size_t section_count = elf_sections(f, &sections);
    if (!symbols || symbols->link >= section_count)
        return -ENOENT;
    int r = check_section(symbols, max_bytes) ?: check_section(&sections[symbols->link], max_bytes);
    if (r < 0)
        return r;
    _cleanup_free_ struct search *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    for (size_t n = 0; n < count; n++)
        add_wanted(s, names[n]);
    r = find_places(f, &sections[symbols->link], s);
    if (r < 0 || s->place_count == 0)
        return r;
    qsort(s->places, s->place_count, sizeof(*s->places), compare_places);
    return find_symbols(f, symbols, s, type, addresses);
}
