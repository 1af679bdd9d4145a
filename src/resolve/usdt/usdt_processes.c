/* Walks the processes; see usdt_processes.h.
 *
 * Files are opened through the registry of objects (objects.h): each once however many processes map it,
 * verified, and given up when the file system does not respond. Whether a tracer is attached is read from the
 * process's memory: from the semaphore, which the kernel and debuggers increment, and from the code, where a
 * breakpoint or a call replaces the file's byte. libsonde itself uses the semaphore; the code is the only sign for
 * probes without one. */
#include "resolve/usdt/usdt_processes.h"

#include "resolve/files/file_opener.h"
#include "resolve/object/objects.h"
#include "resolve/proc/maps.h"
#include "resolve/proc/proc_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <uthash.h>

#define MAPS_MAX_BYTES  ((size_t)16 << 20)
#define LINES_MAX       65536
#define FILES_OPEN_MAX  128
#define LOADS_MAX       64 /* load addresses of one file in one process */
#define FILES_KNOWN_MAX 4096

struct file {
    struct object *object; /* a reference, counted as mapped by a running process so that its inode stays a valid key */
    uint64_t id;
    struct usdt_probes *probes; /* NULL: not an ELF file */
    UT_hash_handle hh;
};

struct usdt_processes {
    struct usdt_filter filter;
    usdt_probe_take *take;
    void *context;
    int result; /* of `take`; other than 0 ends the walk */
    struct usdt_losses losses;
    struct objects *objects;
    struct file *files;
    struct maps_line *lines; /* of the process being scanned */
    size_t line_count;
    struct buf maps;
};

/* The process being scanned. */
struct scanned_process {
    uint32_t pid;
    int proc_fd, memory_fd; /* memory_fd < 0: permission denied */
    char command[16];
};

static void forget_file(struct usdt_processes *w, struct file *f)
{
    HASH_DEL(w->files, f);
    objects_live(f->object, -1);
    objects_release(f->object);
    usdt_probes_free(f->probes);
    free(f);
}

static void forget_files(struct usdt_processes *w)
{
    while (w->files)
        forget_file(w, w->files);
}

void usdt_processes_free(struct usdt_processes *w)
{
    if (!w)
        return;
    forget_files(w);
    objects_free(w->objects);
    free(w->lines);
    buf_clear(&w->maps);
    free(w);
}

static int read_probes(struct object *object, struct usdt_probes **ret)
{
    const int fd = object_open(object);
    return fd < 0 ? fd : usdt_probes_read_file(fd, ret);
}

static bool has_ended(const struct scanned_process *s)
{
    struct proc_stat stat;
    return proc_read_stat(s->proc_fd, &stat) < 0 || stat.state == 'Z' || stat.state == 'X';
}

/* NULL when it cannot be read; it may be readable through another process. A file that is not ELF64 has no probes,
 * which is no loss. */
static struct file *add_file(struct usdt_processes *w, const struct scanned_process *s, struct object *object)
{
    _cleanup_(usdt_probes_freep) struct usdt_probes *probes = NULL;
    int r = read_probes(object, &probes);
    struct file *f = r == 0 || r == -ENOEXEC ? calloc(1, sizeof(*f)) : NULL;
    if (!f) {
        w->losses.unreadable += !has_ended(s);
        return NULL;
    }
    f->object = objects_retain(object);
    f->id = object->id;
    f->probes = take_ptr(probes);
    objects_live(object, 1);
    if (f->probes) {
        w->losses.damaged_notes += f->probes->damaged;
        w->losses.left_out += f->probes->left_out;
    }
    HASH_ADD(hh, w->files, id, sizeof(f->id), f);
    return f;
}

/* NULL: none. `path` receives the line's path. */
static const struct usdt_probes *probes_of_line(struct usdt_processes *w, const struct scanned_process *s,
                                                const struct maps_line *line, char path[PATH_MAX])
{
    struct object_sight seen;
    struct object *object;
    if (!object_sight_of_line(line, path, &seen))
        return NULL;
    seen.pids[seen.pid_count++] = s->pid;
    if (path[0] != '/' || objects_get(w->objects, &seen, &object) < 0)
        return NULL;
    struct file *f;
    HASH_FIND(hh, w->files, &object->id, sizeof(object->id), f);
    if (!f)
        f = add_file(w, s, object);
    objects_release(object);
    return f ? f->probes : NULL;
}

/* The load bias of the line's file, to be added to its addresses. False when this mapping contains none of its
 * probes. */
static bool find_load(const struct usdt_probes *p, const struct maps_line *line, uint64_t *ret)
{
    const uint64_t size = line->end - line->start;
    for (size_t i = 0; i < p->count; i++)
        if (p->sites[i].file_offset - line->file_offset < size) {
            *ret = line->start + (p->sites[i].file_offset - line->file_offset) - p->sites[i].vaddr;
            return true;
        }
    return false;
}

/* Reads memory of the process if the file of `of` is mapped there. */
static bool read_mapped(const struct usdt_processes *w, const struct scanned_process *s,
                        const struct maps_line *file_line, uint64_t address, void *data, size_t size)
{
    size_t low = 0, high = w->line_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (w->lines[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct maps_line *line = low < w->line_count ? &w->lines[low] : NULL;
    return line && line->start <= address && line->end - address >= size && line->inode == file_line->inode &&
           line->device_major == file_line->device_major && line->device_minor == file_line->device_minor &&
           pread(s->memory_fd, data, size, (off_t)address) == (ssize_t)size;
}

/* One attached site is enough; USDT_NOT_ATTACHED requires that every site was read. */
static enum usdt_attached find_attached(const struct usdt_processes *w, const struct scanned_process *s,
                                        const struct maps_line *line, uint64_t load, const struct usdt_site *sites,
                                        size_t count)
{
    bool unknown = false;
    for (size_t i = 0; i < count; i++) {
        uint16_t semaphore = 0;
        uint8_t code = sites[i].code;
        if (!read_mapped(w, s, line, load + sites[i].vaddr, &code, sizeof(code)) ||
            (sites[i].semaphore_vaddr &&
             !read_mapped(w, s, line, load + sites[i].semaphore_vaddr, &semaphore, sizeof(semaphore))))
            unknown = true;
        if (semaphore || code != sites[i].code)
            return USDT_ATTACHED;
    }
    return unknown ? USDT_ATTACHED_UNKNOWN : USDT_NOT_ATTACHED;
}

static bool passes_filter(const struct usdt_filter *f, const struct usdt_site *s)
{
    return (!f->provider || strcmp(f->provider, s->provider) == 0) && (!f->name || strcmp(f->name, s->name) == 0);
}

static int report_load(struct usdt_processes *w, const struct scanned_process *s, const struct maps_line *line,
                       const char *path, const struct usdt_probes *p, uint64_t load)
{
    char map_file[80];
    snprintf(map_file, sizeof(map_file), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, s->pid, line->start,
             line->end);
    int r = 0;
    for (size_t i = 0, run; r == 0 && i < p->count; i += run) {
        const struct usdt_site *sites = &p->sites[i];
        run = usdt_probes_run(p, i);
        if (!passes_filter(&w->filter, sites))
            continue;
        struct usdt_probe probe = {.pid = s->pid,
                                   .process = s->command,
                                   .path = path,
                                   .map_file = map_file,
                                   .device = makedev(line->device_major, line->device_minor),
                                   .inode = line->inode,
                                   .sites = sites,
                                   .site_count = run};
        for (size_t j = 0; j < run; j++)
            probe.has_semaphore |= sites[j].semaphore_vaddr != 0;
        probe.attached = find_attached(w, s, line, load, sites, run);
        r = w->result = w->take(w->context, &probe);
    }
    return r;
}

/* A file's code may lie in several mappings of one load, and a file may be loaded more than once. */
struct loads {
    struct {
        const struct usdt_probes *probes;
        uint64_t at;
    } known[LOADS_MAX];
    size_t count;
};

/* False when it is known already, or when the table is full, which is counted. */
static bool loads_add(struct loads *l, const struct usdt_probes *probes, uint64_t at, struct usdt_losses *losses)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->known[i].probes == probes && l->known[i].at == at)
            return false;
    if (l->count == LOADS_MAX) {
        losses->left_out += probes->count;
        return false;
    }
    l->known[l->count].probes = probes;
    l->known[l->count++].at = at;
    return true;
}

static int report_lines(struct usdt_processes *w, const struct scanned_process *s)
{
    struct loads loads = {0};
    char path[PATH_MAX];
    int r = 0;
    for (size_t i = 0; r == 0 && i < w->line_count; i++) {
        const struct maps_line *line = &w->lines[i];
        uint64_t load;
        const struct usdt_probes *p = line->executable ? probes_of_line(w, s, line, path) : NULL;
        if (p && find_load(p, line, &load) && loads_add(&loads, p, load, &w->losses))
            r = report_load(w, s, line, path, p, load);
    }
    return r;
}

/* Reads the file mappings into w->lines, which borrow from w->maps. Includes mappings without code, because
 * semaphores lie there. */
static int read_lines(struct usdt_processes *w, const struct scanned_process *s)
{
    w->line_count = w->maps.size = 0;
    int r = file_opener_read_proc(objects_opener(w->objects), s->proc_fd, s->pid, FILE_OPENER_ALL_MAPS, MAPS_MAX_BYTES,
                                  &w->maps);
    if (r < 0)
        return r;
    struct cursor text = cursor_make(w->maps.data, w->maps.size);
    struct maps_line line;
    while (maps_next(&text, &line)) {
        if (line.inode == 0)
            continue; /* not a file */
        if (w->line_count < LINES_MAX)
            w->lines[w->line_count++] = line;
        else
            w->losses.left_out++;
    }
    w->losses.left_out += w->maps.size == MAPS_MAX_BYTES;
    return 0;
}

static int scan_process(struct usdt_processes *w, uint32_t pid)
{
    _cleanup_close_ int proc_fd = proc_open(pid);
    struct scanned_process s = {.pid = pid, .proc_fd = proc_fd};
    struct proc_stat stat;
    int r = proc_fd < 0 ? proc_fd : proc_read_stat(proc_fd, &stat);
    if (r < 0)
        return r;
    memcpy(s.command, stat.command, sizeof(s.command));
    r = read_lines(w, &s); /* a kernel thread has none */
    if (r < 0 || w->line_count == 0)
        return r;
    _cleanup_close_ int memory_fd = openat(proc_fd, "mem", O_RDONLY | O_CLOEXEC);
    s.memory_fd = memory_fd;
    return report_lines(w, &s);
}

/* Counts a failed scan, unless the process has just exited. */
static void count_loss(struct usdt_losses *losses, int error)
{
    if (error == -EACCES || error == -EPERM)
        losses->refused++;
    else if (error != -ESRCH && error != -ENOENT)
        losses->unreadable++;
}

static int scan_all_processes(struct usdt_processes *w)
{
    _cleanup_closedir_ DIR *proc = opendir("/proc");
    if (!proc)
        return -errno;
    struct dirent *entry;
    while (!w->result && (entry = readdir(proc))) {
        char *end;
        const unsigned long pid = strtoul(entry->d_name, &end, 10);
        if (*end || pid == 0 || pid > INT_MAX)
            continue;
        const int r = scan_process(w, (uint32_t)pid);
        if (r < 0 && !w->result)
            count_loss(&w->losses, r);
    }
    return w->result;
}

int usdt_processes_new(const struct usdt_filter *filter, usdt_probe_take *take, void *context,
                       struct usdt_processes **ret)
{
    _cleanup_(usdt_processes_freep) struct usdt_processes *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->filter = *filter;
    w->take = take;
    w->context = context;
    w->lines = calloc(LINES_MAX, sizeof(*w->lines));
    if (!w->lines)
        return -ENOMEM;
    int r = objects_new(FILES_OPEN_MAX, &w->objects);
    if (r < 0)
        return r;
    *ret = take_ptr(w);
    return 0;
}

int usdt_processes_walk(struct usdt_processes *w)
{
    return w->filter.pid ? scan_process(w, w->filter.pid) : scan_all_processes(w);
}

int usdt_processes_look(struct usdt_processes *w, uint32_t pid)
{
    if (w->filter.pid && w->filter.pid != pid)
        return 0;
    if (HASH_COUNT(w->files) > FILES_KNOWN_MAX)
        forget_files(w);
    const int r = scan_process(w, pid);
    if (r < 0 && !w->result)
        count_loss(&w->losses, r);
    return w->result;
}

void usdt_processes_losses(const struct usdt_processes *w, struct usdt_losses *ret)
{
    *ret = w->losses;
}
