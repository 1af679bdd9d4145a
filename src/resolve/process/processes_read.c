/* Reads a process from /proc, or inherits from its ancestors when it has exited; see processes_read.h.
 *
 * All of this happens because a sample needs it, once per process (and again after records were lost). A process
 * that exited before its sample was processed has left its records: its mappings since exec, or the image that it
 * shared with its parent. Container, job and environment are then taken from its parent, which is correct for all
 * but the first process of a container. */
#include "resolve/process/processes_read.h"

#include "base/clock.h"
#include "resolve/files/file_opener.h"
#include "resolve/proc/maps.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define MAPS_MAX_BYTES     (16 << 20)
#define ENVIRON_MAX_BYTES  (4 << 20)
#define CGROUP_MAX_BYTES   (64 << 10)
#define SCRATCH_KEPT_BYTES (256 << 10)
#define ANCESTORS_MAX      8
#define CGROUP_EVERY_NS    1000000000ULL
#define REREAD_MAX_S       256
#define START_TOLERANCE_NS 30000000ULL
#define DATE_TOLERANCE_NS  1000000000ULL /* file timestamps lag by up to one kernel tick */

uint64_t processes_boot_offset_ns(void)
{
    return clock_boot_ns() - clock_monotonic_ns();
}

static struct buf *scratch(struct processes *p)
{
    if (p->scratch.error || p->scratch.capacity > SCRATCH_KEPT_BYTES)
        buf_clear(&p->scratch);
    p->scratch.size = 0;
    return &p->scratch;
}

/* True when `stat` is of the process of the entry: it has the same start or, where that is unknown, started no later
 * than the time of the records. */
static bool is_same(const struct processes *p, const struct process_entry *e, const struct proc_stat *stat)
{
    if (e && e->start_boot_ns) {
        const uint64_t a = e->start_boot_ns, b = stat->start_boot_ns;
        return (a > b ? a - b : b - a) <= START_TOLERANCE_NS;
    }
    return p->now_ns == 0 || stat->start_boot_ns <= p->now_ns + processes_boot_offset_ns() + START_TOLERANCE_NS;
}

int processes_open_same(const struct processes *p, const struct process_entry *e, uint32_t pid,
                        struct proc_stat *ret_stat)
{
    _cleanup_close_ int fd = p->is_replay ? -ESRCH : proc_open(pid);
    if (fd < 0)
        return fd;
    struct proc_stat stat;
    int r = proc_read_stat(fd, &stat);
    if (r < 0)
        return r;
    if (!is_same(p, e, &stat))
        return -ESRCH;
    *ret_stat = stat;
    return take_fd(&fd);
}

bool processes_is_alive(const struct processes *p, const struct process_entry *e, bool *ret_others)
{
    _cleanup_close_ int fd = p->is_replay ? -ESRCH : proc_open(e->process.pid);
    struct proc_stat stat;
    if (fd < 0 || proc_read_stat(fd, &stat) < 0)
        return false;
    const uint64_t a = e->start_boot_ns, b = stat.start_boot_ns;
    if (a && (a > b ? a - b : b - a) > START_TOLERANCE_NS)
        return false;
    *ret_others = stat.threads > 1;
    return stat.threads > 1 || (stat.state != 'Z' && stat.state != 'X');
}

static void map_line(struct processes *p, struct process_entry *e, const struct maps_line *line, struct image *image)
{
    char path[PATH_MAX];
    struct object_sight sight;
    if (!object_sight_of_line(line, path, &sight))
        return;
    processes_fill_sight(p, e, &sight);
    struct process_mapping mapping = {.start = line->start, .end = line->end, .file_offset = line->file_offset};
    processes_name_mapping(p, &sight, &mapping);
    image_map(image, &mapping);
}

int processes_read_maps(struct processes *p, int proc_fd, uint32_t pid, struct buf *to)
{
    return file_opener_read_proc(objects_opener(p->objects), proc_fd, pid, "maps", MAPS_MAX_BYTES, to);
}

void processes_begin_turn(struct processes *p)
{
    processes_free_retired(p);
}

/* The image that /proc shows now; NULL when the process has none (any more). */
static struct image *read_image(struct processes *p, struct process_entry *e, int proc_fd, int *ret_error)
{
    struct buf *text = scratch(p);
    p->count.mapping_reads++;
    *ret_error = processes_read_maps(p, proc_fd, e->process.pid, text);
    if (*ret_error < 0 || text->size == 0)
        return NULL;
    struct image *image = image_new();
    if (!image)
        return NULL;
    struct cursor cursor = cursor_make(text->data, text->size);
    struct maps_line line;
    while (maps_next_executable(&cursor, &line))
        map_line(p, e, &line, image);
    char executable[PATH_MAX];
    if (proc_read_executable(proc_fd, executable, sizeof(executable)) == 0)
        image->executable = paths_get(&p->paths, executable);
    return image;
}

static bool is_equal(const struct image *a, const struct image *b)
{
    return a && b && a->count == b->count &&
           (a->count == 0 || memcmp(a->mappings, b->mappings, a->count * sizeof(*a->mappings)) == 0) &&
           a->executable == b->executable; /* interned */
}

/* Replaces the image by the one read; takes `image`. False when they are equal: mapping_version then stays the same. */
static bool replace_image(struct processes *p, struct process_entry *e, struct image *image)
{
    e->mappings_read_ns = clock_monotonic_ns();
    if (is_equal(e->image, image)) {
        image_unref(image);
        return false;
    }
    processes_set_image(p, e, image);
    return true;
}

/* The parent, from the table or /proc; NULL when it has exited too. */
static struct process_entry *find_parent(struct processes *p, const struct process_entry *e)
{
    if (e->parent_pid == 0 || p->depth >= ANCESTORS_MAX)
        return NULL;
    struct process_entry *parent = processes_lookup(p, e->parent_pid);
    return parent ? parent : processes_read_new(p, e->parent_pid);
}

/* Completes a process that exited before /proc was read, from its parent. */
static void inherit_image(struct processes *p, struct process_entry *e)
{
    e->knowledge = KNOWN_INHERITED;
    p->depth++;
    struct process_entry *parent = e->image && e->command[0] ? NULL : find_parent(p, e);
    if (parent && parent->knowledge == KNOWN_BY_RECORDS)
        processes_complete(p, parent);
    if (parent && !e->image && parent->image)
        processes_set_image(p, e, image_ref(parent->image));
    if (parent && !e->command[0])
        memcpy(e->command, parent->command, sizeof(e->command));
    p->depth--;
}

void processes_complete(struct processes *p, struct process_entry *e)
{
    struct proc_stat stat;
    _cleanup_close_ int fd = e->process.exited ? -ESRCH : processes_open_same(p, e, e->process.pid, &stat);
    const bool again = e->knowledge != KNOWN_BY_RECORDS;
    e->generation = p->generation;
    struct image *image = NULL;
    int error = 0;
    if (fd >= 0) {
        p->count.proc_reads++;
        if (!e->start_boot_ns) {
            e->start_boot_ns = stat.start_boot_ns;
            e->process.start_time_ns = stat.start_boot_ns - processes_boot_offset_ns();
        }
        e->parent_pid = stat.parent_pid;
        e->is_kernel_thread = stat.is_kernel_thread;
        processes_set_command(e, stat.command, clock_monotonic_ns());
        e->threads = (int32_t)stat.threads;
        e->threads_counted = false;
        image = stat.is_kernel_thread ? image_new() : read_image(p, e, fd, &error);
    }
    if (image) {
        e->knowledge = KNOWN_COMPLETELY;
        replace_image(p, e, image);
        e->service_known &= !again; /* the lost record may have been an exec */
        e->context_due_ns = again ? 0 : e->context_due_ns;
    } else if (!again && error != -ETIMEDOUT && error != -EAGAIN) { /* otherwise the next sample retries */
        inherit_image(p, e);
    }
}

struct process_entry *processes_read_new(struct processes *p, uint32_t pid)
{
    struct proc_stat stat;
    _cleanup_close_ int fd = processes_open_same(p, NULL, pid, &stat);
    if (fd < 0) {
        p->count.gone++;
        return NULL;
    }
    struct process_entry *e =
        processes_add(p, pid, stat.start_boot_ns - processes_boot_offset_ns(), stat.start_boot_ns);
    if (e)
        processes_complete(p, e);
    return e;
}

bool processes_read_mappings(struct processes *p, const struct process *process)
{
    struct process_entry *e = process_entry_of(process);
    const uint64_t now_ns = clock_monotonic_ns();
    if (e->process.exited || e->is_kernel_thread || e->knowledge == KNOWN_INHERITED)
        return false;
    if (e->mappings_read_ns && now_ns - e->mappings_read_ns < (uint64_t)e->reread_after_s * 1000000000ULL)
        return false;
    if (e->mappings_read_ns == 0 || e->reread_after_s == 0)
        e->reread_after_s = 1;
    struct proc_stat stat;
    _cleanup_close_ int fd = processes_open_same(p, e, e->process.pid, &stat);
    int error;
    struct image *image = fd >= 0 ? read_image(p, e, fd, &error) : NULL;
    e->mappings_read_ns = now_ns;
    if (!image)
        return false;
    const bool changed = replace_image(p, e, image);
    if (changed)
        e->reread_after_s = 1;
    else if (e->reread_after_s < REREAD_MAX_S)
        e->reread_after_s *= 2;
    return changed;
}

/* When the process began to run its present program, as CLOCK_REALTIME, the clock of file timestamps. */
static uint64_t program_began_unix_ns(const struct process_entry *e, const struct proc_stat *stat)
{
    const uint64_t offset_ns = processes_boot_offset_ns(), exec_boot_ns = e->process.exec_time_ns + offset_ns;
    const bool by_exec = e->process.exec_time_ns && exec_boot_ns > stat->start_boot_ns;
    const uint64_t unix_ns = clock_unix_from_monotonic((by_exec ? exec_boot_ns : stat->start_boot_ns) - offset_ns);
    return unix_ns > DATE_TOLERANCE_NS ? unix_ns - DATE_TOLERANCE_NS : 0;
}

int processes_open_perf_map(struct processes *p, const struct process *process)
{
    const struct process_entry *e = process_entry_of(process);
    struct proc_stat stat;
    _cleanup_close_ int fd = e->process.exited ? -ESRCH : processes_open_same(p, e, process->pid, &stat);
    if (fd < 0)
        return fd;
    return file_opener_perf_map(objects_opener(p->objects), fd, process->pid, program_began_unix_ns(e, &stat));
}

int processes_read_memory(struct processes *p, const struct process *process, uint64_t address, size_t size,
                          struct buf *to)
{
    struct proc_stat stat;
    _cleanup_close_ int fd =
        process->exited ? -ESRCH : processes_open_same(p, process_entry_of(process), process->pid, &stat);
    return fd < 0 ? fd : file_opener_memory(objects_opener(p->objects), fd, process->pid, address, size, to);
}

uint32_t processes_innermost_pid(struct processes *p, const struct process *process)
{
    struct proc_stat stat;
    struct proc_ids ids;
    _cleanup_close_ int fd =
        process->exited ? -ESRCH : processes_open_same(p, process_entry_of(process), process->pid, &stat);
    return fd >= 0 && proc_read_ids(fd, &ids) == 0 ? ids.innermost_pid : 0;
}

static void set_cgroup(struct process_entry *e, struct cgroup *cgroup)
{
    cgroup_unref(e->cgroup);
    e->cgroup = cgroup;
}

void processes_know_starts(struct processes *p,
                           bool (*find)(void *context, uint32_t pid, uint64_t since_ns, struct program_start *ret),
                           void *context)
{
    p->find_start = find;
    p->find_start_context = context;
}

/* Whether the program of this process is known to be started without a service in its environment. */
static bool lacks_service(const struct processes *p, const struct process_entry *e)
{
    struct program_start start;
    return processes_program_start(p, e, &start) && start.lacks_service;
}

/* False: it cannot be read at present. */
static bool read_service(struct processes *p, struct process_entry *e, int proc_fd)
{
    struct identity_service s = {0};
    if (!e->is_kernel_thread) {
        struct buf *text = scratch(p);
        int r = file_opener_read_proc(objects_opener(p->objects), proc_fd, e->process.pid, "environ", ENVIRON_MAX_BYTES,
                                      text);
        if (r < 0)
            return r != -EAGAIN;
        if (text->size)
            identity_from_environ(text->data, text->size, &s);
        if (text->data)
            explicit_bzero(text->data, text->capacity); /* it contains secrets */
    }
    service_unref(p, e->service);
    e->service = service_new(p, &s, "");
    return true;
}

/* Reads the cgroup from /proc. Returns the cgroup of the sample instead if it is more informative: while a process
 * exits, /proc reports the root of each hierarchy of v1. */
static struct cgroup *read_cgroup(struct processes *p, int proc_fd, struct cgroup *by_id)
{
    struct buf *text = scratch(p);
    if (proc_read(proc_fd, "cgroup", CGROUP_MAX_BYTES, text) < 0 || text->size == 0)
        return NULL;
    struct cgroup *read = cgroups_by_text(p->cgroups, text->data, text->size);
    if (!read || !by_id || identity_weight(&by_id->identity) <= identity_weight(&read->identity))
        return read;
    cgroup_unref(read);
    return cgroup_ref(by_id);
}

/* For an exited process: takes the cgroup of its sample, or that of its parent if more informative, and the parent's
 * service. */
static void inherit_identity(struct processes *p, struct process_entry *e, struct cgroup *by_id)
{
    p->depth++;
    struct process_entry *parent = find_parent(p, e);
    if (parent && (!parent->cgroup_known || !parent->service_known))
        processes_identify(p, parent);
    struct cgroup *best = by_id ? cgroup_ref(by_id) : NULL;
    struct cgroup *others[] = {e->cgroup, parent ? parent->cgroup : NULL};
    for (size_t i = 0; i < array_size(others); i++) {
        if (!others[i] || (best && cgroups_is_unified(p->cgroups)) ||
            (best && identity_weight(&others[i]->identity) <= identity_weight(&best->identity)))
            continue;
        cgroup_unref(best);
        best = cgroup_ref(others[i]);
    }
    if (best)
        set_cgroup(e, best);
    if (!e->service_known && parent && parent->service) {
        service_unref(p, e->service);
        e->service = service_ref(parent->service);
    }
    e->cgroup_known = e->service_known = true;
    p->depth--;
}

void processes_identify(struct processes *p, struct process_entry *e)
{
    struct cgroup *by_id = p->is_replay ? NULL : cgroups_by_id(p->cgroups, e->cgroup_id);
    if (!e->cgroup_known && by_id && cgroups_is_unified(p->cgroups)) {
        set_cgroup(e, cgroup_ref(by_id));
        e->cgroup_known = true;
    }
    if (!e->service_known && lacks_service(p, e)) {
        service_unref(p, e->service);
        e->service = NULL;
        e->service_known = true;
    }
    const uint64_t now_ns = clock_monotonic_ns();
    const bool too_soon = e->cgroup && e->cgroup_read_ns && now_ns - e->cgroup_read_ns < CGROUP_EVERY_NS;
    if (!e->service_known || (!e->cgroup_known && !too_soon)) {
        struct proc_stat stat;
        _cleanup_close_ int fd = e->process.exited ? -ESRCH : processes_open_same(p, e, e->process.pid, &stat);
        struct cgroup *cgroup = fd >= 0 && !e->cgroup_known ? read_cgroup(p, fd, by_id) : NULL;
        if (cgroup) {
            set_cgroup(e, cgroup);
            e->cgroup_known = true;
            e->cgroup_read_ns = now_ns;
        }
        const bool is_later = fd >= 0 && !e->service_known && !read_service(p, e, fd);
        e->service_known |= fd >= 0 && !is_later;
        if (!is_later && (!e->cgroup_known || !e->service_known))
            inherit_identity(p, e, by_id);
    }
    cgroup_unref(by_id);
}
