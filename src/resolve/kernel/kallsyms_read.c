/* Builds the packed table (kallsyms.h) from the text of /proc/kallsyms. Symbols are first collected, 16 bytes each,
 * because modules are not in address order; then sorted, stripped of aliases, and packed. The text is not held in
 * memory. Most of the time (about 0.1 s) is spent in the kernel generating it, so it is read once, in large pieces. */
#include "resolve/kernel/kallsyms.h"

#include "base/buf.h"
#include "resolve/kernel/kallsyms_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES     (64 << 10)
#define SYMBOLS_MAX    (1u << 20)
#define NAME_BYTES_MAX (64u << 20)
#define REGIONS_MAX    4096
#define MODULES_MAX    (4u << 20) /* bytes of /proc/modules */
#define IS_PADDING     UINT32_MAX
#define PADDING_PREFIX "__pfx_"

struct raw_symbol {
    uint64_t address;
    uint32_t name; /* offset in collection.names, or IS_PADDING */
    uint16_t region;
    uint8_t rank; /* among aliases, the lowest rank wins */
};

struct collection {
    struct raw_symbol *symbols;
    size_t count, capacity;
    char *names; /* NUL-terminated, end to end */
    size_t name_bytes, name_capacity;
    struct kallsyms_region *regions;
    uint32_t region_count, region_capacity;
    uint64_t text_end, init_start, init_end; /* _etext, _sinittext, _einittext */
    bool any_code;                           /* code symbols were seen, possibly with address 0 */
};

static void collection_clear(struct collection *c)
{
    free(c->symbols);
    free(c->names);
    for (uint32_t i = 0; i < c->region_count; i++)
        free(c->regions[i].name);
    free(c->regions);
}

/* Ensures capacity for `needed` elements, doubling. -E2BIG: more than `max`; -ENOMEM. */
static int reserve(void *array_p, size_t *capacity, size_t needed, size_t element_bytes, size_t max)
{
    void **array = array_p;
    if (needed <= *capacity)
        return 0;
    if (needed > max)
        return -E2BIG;
    size_t more = *capacity ? *capacity * 2 : 1024;
    while (more < needed)
        more *= 2;
    void *grown = realloc(*array, more * element_bytes);
    if (!grown)
        return -ENOMEM;
    *array = grown;
    *capacity = more;
    return 0;
}

/* The index of the region with this name; added if new. Symbols of a module are consecutive, so the last region is
 * tried first. */
static int find_or_add_region(struct collection *c, const char *name, size_t size)
{
    for (uint32_t i = c->region_count; i-- > 0;)
        if (strlen(c->regions[i].name) == size && !memcmp(c->regions[i].name, name, size))
            return i;
    if (c->region_count == REGIONS_MAX)
        return -E2BIG;
    if (c->region_count == c->region_capacity) {
        uint32_t capacity = c->region_capacity ? c->region_capacity * 2 : 64;
        struct kallsyms_region *grown = realloc(c->regions, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        c->regions = grown;
        c->region_capacity = capacity;
    }
    char *copy = strndup(name, size);
    if (!copy)
        return -ENOMEM;
    c->regions[c->region_count] = (struct kallsyms_region){.name = copy};
    return c->region_count++;
}

/* Rank of an alias: global before local before weak, then the fewest leading underscores, which is most likely the name
 * in the source. */
static uint8_t alias_rank(char type, const char *name)
{
    uint8_t underscores = 0;
    while (underscores < 15 && name[underscores] == '_')
        underscores++;
    return (type == 'T' ? 0 : type == 't' ? 16 : 32) + underscores;
}

static int add_symbol(struct collection *c, uint64_t address, char type, const char *name, size_t size, int region)
{
    bool is_padding = size > strlen(PADDING_PREFIX) && !memcmp(name, PADDING_PREFIX, strlen(PADDING_PREFIX));
    int r = reserve(&c->symbols, &c->capacity, c->count + 1, sizeof(*c->symbols), SYMBOLS_MAX);
    if (r < 0)
        return r;
    uint32_t at = IS_PADDING;
    if (!is_padding) {
        r = reserve(&c->names, &c->name_capacity, c->name_bytes + size + 1, 1, NAME_BYTES_MAX);
        if (r < 0)
            return r;
        at = c->name_bytes;
        memcpy(c->names + at, name, size);
        c->names[at + size] = '\0';
        c->name_bytes += size + 1;
    }
    c->symbols[c->count++] =
        (struct raw_symbol){.address = address, .name = at, .region = region, .rank = alias_rank(type, name)};
    return 0;
}

static void note_boundary(struct collection *c, const char *name, size_t size, uint64_t address)
{
    if (size == 6 && !memcmp(name, "_etext", 6))
        c->text_end = address;
    else if (size == 10 && !memcmp(name, "_sinittext", 10))
        c->init_start = address;
    else if (size == 10 && !memcmp(name, "_einittext", 10))
        c->init_end = address;
}

/* Quick test for data symbols, half of all lines, by the column of the type when the address has its 16 digits. Names
 * with a leading underscore may be boundaries (_etext), and are parsed completely. */
static bool is_data_line(const char *line, const char *end)
{
    if (end - line < 20 || line[16] != ' ' || line[18] != ' ')
        return false;
    char type = line[17] | 0x20; /* letter in lower case */
    return type != 't' && type != 'w' && line[19] != '_';
}

/* Parses "ffffffff81000000 T _stext" or "ffffffffc0201000 t name\t[module]"; other lines are ignored. `line` ends in a
 * newline, which may be overwritten. */
static int parse_kallsyms_line(struct collection *c, char *line, char *end)
{
    *end = '\0';
    if (is_data_line(line, end))
        return 0;
    char *at = line;
    uint64_t address = 0;
    for (; at < end; at++) {
        unsigned digit = *at >= '0' && *at <= '9' ? *at - '0' : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10 : 16;
        if (digit == 16)
            break;
        address = address << 4 | digit;
    }
    if (at == line || at - line > 16 || end - at < 4 || at[0] != ' ' || at[2] != ' ')
        return 0;
    char type = at[1];
    char *name = at + 3;
    char *name_end = memchr(name, '\t', end - name);
    if (!name_end) {
        name_end = end;
        note_boundary(c, name, name_end - name, address);
    }
    size_t size = name_end - name;
    if ((type != 'T' && type != 't' && type != 'W' && type != 'w') || !size || *name == '$')
        return 0; /* data, or arm64's mapping symbols */
    c->any_code = true;
    if (!address)
        return 0;
    int region = 0;
    if (name_end != end) {
        char *module = name_end + 1, *module_end = memchr(module, ']', end - module);
        if (*module != '[' || !module_end)
            return 0;
        region = find_or_add_region(c, module + 1, module_end - module - 1);
        if (region < 0)
            return region;
    }
    if (size >= KALLSYMS_NAME_MAX)
        size = KALLSYMS_NAME_MAX - 1;
    return add_symbol(c, address, type, name, size, region);
}

/* Calls parse_kallsyms_line for every whole line of the descriptor, from its start. */
static int read_all_lines(struct collection *c, int fd)
{
    _cleanup_free_ char *piece = malloc(READ_BYTES);
    if (!piece)
        return -ENOMEM;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    size_t held = 0;
    for (;;) {
        ssize_t n = read(fd, piece + held, READ_BYTES - held);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        held += n;
        char *line = piece, *newline;
        while ((newline = memchr(line, '\n', piece + held - line))) {
            int r = parse_kallsyms_line(c, line, newline);
            if (r < 0)
                return r;
            line = newline + 1;
        }
        held -= line - piece;
        if (held == READ_BYTES)
            held = 0; /* the kernel writes no lines of this length */
        memmove(piece, line, held);
    }
}

/* Sets the end addresses of modules from /proc/modules: "name 16384 0 - Live 0xffffffffc0201000". */
static void bound_modules(struct collection *c, int fd)
{
    _cleanup_buf_ struct buf text = {0};
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0 || buf_read_fd(&text, fd, MODULES_MAX) < 0 || !text.data)
        return;
    char *rest = text.data, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *address_text = strstr(line, " 0x"), *space = strchr(line, ' ');
        if (!address_text || !space)
            continue;
        uint64_t start = strtoull(address_text + 3, NULL, 16), size = strtoull(space + 1, NULL, 10);
        if (!start || size > UINT64_MAX - start)
            continue;
        for (uint32_t i = 1; i < c->region_count; i++)
            if (strlen(c->regions[i].name) == (size_t)(space - line) && !memcmp(c->regions[i].name, line, space - line))
                c->regions[i].end = start + size;
    }
}

/* Keeps symbols of the kernel's text and of modules. Init sections were freed after boot. */
static void drop_init_and_data(struct collection *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct raw_symbol s = c->symbols[i];
        bool is_init = c->init_start <= s.address && s.address < c->init_end;
        bool is_outside = c->text_end && s.address >= c->text_end;
        if (s.region == 0 && (is_init || is_outside))
            continue;
        c->symbols[kept++] = s;
    }
    c->count = kept;
}

static int compare_symbols(const void *a_p, const void *b_p)
{
    const struct raw_symbol *a = a_p, *b = b_p;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    if (a->rank != b->rank)
        return (int)a->rank - b->rank;
    return a->name < b->name ? -1 : a->name > b->name;
}

/* Insertion sort: the kernel lists its own symbols by address, so only aliases are out of our order, and few moves
 * suffice. False: too many moves are needed, because modules are in any order. */
static bool sort_if_nearly_sorted(struct collection *c)
{
    size_t steps = 0;
    for (size_t i = 1; i < c->count; i++) {
        struct raw_symbol s = c->symbols[i];
        size_t at = i;
        for (; at > 0 && compare_symbols(&c->symbols[at - 1], &s) > 0 && steps < c->count; at--, steps++)
            c->symbols[at] = c->symbols[at - 1];
        c->symbols[at] = s;
        if (steps >= c->count)
            return false;
    }
    return true;
}

/* Sorts by address, and keeps the best-ranked alias of each address. */
static void sort_and_drop_aliases(struct collection *c)
{
    if (!sort_if_nearly_sorted(c))
        qsort(c->symbols, c->count, sizeof(*c->symbols), compare_symbols);
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (!kept || c->symbols[kept - 1].address != c->symbols[i].address)
            c->symbols[kept++] = c->symbols[i];
    c->count = kept;
}

/* Whether a block must end before symbol i, its n-th. Padding stays in the block of the function after it. */
static bool block_ends(const struct collection *c, size_t i, size_t first)
{
    const struct raw_symbol *s = &c->symbols[i], *base = &c->symbols[first];
    size_t n = i - first;
    return s->region != base->region || s->address - base->address > UINT32_MAX || n >= KALLSYMS_BLOCK ||
           (n == KALLSYMS_BLOCK - 1 && s->name == IS_PADDING);
}

/* Drops padding that is not directly followed by its function in the same region: it has no name. */
static void drop_lone_padding(struct collection *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct raw_symbol *s = &c->symbols[i];
        bool paired = i + 1 < c->count && s[1].region == s->region && s[1].name != IS_PADDING &&
                      s[1].address - s->address <= UINT32_MAX;
        if (s->name != IS_PADDING || paired)
            c->symbols[kept++] = *s;
    }
    c->count = kept;
}

static void put_name(struct kallsyms *k, const char *name)
{
    size_t size = strlen(name);
    uint8_t *at = k->names + k->name_bytes;
    if (size >= KALLSYMS_LONG_NAME) {
        *at++ = KALLSYMS_LONG_NAME;
        *at++ = size & 0xff;
        *at++ = size >> 8;
    } else {
        *at++ = size;
    }
    memcpy(at, name, size);
    k->name_bytes = at + size - k->names;
}

static int pack_symbols(struct collection *c, struct kallsyms *k)
{
    size_t blocks = 0, name_bytes = 0;
    for (size_t i = 0, first = 0; i < c->count; i++) {
        if (i == 0 || block_ends(c, i, first)) {
            first = i;
            blocks++;
        }
        size_t size = c->symbols[i].name == IS_PADDING ? 0 : strlen(c->names + c->symbols[i].name);
        name_bytes += size + (size >= KALLSYMS_LONG_NAME ? 3 : 1);
    }
    k->blocks = calloc(blocks, sizeof(*k->blocks));
    k->deltas = calloc(c->count, sizeof(*k->deltas));
    k->names = malloc(name_bytes);
    if (!k->blocks || !k->deltas || !k->names)
        return -ENOMEM;
    struct kallsyms_block *b = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct raw_symbol *s = &c->symbols[i];
        if (!b || block_ends(c, i, b->first)) {
            b = &k->blocks[k->block_count++];
            *b = (struct kallsyms_block){.base = s->address, .first = i, .names = k->name_bytes, .region = s->region};
        }
        k->deltas[i] = s->address - b->base;
        b->count++;
        put_name(k, s->name == IS_PADDING ? "" : c->names + s->name);
    }
    k->count = c->count;
    return 0;
}

/* Sets the bounds of the kernel's text. Without _etext, it ends with the page of its last symbol. */
static void bound_core(struct collection *c, struct kallsyms *k)
{
    k->core_start = UINT64_MAX;
    uint64_t last = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (c->symbols[i].region)
            continue;
        if (k->core_start == UINT64_MAX)
            k->core_start = c->symbols[i].address;
        last = c->symbols[i].address;
    }
    c->regions[0].end = c->text_end ? c->text_end : last ? (last | (KALLSYMS_PAGE - 1)) + 1 : 0;
}

int kallsyms_read(int fd, int modules_fd, struct kallsyms **ret)
{
    _cleanup_(collection_clear) struct collection c = {0};
    int r = find_or_add_region(&c, "", 0);
    if (r < 0)
        return r;
    r = read_all_lines(&c, fd);
    if (r < 0)
        return r;
    if (!c.count)
        return c.any_code ? -EPERM : -ENOENT;
    bound_modules(&c, modules_fd);
    drop_init_and_data(&c);
    sort_and_drop_aliases(&c);
    drop_lone_padding(&c);
    if (!c.count)
        return -ENOENT;
    _cleanup_(kallsyms_freep) struct kallsyms *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    bound_core(&c, k);
    r = pack_symbols(&c, k);
    if (r < 0)
        return r;
    k->regions = take_ptr(c.regions);
    k->region_count = c.region_count;
    c.region_count = 0;
    *ret = take_ptr(k);
    return 0;
}

int kallsyms_check(int fd)
{
    char head[4096];
    struct collection c = {0};
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    ssize_t n = read(fd, head, sizeof(head));
    if (n < 0)
        return -errno;
    char *line = head, *newline;
    int r = find_or_add_region(&c, "", 0);
    while (r >= 0 && (newline = memchr(line, '\n', head + n - line))) {
        r = parse_kallsyms_line(&c, line, newline);
        line = newline + 1;
    }
    if (r >= 0)
        r = c.any_code && !c.count ? -EPERM : 0;
    collection_clear(&c);
    return r;
}
