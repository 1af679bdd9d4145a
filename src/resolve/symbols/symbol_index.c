/* Finds the functions of addresses; see symbol_index.h.
 *
 * The sized symbol that covers an address and starts last names the address. If no symbol covers the address, a symbol
 * without a size names it, provided that it is the last to start before the address and lies inside no other symbol,
 * and that no function without a symbol begins in between: the symbols of a stripped library are far apart.
 * Of several symbols with the same start the preferred one wins (symbol_files_prefer). `struct search` decides this,
 * for any set of symbols in any order that contains those that matter: a scan passes all, an index a few. */
#include "resolve/symbols/symbol_index.h"

#include "base/packed.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define CENSUS_BUCKETS     4096
#define SYMBOLS_PER_BUCKET 4

/* --- which symbol names an address --- */

/* The last symbol that starts before some address, updated while symbols come in any order: it matters when it has
 * no size. */
struct predecessor {
    uint64_t before;
    bool any;
    uint64_t start;            /* start of the last one */
    bool is_label;             /* whether one of them has no size */
    struct symbol_entry label; /* that one, the preferred */
    uint64_t covered_to;       /* the greatest end of those with a size */
};

static void predecessor_note(struct predecessor *p, const struct symbol_files *files, const struct symbol_entry *e)
{
    if (e->start >= p->before)
        return;
    bool has_size = e->end > e->start;
    if (has_size && e->end > p->covered_to)
        p->covered_to = e->end;
    if (p->any && e->start < p->start)
        return;
    if (!p->any || e->start > p->start)
        p->is_label = false;
    p->any = true;
    p->start = e->start;
    if (!has_size && (!p->is_label || symbol_files_prefer(files, e, &p->label))) {
        p->label = *e;
        p->is_label = true;
    }
}

/* The label that still covers `address`, or NULL. */
static const struct symbol_entry *predecessor_label(const struct predecessor *p, uint64_t address)
{
    return p->is_label && p->covered_to <= p->start && address < p->label.section_end ? &p->label : NULL;
}

struct search {
    const struct symbol_files *files;
    uint64_t address;
    struct predecessor predecessor;
    struct symbol_entry best;
    bool found;
};

static struct search search_for(const struct symbol_files *files, uint64_t address)
{
    return (struct search){.files = files, .address = address, .predecessor.before = address + 1};
}

static int search_take(const struct symbol_entry *e, void *context)
{
    struct search *s = context;
    predecessor_note(&s->predecessor, s->files, e);
    if (e->start > s->address || e->end <= s->address)
        return 0;
    if (!s->found || e->start > s->best.start ||
        (e->start == s->best.start && symbol_files_prefer(s->files, e, &s->best))) {
        s->best = *e;
        s->found = true;
    }
    return 0;
}

static int search_result(const struct search *s, struct symbol_name *ret)
{
    const struct symbol_entry *e = s->found ? &s->best : predecessor_label(&s->predecessor, s->address);
    if (!e || (!s->found && symbol_files_function_between(s->files, e->start, s->address)))
        return -ENOENT;
    *ret = (struct symbol_name){.name = e->name, .source = e->source};
    return 0;
}

int symbol_index_scan(const struct symbol_files *files, uint64_t address, struct symbol_name *ret)
{
    struct search s = search_for(files, address);
    int r = address == UINT64_MAX ? -ENOENT : symbol_files_scan(files, search_take, &s);
    return r < 0 ? r : search_result(&s, ret);
}

/* --- the index --- */

/* A symbol in a bucket: twice its number, and whether it starts before the bucket and reaches into it. */
#define ENTRY_REACHES 1u
_Static_assert((uint64_t)SYMBOL_NUMBER_MAX *SYMBOL_SOURCES_MAX <= 1u << 31, "an entry has at most 32 bits");

struct symbol_index {
    uint64_t low, high;
    unsigned shift; /* a bucket covers 1 << shift bytes */
    size_t bucket_count, entry_count;
    struct packed firsts; /* the first entry of each bucket, and the end of the last */
    struct packed entries;
    struct symbol_entry label; /* names the code before the first symbol that starts in [low, high) */
    bool has_label;
};

struct build {
    const struct symbol_files *files;
    struct symbol_index *index;
    uint32_t *firsts; /* of the index, not packed yet */
    size_t entries_max;
    struct predecessor predecessor; /* of `low` */
};

/* The buckets of a symbol. False: it has no place in the index. */
static bool buckets_of(const struct symbol_index *x, const struct symbol_entry *e, size_t *ret_first, size_t *ret_last)
{
    const bool starts_inside = e->start >= x->low && e->start < x->high;
    const bool has_size = e->end > e->start;
    if (!starts_inside && !(e->start < x->low && has_size && e->end > x->low))
        return false;
    const uint64_t last = has_size ? (e->end < x->high ? e->end : x->high) - 1 : e->start;
    *ret_first = starts_inside ? (e->start - x->low) >> x->shift : 0;
    *ret_last = (last - x->low) >> x->shift;
    return true;
}

static int count_take(const struct symbol_entry *e, void *context)
{
    struct build *b = context;
    size_t first, last;
    predecessor_note(&b->predecessor, b->files, e);
    if (!buckets_of(b->index, e, &first, &last))
        return 0;
    if (last - first >= b->entries_max - b->index->entry_count)
        return -ENOSPC;
    b->index->entry_count += last - first + 1;
    for (size_t i = first; i <= last; i++)
        b->firsts[i]++;
    return 0;
}

/* `firsts` has the end of each bucket, and is lowered to its start. A file that changes between the two scans has
 * other symbols: they overwrite entries of other buckets, but nothing else. */
static int place_take(const struct symbol_entry *e, void *context)
{
    struct build *b = context;
    struct symbol_index *x = b->index;
    size_t first, last;
    if (!buckets_of(x, e, &first, &last))
        return 0;
    for (size_t i = first; i <= last; i++)
        if (b->firsts[i] > 0)
            packed_set(&x->entries, --b->firsts[i],
                       e->number << 1 | (i > first || e->start < x->low ? ENTRY_REACHES : 0));
    return 0;
}

/* So that a bucket has SYMBOLS_PER_BUCKET symbols if all code is equally dense; at most `max` buckets. */
static unsigned bucket_shift(const struct symbol_files *files, uint64_t bytes, size_t max)
{
    const struct elf_segment *segments;
    size_t count = symbol_files_segments(files, &segments);
    uint64_t code_bytes = 0;
    for (size_t i = 0; i < count; i++)
        code_bytes += segments[i].executable ? segments[i].file_bytes : 0;
    const uint64_t wanted = code_bytes / (symbol_files_count(files) / SYMBOLS_PER_BUCKET + 1);
    unsigned shift = 4;
    while (shift < 32 && ((2ull << shift) <= wanted || bytes >> shift >= max))
        shift++;
    return shift;
}

static int make_buckets(struct build *b, size_t max_bytes)
{
    struct symbol_index *x = b->index;
    x->shift = bucket_shift(b->files, x->high - x->low, max_bytes / 4 / sizeof(*b->firsts));
    x->bucket_count = ((x->high - x->low - 1) >> x->shift) + 1;
    b->firsts = calloc(x->bucket_count + 1, sizeof(*b->firsts));
    return b->firsts ? 0 : -ENOMEM;
}

/* Counts the symbols of each bucket, and allocates their entries. */
static int make_entries(struct build *b, size_t max_bytes)
{
    struct symbol_index *x = b->index;
    const uint32_t count = symbol_files_count(b->files);
    const unsigned bits = packed_bits(count ? count - 1 : 0) + 1;
    const size_t other_bytes = sizeof(*x) + (x->bucket_count + 1) * sizeof(*b->firsts);
    b->entries_max = max_bytes > other_bytes ? (max_bytes - other_bytes) * 8 / bits : 0;
    if (b->entries_max > UINT32_MAX)
        b->entries_max = UINT32_MAX;
    int r = symbol_files_scan(b->files, count_take, b);
    if (r < 0)
        return r;
    for (size_t i = 1; i <= x->bucket_count; i++)
        b->firsts[i] += b->firsts[i - 1];
    return packed_init(&x->entries, x->entry_count, bits);
}

static int place_entries(struct build *b)
{
    struct symbol_index *x = b->index;
    int r = symbol_files_scan(b->files, place_take, b);
    if (r == 0)
        r = packed_init(&x->firsts, x->bucket_count + 1, packed_bits((uint32_t)x->entry_count));
    for (size_t i = 0; r == 0 && i <= x->bucket_count; i++)
        packed_set(&x->firsts, i, b->firsts[i]);
    return r;
}

int symbol_index_build(const struct symbol_files *files, uint64_t low, uint64_t high, size_t max_bytes,
                       struct symbol_index **ret)
{
    if (high <= low || high - low >= UINT32_MAX)
        return -ENOSPC;
    _cleanup_(symbol_index_freep) struct symbol_index *x = calloc(1, sizeof(*x));
    if (!x)
        return -ENOMEM;
    x->low = low;
    x->high = high;
    struct build b = {.files = files, .index = x, .predecessor.before = low};
    int r = make_buckets(&b, max_bytes);
    if (r == 0)
        r = make_entries(&b, max_bytes);
    if (r == 0)
        r = place_entries(&b);
    free(b.firsts);
    if (r < 0)
        return r;
    const struct symbol_entry *label = predecessor_label(&b.predecessor, low);
    x->has_label = label != NULL;
    if (label)
        x->label = *label;
    *ret = take_ptr(x);
    return 0;
}

void symbol_index_free(struct symbol_index *x)
{
    if (!x)
        return;
    packed_clear(&x->firsts);
    packed_clear(&x->entries);
    free(x);
}

bool symbol_index_covers(const struct symbol_index *x, uint64_t address)
{
    return x->low <= address && address < x->high;
}

static void search_bucket(const struct symbol_index *x, size_t bucket, struct search *s)
{
    const uint32_t end = packed_get(&x->firsts, bucket + 1);
    for (uint32_t i = packed_get(&x->firsts, bucket); i < end; i++) {
        struct symbol_entry e;
        if (symbol_files_entry(s->files, packed_get(&x->entries, i) >> 1, &e) == 0)
            search_take(&e, s);
    }
}

static bool starts_in_bucket(const struct symbol_index *x, size_t bucket)
{
    const uint32_t end = packed_get(&x->firsts, bucket + 1);
    for (uint32_t i = packed_get(&x->firsts, bucket); i < end; i++)
        if (!(packed_get(&x->entries, i) & ENTRY_REACHES))
            return true;
    return false;
}

/* The last symbol that starts before the address's bucket, with all that reach beyond its start: they are in the same
 * bucket. */
static void search_before(const struct symbol_index *x, size_t bucket, struct search *s)
{
    while (bucket > 0 && !starts_in_bucket(x, bucket - 1))
        bucket--;
    if (bucket > 0)
        search_bucket(x, bucket - 1, s);
    else if (x->has_label)
        search_take(&x->label, s);
}

int symbol_index_find(const struct symbol_index *x, const struct symbol_files *files, uint64_t address,
                      struct symbol_name *ret)
{
    assert(symbol_index_covers(x, address)); /* otherwise the bucket is another address's, or none */
    struct search s = search_for(files, address);
    const size_t bucket = (address - x->low) >> x->shift;
    search_bucket(x, bucket, &s);
    const uint64_t bucket_start = x->low + ((uint64_t)bucket << x->shift);
    if (!s.found && !(s.predecessor.any && s.predecessor.start >= bucket_start))
        search_before(x, bucket, &s);
    return search_result(&s, ret);
}

size_t symbol_index_bytes(const struct symbol_index *x)
{
    return sizeof(*x) + packed_bytes(x->bucket_count + 1, x->firsts.bits) +
           packed_bytes(x->entry_count, x->entries.bits);
}

/* --- splitting an object that is too large for one index --- */

struct census {
    uint64_t low, width;
    uint32_t buckets[CENSUS_BUCKETS];
};

static int census_take(const struct symbol_entry *e, void *context)
{
    struct census *c = context;
    uint64_t bucket = e->start >= c->low ? (e->start - c->low) / c->width : CENSUS_BUCKETS;
    if (bucket < CENSUS_BUCKETS)
        c->buckets[bucket]++;
    return 0;
}

int symbol_index_divide(const struct symbol_files *files, uint64_t low, uint64_t high, size_t max_symbols,
                        uint64_t **ret_bounds, size_t *ret_count)
{
    _cleanup_free_ struct census *c = calloc(1, sizeof(*c));
    _cleanup_free_ uint64_t *bounds = calloc(CENSUS_BUCKETS + 1, sizeof(*bounds));
    if (!c || !bounds)
        return -ENOMEM;
    c->low = low;
    c->width = (high - low) / CENSUS_BUCKETS + 1;
    int r = symbol_files_scan(files, census_take, c);
    if (r < 0)
        return r;
    size_t count = 0, held = 0;
    bounds[0] = low;
    for (size_t i = 0; i < CENSUS_BUCKETS; i++) {
        uint64_t start = low + i * c->width;
        if (held && (held + c->buckets[i] > max_symbols || start - bounds[count] + c->width >= UINT32_MAX)) {
            bounds[++count] = start;
            held = 0;
        }
        held += c->buckets[i];
    }
    bounds[++count] = high;
    uint64_t *fitted = realloc(bounds, (count + 1) * sizeof(*bounds));
    if (fitted)
        bounds = fitted;
    *ret_bounds = take_ptr(bounds);
    *ret_count = count;
    return 0;
}
