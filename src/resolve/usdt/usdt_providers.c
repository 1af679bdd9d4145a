/* See usdt_providers.h. The probes of a file are read once per object (object.h), however many processes map it.
 * Memory files (memfd) with the same content are one object but several files: to attach, each process's own file is
 * opened and identified by device and inode. That is done for the wanted provider only. */
#define HASH_NONFATAL_OOM 1 /* before the first include of uthash.h */

#include "resolve/usdt/usdt_providers.h"

#include "base/clock.h"
#include "resolve/files/file_opener.h"
#include "resolve/files/object_file.h"
#include "resolve/proc/proc_files.h"
#include "resolve/process/processes_table.h"
#include "resolve/usdt/usdt_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define OBJECTS_MAX           16384
#define PROCESSES_MAX         32768
#define FILES_PER_PROCESS_MAX 8  /* files of the wanted provider per process */
#define OPENS_PER_SCAN_MAX    16 /* mappings per scan whose file is opened */
#define STRAYS_POLL_NS        1000000000ull
#define STRAYS_POLL_MAX       256
#define RETRY_NS              1000000000ull
#define RETRY_MAX             64 /* processes */

/* Cached facts about an object, so that it is not read again. */
struct known_object {
    uint64_t id;
    uint32_t providers, probes;
    bool is_wanted;
    uint64_t scan; /* the scan that counted it last */
    UT_hash_handle hh;
};

struct provider_file {
    struct object_place key;
    uint64_t object_id;
    size_t users;    /* number of processes */
    void *taken;     /* the caller's handle; NULL: not wanted so far */
    bool is_waiting; /* refused for lack of capacity */
    UT_hash_handle hh;
};

/* The providers and probes of one process. */
struct process_probes {
    uint32_t pid;
    uint32_t providers, probes;
    struct provider_file *files[FILES_PER_PROCESS_MAX];
    size_t file_count;
    bool has_more; /* it may map further files of the wanted provider */
    bool is_stray; /* the table of processes no longer knows it, or may not */
    UT_hash_handle hh;
};

struct usdt_providers {
    struct usdt_providers_options options;
    struct known_object *objects;
    struct provider_file *files;
    struct process_probes *processes;
    uint64_t scan, read_in_scan;
    size_t opened_in_scan;
    uint64_t providers, probes; /* in all processes */
    uint64_t left_out;          /* processes and files past the bounds */
    struct usdt_scan *scans;
    size_t strays;     /* number of strays in `processes` */
    size_t waiting;    /* number of waiting `files` */
    size_t retry_left; /* processes still to be rescanned for refused files */
    uint64_t retried_ns;
    uint32_t retry_from;
    uint64_t strays_polled_ns;
    uint32_t poll_from; /* PID where the next poll of strays begins */
};

/* ---- objects ---- */

static void forget_objects(struct usdt_providers *n)
{
    struct known_object *o, *next;
    HASH_ITER (hh, n->objects, o, next) {
        HASH_DEL(n->objects, o);
        free(o);
    }
}

/* Sites are sorted by provider and name. */
static void count_probes(const struct usdt_providers *n, const struct usdt_probes *p, struct known_object *o)
{
    for (size_t i = 0; i < p->count; i += usdt_probes_run(p, i)) {
        const bool is_new = i == 0 || strcmp(p->sites[i].provider, p->sites[i - 1].provider) != 0;
        o->probes++;
        o->providers += is_new;
        o->is_wanted |= is_new && strcmp(p->sites[i].provider, n->options.provider) == 0;
    }
}

/* Reads what the object has; takes `fd`. */
static int inspect(const struct usdt_providers *n, int fd, struct known_object *o)
{
    if (n->options.provider) {
        _cleanup_(usdt_probes_freep) struct usdt_probes *probes = NULL;
        int r = usdt_probes_read_file(fd, &probes);
        if (r == 0)
            count_probes(n, probes, o);
        return r;
    }
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    int r = elf_open(fd, &elf);
    if (r < 0) {
        close(fd);
        return r;
    }
    o->is_wanted = n->options.is_wanted(n->options.context, elf);
    o->probes = o->is_wanted;
    return elf_error(elf);
}

/* Returns 1 and the object's facts; -EAGAIN: no time left to read it; any other error: it cannot be read at present.
 * A file that is not ELF has no probes. */
static int get_object(struct usdt_providers *n, struct object *object, const char *path, uint64_t end_ns,
                      struct known_object **ret)
{
    struct known_object found = {.id = object->id};
    struct known_object *o;
    HASH_FIND(hh, n->objects, &object->id, sizeof(object->id), o);
    if (o) {
        *ret = o;
        return 1;
    }
    if (n->read_in_scan == n->scan && clock_monotonic_ns() >= end_ns)
        return -EAGAIN;
    if (n->options.provider || n->options.is_candidate(path)) {
        /* At least one object per scan, so that every process is completed eventually. */
        n->read_in_scan = n->scan;
        const int fd = object_open(object);
        const int r = fd < 0 ? fd : inspect(n, fd, &found);
        if (r < 0 && r != -ENOEXEC)
            return r == -EAGAIN ? -EBUSY : r;
    }
    if (HASH_COUNT(n->objects) >= OBJECTS_MAX)
        forget_objects(n);
    o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    *o = found;
    HASH_ADD(hh, n->objects, id, sizeof(o->id), o);
    if (!o->hh.tbl) {
        free(o);
        return -ENOMEM;
    }
    *ret = o;
    return 1;
}

/* ---- files of the wanted provider ---- */

static struct provider_file *find_file_at(const struct usdt_providers *n, const struct object_place *key)
{
    struct provider_file *f;
    HASH_FIND(hh, n->files, key, sizeof(*key), f);
    return f;
}

static struct provider_file *get_file(struct usdt_providers *n, const struct object_place *key)
{
    struct provider_file *f = find_file_at(n, key);
    if (f)
        return f;
    f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->key = *key;
    HASH_ADD(hh, n->files, key, sizeof(f->key), f);
    if (f->hh.tbl)
        return f;
    free(f);
    return NULL;
}

static void set_waiting(struct usdt_providers *n, struct provider_file *f, bool is_waiting)
{
    n->waiting += is_waiting - (size_t)f->is_waiting;
    f->is_waiting = is_waiting;
}

static void release_file(struct usdt_providers *n, struct provider_file *f)
{
    if (f->users > 0 && --f->users > 0)
        return;
    set_waiting(n, f, false);
    if (f->taken)
        n->options.gone(n->options.context, f->taken);
    HASH_DEL(n->files, f);
    free(f);
}

/* Offers the exact file of a mapping to the caller of this module; takes `fd`. */
static int offer_file(struct usdt_providers *n, struct provider_file *f, const struct process *process, int fd)
{
    _cleanup_close_ int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    _cleanup_(usdt_probes_freep) struct usdt_probes *probes = NULL;
    int r = 0;
    if (n->options.provider)
        r = usdt_probes_read_file(fd, &probes);
    else
        close(fd);
    if (r < 0 || copy < 0)
        return r < 0 ? r : -EMFILE;
    const struct usdt_provider_file file = {.fd = copy, .probes = probes, .process = process};
    set_waiting(n, f, n->options.appeared(n->options.context, &file, &f->taken) < 0);
    return 0;
}

/* A file with the object's contents that is offered already and that the mapping's path leads to: another process maps
 * it, too. Finding out opens nothing. */
static struct provider_file *find_offered_file(const struct usdt_providers *n, const struct process *process,
                                               const struct process_mapping *m)
{
    struct processes *processes = n->options.processes;
    struct object_sight sight = {.path = m->path};
    struct object_place place;
    processes_fill_sight(processes, process_entry_of(process), &sight);
    if (objects_place_at_once(processes->objects, &sight, &place) < 0)
        return NULL;
    struct provider_file *f = find_file_at(n, &place);
    return f && f->taken && f->object_id == m->object->id ? f : NULL;
}

/* Finds the file of a mapping and takes a use of it for the caller. An error: it is gone or replaced, or could not
 * be opened. */
static int find_file(struct usdt_providers *n, const struct process *process, const struct process_mapping *m,
                     struct provider_file **ret)
{
    *ret = find_offered_file(n, process, m);
    if (*ret) {
        (*ret)->users++;
        return 0;
    }
    struct object_identity id = {0};
    const struct object_sight sight = {
        .path = m->path, .start = m->start, .end = m->end, .by_maps = true, .pids = {process->pid}, .pid_count = 1};
    _cleanup_close_ int fd = file_opener_sight(objects_opener(n->options.processes->objects), &sight, &id);
    if (fd < 0)
        return fd == -EAGAIN ? -EBUSY : fd;
    if (id.is_remote) /* the kernel would block reading it when the probe is attached */
        return -EREMOTE;
    struct provider_file *f = get_file(n, &(struct object_place){id.device, id.inode});
    if (!f)
        return -ENOMEM;
    f->object_id = m->object->id;
    f->users++;
    int r = f->taken ? 0 : offer_file(n, f, process, take_fd(&fd));
    if (r < 0) {
        release_file(n, f);
        return r == -EAGAIN ? -EBUSY : r;
    }
    *ret = f;
    return 0;
}

/* ---- processes ---- */

static void set_stray(struct usdt_providers *n, struct process_probes *e, bool is_stray)
{
    n->strays += is_stray - (size_t)e->is_stray;
    e->is_stray = is_stray;
}

static void release_files(struct usdt_providers *n, struct process_probes *e)
{
    for (size_t i = 0; i < e->file_count; i++)
        release_file(n, e->files[i]);
    e->file_count = 0;
}

static void remove_process(struct usdt_providers *n, struct process_probes *e)
{
    release_files(n, e);
    set_stray(n, e, false);
    n->providers -= e->providers;
    n->probes -= e->probes;
    HASH_DEL(n->processes, e);
    free(e);
}

void usdt_providers_forget(struct usdt_providers *n, uint32_t pid)
{
    struct process_probes *e;
    HASH_FIND(hh, n->processes, &pid, sizeof(pid), e);
    if (e && proc_is_gone(pid))
        remove_process(n, e);
    else if (e)
        set_stray(n, e, true);
}

static bool has_file(const struct process_probes *e, const struct provider_file *f)
{
    for (size_t i = 0; i < e->file_count; i++)
        if (e->files[i] == f)
            return true;
    return false;
}

/* The bounds are checked before the file is opened: one file may be mapped thousands of times. */
static int add_file(struct usdt_providers *n, const struct process *process, const struct process_mapping *m,
                    struct process_probes *e)
{
    struct provider_file *f;
    if (e->file_count == FILES_PER_PROCESS_MAX || n->opened_in_scan == OPENS_PER_SCAN_MAX) {
        n->left_out += !e->has_more;
        e->has_more = true;
        return 0;
    }
    n->opened_in_scan++;
    int r = find_file(n, process, m, &f);
    if (r < 0)
        return r;
    if (has_file(e, f))
        release_file(n, f);
    else
        e->files[e->file_count++] = f;
    return 0;
}

static int add_mapping(struct usdt_providers *n, const struct process *process, const struct process_mapping *m,
                       struct process_probes *e, uint64_t end_ns)
{
    struct known_object *o;
    int r = m->object && m->path ? get_object(n, m->object, m->path, end_ns, &o) : 0;
    if (r <= 0 || !o->probes)
        return r;
    if (o->scan != n->scan) {
        o->scan = n->scan;
        e->providers += o->providers;
        e->probes += o->probes;
    }
    return o->is_wanted ? add_file(n, process, m, e) : 0;
}

/* After an incomplete scan the previous findings are kept in addition. */
static void merge_previous(const struct process_probes *before, struct process_probes *now)
{
    now->providers = now->providers > before->providers ? now->providers : before->providers;
    now->probes = now->probes > before->probes ? now->probes : before->probes;
    now->has_more |= before->has_more;
    for (size_t i = 0; i < before->file_count && now->file_count < FILES_PER_PROCESS_MAX; i++) {
        if (has_file(now, before->files[i]))
            continue;
        before->files[i]->users++;
        now->files[now->file_count++] = before->files[i];
    }
}

static bool has_unmapped(const struct process_probes *before, const struct process_probes *now)
{
    for (size_t i = 0; i < before->file_count; i++)
        if (before->files[i]->taken && !has_file(now, before->files[i]))
            return true;
    return before->has_more;
}

/* Replaces the previous findings. Files are released only now, so that those still mapped keep their handle. */
static int replace_findings(struct usdt_providers *n, struct process_probes *now, bool is_whole)
{
    struct process_probes *before;
    HASH_FIND(hh, n->processes, &now->pid, sizeof(now->pid), before);
    if (before && !is_whole)
        merge_previous(before, now);
    struct process_probes *e = now->probes && HASH_COUNT(n->processes) < PROCESSES_MAX ? calloc(1, sizeof(*e)) : NULL;
    if (n->options.unmapped && before && has_unmapped(before, now))
        n->options.unmapped(n->options.context, now->pid);
    if (before)
        remove_process(n, before);
    if (!e) {
        n->left_out += now->probes > 0;
        release_files(n, now);
        return 0;
    }
    *e = *now;
    HASH_ADD(hh, n->processes, pid, sizeof(e->pid), e);
    if (!e->hh.tbl) {
        free(e);
        release_files(n, now);
        return -ENOMEM;
    }
    n->providers += e->providers;
    n->probes += e->probes;
    return 0;
}

static int scan(struct usdt_providers *n, const struct process *process, uint64_t end_ns)
{
    struct process_probes now = {.pid = process->pid};
    int r = 0;
    if (process->exited)
        return 0;
    n->scan++;
    n->opened_in_scan = 0;
    for (size_t i = 0; i < process->mapping_count && r != -EAGAIN; i++) {
        int one = add_mapping(n, process, &process->mappings[i], &now, end_ns);
        r = one < 0 ? one : r;
    }
    int replaced = replace_findings(n, &now, r == 0);
    return r < 0 ? r : replaced;
}

bool usdt_providers_may_map(const struct usdt_providers *n, uint32_t pid, const void *taken)
{
    const struct process_probes *e;
    HASH_FIND(hh, n->processes, &pid, sizeof(pid), e);
    for (size_t i = 0; e && i < e->file_count; i++)
        if (e->files[i]->taken == taken)
            return true;
    return !e || e->has_more;
}

/* ---- scans and exits ---- */

static int scan_pid(void *context, uint32_t pid, uint64_t end_ns)
{
    struct usdt_providers *n = context;
    const struct process *process = processes_find(n->options.processes, pid, 0);
    if (process)
        return scan(n, process, end_ns);
    usdt_providers_forget(n, pid);
    return 0;
}

/* The table of processes may drop processes that still run and then misses their exit: polls for it. */
static void poll_strays(struct usdt_providers *n, uint64_t now_ns)
{
    struct process_probes *e, *next;
    size_t scans = 0;
    if (n->strays == 0 || now_ns - n->strays_polled_ns < STRAYS_POLL_NS)
        return;
    n->strays_polled_ns = now_ns;
    HASH_FIND(hh, n->processes, &n->poll_from, sizeof(n->poll_from), e);
    for (e = e ? e : n->processes; e && scans < STRAYS_POLL_MAX; e = next) {
        next = e->hh.next;
        scans += e->is_stray;
        if (e->is_stray && proc_is_gone(e->pid))
            remove_process(n, e);
    }
    n->poll_from = e ? e->pid : 0;
}

static bool has_waiting(const struct process_probes *e)
{
    for (size_t i = 0; i < e->file_count; i++)
        if (e->files[i]->is_waiting)
            return true;
    return false;
}

/* Visits all processes round-robin, a bounded number per second, so that new processes are scanned meanwhile. */
static void retry_waiting_files(struct usdt_providers *n, uint64_t now_ns)
{
    struct process_probes *e;
    if (n->retry_left == 0 || now_ns - n->retried_ns < RETRY_NS)
        return;
    n->retried_ns = now_ns;
    HASH_FIND(hh, n->processes, &n->retry_from, sizeof(n->retry_from), e);
    for (size_t retried = 0; n->processes && n->retry_left > 0 && retried < RETRY_MAX; n->retry_left--) {
        e = e ? e : n->processes;
        if (has_waiting(e)) {
            usdt_scan_want(n->scans, e->pid);
            retried++;
        }
        e = e->hh.next;
    }
    n->retry_from = e ? e->pid : 0;
}

void usdt_providers_retry_files(struct usdt_providers *n)
{
    n->retry_left = HASH_COUNT(n->processes);
}

void usdt_providers_look(struct usdt_providers *n, uint32_t pid)
{
    usdt_scan_want(n->scans, pid);
}

void usdt_providers_look_at_all(struct usdt_providers *n)
{
    struct process_probes *e;
    for (e = n->processes; e; e = e->hh.next)
        set_stray(n, e, true); /* until the walk finds it again */
    usdt_scan_want_all(n->scans);
}

void usdt_providers_turn(struct usdt_providers *n, uint64_t budget_ns)
{
    usdt_scan_turn(n->scans, budget_ns);
    const uint64_t now_ns = clock_monotonic_ns();
    poll_strays(n, now_ns);
    retry_waiting_files(n, now_ns);
}

/* ---- lifecycle, statistics ---- */

int usdt_providers_new(const struct usdt_providers_options *options, struct usdt_providers **ret)
{
    _cleanup_(usdt_providers_freep) struct usdt_providers *n = calloc(1, sizeof(*n));
    if (!n)
        return -ENOMEM;
    n->options = *options;
    int r = usdt_scan_new(&(struct usdt_scan_options){.context = n, .scan = scan_pid}, &n->scans);
    if (r < 0)
        return r;
    *ret = take_ptr(n);
    return 0;
}

void usdt_providers_free(struct usdt_providers *n)
{
    if (!n)
        return;
    while (n->processes)
        remove_process(n, n->processes);
    forget_objects(n);
    usdt_scan_free(n->scans);
    free(n);
}

void usdt_providers_metrics(const struct usdt_providers *n, struct metric_set *set)
{
    metric_add(set, "sonde_usdt_processes", METRIC_GAUGE, "", "Processes that have USDT probes.",
               (double)HASH_COUNT(n->processes), METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_providers", METRIC_GAUGE, "", "USDT providers, summed over all processes.",
               (double)n->providers, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_probes", METRIC_GAUGE, "", "USDT probes, summed over all processes.", (double)n->probes,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_left_out", METRIC_COUNTER, "",
               "Processes and files with USDT probes that exceeded a limit.", (double)n->left_out, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_files_without_room", METRIC_GAUGE, "",
               "Files not attached for lack of capacity; retried when capacity is free.", (double)n->waiting,
               METRIC_NO_LABELS);
    struct usdt_scan_stats scans;
    usdt_scan_stats(n->scans, &scans);
    metric_add(set, "sonde_usdt_scans_waiting", METRIC_GAUGE, "", "Processes queued to be scanned for USDT probes.",
               (double)scans.waiting, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_scans_unread", METRIC_COUNTER, "",
               "Scans of processes with an unreadable file; retried a few times.", (double)scans.unread,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_scans_given_up", METRIC_COUNTER, "", "Processes given up after repeated failed scans.",
               (double)scans.given_up, METRIC_NO_LABELS);
}
