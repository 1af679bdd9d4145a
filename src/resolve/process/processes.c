/* The table of processes; see processes.h.
 *
 * Most processes of a busy node are never sampled, so a record costs little more than a hash lookup: forks share
 * their parent's image, files are identified by build ID once they have been seen, and /proc is not read before a
 * sample needs it. Entries of exited processes stay until they are swept, because samples of them may still be
 * queued. When the table is full, the least recently used running process is evicted first: it can be read from
 * /proc again. */
#include "resolve/process/processes.h"

#include "base/clock.h"
#include "resolve/files/file_opener.h"
#include "resolve/proc/maps.h"
#include "resolve/process/pods.h"
#include "resolve/process/processes_read.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <utlist.h>

#define CGROUPS_MAX        1024
#define IDLE_OBJECT_NS     10000000000ULL
#define CHECKS_PER_SWEEP   64
#define START_TOLERANCE_NS 30000000ULL /* between a fork's record and the clock ticks of /proc/PID/stat */

static size_t open_files_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 64;
    size_t n = limit.rlim_cur / 4;
    return n < 16 ? 16 : n > 512 ? 512 : n;
}

int processes_new(size_t max_bytes, struct processes **ret)
{
    _cleanup_(processes_freep) struct processes *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->max_bytes = max_bytes;
    p->evicted = calloc(EVICTED_MAX, sizeof(*p->evicted));
    if (!p->evicted)
        return -ENOMEM;
    p->bytes = sizeof(*p) + EVICTED_MAX * sizeof(*p->evicted);
    int r = objects_new(open_files_max(), &p->objects);
    if (r == 0)
        r = cgroups_new(NULL, CGROUPS_MAX, &p->cgroups);
    if (r < 0)
        return r;
    *ret = take_ptr(p);
    return 0;
}

void processes_free(struct processes *p)
{
    if (!p)
        return;
    while (p->by_pid)
        processes_remove(p, p->by_pid);
    processes_free_retired(p);
    pods_unref(p->pods);
    objects_free(p->objects);
    cgroups_free(p->cgroups);
    buf_clear(&p->scratch);
    free(p->evicted);
    free(p);
}

void processes_set_replay(struct processes *p)
{
    p->is_replay = true;
    objects_set_inline(p->objects);
}

void processes_limit_caches(struct processes *p, size_t entries)
{
    objects_limit(p->objects, entries);
    cgroups_limit(p->cgroups, entries);
}

void processes_on_unused_file(struct processes *p, void (*unused)(uint64_t object_id, void *context), void *context)
{
    objects_on_unused(p->objects, unused, context);
}

int processes_start_helper(struct processes *p)
{
    return file_opener_start(objects_opener(p->objects));
}

uint64_t processes_helper_cpu_ns(struct processes *p)
{
    struct file_opener_stats f;
    file_opener_stats(objects_opener(p->objects), &f);
    return f.cpu_ns;
}

static void mark_running(struct processes *p, struct process_entry *e)
{
    e->leader_exited = false;
    if (!e->process.exited)
        return;
    image_live(e->image, 1);
    e->process.exited = false;
    DL_DELETE(p->exited, e);
    DL_APPEND(p->used, e);
}

static void mark_used(struct processes *p, struct process_entry *e)
{
    if (e->process.exited || !e->next)
        return;
    DL_DELETE(p->used, e);
    DL_APPEND(p->used, e);
}

static size_t all_bytes(const struct processes *p)
{
    struct objects_stats f;
    objects_stats(p->objects, &f);
    return p->bytes + p->paths.bytes + f.bytes + cgroups_bytes(p->cgroups);
}

void processes_set_max_bytes(struct processes *p, size_t max_bytes)
{
    p->max_bytes = max_bytes;
}

/* Evicts processes. Called after a record was processed, when no caller holds an entry. */
static void keep_within_bounds(struct processes *p)
{
    while ((p->used || p->exited) && all_bytes(p) > p->max_bytes) {
        struct process_entry *e = p->used ? p->used : p->exited;
        if (p->evicted_count < EVICTED_MAX)
            p->evicted[p->evicted_count++] = e->process.pid;
        processes_remove(p, e);
        p->count.evictions++;
        objects_trim(p->objects, p->now_ns, p->now_ns + 1); /* the objects that only it had mapped */
    }
}

static void apply_fork(struct processes *p, const struct process_fork *fork)
{
    struct process_entry *e = processes_lookup(p, fork->h.pid);
    if (fork->h.tid != fork->h.pid) {
        if (e)
            e->threads++;
        return;
    }
    const uint64_t start_boot_ns = fork->h.time_ns + processes_boot_offset_ns();
    if (e) {
        const uint64_t difference =
            e->start_boot_ns > start_boot_ns ? e->start_boot_ns - start_boot_ns : start_boot_ns - e->start_boot_ns;
        if (!e->process.exited && difference <= START_TOLERANCE_NS)
            return; /* read from /proc before its record arrived */
        processes_remove(p, e);
    }
    e = processes_add(p, fork->h.pid, fork->h.time_ns, start_boot_ns);
    if (!e)
        return;
    e->parent_pid = fork->parent_pid;
    e->threads = 1;
    e->threads_counted = true;
    const struct process_entry *parent = processes_lookup(p, fork->parent_pid);
    if (!parent)
        return;
    memcpy(e->command, parent->command, sizeof(e->command));
    e->is_kernel_thread = parent->is_kernel_thread;
    if (parent->knowledge == KNOWN_COMPLETELY && parent->generation == p->generation) {
        e->knowledge = KNOWN_COMPLETELY;
        e->service_known = parent->service_known; /* its environment is a copy */
    }
    e->cgroup = cgroup_ref(parent->cgroup);
    e->cgroup_id = parent->cgroup_id;
    e->view = parent->view;
    e->view_known = parent->view_known;
    e->service = service_ref(parent->service);
    if (parent->image)
        processes_set_image(p, e, image_ref(parent->image));
}

static struct process_entry *lookup_or_add(struct processes *p, const struct record_header *h)
{
    struct process_entry *e = processes_lookup(p, h->pid);
    /* Older than the agent; its start is read from /proc later. */
    return e ? e : processes_add(p, h->pid, 0, 0);
}

static void apply_exec(struct processes *p, const struct process_exec *exec)
{
    struct process_entry *e = lookup_or_add(p, &exec->h);
    if (!e)
        return;
    e->process.exec_time_ns = exec->h.time_ns;
    mark_running(p, e); /* a thread that executes replaces the main thread, which exits first */
    struct image *image = image_new();
    processes_set_image(p, e, image);
    e->knowledge = image ? KNOWN_COMPLETELY : KNOWN_BY_RECORDS;
    e->generation = p->generation;
    e->threads = 1;
    e->threads_counted = true;
    e->service_known = e->view_known = false;
    processes_drop_context(p, e);
    e->is_kernel_thread = false;
    processes_set_command(e, exec->comm, exec->h.time_ns);
}

static void apply_comm(struct processes *p, const struct process_comm *comm)
{
    struct process_entry *e = comm->h.pid == comm->h.tid ? processes_lookup(p, comm->h.pid) : NULL;
    if (e)
        processes_set_command(e, comm->comm, comm->h.time_ns);
}

/* The comm in a sample is not used for kernel threads: /proc has more detail, such as a worker's work queue. */
void processes_note_command(struct processes *p, const struct process *process, const char comm[16], uint64_t time_ns)
{
    (void)p; /* its entries are the processes */
    struct process_entry *e = process_entry_of(process);
    if (!e->is_kernel_thread && time_ns >= e->command_ns)
        processes_set_command(e, comm, time_ns);
}

void processes_command(struct processes *p, uint32_t pid, char out[16])
{
    const struct process_entry *e = processes_lookup(p, pid);
    const struct exited_name *exited = &p->exited_names[pid % EXITED_NAMES_MAX];
    memset(out, 0, 16);
    if (e)
        memcpy(out, e->command, 15);
    else if (exited->pid == pid)
        memcpy(out, exited->command, 15);
}

/* The path as the process sees it, into `path` of PATH_MAX bytes. */
static bool read_path(const struct process_mmap *m, char *path)
{
    const size_t available = m->h.size_bytes - offsetof(struct process_mmap, path);
    if (m->path_bytes == 0 || m->path_bytes > available || m->path[m->path_bytes - 1] != '\0' ||
        m->path_bytes > PATH_MAX)
        return false;
    memcpy(path, m->path, m->path_bytes);
    path[maps_path_without_deleted(path, strlen(path))] = '\0';
    return true;
}

/* The first file that a new program maps is the program. True when `path` was recorded as such. */
static bool set_program(struct processes *p, const struct process_entry *e, const char *path)
{
    struct image *image = e->image;
    if (e->knowledge != KNOWN_COMPLETELY || !image || image->references != 1 || image->count > 0 || image->executable ||
        path[0] != '/' || !object_path_is_file(path))
        return false;
    image->executable = paths_get(&p->paths, path);
    return true;
}

static void apply_mmap(struct processes *p, const struct process_mmap *m)
{
    struct process_entry *e = lookup_or_add(p, &m->h);
    char path[PATH_MAX];
    if (!e || m->size_bytes == 0 || m->start > UINT64_MAX - m->size_bytes || !read_path(m, path))
        return;
    struct object_sight sight = {
        .path = path,
        .build_id = m->build_id,
        .build_id_bytes = m->build_id_bytes <= PROCESS_BUILD_ID_MAX_BYTES ? m->build_id_bytes : 0,
        .device = makedev(m->device_major, m->device_minor),
        .inode = m->inode,
        .generation = m->inode_generation,
        .start = m->start,
        .end = m->start + m->size_bytes,
    };
    processes_fill_sight(p, e, &sight);
    set_program(p, e, path);
    processes_map(p, e, &sight, m->file_offset);
}

bool processes_announce_mmap(struct processes *p, const struct record_header *record)
{
    const struct process_mmap *m = (const struct process_mmap *)record;
    const struct process_entry *e = processes_lookup(p, record->pid);
    char path[PATH_MAX];
    return e && record->size_bytes >= offsetof(struct process_mmap, path) && read_path(m, path) &&
           set_program(p, e, path);
}

static void apply_exit(struct processes *p, const struct process_exit *exit_record)
{
    struct process_entry *e = processes_lookup(p, exit_record->h.pid);
    if (!e)
        return;
    e->threads--;
    if (exit_record->h.tid == exit_record->h.pid)
        e->leader_exited = true;
    if (!e->leader_exited)
        return;
    /* The main thread may exit before the others. If they were not counted from the start, /proc decides. */
    bool others = e->threads > 0;
    const bool counted = e->threads_counted && e->generation == p->generation;
    if (!counted && !processes_is_alive(p, e, &others))
        others = false;
    if (!others)
        processes_mark_exited(p, e, exit_record->h.time_ns);
}

static void apply_lost(struct processes *p, const struct process_lost *lost)
{
    p->count.lost += lost->events;
    p->generation++;
    p->check = p->by_pid;
}

void processes_apply(struct processes *p, const struct record_header *record)
{
    static const struct {
        uint16_t kind;
        uint16_t size;
    } sizes[] = {
        {RECORD_PROCESS_FORK, sizeof(struct process_fork)},         {RECORD_PROCESS_EXEC, sizeof(struct process_exec)},
        {RECORD_PROCESS_COMM, sizeof(struct process_comm)},         {RECORD_PROCESS_EXIT, sizeof(struct process_exit)},
        {RECORD_PROCESS_MMAP, offsetof(struct process_mmap, path)}, {RECORD_PROCESS_LOST, sizeof(struct process_lost)},
    };
    for (size_t i = 0; i < array_size(sizes); i++)
        if (sizes[i].kind == record->kind && record->size_bytes < sizes[i].size)
            return;
    if (record->time_ns > p->now_ns)
        p->now_ns = record->time_ns;
    switch (record->kind) {
    case RECORD_PROCESS_FORK:
        apply_fork(p, (const struct process_fork *)record);
        break;
    case RECORD_PROCESS_EXEC:
        apply_exec(p, (const struct process_exec *)record);
        break;
    case RECORD_PROCESS_COMM:
        apply_comm(p, (const struct process_comm *)record);
        break;
    case RECORD_PROCESS_MMAP:
        apply_mmap(p, (const struct process_mmap *)record);
        break;
    case RECORD_PROCESS_EXIT:
        apply_exit(p, (const struct process_exit *)record);
        break;
    case RECORD_PROCESS_LOST:
        apply_lost(p, (const struct process_lost *)record);
        break;
    default:
        break;
    }
    keep_within_bounds(p);
}

void processes_at(struct processes *p, uint64_t time_ns)
{
    if (time_ns > p->now_ns)
        p->now_ns = time_ns;
}

const struct process *processes_find(struct processes *p, uint32_t pid, uint64_t cgroup_id)
{
    struct process_entry *e = processes_lookup(p, pid);
    if (!e)
        e = processes_read_new(p, pid);
    if (!e)
        return NULL;
    if (e->knowledge == KNOWN_BY_RECORDS || (e->generation != p->generation && !e->process.exited))
        processes_complete(p, e);
    if (cgroup_id && cgroup_id != e->cgroup_id) {
        e->cgroup_id = cgroup_id;
        e->cgroup_known = false; /* moved, or never read */
    }
    mark_used(p, e);
    return &e->process;
}

/* After a loss: marks processes whose exit record may have been lost. A few per sweep. In a replay /proc cannot be
 * read, and they stay. */
static void check_after_loss(struct processes *p, uint64_t time_ns)
{
    if (p->is_replay)
        return;
    for (unsigned n = 0; n < CHECKS_PER_SWEEP && p->check; n++) {
        struct process_entry *e = p->check;
        p->check = e->hh.next;
        bool others;
        if (!e->process.exited && e->generation != p->generation && !processes_is_alive(p, e, &others))
            processes_mark_exited(p, e, time_ns);
    }
}

size_t processes_sweep(struct processes *p, uint64_t time_ns, uint32_t *ret_pids, size_t max)
{
    size_t n = 0;
    check_after_loss(p, time_ns);
    keep_within_bounds(p);
    while (n < max && p->evicted_count > 0)
        ret_pids[n++] = p->evicted[--p->evicted_count];
    while (n < max && p->exited && p->exited->exit_time_ns < time_ns) {
        ret_pids[n++] = p->exited->process.pid;
        processes_remove(p, p->exited);
    }
    objects_trim(p->objects, time_ns, time_ns > IDLE_OBJECT_NS ? time_ns - IDLE_OBJECT_NS : 0);
    return n;
}

void processes_metrics(const struct processes *p, struct metric_set *set)
{
    struct objects_stats f;
    objects_stats(p->objects, &f);
    struct file_opener_stats opener;
    file_opener_stats(objects_opener(p->objects), &opener);
    const struct {
        const char *name, *unit, *help;
        enum metric_type type;
        double value;
    } metrics[] = {
        {"sonde_self_processes", "", "Processes known, those included that exited a moment ago.", METRIC_GAUGE,
         HASH_COUNT(p->by_pid)},
        {"sonde_self_processes_bytes", "bytes", "Memory of the table of processes and their files.", METRIC_GAUGE,
         (double)(all_bytes(p) + p->retired_bytes)},
        {"sonde_self_processes_evicted", "", "Processes evicted to keep within the memory limit.", METRIC_COUNTER,
         (double)p->count.evictions},
        {"sonde_self_processes_read", "", "Processes read from /proc.", METRIC_COUNTER, (double)p->count.proc_reads},
        {"sonde_self_mappings_read", "", "Times that a process's mappings were read from /proc.", METRIC_COUNTER,
         (double)p->count.mapping_reads},
        {"sonde_process_contexts", "", "Processes that publish a process context (OTEP 4719).", METRIC_GAUGE,
         (double)p->count.contexts},
        {"sonde_process_contexts_refused", "", "Process contexts that were malformed or unreadable.", METRIC_COUNTER,
         (double)p->count.contexts_refused},
        {"sonde_process_context_attributes_left_out", "", "Attributes of process contexts that were dropped.",
         METRIC_COUNTER, (double)p->count.attributes_left_out},
        {"sonde_self_objects", "", "Executable files known.", METRIC_GAUGE, (double)f.objects},
        {"sonde_self_objects_open", "", "Executable files held open.", METRIC_GAUGE, (double)f.open_files},
        {"sonde_self_objects_unopened", "", "Times that an executable file could not be opened.", METRIC_COUNTER,
         (double)f.failed},
        {"sonde_self_files_requested", "", "Requests sent to the file helper.", METRIC_COUNTER,
         (double)opener.requests},
        {"sonde_self_files_timed_out", "", "File requests that timed out after one second.", METRIC_COUNTER,
         (double)opener.timed_out},
        {"sonde_self_files_refused", "",
         "File requests refused because of an earlier timeout or an exhausted wait budget.", METRIC_COUNTER,
         (double)opener.refused},
        {"sonde_self_files_resting", "", "Mounts and processes that are backed off after a timeout.", METRIC_GAUGE,
         (double)opener.backed_off},
    };
    for (size_t i = 0; i < array_size(metrics); i++)
        metric_add(set, metrics[i].name, metrics[i].type, metrics[i].unit, metrics[i].help, metrics[i].value,
                   METRIC_NO_LABELS);
}
