/* Names of JIT code; see jit.h.
 *
 * A process has up to two such files: /tmp/perf-PID.map, and a jitdump, which is found because the runtime maps it. The
 * jitdump is searched first, because its records have timestamps. Both are kept as address ranges; names stay in the
 * files and are read and parsed when needed, so that each piece of code costs only 16 bytes. */
#include "resolve/jit/jit.h"

#include "base/clock.h"
#include "resolve/jit/jit_file.h"
#include "resolve/symbols/string_arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define PROCESSES_MAX    1024
#define OPEN_MAX         32
#define NAMES_KNOWN      4096
#define TEXTS_HALF_BYTES (96u << 10)
#define READ_BURST_BYTES (16u << 20) /* of all files: burst ... */
#define READ_BYTES_PER_S (16u << 20) /* ... and sustained rate */
#define PAUSE_NS         1000000000ull
#define PAUSE_MAX_NS     (32 * PAUSE_NS)
#define REOPEN_NS        (10 * 1000000000ull) /* interval for checking that the path still refers to the open file */
#define IDLE_TURNS       32
#define RANGES_MIN       256

enum runtime { RUNTIME_UNKNOWN, RUNTIME_JVM, RUNTIME_DOTNET };

struct code_file {
    struct jit_file file;
    uint64_t id;        /* unique; replaced whenever the ranges are dropped */
    uint64_t forgotten; /* file.forgotten when `id` was assigned */
    size_t bytes;       /* bytes of ranges accounted in jits.bytes */
    uint64_t bad;       /* file.bad accounted in jits.count.bad */
    uint64_t retry_ns;  /* not opened before this time; 0: no pause */
    uint64_t pause_ns;
    uint64_t opened_ns;
    uint64_t turn; /* jits.turn of the last read */
};

struct jit_process {
    UT_hash_handle hh;
    struct jit_process *prev, *next; /* least recently used first */
    uint32_t pid, innermost_pid;
    uint64_t start_ns, exec_ns;
    uint64_t mapping_version; /* of `runtime` and `dump_object` */
    enum runtime runtime;
    uint64_t dump_object; /* object id of the mapped jitdump; 0: none */
    uint64_t turn;
    struct code_file map, dump;
};

struct known_name {
    uint64_t file;    /* code_file.id; 0: empty */
    uint64_t address; /* address looked up; of a perf map: start of its range */
    uint32_t place;
    uint32_t generation; /* of `texts` */
    struct jit_name name;
};

struct jits {
    struct processes *processes;
    struct jit_process *by_pid, *used;
    size_t max_bytes, bytes, known_count;
    uint64_t now_ns, turn, last_id;
    uint64_t budget, budget_ns;
    size_t open_count;
    struct jit_text text;
    struct string_arena texts;
    struct known_name *known;
    struct {
        uint64_t refused, bad, forgotten;
    } count;
};

int jits_new(struct processes *processes, size_t max_bytes, struct jits **ret)
{
    struct jits *j = calloc(1, sizeof(*j));
    struct known_name *known = calloc(NAMES_KNOWN, sizeof(*known));
    if (!j || !known) {
        free(j);
        free(known);
        return -ENOMEM;
    }
    j->processes = processes;
    j->max_bytes = max_bytes;
    j->known = known;
    j->known_count = NAMES_KNOWN;
    j->texts.half_bytes = TEXTS_HALF_BYTES;
    j->budget = READ_BURST_BYTES;
    *ret = j;
    return 0;
}

static void close_code_file(struct jits *j, struct code_file *t)
{
    j->open_count -= t->file.fd >= 0;
    jit_file_close(&t->file);
}

/* Updates the totals of `j`; call after every operation on the file. */
static void update_totals(struct jits *j, struct code_file *t)
{
    const size_t bytes = code_ranges_bytes(&t->file.ranges);
    j->bytes += bytes - t->bytes;
    t->bytes = bytes;
    j->count.bad += t->file.bad - t->bad;
    t->bad = t->file.bad;
    if (t->forgotten != t->file.forgotten)
        t->id = ++j->last_id;
    t->forgotten = t->file.forgotten;
}

static void clear_code_file(struct jits *j, struct code_file *t)
{
    close_code_file(j, t);
    jit_file_clear(&t->file);
    update_totals(j, t);
    t->retry_ns = t->pause_ns = 0;
}

static void remove_process(struct jits *j, struct jit_process *e)
{
    clear_code_file(j, &e->map);
    clear_code_file(j, &e->dump);
    HASH_DEL(j->by_pid, e);
    DL_DELETE(j->used, e);
    j->bytes -= sizeof(*e);
    free(e);
}

void jits_free(struct jits *j)
{
    if (!j)
        return;
    while (j->used)
        remove_process(j, j->used);
    string_arena_clear(&j->texts);
    free(j->text.buffer);
    free(j->known);
    free(j);
}

void jits_limit(struct jits *j, size_t entries)
{
    if (entries && entries < j->known_count)
        j->known_count = entries;
}

void jits_begin_turn(struct jits *j)
{
    const uint64_t now_ns = clock_monotonic_ns();
    const uint64_t more = (now_ns - j->budget_ns) / 1000 * READ_BYTES_PER_S / 1000000;
    if (j->budget_ns)
        j->budget = j->budget + more < READ_BURST_BYTES ? j->budget + more : READ_BURST_BYTES;
    j->budget_ns = now_ns;
    j->turn++;
    /* A remote file does not report changes, and occupies a thread of the file helper while open. It is closed here,
     * and reopened when needed. */
    struct jit_process *e;
    if (j->open_count > 0)
        DL_FOREACH(j->used, e)
        {
            if (e->map.file.remote)
                close_code_file(j, &e->map);
            if (e->dump.file.remote)
                close_code_file(j, &e->dump);
        }
}

void jits_at(struct jits *j, uint64_t time_ns)
{
    if (time_ns > j->now_ns)
        j->now_ns = time_ns;
}

static struct jit_process *find_process(struct jits *j, uint32_t pid)
{
    struct jit_process *e;
    HASH_FIND(hh, j->by_pid, &pid, sizeof(pid), e);
    return e;
}

void jits_forget(struct jits *j, uint32_t pid)
{
    struct jit_process *e = find_process(j, pid);
    if (e)
        remove_process(j, e);
}

static struct jit_process *add_process(struct jits *j, const struct process *process)
{
    struct jit_process *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->pid = process->pid;
    e->start_ns = process->start_time_ns;
    e->exec_ns = process->exec_time_ns;
    e->map.file = jit_file_make(JIT_PERF_MAP);
    e->dump.file = jit_file_make(JIT_DUMP);
    e->map.id = ++j->last_id;
    e->dump.id = ++j->last_id;
    HASH_ADD(hh, j->by_pid, pid, sizeof(e->pid), e);
    if (!e->hh.tbl) {
        free(e);
        return NULL;
    }
    DL_APPEND(j->used, e);
    j->bytes += sizeof(*e);
    return e;
}

static struct jit_process *get_process(struct jits *j, const struct process *process)
{
    struct jit_process *e = find_process(j, process->pid);
    if (e && (e->start_ns != process->start_time_ns || e->exec_ns != process->exec_time_ns)) {
        remove_process(j, e);
        e = NULL;
    }
    if (!e) {
        if (HASH_COUNT(j->by_pid) >= PROCESSES_MAX)
            remove_process(j, j->used);
        return add_process(j, process);
    }
    if (e->next) {
        DL_DELETE(j->used, e);
        DL_APPEND(j->used, e);
    }
    return e;
}

/* ---- memory ---- */

/* The range limit for a file that is about to be read. Above half the bound, drops the ranges of processes without a
 * lookup in this turn, least recently used first. */
static size_t range_limit(struct jits *j, const struct code_file *t)
{
    for (struct jit_process *old = j->used; old && j->bytes - t->bytes > j->max_bytes / 2; old = old->next) {
        if (old->turn == j->turn || old->map.bytes + old->dump.bytes == 0)
            continue;
        j->count.forgotten++;
        clear_code_file(j, &old->map);
        clear_code_file(j, &old->dump);
    }
    const size_t others = j->bytes - t->bytes, left = others < j->max_bytes ? j->max_bytes - others : 0;
    const size_t ranges = left / 2 / sizeof(struct code_range); /* blocks may be half empty */
    return ranges > RANGES_MIN ? ranges : RANGES_MIN;
}

void jits_set_max_bytes(struct jits *j, size_t max_bytes)
{
    j->max_bytes = max_bytes;
}

/* Keeps processes with recent lookups: their files would be read again at once. */
void jits_trim(struct jits *j)
{
    struct jit_process *e;
    DL_FOREACH(j->used, e)
    {
        if (j->turn - e->turn < IDLE_TURNS)
            continue;
        clear_code_file(j, &e->map);
        clear_code_file(j, &e->dump);
    }
    /* string_arena_clear resets the generations, which would make stale names valid again. */
    memset(j->known, 0, NAMES_KNOWN * sizeof(*j->known));
    string_arena_clear(&j->texts);
}

/* ---- files ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_dump_name(const char *name)
{
    const size_t n = strlen(name);
    return n > 9 && strncmp(name, "jit-", 4) == 0 && strcmp(name + n - 5, ".dump") == 0;
}

static const struct process_mapping *find_dump(const struct process *process)
{
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct process_mapping *m = &process->mappings[i];
        if (m->object && m->path && is_dump_name(base_name(m->path)))
            return m;
    }
    return NULL;
}

static void scan_mappings(struct jits *j, struct jit_process *e, const struct process *process)
{
    const struct process_mapping *dump = find_dump(process);
    const uint64_t object = dump ? dump->object->id : 0;
    e->mapping_version = process->mapping_version;
    if (object != e->dump_object)
        clear_code_file(j, &e->dump);
    e->dump_object = object;
    e->runtime = RUNTIME_UNKNOWN;
    for (size_t i = 0; i < process->mapping_count && e->runtime == RUNTIME_UNKNOWN; i++) {
        const char *path = process->mappings[i].path, *name = path ? base_name(path) : "";
        e->runtime = strcmp(name, "libjvm.so") == 0       ? RUNTIME_JVM
                     : strcmp(name, "libcoreclr.so") == 0 ? RUNTIME_DOTNET
                                                          : RUNTIME_UNKNOWN;
    }
}

static void schedule_retry(struct code_file *t)
{
    t->pause_ns = t->pause_ns == 0 ? PAUSE_NS : t->pause_ns < PAUSE_MAX_NS ? t->pause_ns * 2 : PAUSE_MAX_NS;
    t->retry_ns = clock_monotonic_ns() + t->pause_ns;
}

/* Drops a missing or unusable file; it is tried again after a pause. */
static void reject_file(struct jits *j, struct code_file *t, int error)
{
    const uint64_t pause_ns = t->pause_ns;
    j->count.refused += error != -ENOENT && error != -ESRCH;
    clear_code_file(j, t);
    t->pause_ns = pause_ns;
    schedule_retry(t);
}

static bool is_temporary_error(int error)
{
    return error == -ETIMEDOUT || error == -EAGAIN || error == -EMFILE || error == -ENFILE;
}

/* Closes the open files of the least recently used process that has any. */
static void close_oldest(struct jits *j)
{
    struct jit_process *e;
    DL_FOREACH(j->used, e)
    {
        if (e->map.file.fd < 0 && e->dump.file.fd < 0)
            continue;
        close_code_file(j, &e->map);
        close_code_file(j, &e->dump);
        return;
    }
}

static int open_code_file(struct jits *j, struct code_file *t, int fd)
{
    if (fd < 0)
        return fd;
    while (j->open_count >= OPEN_MAX)
        close_oldest(j);
    close_code_file(j, t);
    int r = jit_file_open(&t->file, fd);
    update_totals(j, t);
    j->open_count += t->file.fd >= 0;
    t->opened_ns = clock_monotonic_ns();
    return r;
}

static int open_map(struct jits *j, struct code_file *t, const struct process *process)
{
    return open_code_file(j, t, processes_open_perf_map(j->processes, process));
}

static int open_dump(struct jits *j, struct code_file *t, const struct process *process)
{
    const struct process_mapping *m = find_dump(process);
    return open_code_file(j, t, m ? object_open(m->object) : -ENOENT);
}

/* Once per turn, checks that the path still refers to the open file. */
static bool needs_open(const struct jits *j, const struct code_file *t)
{
    if (t->file.fd < 0)
        return true;
    return t->file.format == JIT_PERF_MAP && t->turn != j->turn &&
           (jit_file_is_gone(&t->file) || clock_monotonic_ns() - t->opened_ns > REOPEN_NS);
}

/* Opens the file if necessary, and reads it within the budget. True: it is parsed completely and can be searched. */
static bool read_code_file(struct jits *j, struct code_file *t, const struct process *process)
{
    const bool is_map = t->file.format == JIT_PERF_MAP, was_read = t->turn == j->turn;
    if (t->retry_ns && clock_monotonic_ns() < t->retry_ns)
        return false;
    if (needs_open(j, t)) {
        const int r = is_map ? open_map(j, t, process) : open_dump(j, t, process);
        if (is_temporary_error(r)) {
            close_code_file(j, t);
            schedule_retry(t);
            return false;
        }
        if (r < 0) {
            reject_file(j, t, r);
            return false;
        }
    }
    t->turn = j->turn;
    if (is_map && was_read)
        return t->file.is_whole;
    const int r = jit_file_read(&t->file, j->now_ns, range_limit(j, t), &j->budget);
    update_totals(j, t);
    if (r == -ETIMEDOUT || r == -ENOMEM) {
        close_code_file(j, t);
        schedule_retry(t);
        return false;
    }
    if (r < 0) {
        reject_file(j, t, r);
        return false;
    }
    t->retry_ns = t->pause_ns = 0;
    return t->file.is_whole;
}

/* ---- names ---- */

static struct known_name *name_slot(struct jits *j, uint64_t file, uint64_t address)
{
    const uint64_t hash = (file * 0x9e3779b97f4a7c15ull ^ address) * 0xff51afd7ed558ccdull;
    return &j->known[(hash >> 32) % j->known_count];
}

static enum frame_kind frame_kind_of(enum runtime runtime, enum frame_kind by_name)
{
    if (by_name != FRAME_NATIVE)
        return by_name;
    return runtime == RUNTIME_JVM ? FRAME_JVM : runtime == RUNTIME_DOTNET ? FRAME_DOTNET : FRAME_NATIVE;
}

/* Stores a name in the cache. Its strings are copied to the string arena, where they may be evicted later. */
static void cache_name(struct jits *j, struct known_name *k, uint64_t file, uint64_t address, uint32_t place,
                       const struct jit_name *name)
{
    const char *function = string_arena_add(&j->texts, name->function, strlen(name->function));
    const uint32_t generation = j->texts.generation;
    const char *script = name->file[0] ? string_arena_add(&j->texts, name->file, strlen(name->file)) : "";
    if (!function || !script)
        return;
    *k = (struct known_name){file, address, place, generation, *name};
    k->name.function = function;
    k->name.file = script;
}

static int find_in_file(struct jits *j, struct jit_process *e, struct code_file *t, uint64_t address,
                        struct jit_name *ret)
{
    struct code_range range;
    if (!code_ranges_find(&t->file.ranges, address, &range))
        return -ENOENT;
    const uint64_t key = t->file.format == JIT_DUMP ? address : range.start;
    struct known_name *k = name_slot(j, t->id, key);
    if (k->file == t->id && k->address == key && k->place == range.place &&
        string_arena_alive(&j->texts, k->generation)) {
        *ret = k->name;
        return 0;
    }
    int r = jit_file_describe(&t->file, &range, address, &j->text);
    if (r == -ETIMEDOUT) {
        close_code_file(j, t);
        schedule_retry(t);
    }
    if (r < 0)
        return -ENOENT;
    jit_name_parse(j->text.name, ret);
    ret->kind = frame_kind_of(e->runtime, ret->kind);
    if (j->text.file[0]) {
        ret->file = j->text.file;
        ret->line = j->text.line;
    }
    cache_name(j, k, t->id, key, range.place, ret);
    return 0;
}

/* A forked child inherits its parent's mapping of the jitdump, which does not describe the child's code; the PID in the
 * header identifies the owner. */
static bool is_own_dump(struct jits *j, struct jit_process *e, const struct process *process)
{
    if (!e->dump.file.has_header)
        return false;
    if (!e->innermost_pid)
        e->innermost_pid = processes_innermost_pid(j->processes, process);
    return e->innermost_pid == e->dump.file.pid;
}

int jits_find(struct jits *j, const struct process *process, uint64_t address, struct jit_name *ret)
{
    struct jit_process *e = get_process(j, process);
    if (!e)
        return -ENOENT;
    e->turn = j->turn;
    if (e->mapping_version != process->mapping_version)
        scan_mappings(j, e, process);
    if (e->dump_object && read_code_file(j, &e->dump, process) && is_own_dump(j, e, process) &&
        find_in_file(j, e, &e->dump, address, ret) == 0)
        return 0;
    return read_code_file(j, &e->map, process) ? find_in_file(j, e, &e->map, address, ret) : -ENOENT;
}

void jits_metrics(const struct jits *j, struct metric_set *set)
{
    metric_add(set, "sonde_self_jit_bytes", METRIC_GAUGE, "bytes", "Memory held by addresses and names of JIT code",
               (double)(j->bytes + sizeof(*j) + NAMES_KNOWN * sizeof(*j->known) + string_arena_bytes(&j->texts)),
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_jit_refused", METRIC_COUNTER, "",
               "Perf maps and jitdumps that exist but cannot be used", (double)j->count.refused, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_jit_malformed", METRIC_COUNTER, "",
               "Malformed lines of perf maps and records of jitdumps", (double)j->count.bad, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_jit_evicted", METRIC_COUNTER, "",
               "Processes whose perf map or jitdump must be read again, because it was evicted to keep within bounds",
               (double)j->count.forgotten, METRIC_NO_LABELS);
}
