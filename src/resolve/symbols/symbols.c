/* Names of native code; see symbols.h. Three layers: a cache of names (file offset -> name), a bounded set of
 * indexes (address -> symbols near it), and the files. Each layer may evict anything at any time; the one below
 * reproduces the same result. An object too large for one index is split into parts, indexed when they are first
 * needed. Where even that does not fit, its tables are scanned once for each new address. */
#include "resolve/symbols/symbols.h"

#include "resolve/symbols/demangler.h"
#include "resolve/symbols/name_cache.h"
#include "resolve/symbols/symbol_files.h"
#include "resolve/symbols/symbol_index.h"

#include <errno.h>
#include <string.h>

#define DEBUG_ROOT       "/usr/lib/debug"
#define MANGLED_MAX      4096
#define OBJECTS_MAX      1024
#define FILES_MAX        32
#define OBJECT_BYTES     4096         /* share of the limit per object */
#define FILES_BYTES      (128u << 10) /* share of the limit per set of open files */
#define PART_SYMBOLS_MIN 1024         /* smaller parts are not worth their bounds */
#define SEGMENTS_KEPT    4
#define NO_NAME          "\0"         /* two empty strings */
#define NAME_KEY         (1ull << 63) /* distinguishes names from file offsets, which are smaller */

struct part { /* a range of an object's addresses, up to the next part */
    struct symbol_index *index;
    uint64_t used;  /* value of `lookups` at the last use */
    bool too_dense; /* does not fit an index */
};

struct segment {
    uint64_t offset, size, vaddr;
};

struct record { /* cached facts about an object */
    uint64_t id;
    uint64_t used;
    int error;                              /* why it cannot have names, once that is permanent */
    bool known;                             /* the fields below are filled */
    struct segment segments[SEGMENTS_KEPT]; /* executable ones */
    size_t segment_count;
    bool has_more_segments;
    uint64_t *bounds; /* part_count + 1 addresses */
    struct part *parts;
    size_t part_count;
    bool divided;
    struct symbol_files *files; /* NULL: closed */
};

struct symbols {
    char *debug_root;
    struct name_process *names_process;
    char not_demangled[DEMANGLED_MAX + 1]; /* a name and an empty one */
    struct name_cache names;
    size_t index_bytes, index_max_bytes;
    struct record **records; /* by ID */
    size_t record_count, record_max;
    size_t files_count, files_max;
    size_t files_bytes; /* memory that they hold: limited like that of indexes, except for a single set */
    uint64_t lookups, hits, builds, scans, openings, unnamed;
};

static size_t clamp(size_t value, size_t low, size_t high)
{
    return value < low ? low : value > high ? high : value;
}

int symbols_new(const struct symbols_options *options, struct symbols **ret)
{
    _cleanup_(symbols_freep) struct symbols *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->debug_root = strdup(options->debug_root ? options->debug_root : DEBUG_ROOT);
    s->record_max = clamp(options->cache_bytes / OBJECT_BYTES, 2, OBJECTS_MAX);
    s->files_max = clamp(options->cache_bytes / FILES_BYTES, 1, FILES_MAX);
    size_t names_bytes = options->cache_bytes / 8;
    if (options->entries_max) {
        s->record_max = clamp(s->record_max, 2, options->entries_max);
        s->files_max = clamp(s->files_max, 1, options->entries_max);
        names_bytes = clamp(names_bytes, 0, options->entries_max * sizeof(struct name_cache_slot));
    }
    s->records = calloc(s->record_max, sizeof(*s->records));
    s->index_max_bytes = options->cache_bytes / 8 * 5;
    if (!s->debug_root || !s->records)
        return -ENOMEM;
    int r = name_process_new(&s->names_process);
    if (r < 0)
        return r;
    r = name_cache_init(&s->names, names_bytes, options->cache_bytes / 4, MANGLED_MAX + DEMANGLED_MAX);
    if (r < 0)
        return r;
    *ret = take_ptr(s);
    return 0;
}

static void record_close(struct symbols *s, struct record *o)
{
    if (!o->files)
        return;
    s->files_bytes -= symbol_files_bytes(o->files);
    s->files_count--;
    symbol_files_free(o->files);
    o->files = NULL;
}

static void part_forget(struct symbols *s, struct part *p)
{
    if (!p->index)
        return;
    s->index_bytes -= symbol_index_bytes(p->index);
    symbol_index_free(p->index);
    p->index = NULL;
}

static void record_free(struct symbols *s, struct record *o)
{
    record_close(s, o);
    for (size_t i = 0; i < o->part_count; i++)
        part_forget(s, &o->parts[i]);
    free(o->parts);
    free(o->bounds);
    free(o);
}

void symbols_free(struct symbols *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->record_count; i++)
        record_free(s, s->records[i]);
    free(s->records);
    name_process_free(s->names_process);
    name_cache_clear(&s->names);
    free(s->debug_root);
    free(s);
}

/* --- objects --- */

static void forget_oldest_record(struct symbols *s)
{
    size_t oldest = 0;
    for (size_t i = 1; i < s->record_count; i++)
        if (s->records[i]->used < s->records[oldest]->used)
            oldest = i;
    record_free(s, s->records[oldest]);
    s->record_count--;
    memmove(&s->records[oldest], &s->records[oldest + 1], (s->record_count - oldest) * sizeof(*s->records));
}

/* The index of the first record whose ID is not below `id`. */
static size_t find_record(const struct symbols *s, uint64_t id)
{
    size_t low = 0, high = s->record_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->records[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void symbols_close(struct symbols *s, uint64_t object_id)
{
    const size_t at = find_record(s, object_id);
    if (at < s->record_count && s->records[at]->id == object_id)
        record_close(s, s->records[at]);
}

/* The object's record, created when it is new. NULL: out of memory. */
static struct record *record_get(struct symbols *s, uint64_t id)
{
    const size_t low = find_record(s, id);
    if (low < s->record_count && s->records[low]->id == id) {
        s->records[low]->used = s->lookups;
        return s->records[low];
    }
    if (s->record_count == s->record_max) {
        forget_oldest_record(s);
        return record_get(s, id);
    }
    struct record *o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    o->id = id;
    o->used = s->lookups;
    memmove(&s->records[low + 1], &s->records[low], (s->record_count - low) * sizeof(*s->records));
    s->records[low] = o;
    s->record_count++;
    return o;
}

static void close_oldest_files(struct symbols *s)
{
    struct record *oldest = NULL;
    for (size_t i = 0; i < s->record_count; i++)
        if (s->records[i]->files && (!oldest || s->records[i]->used < oldest->used))
            oldest = s->records[i];
    if (oldest)
        record_close(s, oldest);
}

static int open_in_own_root(const void *object, const char *path)
{
    return object_open_in_own_root(object, path);
}

static int open_in_process_root(const void *object, const char *path)
{
    return object_open_in_process_root(object, path);
}

/* Opens the files unless they are open. */
static int record_open(struct symbols *s, struct record *o, const struct object *object)
{
    if (o->files)
        return 0;
    if (s->files_count >= s->files_max)
        close_oldest_files(s);
    int fd = object_open(object);
    if (fd < 0)
        return fd;
    struct symbol_files_options options = {.path = object->path,
                                           .build_id = object->build_id,
                                           .debug_root = s->debug_root,
                                           .open_in_own_root = open_in_own_root,
                                           .open_in_process_root = open_in_process_root,
                                           .context = object,
                                           .unpacker = s->names_process};
    int r = symbol_files_open(fd, &options, &o->files);
    if (r == -ETIMEDOUT)
        object_unreadable(object);
    if (r < 0)
        return r;
    s->files_count++;
    s->files_bytes += symbol_files_bytes(o->files);
    s->openings++;
    while (s->files_bytes > s->index_max_bytes &&
           s->files_count > 1) /* the files just opened were used last, so they stay */
        close_oldest_files(s);
    return 0;
}

/* Reads the address ranges of the object's code. */
static int record_read_segments(struct record *o)
{
    const struct elf_segment *segments;
    size_t count = symbol_files_segments(o->files, &segments);
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < count; i++) {
        const struct elf_segment *from = &segments[i];
        if (!from->executable || from->memory_bytes > UINT64_MAX - from->vaddr)
            continue;
        low = from->vaddr < low ? from->vaddr : low;
        high = from->vaddr + from->memory_bytes > high ? from->vaddr + from->memory_bytes : high;
        if (o->segment_count == SEGMENTS_KEPT)
            o->has_more_segments = true;
        else
            o->segments[o->segment_count++] = (struct segment){from->offset, from->file_bytes, from->vaddr};
    }
    if (low >= high)
        return -ENOENT;
    o->bounds = calloc(2, sizeof(*o->bounds));
    o->parts = calloc(1, sizeof(*o->parts));
    if (!o->bounds || !o->parts)
        return -ENOMEM;
    o->bounds[0] = low;
    o->bounds[1] = high;
    o->part_count = 1;
    o->known = true;
    return 0;
}

static bool is_passing(int error)
{
    return object_error_is_passing(error) || error == -EMFILE || error == -ENFILE || error == -EINTR;
}

/* Fills the record; a permanent error is stored in it. */
static int record_load(struct symbols *s, struct record *o, const struct object *object)
{
    if (o->known || o->error)
        return o->error;
    int r = record_open(s, o, object);
    if (r == 0)
        r = record_read_segments(o);
    if (r < 0 && !is_passing(r))
        o->error = r;
    return r;
}

static int record_vaddr(struct symbols *s, struct record *o, const struct object *object, uint64_t offset,
                        uint64_t *ret)
{
    for (size_t i = 0; i < o->segment_count; i++)
        if (offset >= o->segments[i].offset && offset - o->segments[i].offset < o->segments[i].size) {
            *ret = o->segments[i].vaddr + (offset - o->segments[i].offset);
            return 0;
        }
    int r = record_open(s, o, object);
    return r < 0 ? r : symbol_files_vaddr(o->files, offset, ret);
}

/* --- indexes --- */

/* Evicts least recently used indexes until `bytes` more fit. */
static void evict_indexes(struct symbols *s, size_t bytes)
{
    while (s->index_bytes && s->index_bytes + bytes > s->index_max_bytes) {
        struct part *oldest = NULL;
        for (size_t i = 0; i < s->record_count; i++)
            for (size_t k = 0; k < s->records[i]->part_count; k++) {
                struct part *p = &s->records[i]->parts[k];
                if (p->index && (!oldest || p->used < oldest->used))
                    oldest = p;
            }
        if (!oldest)
            return;
        part_forget(s, oldest);
    }
}

void symbols_trim(struct symbols *s)
{
    const uint64_t since = s->lookups > SYMBOLS_KEPT_LOOKUPS ? s->lookups - SYMBOLS_KEPT_LOOKUPS : 0;
    for (size_t i = 0; i < s->record_count; i++) {
        struct record *o = s->records[i];
        if (o->used < since)
            record_close(s, o);
        for (size_t k = 0; k < o->part_count; k++)
            if (o->parts[k].used < since)
                part_forget(s, &o->parts[k]);
    }
}

static size_t find_part(const struct record *o, uint64_t address)
{
    size_t low = 0, high = o->part_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (o->bounds[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* Splits an object that did not fit one index into parts that will. */
static int record_divide(struct symbols *s, struct record *o)
{
    size_t part_symbols = s->index_max_bytes / 4 / SYMBOL_INDEX_ENTRY_BYTES;
    if (o->divided || part_symbols < PART_SYMBOLS_MIN)
        return -ENOSPC;
    uint64_t *bounds;
    size_t count;
    int r = symbol_index_divide(o->files, o->bounds[0], o->bounds[o->part_count], part_symbols, &bounds, &count);
    if (r < 0)
        return r;
    struct part *parts = calloc(count, sizeof(*parts));
    if (!parts) {
        free(bounds);
        return -ENOMEM;
    }
    free(o->parts);
    free(o->bounds);
    o->bounds = bounds;
    o->parts = parts;
    o->part_count = count;
    o->divided = true;
    return 0;
}

/* The index for an address of an object whose files are open; NULL when there can be none. */
static const struct symbol_index *index_for(struct symbols *s, struct record *o, uint64_t address)
{
    size_t part = find_part(o, address);
    if (!o->parts[part].index && !o->parts[part].too_dense) {
        struct symbol_index *index = NULL;
        size_t max_bytes = s->index_max_bytes / 2;
        int r = symbol_index_build(o->files, o->bounds[part], o->bounds[part + 1], max_bytes, &index);
        if (r == -ENOSPC && record_divide(s, o) == 0) {
            part = find_part(o, address);
            r = symbol_index_build(o->files, o->bounds[part], o->bounds[part + 1], max_bytes, &index);
        }
        o->parts[part].too_dense = r == -ENOSPC;
        if (r == 0 && symbol_files_error(o->files) < 0) { /* the index may lack symbols */
            symbol_index_free(index);
            return NULL;
        }
        if (r < 0)
            return NULL;
        evict_indexes(s, symbol_index_bytes(index));
        s->index_bytes += symbol_index_bytes(index);
        s->builds++;
        o->parts[part].index = index;
    }
    o->parts[part].used = s->lookups;
    return o->parts[part].index;
}

/* --- names --- */

/* The position of the name of an address. */
static int find_name(struct symbols *s, struct record *o, const struct object *object, uint64_t address,
                     struct symbol_name *ret)
{
    if (address < o->bounds[0] || address >= o->bounds[o->part_count])
        return -ENOENT;
    int r = record_open(s, o, object);
    if (r < 0)
        return r;
    const struct symbol_index *index = index_for(s, o, address);
    if (index)
        return symbol_index_find(index, o->files, address, ret);
    s->scans++;
    return symbol_index_scan(o->files, address, ret);
}

static uint64_t name_key(struct symbol_name name)
{
    return NAME_KEY | (uint64_t)name.source << 32 | name.name;
}

/* The format of cached names: the demangled name and, if different, the mangled one. */
static void join(const char *readable, const char *mangled, char both[DEMANGLED_MAX + MANGLED_MAX])
{
    const bool is_same = !strcmp(readable, mangled);
    const size_t size = strlen(readable) + 1, mangled_size = is_same ? 0 : strlen(mangled);
    memmove(both, readable, size);
    memcpy(both + size, mangled, mangled_size);
    both[size + mangled_size] = '\0';
}

/* Reads and demangles a name; cached for other addresses of the same function. -EAGAIN: the name is not demangled at
 * present, and not to be cached. */
static int read_name(struct symbols *s, struct record *o, const struct object *object, struct symbol_name name,
                     const char **ret)
{
    uint64_t key = name_key(name), unused;
    const char *text = name_cache_get(&s->names, o->id, key, &unused);
    if (!text) {
        int r = record_open(s, o, object);
        if (r < 0)
            return r;
        char mangled[MANGLED_MAX], both[DEMANGLED_MAX + MANGLED_MAX];
        r = symbol_files_name(o->files, name.source, name.name, mangled, sizeof(mangled));
        if (r < 0)
            return r;
        if (demangler_demangle(s->names_process, mangled, both) == -EAGAIN) {
            demangle_copy(mangled, s->not_demangled);
            s->not_demangled[strlen(s->not_demangled) + 1] = '\0';
            *ret = s->not_demangled;
            return -EAGAIN;
        }
        join(both, mangled, both);
        text = name_cache_put(&s->names, o->id, key, 0, 0, both);
        if (!text)
            return -ENOMEM;
    }
    *ret = text;
    return 0;
}

int symbols_demangle(struct symbols *s, const char *symbol, char out[DEMANGLED_MAX])
{
    return demangler_demangle(s->names_process, symbol, out);
}

static int find_in_record(struct symbols *s, struct record *o, const struct object *object, uint64_t offset,
                          uint64_t *ret_address, uint64_t *ret_key, const char **ret_text)
{
    int r = record_load(s, o, object);
    if (r < 0)
        return r;
    r = record_vaddr(s, o, object, offset, ret_address);
    if (r < 0)
        return r;
    struct symbol_name name;
    r = find_name(s, o, object, *ret_address, &name);
    if (r < 0)
        return r;
    *ret_key = name_key(name);
    return read_name(s, o, object, name, ret_text);
}

static int find_uncached(struct symbols *s, const struct object *object, uint64_t offset, uint64_t *ret_address,
                         uint64_t *ret_key, const char **ret_text)
{
    struct record *o = record_get(s, object->id);
    if (!o)
        return -ENOMEM;
    int r = find_in_record(s, o, object, offset, ret_address, ret_key, ret_text);
    if (o->files && symbol_files_error(o->files) < 0) { /* the result comes from an incomplete read */
        record_close(s, o);
        object_unreadable(object);
        r = -ETIMEDOUT;
        *ret_text = NO_NAME;
    }
    return r;
}

int symbols_find(struct symbols *s, struct object *object, uint64_t file_offset, struct symbol *ret)
{
    *ret = (struct symbol){.function = "", .system_name = "", .address = file_offset};
    if (object->is_anonymous || file_offset >= NAME_KEY)
        return -ENOENT;
    s->lookups++;
    const char *text = name_cache_get(&s->names, object->id, file_offset, &ret->address);
    if (text) {
        s->hits++;
        ret->function = text;
        ret->system_name = name_cache_second(text);
        return *text ? 0 : -ENOENT;
    }
    uint64_t key = 0;
    text = NO_NAME;
    int r = find_uncached(s, object, file_offset, &ret->address, &key, &text);
    if (!is_passing(r)) {
        const char *kept = name_cache_put(&s->names, object->id, file_offset, ret->address, key, text);
        text = kept ? kept : text;
    }
    ret->function = text;
    ret->system_name = name_cache_second(text);
    s->unnamed += !*text;
    return *text ? 0 : r == -ETIMEDOUT || r == -EAGAIN ? -ETIMEDOUT : -ENOENT;
}

void symbols_metrics(const struct symbols *s, struct metric_set *set)
{
    demangler_metrics(s->names_process, set);
    static const char bytes_help[] = "Memory held by a cache.", lookups_help[] = "Lookups in a cache, by outcome.";
    metric_add(set, "sonde_self_cache_bytes", METRIC_GAUGE, "bytes", bytes_help, name_cache_bytes(&s->names),
               METRIC_LABELS({"cache", "symbol_names"}));
    metric_add(set, "sonde_self_cache_bytes", METRIC_GAUGE, "bytes", bytes_help, s->index_bytes,
               METRIC_LABELS({"cache", "symbol_indexes"}));
    metric_add(set, "sonde_self_cache_bytes", METRIC_GAUGE, "bytes", bytes_help, s->files_bytes,
               METRIC_LABELS({"cache", "symbol_files"}));
    metric_add(set, "sonde_self_cache_entries", METRIC_GAUGE, "", "Entries held by a cache.", s->record_count,
               METRIC_LABELS({"cache", "symbol_objects"}));
    metric_add(set, "sonde_self_cache_lookups", METRIC_COUNTER, "", lookups_help, s->hits,
               METRIC_LABELS({"cache", "symbol_names"}, {"outcome", "hit"}));
    metric_add(set, "sonde_self_cache_lookups", METRIC_COUNTER, "", lookups_help, s->lookups - s->hits,
               METRIC_LABELS({"cache", "symbol_names"}, {"outcome", "miss"}));
    metric_add(set, "sonde_self_symbol_index_builds", METRIC_COUNTER, "", "Symbol table indexes built.", s->builds,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_symbol_scans", METRIC_COUNTER, "",
               "Scans of a symbol table for a single address, where an index would exceed the limit.", s->scans,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_symbol_file_openings", METRIC_COUNTER, "",
               "Number of times that an object's files were opened.", s->openings, METRIC_NO_LABELS);
}
