/* Names of code made at run time; see jit.h.
 *
 * A process has up to two files that tell: /tmp/perf-PID.map, and a jitdump that it maps, which is how that one is
 * found. The jitdump is asked first: it tells of times. What both hold is kept as ranges of addresses; texts stay in
 * the files, and are read and taken apart when they are needed, so that 16 bytes are enough for each piece of code. */
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
#define READ_BURST_BYTES (16u << 20) /* of all files: at once ... */
#define READ_BYTES_PER_S (16u << 20) /* ... and a second from then on */
#define PAUSE_NS         1000000000ull
#define PAUSE_MAX_NS     (32 * PAUSE_NS)
#define AGAIN_NS         (10 * 1000000000ull) /* whether the path still leads to the file */
#define IDLE_TURNS       32
#define RANGES_MIN       256

enum runtime { RUNTIME_UNKNOWN, RUNTIME_JVM, RUNTIME_DOTNET };

struct told {
    struct jit_file file;
    uint64_t id;        /* never used again; another one whenever what was read is forgotten */
    uint64_t forgotten; /* the file's, at that id */
    size_t bytes;       /* counted for it; and lines or records */
    uint64_t bad;
    uint64_t retry_ns; /* not asked for before */
    uint64_t pause_ns;
    uint64_t opened_ns;
    uint64_t turn; /* when it was looked at last */
};

struct jit_process {
    UT_hash_handle hh;
    struct jit_process *prev, *next; /* least recently used first */
    uint32_t pid, innermost_pid;
    uint64_t start_ns, exec_ns;
    uint64_t mapping_version; /* of what follows */
    enum runtime runtime;
    uint64_t dump_object; /* its id; 0: none is mapped */
    uint64_t turn;
    struct told map, dump;
};

struct known_name {
    uint64_t file;    /* its id; 0: none */
    uint64_t address; /* that was asked for: lines differ within a range */
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

static void close_told(struct jits *j, struct told *t)
{
    j->open_count -= t->file.fd >= 0;
    jit_file_close(&t->file);
}

/* After anything was done with it. */
static void account(struct jits *j, struct told *t)
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

static void clear_told(struct jits *j, struct told *t)
{
    close_told(j, t);
    jit_file_clear(&t->file);
    account(j, t);
    t->retry_ns = t->pause_ns = 0;
}

static void forget(struct jits *j, struct jit_process *e)
{
    clear_told(j, &e->map);
    clear_told(j, &e->dump);
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
        forget(j, j->used);
    string_arena_clear(&j->texts);
    free(j->text.room);
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
    /* A far file tells no news of itself, and one of the helper's threads waits for us: it is opened again when it is
     * needed. */
    struct jit_process *e;
    if (j->open_count > 0)
        DL_FOREACH(j->used, e)
        {
            if (e->map.file.far)
                close_told(j, &e->map);
            if (e->dump.file.far)
                close_told(j, &e->dump);
        }
}

void jits_at(struct jits *j, uint64_t time_ns)
{
    if (time_ns > j->now_ns)
        j->now_ns = time_ns;
}

static struct jit_process *lookup(struct jits *j, uint32_t pid)
{
    struct jit_process *e;
    HASH_FIND(hh, j->by_pid, &pid, sizeof(pid), e);
    return e;
}

void jits_forget(struct jits *j, uint32_t pid)
{
    struct jit_process *e = lookup(j, pid);
    if (e)
        forget(j, e);
}

static struct jit_process *add(struct jits *j, const struct process *process)
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

static struct jit_process *get(struct jits *j, const struct process *process)
{
    struct jit_process *e = lookup(j, process->pid);
    if (e && (e->start_ns != process->start_time_ns || e->exec_ns != process->exec_time_ns)) {
        forget(j, e);
        e = NULL;
    }
    if (!e) {
        if (HASH_COUNT(j->by_pid) >= PROCESSES_MAX)
            forget(j, j->used);
        return add(j, process);
    }
    if (e->next) {
        DL_DELETE(j->used, e);
        DL_APPEND(j->used, e);
    }
    return e;
}

/* ---- memory ---- */

/* How many ranges one more file may have: those of processes that nobody asked about in this turn give way. */
static size_t make_room(struct jits *j, const struct told *t)
{
    for (struct jit_process *old = j->used; old && j->bytes - t->bytes > j->max_bytes / 2; old = old->next) {
        if (old->turn == j->turn || old->map.bytes + old->dump.bytes == 0)
            continue;
        j->count.forgotten++;
        clear_told(j, &old->map);
        clear_told(j, &old->dump);
    }
    const size_t others = j->bytes - t->bytes, left = others < j->max_bytes ? j->max_bytes - others : 0;
    const size_t ranges = left / 2 / sizeof(struct code_range); /* blocks of them are half empty at worst */
    return ranges > RANGES_MIN ? ranges : RANGES_MIN;
}

/* What is in use would be read again at once. */
void jits_trim(struct jits *j)
{
    struct jit_process *e;
    DL_FOREACH(j->used, e)
    {
        if (j->turn - e->turn < IDLE_TURNS)
            continue;
        clear_told(j, &e->map);
        clear_told(j, &e->dump);
    }
    memset(j->known, 0, NAMES_KNOWN * sizeof(*j->known)); /* generations of texts are counted from 1 again */
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

static void look_at_mappings(struct jits *j, struct jit_process *e, const struct process *process)
{
    const struct process_mapping *dump = find_dump(process);
    const uint64_t object = dump ? dump->object->id : 0;
    e->mapping_version = process->mapping_version;
    if (object != e->dump_object)
        clear_told(j, &e->dump);
    e->dump_object = object;
    e->runtime = RUNTIME_UNKNOWN;
    for (size_t i = 0; i < process->mapping_count && e->runtime == RUNTIME_UNKNOWN; i++) {
        const char *path = process->mappings[i].path, *name = path ? base_name(path) : "";
        e->runtime = strcmp(name, "libjvm.so") == 0       ? RUNTIME_JVM
                     : strcmp(name, "libcoreclr.so") == 0 ? RUNTIME_DOTNET
                                                          : RUNTIME_UNKNOWN;
    }
}

static void rest(struct told *t)
{
    t->pause_ns = t->pause_ns == 0 ? PAUSE_NS : t->pause_ns < PAUSE_MAX_NS ? t->pause_ns * 2 : PAUSE_MAX_NS;
    t->retry_ns = clock_monotonic_ns() + t->pause_ns;
}

/* What is there is not to be used: it is forgotten, and looked at again after a while. */
static void refuse(struct jits *j, struct told *t, int error)
{
    const uint64_t pause_ns = t->pause_ns;
    j->count.refused += error != -ENOENT && error != -ESRCH;
    clear_told(j, t);
    t->pause_ns = pause_ns;
    rest(t);
}

static bool is_passing(int error)
{
    return error == -ETIMEDOUT || error == -EAGAIN || error == -EMFILE || error == -ENFILE;
}

/* Of those that are open, the one of the process that was used longest ago. */
static void close_one(struct jits *j)
{
    struct jit_process *e;
    DL_FOREACH(j->used, e)
    {
        if (e->map.file.fd < 0 && e->dump.file.fd < 0)
            continue;
        close_told(j, &e->map);
        close_told(j, &e->dump);
        return;
    }
}

static int open_told(struct jits *j, struct told *t, int fd)
{
    if (fd < 0)
        return fd;
    while (j->open_count >= OPEN_MAX)
        close_one(j);
    close_told(j, t);
    int r = jit_file_open(&t->file, fd);
    account(j, t);
    j->open_count += t->file.fd >= 0;
    t->opened_ns = clock_monotonic_ns();
    return r;
}

static int open_map(struct jits *j, struct told *t, const struct process *process)
{
    return open_told(j, t, processes_open_perf_map(j->processes, process));
}

static int open_dump(struct jits *j, struct told *t, const struct process *process)
{
    const struct process_mapping *m = find_dump(process);
    return open_told(j, t, m ? object_open(m->object) : -ENOENT);
}

/* Once a turn, whether the path still leads to the file. */
static bool is_to_be_opened(const struct jits *j, const struct told *t)
{
    if (t->file.fd < 0)
        return true;
    return t->file.format == JIT_PERF_MAP && t->turn != j->turn &&
           (jit_file_is_gone(&t->file) || clock_monotonic_ns() - t->opened_ns > AGAIN_NS);
}

/* Has the file open and read, as far as the budget goes. False: it tells nothing now. */
static bool read_told(struct jits *j, struct told *t, const struct process *process)
{
    const bool is_map = t->file.format == JIT_PERF_MAP, was_looked_at = t->turn == j->turn;
    if (t->retry_ns && clock_monotonic_ns() < t->retry_ns)
        return false;
    if (is_to_be_opened(j, t)) {
        const int r = is_map ? open_map(j, t, process) : open_dump(j, t, process);
        if (is_passing(r)) {
            close_told(j, t);
            rest(t);
            return false;
        }
        if (r < 0) {
            refuse(j, t, r);
            return false;
        }
    }
    t->turn = j->turn;
    if (is_map && was_looked_at)
        return t->file.is_whole;
    const int r = jit_file_read(&t->file, j->now_ns, make_room(j, t), &j->budget);
    account(j, t);
    if (r == -ETIMEDOUT || r == -ENOMEM) {
        close_told(j, t);
        rest(t);
        return false;
    }
    if (r < 0) {
        refuse(j, t, r);
        return false;
    }
    t->retry_ns = t->pause_ns = 0;
    return t->file.is_whole;
}

/* ---- names ---- */

static struct known_name *known_place(struct jits *j, uint64_t file, uint64_t address)
{
    const uint64_t hash = (file * 0x9e3779b97f4a7c15ull ^ address) * 0xff51afd7ed558ccdull;
    return &j->known[(hash >> 32) % j->known_count];
}

static enum frame_kind kind_of(enum runtime runtime, enum frame_kind by_name)
{
    if (by_name != FRAME_NATIVE)
        return by_name;
    return runtime == RUNTIME_JVM ? FRAME_JVM : runtime == RUNTIME_DOTNET ? FRAME_DOTNET : FRAME_NATIVE;
}

/* Copies of what a name is made of, which live in `texts` for a while. */
static void remember(struct jits *j, struct known_name *k, uint64_t file, uint64_t address, uint32_t place,
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

static int find_in(struct jits *j, struct jit_process *e, struct told *t, uint64_t address, struct jit_name *ret)
{
    struct code_range range;
    if (!code_ranges_find(&t->file.ranges, address, &range))
        return -ENOENT;
    const uint64_t asked = t->file.format == JIT_DUMP ? address : range.start;
    struct known_name *k = known_place(j, t->id, asked);
    if (k->file == t->id && k->address == asked && k->place == range.place &&
        string_arena_alive(&j->texts, k->generation)) {
        *ret = k->name;
        return 0;
    }
    int r = jit_file_describe(&t->file, &range, address, &j->text);
    if (r == -ETIMEDOUT) {
        close_told(j, t);
        rest(t);
    }
    if (r < 0)
        return -ENOENT;
    jit_name_parse(j->text.name, ret);
    ret->kind = kind_of(e->runtime, ret->kind);
    if (j->text.file[0]) {
        ret->file = j->text.file;
        ret->line = j->text.line;
    }
    remember(j, k, t->id, asked, range.place, ret);
    return 0;
}

/* Whose jitdump it is, is written in it: a child still maps that of its parent, whose code is no longer its own. */
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
    struct jit_process *e = get(j, process);
    if (!e)
        return -ENOENT;
    e->turn = j->turn;
    if (e->mapping_version != process->mapping_version)
        look_at_mappings(j, e, process);
    if (e->dump_object && read_told(j, &e->dump, process) && is_own_dump(j, e, process) &&
        find_in(j, e, &e->dump, address, ret) == 0)
        return 0;
    return read_told(j, &e->map, process) ? find_in(j, e, &e->map, address, ret) : -ENOENT;
}

void jits_metrics(const struct jits *j, struct metric_set *set)
{
    metric_add(set, "sonde_self_jit_bytes", METRIC_GAUGE, "bytes",
               "Memory held by places and names of code made at run time",
               (double)(j->bytes + sizeof(*j) + NAMES_KNOWN * sizeof(*j->known) + string_arena_bytes(&j->texts)),
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_jit_refused", METRIC_COUNTER, "",
               "Times that a perf map or a jitdump was there and not to be read", (double)j->count.refused,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_jit_senseless", METRIC_COUNTER, "",
               "Lines of perf maps and records of jitdumps that make no sense", (double)j->count.bad, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_jit_forgotten", METRIC_COUNTER, "",
               "Processes whose perf map or jitdump is to be read again, to keep within bounds",
               (double)j->count.forgotten, METRIC_NO_LABELS);
}
