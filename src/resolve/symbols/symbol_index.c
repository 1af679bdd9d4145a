/* The functions of one object as disjoint ranges; see symbol_index.h. The name of an address is that of the sized
 * symbol that covers it and starts last. If none covers it, it is that of a symbol without a size, provided that it
 * is the last to start before the address and lies inside no other symbol. Of several symbols with the same start
 * the preferred one wins (symbol_files_prefer). */
#include "resolve/symbols/symbol_index.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BITS       29      /* symbol_files returns no greater offsets */
#define COMPARISONS_MAX 100000u /* of names, which are read from the file; past it their offsets decide */
#define BUCKETS         4096

struct range {
    uint32_t start; /* relative to index.low */
    uint32_t size;
    uint32_t name; /* with the source above NAME_BITS */
};

static_assert(sizeof(struct range) == SYMBOL_INDEX_ENTRY_BYTES, "what a function takes is part of the bound");

struct symbol_index {
    uint64_t low, high;
    struct range *ranges;
    size_t count, capacity;
};

struct raw {
    uint64_t start;
    uint32_t end; /* relative to index.low, at most its high; without a size: the latest possible end */
    uint32_t name;
    uint8_t source, rank;
    bool has_size;
};

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

/* --- one address, by a pass over the tables --- */

struct scan {
    const struct symbol_files *files;
    uint64_t address;
    struct predecessor predecessor;
    struct symbol_entry best;
    bool found;
};

static int scan_take(const struct symbol_entry *e, void *context)
{
    struct scan *s = context;
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

int symbol_index_scan(const struct symbol_files *files, uint64_t address, struct symbol_name *ret)
{
    struct scan s = {.files = files, .address = address, .predecessor.before = address + 1};
    int r = address == UINT64_MAX ? -ENOENT : symbol_files_scan(files, scan_take, &s);
    if (r < 0)
        return r;
    const struct symbol_entry *e = s.found ? &s.best : predecessor_label(&s.predecessor, address);
    if (!e)
        return -ENOENT;
    *ret = (struct symbol_name){.name = e->name, .source = e->source};
    return 0;
}

/* --- many addresses: collect, sort, sweep --- */

struct collection {
    const struct symbol_files *files;
    uint64_t low, high;
    struct raw *raws;
    size_t count, capacity, max;
    struct predecessor predecessor;
    unsigned comparisons;
};

static int collect(struct collection *c, const struct symbol_entry *e)
{
    if (c->count == c->max)
        return -ENOSPC;
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? c->capacity * 2 : 256;
        struct raw *grown = realloc(c->raws, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        c->raws = grown;
        c->capacity = capacity;
    }
    bool has_size = e->end > e->start;
    uint64_t end = has_size ? e->end : e->section_end;
    c->raws[c->count++] = (struct raw){.start = e->start,
                                       .end = (end < c->high ? end : c->high) - c->low,
                                       .name = e->name,
                                       .source = e->source,
                                       .rank = e->rank,
                                       .has_size = has_size};
    return 0;
}

static int collect_take(const struct symbol_entry *e, void *context)
{
    struct collection *c = context;
    predecessor_note(&c->predecessor, c->files, e);
    bool begins_inside = e->start >= c->low && e->start < c->high;
    bool reaches_inside = e->start < c->low && e->end > c->low;
    return begins_inside || reaches_inside ? collect(c, e) : 0;
}

/* By start; of equal starts the preferred last. */
static int compare_raws(const void *a_p, const void *b_p, void *context)
{
    struct collection *c = context;
    const struct raw *a = a_p, *b = b_p;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->rank != b->rank)
        return (int)b->rank - a->rank;
    if (a->source != b->source)
        return (int)b->source - a->source;
    if (a->name == b->name)
        return 0;
    if (c->comparisons++ >= COMPARISONS_MAX)
        return a->name < b->name ? 1 : -1;
    struct symbol_entry x = {.name = a->name, .source = a->source, .rank = a->rank};
    struct symbol_entry y = {.name = b->name, .source = b->source, .rank = b->rank};
    return symbol_files_prefer(c->files, &x, &y) ? 1 : -1;
}

/* Appends [from, to), merged with the last range if that belongs to the same function. */
static int put_range(struct symbol_index *x, uint32_t from, uint32_t to, const struct raw *raw)
{
    if (from >= to)
        return 0;
    uint32_t name = raw->name | (uint32_t)raw->source << NAME_BITS;
    struct range *last = x->count ? &x->ranges[x->count - 1] : NULL;
    if (last && last->name == name && last->start + last->size == from) {
        last->size += to - from;
        return 0;
    }
    if (x->count == x->capacity) {
        size_t capacity = x->capacity ? x->capacity * 2 : 64;
        struct range *grown = realloc(x->ranges, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        x->ranges = grown;
        x->capacity = capacity;
    }
    x->ranges[x->count++] = (struct range){.start = from, .size = to - from, .name = name};
    return 0;
}

/* State of the sweep: started symbols with a size, the innermost on top, and the address up to which ranges have
 * been written. */
struct sweep {
    struct symbol_index *index;
    const struct raw *raws;
    uint32_t *open; /* indexes of raws */
    size_t open_count;
    uint32_t at;
};

/* Writes the ranges before `to`. */
static int sweep_to(struct sweep *s, uint32_t to)
{
    while (s->open_count) {
        const struct raw *top = &s->raws[s->open[s->open_count - 1]];
        uint32_t end = top->end < to ? top->end : to;
        int r = put_range(s->index, s->at, end, top);
        if (r < 0)
            return r;
        if (end > s->at)
            s->at = end;
        if (top->end > to)
            break;
        s->open_count--;
    }
    if (s->at < to)
        s->at = to;
    return 0;
}

static int sweep_all(struct collection *c, struct symbol_index *x)
{
    _cleanup_free_ uint32_t *open = malloc((c->count + 1) * sizeof(*open));
    if (!open)
        return -ENOMEM;
    struct sweep s = {.index = x, .raws = c->raws, .open = open};
    for (size_t i = 0, next; i < c->count; i = next) {
        uint32_t start = c->raws[i].start < c->low ? 0 : c->raws[i].start - c->low;
        int r = sweep_to(&s, start);
        if (r < 0)
            return r;
        const struct raw *label = NULL;
        for (next = i; next < c->count && c->raws[next].start == c->raws[i].start; next++) {
            if (c->raws[next].has_size)
                s.open[s.open_count++] = next;
            else
                label = &c->raws[next];
        }
        if (s.open_count || !label)
            continue;
        uint32_t end = label->end;
        if (next < c->count && c->raws[next].start - c->low < end)
            end = c->raws[next].start - c->low;
        r = put_range(x, start, end, label);
        if (r < 0)
            return r;
    }
    return sweep_to(&s, UINT32_MAX);
}

int symbol_index_build(const struct symbol_files *files, uint64_t low, uint64_t high, size_t max_bytes,
                       struct symbol_index **ret)
{
    if (high <= low || high - low >= UINT32_MAX)
        return -ENOSPC;
    struct collection c = {
        .files = files, .low = low, .high = high, .max = max_bytes / sizeof(struct range), .predecessor.before = low};
    _cleanup_(symbol_index_freep) struct symbol_index *x = calloc(1, sizeof(*x));
    if (!x)
        return -ENOMEM;
    x->low = low;
    x->high = high;
    int r = symbol_files_scan(files, collect_take, &c);
    const struct symbol_entry *label = predecessor_label(&c.predecessor, low);
    if (r == 0 && label)
        r = collect(&c, label);
    if (r == 0 && c.count) {
        qsort_r(c.raws, c.count, sizeof(*c.raws), compare_raws, &c);
        r = sweep_all(&c, x);
    }
    free(c.raws);
    if (r < 0)
        return r;
    if (x->count && x->capacity > x->count) {
        struct range *fitted = realloc(x->ranges, x->count * sizeof(*fitted));
        if (fitted) {
            x->ranges = fitted;
            x->capacity = x->count;
        }
    }
    *ret = take_ptr(x);
    return 0;
}

void symbol_index_free(struct symbol_index *x)
{
    if (!x)
        return;
    free(x->ranges);
    free(x);
}

bool symbol_index_covers(const struct symbol_index *x, uint64_t address)
{
    return x->low <= address && address < x->high;
}

int symbol_index_find(const struct symbol_index *x, uint64_t address, struct symbol_name *ret)
{
    assert(symbol_index_covers(x, address)); /* otherwise `at` is of another address */
    uint32_t at = address - x->low;
    size_t low = 0, high = x->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->ranges[middle].start <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || at - x->ranges[low - 1].start >= x->ranges[low - 1].size)
        return -ENOENT;
    uint32_t name = x->ranges[low - 1].name;
    *ret = (struct symbol_name){.name = name & ((1u << NAME_BITS) - 1), .source = name >> NAME_BITS};
    return 0;
}

size_t symbol_index_bytes(const struct symbol_index *x)
{
    return sizeof(*x) + x->capacity * sizeof(*x->ranges);
}

/* --- splitting an object that is too large for one index --- */

struct census {
    uint64_t low, width;
    uint32_t buckets[BUCKETS];
};

static int census_take(const struct symbol_entry *e, void *context)
{
    struct census *c = context;
    uint64_t bucket = e->start >= c->low ? (e->start - c->low) / c->width : BUCKETS;
    if (bucket < BUCKETS)
        c->buckets[bucket]++;
    return 0;
}

int symbol_index_divide(const struct symbol_files *files, uint64_t low, uint64_t high, size_t max_symbols,
                        uint64_t **ret_bounds, size_t *ret_count)
{
    _cleanup_free_ struct census *c = calloc(1, sizeof(*c));
    _cleanup_free_ uint64_t *bounds = calloc(BUCKETS + 1, sizeof(*bounds));
    if (!c || !bounds)
        return -ENOMEM;
    c->low = low;
    c->width = (high - low) / BUCKETS + 1;
    int r = symbol_files_scan(files, census_take, c);
    if (r < 0)
        return r;
    size_t count = 0, held = 0;
    bounds[0] = low;
    for (size_t i = 0; i < BUCKETS; i++) {
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
