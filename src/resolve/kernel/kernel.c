/* Symbol names of kernel code; see kernel.h. The sources are the kernel itself, queried for one address (3 us); BPF
 * programs listed by bpf(2), which also have source lines; and the packed table of /proc/kallsyms. A small name cache
 * is in front of them. A name in the kernel's own text stays valid. Code elsewhere (modules, BPF programs, trampolines)
 * comes and goes, so it is checked once a second while it is looked up.
 *
 * Reading /proc/kallsyms costs 0.1 s of CPU and 3 MiB. It is done if the kernel cannot be queried, or for an address
 * that no other source names (ftrace's trampolines), with an exponentially growing interval while that finds nothing.
 */
#include "resolve/kernel/kernel.h"

#include "base/buf.h"
#include "base/clock.h"
#include "resolve/kernel/bpf_programs.h"
#include "resolve/kernel/kallsyms.h"
#include "resolve/symbols/demangle.h"
#include "resolve/symbols/string_arena.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define SECOND_NS       1000000000ull
#define BACKOFF_MAX_NS  (64 * SECOND_NS)
#define CACHED_NAMES    4096 /* the hash has 12 bits */
#define TEXT_HALF_BYTES (128u << 10)
#define MODULES_MAX     (4u << 20)
#define MAPPING_BYTES   80

struct cached_name {
    uint64_t address;
    const char *function, *mapping, *file;
    uint32_t line;
    uint32_t texts; /* string_arena.generation at insertion */
    uint32_t table; /* kernel_symbols.generation at insertion; 0: empty */
    bool is_bpf;
};

struct kernel_symbols {
    struct kernel_asker asker; /* `ask` may be NULL */
    int kallsyms_fd, modules_fd;
    struct kallsyms *table;
    struct bpf_programs *programs;
    struct string_arena texts;
    struct cached_name *names; /* name cache, hashed by address */
    size_t name_count;         /* a power of two */
    uint32_t generation;       /* incremented with every change of symbols outside the kernel's own text */
    uint64_t modules_hash;
    uint64_t checked_ns; /* last check for new modules and programs */
    uint64_t reread_ns;  /* last read of /proc/kallsyms */
    uint64_t backoff_ns;
    uint64_t lookups, hits, readings, unnamed;
};

static uint64_t hash_modules(int fd)
{
    _cleanup_buf_ struct buf text = {0};
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0 || buf_read_fd(&text, fd, MODULES_MAX) < 0 || !text.size)
        return 0;
    /* Hash only name, size and address of each line: reference counts change constantly. */
    uint64_t hash = 0;
    char *rest = text.data, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *address = strstr(line, " 0x"), *space = strchr(line, ' ');
        space = space ? strchr(space + 1, ' ') : NULL;
        if (!address || !space)
            continue;
        hash = XXH3_64bits_withSeed(line, space - line, hash);
        hash = XXH3_64bits_withSeed(address, strlen(address), hash);
    }
    return hash;
}

static int open_modules(const char *kallsyms)
{
    const char *slash = strrchr(kallsyms, '/');
    char path[4096];
    int size = snprintf(path, sizeof(path), "%.*smodules", slash ? (int)(slash + 1 - kallsyms) : 0, kallsyms);
    return size < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
}

int kernel_symbols_new(const char *kallsyms, struct kernel_symbols **ret)
{
    if (!kallsyms)
        kallsyms = "/proc/kallsyms";
    _cleanup_(kernel_symbols_freep) struct kernel_symbols *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->modules_fd = -1;
    k->kallsyms_fd = open(kallsyms, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (k->kallsyms_fd < 0)
        return -errno;
    int r = kallsyms_check(k->kallsyms_fd);
    if (r < 0)
        return r;
    k->modules_fd = open_modules(kallsyms);
    k->texts.half_bytes = TEXT_HALF_BYTES;
    k->generation = 1;
    k->backoff_ns = SECOND_NS;
    r = bpf_programs_new(&k->programs);
    if (r == 0)
        r = kernel_symbols_limit(k, CACHED_NAMES);
    if (r < 0)
        return r;
    *ret = take_ptr(k);
    return 0;
}

int kernel_symbols_limit(struct kernel_symbols *k, size_t entries)
{
    assert(entries && (entries & (entries - 1)) == 0);
    entries = entries < CACHED_NAMES ? entries : CACHED_NAMES;
    struct cached_name *names = calloc(entries, sizeof(*names));
    if (!names)
        return -ENOMEM;
    free(k->names);
    k->names = names;
    k->name_count = entries;
    bpf_programs_limit(k->programs, entries);
    return 0;
}

void kernel_symbols_free(struct kernel_symbols *k)
{
    if (!k)
        return;
    closep(&k->kallsyms_fd);
    closep(&k->modules_fd);
    kallsyms_free(k->table);
    bpf_programs_free(k->programs);
    string_arena_clear(&k->texts);
    free(k->names);
    free(k);
}

void kernel_symbols_set_asker(struct kernel_symbols *k, const struct kernel_asker *asker)
{
    if (k)
        k->asker = *asker;
}

void kernel_symbols_expire(struct kernel_symbols *k)
{
    k->checked_ns = k->reread_ns = 0;
    k->backoff_ns = SECOND_NS;
}

/* Reads all of /proc/kallsyms again; the old table is kept on failure. */
static void reread_kallsyms(struct kernel_symbols *k, uint64_t now_ns)
{
    struct kallsyms *fresh = NULL;
    k->modules_hash = hash_modules(k->modules_fd);
    k->reread_ns = now_ns;
    k->readings++;
    if (kallsyms_read(k->kallsyms_fd, k->modules_fd, &fresh) < 0)
        return;
    kallsyms_free(k->table);
    k->table = fresh;
    k->generation++;
}

/* Once a second, checks whether modules or BPF programs were loaded or unloaded. */
static void check_for_changes(struct kernel_symbols *k, uint64_t now_ns)
{
    if (k->checked_ns && now_ns - k->checked_ns < SECOND_NS)
        return;
    k->checked_ns = now_ns;
    if (bpf_programs_refresh(k->programs))
        k->generation++;
    uint64_t hash = hash_modules(k->modules_fd);
    if (hash == k->modules_hash)
        return;
    if (!k->asker.ask) {
        reread_kallsyms(k, now_ns);
        return;
    }
    k->modules_hash = hash;
    k->generation++;
    kallsyms_free(k->table);
    k->table = NULL;
}

/* Stores strings in a cache entry. False: out of memory. */
static bool cache_name(struct kernel_symbols *k, struct cached_name *a, const char *function, const char *mapping,
                       const char *file)
{
    /* One allocation for all three strings, so that they are evicted together. */
    char together[3 * 4096 + MAPPING_BYTES];
    size_t sizes[3] = {strlen(function) + 1, strlen(mapping) + 1, strlen(file) + 1};
    size_t size = 0;
    const char *from[3] = {function, mapping, file};
    for (int i = 0; i < 3; i++) {
        if (sizes[i] > 4096)
            sizes[i] = 4096;
        memcpy(together + size, from[i], sizes[i]);
        size += sizes[i];
        together[size - 1] = '\0';
    }
    const char *copy = string_arena_add(&k->texts, together, size - 1);
    if (!copy)
        return false;
    a->function = copy;
    a->mapping = copy + sizes[0];
    a->file = a->mapping + sizes[1];
    a->texts = k->texts.generation;
    a->table = k->generation;
    return true;
}

static bool is_program(const char *module, const char *symbol)
{
    return !strcmp(module, "bpf") && !strncmp(symbol, "bpf_prog_", 9);
}

/* `module`: "" for the kernel itself. */
static bool cache_symbol(struct kernel_symbols *k, struct cached_name *a, const char *module, const char *symbol)
{
    char mapping[MAPPING_BYTES] = "[kernel.kallsyms]", name[DEMANGLED_MAX];
    if (*module)
        snprintf(mapping, sizeof(mapping), "[%s]", module);
    a->is_bpf = is_program(module, symbol);
    a->line = 0;
    demangle(symbol, name);
    return cache_name(k, a, name, mapping, "");
}

static bool find_in_table(struct kernel_symbols *k, uint64_t address, struct cached_name *a)
{
    struct kallsyms_symbol symbol;
    struct bpf_place place;
    if (!k->table || !kallsyms_find(k->table, address, &symbol))
        return false;
    if (is_program(symbol.module, symbol.name) && bpf_programs_find(k->programs, symbol.start, &place))
        return false; /* the program's range is known, and the address is beyond its end */
    return cache_symbol(k, a, symbol.module, symbol.name);
}

static bool is_core(const struct kernel_symbols *k, uint64_t address)
{
    if (k->asker.ask)
        return k->asker.text_start <= address && address < k->asker.text_end;
    return k->table && kallsyms_is_core(k->table, address);
}

static bool find_by_kernel(struct kernel_symbols *k, uint64_t address, struct cached_name *a)
{
    const char *text = k->asker.ask ? k->asker.ask(k->asker.context, address) : NULL;
    const char *bracket = text ? strstr(text, " [") : NULL;
    const char *plus = text ? memrchr(text, '+', bracket ? (size_t)(bracket - text) : strlen(text)) : NULL;
    char module[MAPPING_BYTES - 2] = "", symbol[KALLSYMS_NAME_MAX];
    if (!plus || plus == text)
        return false;
    snprintf(symbol, sizeof(symbol), "%.*s", (int)(plus - text), text);
    if (bracket)
        snprintf(module, sizeof(module), "%.*s", (int)strcspn(bracket + 2, " ]"), bracket + 2);
    else if (!is_core(k, address) && !strncmp(symbol, "bpf_", 4))
        snprintf(module, sizeof(module), "bpf");
    else if (!is_core(k, address))
        return false; /* the vsyscall page, which the kernel attributes to its last symbol */
    return cache_symbol(k, a, module, symbol);
}

static bool find_in_programs(struct kernel_symbols *k, uint64_t address, struct cached_name *a)
{
    struct bpf_place place;
    if (!bpf_programs_find(k->programs, address, &place))
        return false;
    a->is_bpf = true;
    a->line = place.line;
    return cache_name(k, a, place.function, "[bpf]", place.file);
}

static bool find_in_sources(struct kernel_symbols *k, uint64_t address, struct cached_name *a)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (!k->asker.ask && !k->table && (!k->reread_ns || now_ns - k->reread_ns >= SECOND_NS))
        reread_kallsyms(k, now_ns);
    if (is_core(k, address))
        return k->asker.ask ? find_by_kernel(k, address, a) : find_in_table(k, address, a);
    check_for_changes(k, now_ns);
    if (find_in_programs(k, address, a) || find_by_kernel(k, address, a) || find_in_table(k, address, a)) {
        k->backoff_ns = SECOND_NS;
        return true;
    }
    if (k->reread_ns && now_ns - k->reread_ns < k->backoff_ns)
        return false;
    reread_kallsyms(k, now_ns);
    bool found = find_in_table(k, address, a);
    k->backoff_ns = found ? SECOND_NS : k->backoff_ns * 2 < BACKOFF_MAX_NS ? k->backoff_ns * 2 : BACKOFF_MAX_NS;
    return found;
}

/* An entry is valid if its address is in the kernel's own text, or if nothing has changed since and the last check is
 * recent. The clock is read only outside the kernel's text. */
static bool is_current(const struct kernel_symbols *k, const struct cached_name *a, uint64_t address)
{
    if (!a->table || a->address != address || !string_arena_alive(&k->texts, a->texts))
        return false;
    if (is_core(k, address))
        return true;
    return a->table == k->generation && clock_monotonic_ns() - k->checked_ns < SECOND_NS;
}

static struct frame unnamed_frame(uint64_t address)
{
    return (struct frame){.kind = FRAME_KERNEL,
                          .function = "",
                          .file = "",
                          .mapping = "[kernel.kallsyms]",
                          .build_id = "",
                          .system_name = "",
                          .address = address};
}

bool kernel_symbols_find(struct kernel_symbols *k, uint64_t address, struct frame *ret)
{
    if (!k) {
        *ret = unnamed_frame(address);
        return false;
    }
    struct cached_name *a = &k->names[(address * 0x9e3779b97f4a7c15u) >> 52 & (k->name_count - 1)];
    k->lookups++;
    bool found = is_current(k, a, address);
    if (found) {
        k->hits++;
        if (string_arena_old(&k->texts, a->texts))
            found = cache_name(k, a, a->function, a->mapping, a->file);
    } else {
        a->table = 0;
        a->address = address;
        found = find_in_sources(k, address, a);
    }
    if (!found) {
        k->unnamed++;
        a->table = 0;
        *ret = unnamed_frame(address);
        return false;
    }
    *ret = (struct frame){.kind = a->is_bpf ? FRAME_BPF : FRAME_KERNEL,
                          .function = a->function,
                          .file = a->file,
                          .line = a->line,
                          .mapping = a->mapping,
                          .build_id = "",
                          .system_name = "",
                          .address = address};
    return true;
}

void kernel_symbols_metrics(const struct kernel_symbols *k, struct metric_set *set)
{
    if (!k)
        return;
    size_t bytes =
        (k->table ? kallsyms_bytes(k->table) : 0) + string_arena_bytes(&k->texts) + k->name_count * sizeof(*k->names);
    metric_add(set, "sonde_self_cache_bytes", METRIC_GAUGE, "bytes", "Memory held by a cache.", bytes,
               METRIC_LABELS({"cache", "kernel_symbols"}));
    metric_add(set, "sonde_self_cache_entries", METRIC_GAUGE, "", "Entries held by a cache.",
               k->table ? kallsyms_count(k->table) : 0, METRIC_LABELS({"cache", "kernel_symbols"}));
    metric_add(set, "sonde_self_cache_entries", METRIC_GAUGE, "", "Entries held by a cache.",
               bpf_programs_count(k->programs), METRIC_LABELS({"cache", "bpf_programs"}));
    metric_add(set, "sonde_self_cache_lookups", METRIC_COUNTER, "", "Lookups in a cache, by outcome.", k->hits,
               METRIC_LABELS({"cache", "kernel_symbols"}, {"outcome", "hit"}));
    metric_add(set, "sonde_self_cache_lookups", METRIC_COUNTER, "", "Lookups in a cache, by outcome.",
               k->lookups - k->hits, METRIC_LABELS({"cache", "kernel_symbols"}, {"outcome", "miss"}));
    metric_add(set, "sonde_self_kallsyms_reads", METRIC_COUNTER, "", "Readings of all of the kernel's symbols.",
               k->readings, METRIC_NO_LABELS);
}
