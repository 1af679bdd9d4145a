/* Sums accesses; see io_report_data.h. */
#include "io_report/io_report_data.h"

#include "base/clock.h"
#include "io_report/io_report_failures.h"
#include "model/io_merge.h"
#include "signals/io/io_names.h"
#include "sources/io/io.h"
#include "sources/io/io_accesses.h"
#include "sources/io/io_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define INTERVALS_MAX 200
#define UPKEEP_NS     1000000000ull
#define FILES_MAX     100000 /* of processes; further ones of a process are one */
#define PROCESSES_MAX 10000  /* further ones are one, with this PID: */
#define FURTHER_PID   0
#define FURTHER_FILES UINT64_MAX /* as a mount */

struct process {
    uint32_t pid;
    char command[16];
    uint64_t command_ns; /* when it was that: programs execute others */
    uint32_t user;
    struct io_report_cell cells[INTERVALS_MAX];
    size_t index; /* in the report */
    UT_hash_handle hh;
};

/* The kernel forgets the names of files that other processes still have records of. */
struct known_name {
    struct io_file_key key;
    uint64_t inode;
    char *below; /* the mount point */
    bool is_outside;
    UT_hash_handle hh;
};

struct file_key {
    uint64_t mount, file;
    uint32_t process, reserved;
};

struct file {
    struct file_key key;
    struct io_report_file sum;
    char *path, *mount_point, *file_system;
    UT_hash_handle hh;
};

struct io_report_data {
    void *source;
    struct io_names names;
    uint64_t start_ns, upkeep_ns; /* upkeep_ns: next time to refresh names and forget losses */
    unsigned shift;               /* an interval of the heatmap is that many times twice the kernel's */
    size_t intervals;
    struct process *processes;
    struct file *files;
    struct known_name *known_names;
    struct io_report_failures *failures;
    struct io_report_process *process_list;
    struct io_report_file *file_list;
    struct io_report_cell *cells;
    int error;
};

int io_report_data_new(void *source, struct io_report_data **ret)
{
    struct io_report_data *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->source = d->names.source = source;
    d->start_ns = io_accesses_start_ns(source);
    if (io_report_failures_new(source, &d->failures) < 0) {
        free(d);
        return -ENOMEM;
    }
    *ret = d;
    return 0;
}

static void free_file(struct file *f)
{
    free(f->path);
    free(f->mount_point);
    free(f->file_system);
    free(f);
}

void io_report_data_free(struct io_report_data *d)
{
    struct process *process, *next_process;
    struct file *file, *next_file;
    struct known_name *name, *next_name;
    if (!d)
        return;
    HASH_ITER (hh, d->processes, process, next_process) {
        HASH_DEL(d->processes, process);
        free(process);
    }
    HASH_ITER (hh, d->files, file, next_file) {
        HASH_DEL(d->files, file);
        free_file(file);
    }
    HASH_ITER (hh, d->known_names, name, next_name) {
        HASH_DEL(d->known_names, name);
        free(name->below);
        free(name);
    }
    io_names_clear(&d->names);
    io_report_failures_free(d->failures);
    free(d->process_list);
    free(d->file_list);
    free(d->cells);
    free(d);
}

/* ---- processes and files ---- */

static struct process *look_up_process(const struct io_report_data *d, uint32_t pid)
{
    struct process *p = NULL;
    HASH_FIND(hh, d->processes, &pid, sizeof(pid), p);
    return p;
}

static struct process *find_process(struct io_report_data *d, uint32_t pid)
{
    struct process *p = look_up_process(d, pid);
    if (!p && HASH_COUNT(d->processes) >= PROCESSES_MAX)
        p = look_up_process(d, pid = FURTHER_PID);
    if (p)
        return p;
    p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->pid = pid;
    HASH_ADD(hh, d->processes, pid, sizeof(p->pid), p);
    return p;
}

bool io_report_data_has_process(const struct io_report_data *d, uint32_t pid)
{
    return look_up_process(d, pid) != NULL;
}

int io_report_data_add_process(struct io_report_data *d, uint32_t pid, const char *command, uint32_t user)
{
    struct process *p = find_process(d, pid);
    if (!p)
        return -ENOMEM;
    if (!p->command_ns) {
        snprintf(p->command, sizeof(p->command), "%s", command);
        p->user = user;
    }
    return 0;
}

/* Keeps the file's name, unless that is kept already. */
static void keep_name(struct io_report_data *d, const struct io_file_key *key)
{
    struct known_name *known = NULL;
    struct io_name name;
    char below[IO_PATH_BYTES];
    HASH_FIND(hh, d->known_names, key, sizeof(*key), known);
    if (known || !key->file || HASH_COUNT(d->known_names) >= FILES_MAX || !io_source_file(d->source, key, &name))
        return;
    io_path_format(&name, below, sizeof(below));
    known = calloc(1, sizeof(*known));
    if (known)
        *known = (struct known_name){
            .key = *key, .inode = name.inode, .below = strdup(below), .is_outside = name.is_outside};
    if (!known || !known->below) {
        free(known);
        d->error = -ENOMEM;
        return;
    }
    HASH_ADD(hh, d->known_names, key, sizeof(known->key), known);
}

static void describe_path(const struct io_report_data *d, const struct io_file_key *file, const struct io_named *mount,
                          char *ret, size_t size, uint64_t *ret_inode)
{
    struct known_name *known = NULL;
    HASH_FIND(hh, d->known_names, file, sizeof(*file), known);
    if (!known) {
        snprintf(ret, size, "%s (a file whose name is not known)", mount->path);
        return;
    }
    *ret_inode = known->inode;
    io_named_join(mount, known->below, known->is_outside, ret, size);
}

/* False: no memory. */
static bool name_file(struct io_report_data *d, const struct io_access_key *key, struct file *f)
{
    const bool is_one = f->key.mount != FURTHER_FILES;
    const struct io_named *mount = key->mount && is_one ? io_names_mount(&d->names, key->mount) : NULL;
    char path[2 * IO_PATH_BYTES + 64] = "";
    if (!is_one)
        snprintf(path, sizeof(path), "(further files)");
    else if (mount)
        describe_path(d, &(struct io_file_key){key->mount, key->file}, mount, path, sizeof(path), &f->sum.inode);
    f->path = strdup(path);
    f->mount_point = strdup(mount ? mount->path : "");
    f->file_system = strdup(mount ? mount->type : "");
    return f->path && f->mount_point && f->file_system;
}

static struct file *look_up_file(struct io_report_data *d, const struct file_key *key)
{
    struct file *f = NULL;
    HASH_FIND(hh, d->files, key, sizeof(*key), f);
    return f;
}

static struct file *add_file(struct io_report_data *d, const struct io_access_key *key, const struct file_key *as)
{
    struct file *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->key = *as;
    if (!name_file(d, key, f)) {
        free_file(f);
        return NULL;
    }
    HASH_ADD(hh, d->files, key, sizeof(f->key), f);
    return f;
}

static struct file *find_file(struct io_report_data *d, const struct io_access_key *key, uint32_t pid)
{
    struct file_key wanted = {.mount = key->mount, .file = key->file, .process = pid};
    struct file *f = look_up_file(d, &wanted);
    if (f || HASH_COUNT(d->files) < FILES_MAX)
        return f ?: add_file(d, key, &wanted);
    wanted.mount = FURTHER_FILES;
    wanted.file = 0;
    return look_up_file(d, &wanted) ?: add_file(d, key, &wanted);
}

/* ---- sums ---- */

static uint64_t since(const struct io_report_data *d, uint64_t ns)
{
    return ns > d->start_ns ? ns - d->start_ns : 0;
}

static struct io_report_time time_of(const struct io_report_data *d, const struct io_access_time *t)
{
    if (!t->last_ns)
        return (struct io_report_time){0};
    return (struct io_report_time){since(d, t->first_ns), since(d, t->last_ns), t->ns};
}

static struct io_report_accesses accesses_of(const struct io_report_data *d, const struct io_access_direction *a)
{
    struct io_report_accesses accesses = {
        .operations = a->operations,
        .bytes = a->bytes,
        .located = a->located,
        .followed = a->followed,
        .sequential = a->sequential,
        .consecutive = a->consecutive,
        .unaligned = a->unaligned,
        .end_offset = a->end_offset,
        .slowest_ns = a->slowest_ns,
        .slowest_bytes = a->slowest_bytes,
        .time = time_of(d, &a->time),
    };
    for (size_t i = 0; i < IO_REPORT_SIZES; i++)
        accesses.sizes[i] = a->sizes[i];
    return accesses;
}

static void copy_common(struct io_report_common *ret, const struct io_common *c)
{
    for (size_t i = 0; i < IO_COMMON; i++)
        ret[i] = (struct io_report_common){c->value[i], c->count[i]};
}

/* What one thread did with one file. */
static struct io_report_file file_of(const struct io_report_data *d, const struct io_access *a)
{
    const __u64 *n = a->operations;
    struct io_report_file file = {
        .reads = accesses_of(d, &a->reads),
        .writes = accesses_of(d, &a->writes),
        .switches = a->switches,
        .opens = n[IO_OPEN],
        .creates = n[IO_CREATE],
        .closes = n[IO_CLOSE],
        .stats = n[IO_STAT],
        .syncs = n[IO_SYNC],
        .truncates = n[IO_TRUNCATE],
        .lists = n[IO_LIST],
        .others = n[IO_ALLOCATE] + n[IO_MKDIR] + n[IO_RMDIR] + n[IO_UNLINK] + n[IO_RENAME] + n[IO_LINK],
        .maps = n[IO_MAP],
        .mapped_bytes = a->mapped_bytes,
        .errors = a->errors,
        .direct = a->direct,
        .open = time_of(d, &a->open),
        .close = time_of(d, &a->close),
        .sync = time_of(d, &a->sync),
        .metadata = time_of(d, &a->metadata),
    };
    copy_common(file.sizes, &a->sizes);
    copy_common(file.strides, &a->strides);
    return file;
}

static void take_access(void *context, const struct io_access_key *key, const struct io_access *a)
{
    struct io_report_data *d = context;
    const struct io_named *mount = key->mount ? io_names_mount(&d->names, key->mount) : NULL;
    if (mount && mount->is_hidden) /* memory that has no name, as of memfd_create */
        return;
    keep_name(d, &(struct io_file_key){key->mount, key->file});
    struct process *process = find_process(d, key->process);
    struct file *f = process ? find_file(d, key, process->pid) : NULL;
    if (!process || !f) {
        d->error = -ENOMEM;
        return;
    }
    if (a->last_ns >= process->command_ns) {
        snprintf(process->command, sizeof(process->command), "%.*s", (int)sizeof(a->command) - 1,
                 process->pid == FURTHER_PID ? "(others)" : a->command);
        process->command_ns = a->last_ns;
        process->user = a->user;
    }
    const struct io_report_file one = file_of(d, a);
    io_merge_add(&f->sum, &one);
    if (a->block_bytes)
        f->sum.block_bytes = a->block_bytes;
}

/* ---- heatmap ---- */

static void widen_intervals(struct io_report_data *d)
{
    for (struct process *p = d->processes; p; p = p->hh.next) {
        for (size_t i = 0; i < INTERVALS_MAX / 2; i++) {
            p->cells[i].read_bytes = p->cells[2 * i].read_bytes + p->cells[2 * i + 1].read_bytes;
            p->cells[i].write_bytes = p->cells[2 * i].write_bytes + p->cells[2 * i + 1].write_bytes;
        }
        memset(&p->cells[INTERVALS_MAX / 2], 0, sizeof(p->cells) / 2);
    }
    d->shift++;
}

static void take_interval(void *context, const struct io_interval_key *key, const struct io_interval *interval)
{
    struct io_report_data *d = context;
    struct process *p = find_process(d, key->process);
    if (!p) {
        d->error = -ENOMEM;
        return;
    }
    while (key->interval >> d->shift >= INTERVALS_MAX)
        widen_intervals(d);
    struct io_report_cell *cell = &p->cells[key->interval >> d->shift];
    cell->read_bytes += interval->read_bytes;
    cell->write_bytes += interval->write_bytes;
}

/* ---- failures ---- */

static bool keep_counters(void *context, const struct io_key *key, const struct io_counters *counters)
{
    (void)context, (void)key, (void)counters;
    return false;
}

static void take_error(void *context, const struct io_error_key *key, uint64_t count, bool is_final)
{
    struct io_report_data *d = context;
    const struct io_named *mount = key->key.mount != IO_NO_MOUNT ? io_names_mount(&d->names, key->key.mount) : NULL;
    (void)is_final;
    if (mount && mount->is_hidden)
        return;
    if (mount)
        keep_name(d, &(struct io_file_key){key->key.mount, key->key.file});
    if (io_report_failures_add(d->failures, key, count) < 0)
        d->error = -ENOMEM;
}

static int take_errors(struct io_report_data *d)
{
    const struct io_reader reader = {
        .context = d, .is_final = keep_counters, .take_error = take_error, .ends_errors = true};
    return io_source_read_errors(d->source, &reader);
}

static void name_failed_file(void *context, const struct io_key *key, char *ret, size_t size)
{
    struct io_report_data *d = context;
    const struct io_named *mount = io_names_mount(&d->names, key->mount);
    uint64_t inode;
    ret[0] = '\0';
    if (mount)
        describe_path(d, &(struct io_file_key){key->mount, key->file}, mount, ret, size, &inode);
}

static uint32_t find_process_index(void *context, uint32_t pid)
{
    const struct process *p = look_up_process(context, pid) ?: look_up_process(context, FURTHER_PID);
    return p ? (uint32_t)p->index : 0;
}

static int list_failures(struct io_report_data *d, struct io_report *ret)
{
    const struct io_report_namer namer = {d, name_failed_file, find_process_index};
    return io_report_failures_list(d->failures, &namer, &ret->failures, &ret->failure_count);
}

int io_report_data_take(struct io_report_data *d, bool is_last)
{
    const struct io_access_reader reader = {.context = d, .take = take_access, .take_interval = take_interval};
    const uint64_t now_ns = clock_monotonic_ns();
    if (is_last || now_ns >= d->upkeep_ns) {
        io_names_refresh_mounts(&d->names);
        io_source_sweep(d->source, now_ns);
        d->upkeep_ns = now_ns + UPKEEP_NS;
    }
    const int errors = take_errors(d); /* first: accesses take the names of files with them */
    const int r = io_accesses_take(d->source, now_ns, is_last, &reader);
    return d->error ?: r ?: errors;
}

/* ---- the report ---- */

static int compare_processes(const struct process *a, const struct process *b)
{
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int compare_files(const struct file *a, const struct file *b)
{
    if (a->key.process != b->key.process)
        return a->key.process < b->key.process ? -1 : 1;
    return strcmp(a->path, b->path);
}

static int list_processes(struct io_report_data *d, struct io_report *ret)
{
    const size_t count = HASH_COUNT(d->processes);
    size_t index = 0;
    d->process_list = calloc(count + 1, sizeof(*d->process_list));
    d->cells = calloc(count * d->intervals + 1, sizeof(*d->cells));
    if (!d->process_list || !d->cells)
        return -ENOMEM;
    HASH_SORT(d->processes, compare_processes);
    for (struct process *p = d->processes; p; p = p->hh.next) {
        p->index = index;
        d->process_list[index] = (struct io_report_process){.pid = p->pid, .command = p->command};
        memcpy(&d->cells[index++ * d->intervals], p->cells, d->intervals * sizeof(p->cells[0]));
    }
    ret->processes = d->process_list;
    ret->process_count = count;
    ret->cells = d->cells;
    ret->uid = d->processes ? d->processes->user : 0;
    return 0;
}

static int list_files(struct io_report_data *d, struct io_report *ret)
{
    const size_t count = HASH_COUNT(d->files);
    size_t index = 0;
    d->file_list = calloc(count + 1, sizeof(*d->file_list));
    if (!d->file_list)
        return -ENOMEM;
    HASH_SORT(d->files, compare_files);
    for (struct file *f = d->files; f; f = f->hh.next) {
        const struct process *p = find_process(d, f->key.process);
        f->sum.process = (uint32_t)p->index;
        f->sum.path = f->path;
        f->sum.mount_point = f->mount_point;
        f->sum.file_system = f->file_system;
        d->file_list[index++] = f->sum;
    }
    ret->files = d->file_list;
    ret->file_count = count;
    return 0;
}

int io_report_data_finish(struct io_report_data *d, uint64_t end_ns, struct io_report *ret)
{
    ret->duration_ns = since(d, end_ns);
    while (ret->duration_ns / (IO_INTERVAL_NS << d->shift) >= INTERVALS_MAX)
        widen_intervals(d);
    ret->interval_ns = IO_INTERVAL_NS << d->shift;
    ret->interval_count = d->intervals = (size_t)(ret->duration_ns / ret->interval_ns) + 1;
    const struct io_access_losses losses = io_accesses_losses(d->source);
    ret->lost = losses.lost;
    ret->pending = losses.pending;
    return list_processes(d, ret) ?: list_files(d, ret) ?: list_failures(d, ret);
}
