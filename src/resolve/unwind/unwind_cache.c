/* Cache of unwind tables; see unwind_cache.h. LRU eviction: uthash keeps entries in insertion order, so an entry that
 * is used is removed and added again. */
#include "resolve/unwind/unwind_cache.h"

#include "resolve/object/object_elf.h"
#include "resolve/unwind/cfi_finder.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define CACHE_MAX_ENTRIES 4096 /* objects without rules have no table, but occupy an entry */
#define FINDERS_MAX       64   /* each holds an open file */
#define RULES_MAX         2048 /* a power of two */

struct cached_table {
    uint64_t object_id;
    enum unwind_cache_state state;
    struct unwind_table *table; /* UNWIND_CACHE_READY */
    struct cfi_finder *finder;  /* UNWIND_CACHE_DEFERRED; NULL: no search table, or closed */
    bool has_finder;            /* a finder can be made */
    bool has_single_rules;      /* it finds every rule of the file */
    struct unwind_demand demand;
    UT_hash_handle hh;
};

/* A rule that was looked up in a file. Object IDs are not reused, and a file's rules never change. */
struct cached_rule {
    uint64_t object_id; /* 0: empty */
    uint32_t file_offset;
    struct unwind_rule rule;
};

struct unwind_cache {
    struct cached_table *entries;
    size_t max_bytes, bytes, max_entries;
    uint64_t defer_above_bytes;
    uint64_t generation;
    size_t finders;
    struct cached_rule *rules; /* RULES_MAX, by a hash; NULL: none yet */
    uint64_t hits, builds, build_errors, evictions, finds;
};

static size_t entry_bytes(const struct cached_table *e)
{
    return sizeof(*e) + (e->table ? sizeof(*e->table) + e->table->value_count * UNWIND_VALUE_BYTES : 0);
}

static void close_finder(struct unwind_cache *c, struct cached_table *e)
{
    c->finders -= e->finder != NULL;
    cfi_finder_free(take_ptr(e->finder));
}

static void remove_entry(struct unwind_cache *c, struct cached_table *e)
{
    HASH_DEL(c->entries, e);
    c->bytes -= entry_bytes(e);
    unwind_table_free(e->table);
    close_finder(c, e);
    free(e);
}

int unwind_cache_new(size_t max_bytes, struct unwind_cache **ret)
{
    struct unwind_cache *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->max_bytes = max_bytes;
    c->max_entries = CACHE_MAX_ENTRIES;
    c->defer_above_bytes = UINT64_MAX;
    *ret = c;
    return 0;
}

void unwind_cache_limit(struct unwind_cache *c, size_t entries)
{
    c->max_entries = entries < CACHE_MAX_ENTRIES ? entries : CACHE_MAX_ENTRIES;
}

static void forget_rules(struct unwind_cache *c)
{
    free(c->rules);
    c->rules = NULL;
}

void unwind_cache_set_max_bytes(struct unwind_cache *c, size_t max_bytes)
{
    c->max_bytes = max_bytes;
}

void unwind_cache_trim(struct unwind_cache *c)
{
    for (struct cached_table *e = c->entries, *next; e; e = next) {
        next = e->hh.next;
        if (e->state == UNWIND_CACHE_DEFERRED)
            close_finder(c, e);
        else
            remove_entry(c, e);
    }
    forget_rules(c);
}

void unwind_cache_close(struct unwind_cache *c, uint64_t object_id)
{
    struct cached_table *e;
    HASH_FIND(hh, c->entries, &object_id, sizeof(object_id), e);
    if (e)
        close_finder(c, e);
}

void unwind_cache_free(struct unwind_cache *c)
{
    if (!c)
        return;
    while (c->entries)
        remove_entry(c, c->entries);
    forget_rules(c);
    free(c);
}

static struct cached_table *find_entry(struct unwind_cache *c, uint64_t object_id)
{
    struct cached_table *e;
    HASH_FIND(hh, c->entries, &object_id, sizeof(object_id), e);
    if (!e)
        return NULL;
    if (c->entries->hh.tbl->tail != &e->hh) { /* move to the end: most recently used */
        HASH_DEL(c->entries, e);
        HASH_ADD(hh, c->entries, object_id, sizeof(e->object_id), e);
    }
    return e;
}

/* Takes ownership of `table` in every case. NULL: out of memory. */
static struct cached_table *add_entry(struct unwind_cache *c, uint64_t object_id, enum unwind_cache_state state,
                                      struct unwind_table *table)
{
    struct cached_table *e = calloc(1, sizeof(*e));
    if (e) {
        e->object_id = object_id;
        e->state = state;
        e->table = table;
        HASH_ADD(hh, c->entries, object_id, sizeof(e->object_id), e);
    }
    if (!e || !e->hh.tbl) { /* uthash could not allocate */
        unwind_table_free(table);
        free(e);
        return NULL;
    }
    c->generation++;
    c->bytes += entry_bytes(e);
    while (c->entries != e && (c->bytes > c->max_bytes || HASH_COUNT(c->entries) > c->max_entries)) {
        remove_entry(c, c->entries);
        c->evictions++;
    }
    return e;
}

enum unwind_cache_state unwind_cache_look(struct unwind_cache *c, uint64_t object_id, const struct unwind_table **ret)
{
    struct cached_table *e = find_entry(c, object_id);
    if (!e)
        return UNWIND_CACHE_UNKNOWN;
    if (e->table)
        *ret = e->table;
    return e->state;
}

static int state_result(const struct cached_table *e, const struct unwind_table **ret)
{
    if (e->state != UNWIND_CACHE_READY)
        return e->state == UNWIND_CACHE_DEFERRED ? -EAGAIN : -ENOENT;
    *ret = e->table;
    return 0;
}

/* Result of build_entry: a table, or a finder of single rules if the table is deferred. */
struct built {
    enum unwind_cache_state state;
    struct unwind_table *table;
    struct cfi_finder *finder;
    uint64_t input_bytes;
};

/* Takes ownership of `f` in every case. `*ret` is NULL on success if the file has no usable search table. Other errors
 * are temporary. */
static int make_finder(const struct object *o, struct elf_file *f, struct cfi_finder **ret)
{
    *ret = NULL;
    int r = cfi_finder_new(f, ret);
    if (r < 0)
        elf_file_free(f);
    if (r == -ETIMEDOUT)
        object_unreadable(o);
    return object_error_is_passing(r) ? r : 0;
}

static int build_entry(const struct unwind_cache *c, const struct object *o, struct built *ret)
{
    _cleanup_close_ int fd = object_open(o);
    if (fd < 0)
        return fd == -ENOENT ? -EIO : fd; /* an unavailable file is not a file without rules */
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    int r = elf_open(fd, &f);
    if (r == 0) {
        take_fd(&fd);
        ret->input_bytes = cfi_input_bytes(f);
        if (ret->input_bytes > c->defer_above_bytes) {
            ret->state = UNWIND_CACHE_DEFERRED;
            return make_finder(o, take_ptr(f), &ret->finder);
        }
        r = cfi_build(f, &ret->table);
        if (elf_error(f) < 0) { /* the table may be incomplete */
            unwind_table_free(take_ptr(ret->table));
            r = elf_error(f);
        }
    }
    if (r == -ETIMEDOUT) {
        object_unreadable(o);
        return r;
    }
    ret->state = r == 0 ? UNWIND_CACHE_READY : UNWIND_CACHE_NO_RULES;
    return r == -ENOMEM ? r : 0; /* damaged or too large: no usable rules */
}

/* Keeps the finder in the entry; closes the one that was not used for the longest time if there are too many. */
static void take_finder(struct unwind_cache *c, struct cached_table *e, struct cfi_finder *finder)
{
    struct cached_table *oldest = c->entries;
    while (c->finders >= FINDERS_MAX && oldest) {
        close_finder(c, oldest);
        oldest = oldest->hh.next;
    }
    e->finder = finder;
    c->finders += finder != NULL;
}

/* Opens the file of a deferred table again. */
static int reopen_finder(struct unwind_cache *c, const struct object *o, struct cached_table *e)
{
    struct elf_file *f;
    struct cfi_finder *finder;
    int r = object_open_elf(o, &f);
    if (r == 0)
        r = make_finder(o, f, &finder);
    if (r < 0) {
        c->build_errors++;
        return r == -ENOENT ? -EIO : r; /* an unavailable file is not a file without rules */
    }
    take_finder(c, e, finder);
    e->has_finder = finder != NULL;
    return finder ? 0 : -EAGAIN;
}

static int get_or_build(struct unwind_cache *c, const struct object *o, struct cached_table **ret)
{
    *ret = find_entry(c, o->id);
    if (*ret) {
        c->hits++;
        return 0;
    }
    struct built built = {0};
    int r = build_entry(c, o, &built);
    if (r < 0) {
        c->build_errors++;
        return r;
    }
    c->builds += built.state != UNWIND_CACHE_DEFERRED;
    *ret = add_entry(c, o->id, built.state, built.table);
    if (!*ret) {
        cfi_finder_free(built.finder);
        return -ENOMEM;
    }
    (*ret)->demand.input_bytes = built.input_bytes;
    (*ret)->has_finder = built.finder != NULL;
    (*ret)->has_single_rules = built.finder && cfi_finder_is_complete(built.finder);
    take_finder(c, *ret, built.finder);
    return 0;
}

int unwind_cache_get(struct unwind_cache *c, const struct object *o, const struct unwind_table **ret)
{
    struct cached_table *e;
    if (o->is_anonymous)
        return -ENOENT;
    int r = get_or_build(c, o, &e);
    return r < 0 ? r : state_result(e, ret);
}

static struct cached_rule *cached_rule_of(struct unwind_cache *c, uint64_t object_id, uint32_t file_offset)
{
    if (!c->rules)
        c->rules = calloc(RULES_MAX, sizeof(*c->rules));
    const uint64_t key[2] = {object_id, file_offset};
    return c->rules ? &c->rules[XXH3_64bits(key, sizeof(key)) & (RULES_MAX - 1)] : NULL;
}

/* The rule of a deferred table, from the file. -EAGAIN: only the table can answer. */
static int find_single_rule(struct unwind_cache *c, const struct object *o, struct cached_table *e,
                            uint32_t file_offset, struct unwind_rule *ret)
{
    struct cached_rule *cached = cached_rule_of(c, o->id, file_offset);
    e->demand.lookups++;
    if (cached && cached->object_id == o->id && cached->file_offset == file_offset) {
        *ret = cached->rule;
        return 0;
    }
    int r = e->finder ? 0 : e->has_finder ? reopen_finder(c, o, e) : -EAGAIN;
    if (r < 0)
        return r;
    c->finds++;
    r = cfi_finder_find(e->finder, file_offset, ret);
    if (r == -ETIMEDOUT) {
        object_unreadable(o);
        close_finder(c, e);
    }
    if (r == 0 && cached)
        *cached = (struct cached_rule){.object_id = o->id, .file_offset = file_offset, .rule = *ret};
    return r == -ENOENT ? -EAGAIN : r;
}

int unwind_cache_find(struct unwind_cache *c, const struct object *o, uint32_t file_offset, struct unwind_rule *ret)
{
    struct cached_table *e;
    if (o->is_anonymous)
        return -ENOENT;
    int r = get_or_build(c, o, &e);
    if (r < 0)
        return r;
    if (e->state == UNWIND_CACHE_DEFERRED)
        return find_single_rule(c, o, e, file_offset, ret);
    const struct unwind_table *table;
    r = state_result(e, &table);
    if (r < 0)
        return r;
    const struct unwind_rule *rule = unwind_table_find(table, file_offset);
    if (!rule)
        return -ENOENT;
    *ret = *rule;
    return 0;
}

void unwind_cache_put(struct unwind_cache *c, uint64_t object_id, struct unwind_table *table)
{
    struct cached_table *e = find_entry(c, object_id);
    if (e && e->state != UNWIND_CACHE_DEFERRED) {
        unwind_table_free(table);
        return;
    }
    const struct unwind_demand demand = e ? e->demand : (struct unwind_demand){0};
    const bool has_finder = e && e->has_finder, has_single_rules = e && e->has_single_rules;
    if (e)
        remove_entry(c, e);
    e = add_entry(c, object_id, table ? UNWIND_CACHE_READY : UNWIND_CACHE_NO_RULES, table);
    if (e) {
        e->demand = demand;
        e->has_finder = has_finder;
        e->has_single_rules = has_single_rules;
    }
}

void unwind_cache_published(struct unwind_cache *c, uint64_t object_id)
{
    struct cached_table *e = find_entry(c, object_id);
    if (!e || e->state != UNWIND_CACHE_READY || !e->has_single_rules)
        return;
    c->bytes -= entry_bytes(e);
    unwind_table_free(take_ptr(e->table));
    c->bytes += entry_bytes(e);
    e->state = UNWIND_CACHE_DEFERRED;
    e->demand.lookups = 0;
}

bool unwind_cache_demand(const struct unwind_cache *c, uint64_t object_id, struct unwind_demand *ret)
{
    const struct cached_table *e;
    HASH_FIND(hh, c->entries, &object_id, sizeof(object_id), e);
    if (!e || e->state != UNWIND_CACHE_DEFERRED)
        return false;
    *ret = e->demand;
    return true;
}

void unwind_cache_defer_above(struct unwind_cache *c, uint64_t input_bytes)
{
    c->defer_above_bytes = input_bytes;
}

uint64_t unwind_cache_generation(const struct unwind_cache *c)
{
    return c->generation;
}

size_t unwind_cache_bytes(const struct unwind_cache *c)
{
    return c->bytes + (c->rules ? RULES_MAX * sizeof(*c->rules) : 0);
}

void unwind_cache_metrics(const struct unwind_cache *c, struct metric_set *set)
{
    metric_add(set, "sonde_self_unwind_cache_bytes", METRIC_GAUGE, "bytes",
               "Memory held by unwind tables in user space.", (double)unwind_cache_bytes(c), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_unwind_cache_hits", METRIC_COUNTER, "", "Unwind tables that were found in the cache.",
               (double)c->hits, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_unwind_cache_builds", METRIC_COUNTER, "",
               "Unwind tables built because the cache had none.", (double)c->builds, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_unwind_cache_finds", METRIC_COUNTER, "",
               "Unwind rules read from files whose unwind tables were not built yet.", (double)c->finds,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_unwind_cache_errors", METRIC_COUNTER, "", "Files whose unwind rules could not be read.",
               (double)c->build_errors, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_unwind_cache_evictions", METRIC_COUNTER, "",
               "Unwind tables evicted to keep within bounds.", (double)c->evictions, METRIC_NO_LABELS);
}
