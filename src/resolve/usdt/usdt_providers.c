/* See usdt_providers.h. Which probes a file has is read once for each object (objects.h), however many
 * processes map it. Objects in memory of the same content are one object but several files: to attach, each
 * process's own has to be found, by its device and inode, which is done for the wanted provider alone. */
#define HASH_NONFATAL_OOM 1 /* before anybody includes uthash.h */

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

#define OBJECTS_MAX         16384
#define PROCESSES_MAX       32768
#define FILES_A_PROCESS_MAX 4  /* of the wanted provider */
#define ASKS_A_LOOK_MAX     16 /* mappings whose files are asked for */
#define GONE_LOOK_NS        1000000000ull
#define GONE_LOOKS_MAX      256
#define ASK_AGAIN_NS        1000000000ull
#define ASK_AGAIN_MAX       64 /* processes */

/* What is known of an object: only to save reading it again. */
struct known_object {
    uint64_t id;
    uint32_t providers, probes;
    bool is_wanted;
    uint64_t look; /* the one that counted it last */
    UT_hash_handle hh;
};

struct file_key {
    uint64_t device, inode;
};

struct provider_file {
    struct file_key key;
    size_t users; /* processes */
    void *taken;  /* NULL: nobody wanted it yet */
    bool waits;   /* for room */
    UT_hash_handle hh;
};

/* What a process has. */
struct provided {
    uint32_t pid;
    uint32_t providers, probes;
    struct provider_file *files[FILES_A_PROCESS_MAX];
    size_t file_count;
    bool has_more; /* files of the wanted provider than these, perhaps */
    bool is_stray; /* the table of processes does not know it any more, or may not */
    UT_hash_handle hh;
};

struct usdt_providers {
    struct usdt_providers_options options;
    struct known_object *objects;
    struct provider_file *files;
    struct provided *processes;
    uint64_t look, read_in_look;
    size_t asked_in_look;
    uint64_t providers, probes; /* in all processes */
    uint64_t left_out;          /* processes and files past the bounds */
    struct usdt_scan *looks;
    size_t strays;   /* of `processes` */
    size_t waiting;  /* of `files` */
    size_t ask_left; /* processes that are still to be asked again */
    uint64_t asked_ns;
    uint32_t ask_from;
    uint64_t gone_looked_ns;
    uint32_t gone_from; /* where the next look for who has gone begins */
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

static int read_probes(int fd, struct usdt_probes **ret)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    int r = elf_open(fd, &elf);
    if (r < 0) {
        close(fd);
        return r;
    }
    return usdt_probes_read(elf, ret);
}

/* Sites stand in order of provider and name. */
static void count_probes(const struct usdt_providers *n, const struct usdt_probes *p, struct known_object *o)
{
    for (size_t i = 0; i < p->count; i += usdt_probes_run(p, i)) {
        const bool is_new = i == 0 || strcmp(p->sites[i].provider, p->sites[i - 1].provider) != 0;
        o->probes++;
        o->providers += is_new;
        o->is_wanted |= is_new && strcmp(p->sites[i].provider, n->options.provider) == 0;
    }
}

/* 1: there it is; -EAGAIN: there was no time to read it; any other error: it cannot be read now. What is no
 * ELF file has no probes. */
static int get_object(struct usdt_providers *n, struct object *object, uint64_t end_ns, struct known_object **ret)
{
    struct known_object *o;
    HASH_FIND(hh, n->objects, &object->id, sizeof(object->id), o);
    if (o) {
        *ret = o;
        return 1;
    }
    if (n->read_in_look == n->look && clock_monotonic_ns() >= end_ns)
        return -EAGAIN;
    n->read_in_look = n->look; /* one in each look: it comes to its end */
    _cleanup_(usdt_probes_freep) struct usdt_probes *probes = NULL;
    const int fd = object_open(object);
    const int r = fd < 0 ? fd : read_probes(fd, &probes);
    if (r < 0 && r != -ENOEXEC)
        return r == -EAGAIN ? -EBUSY : r;
    if (HASH_COUNT(n->objects) >= OBJECTS_MAX)
        forget_objects(n);
    o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    o->id = object->id;
    if (probes)
        count_probes(n, probes, o);
    HASH_ADD(hh, n->objects, id, sizeof(o->id), o);
    if (!o->hh.tbl) {
        free(o);
        return -ENOMEM;
    }
    *ret = o;
    return 1;
}

/* ---- files of the wanted provider ---- */

static struct provider_file *get_file(struct usdt_providers *n, const struct file_key *key)
{
    struct provider_file *f;
    HASH_FIND(hh, n->files, key, sizeof(*key), f);
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

static void set_waits(struct usdt_providers *n, struct provider_file *f, bool waits)
{
    n->waiting += waits - (size_t)f->waits;
    f->waits = waits;
}

static void release_file(struct usdt_providers *n, struct provider_file *f)
{
    if (f->users > 0 && --f->users > 0)
        return;
    set_waits(n, f, false);
    if (f->taken)
        n->options.gone(n->options.context, f->taken);
    HASH_DEL(n->files, f);
    free(f);
}

/* The very file of a mapping, by the process that maps it now; takes `fd`. */
static int offer_file(struct usdt_providers *n, struct provider_file *f, const struct process *process, int fd)
{
    _cleanup_close_ int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    _cleanup_(usdt_probes_freep) struct usdt_probes *probes = NULL;
    int r = read_probes(fd, &probes);
    if (r < 0 || copy < 0)
        return r < 0 ? r : -EMFILE;
    const struct usdt_provider_file file = {.fd = copy, .probes = probes, .process = process};
    set_waits(n, f, n->options.appeared(n->options.context, &file, &f->taken) < 0);
    return 0;
}

/* Held for the caller. An error: it is gone, or another by now, or cannot be asked for. */
static int find_file(struct usdt_providers *n, const struct process *process, const struct process_mapping *m,
                     struct provider_file **ret)
{
    struct object_identity id = {0};
    const struct object_sight sight = {
        .path = m->path, .start = m->start, .end = m->end, .by_maps = true, .pids = {process->pid}, .pid_count = 1};
    _cleanup_close_ int fd = file_opener_sight(objects_opener(n->options.processes->objects), &sight, &id);
    if (fd < 0)
        return fd == -EAGAIN ? -EBUSY : fd;
    if (id.is_far) /* the kernel would read it as it attaches */
        return -EREMOTE;
    struct provider_file *f = get_file(n, &(struct file_key){id.device, id.inode});
    if (!f)
        return -ENOMEM;
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

static void set_stray(struct usdt_providers *n, struct provided *e, bool is_stray)
{
    n->strays += is_stray - (size_t)e->is_stray;
    e->is_stray = is_stray;
}

static void release_files(struct usdt_providers *n, struct provided *e)
{
    for (size_t i = 0; i < e->file_count; i++)
        release_file(n, e->files[i]);
    e->file_count = 0;
}

static void drop(struct usdt_providers *n, struct provided *e)
{
    release_files(n, e);
    set_stray(n, e, false);
    n->providers -= e->providers;
    n->probes -= e->probes;
    HASH_DEL(n->processes, e);
    free(e);
}

/* One that nobody has waited for yet maps nothing any more. */
static bool is_gone(uint32_t pid)
{
    _cleanup_close_ int fd = proc_open(pid);
    struct proc_stat stat;
    return fd < 0 || proc_read_stat(fd, &stat) < 0 || (stat.threads <= 1 && (stat.state == 'Z' || stat.state == 'X'));
}

void usdt_providers_forget(struct usdt_providers *n, uint32_t pid)
{
    struct provided *e;
    HASH_FIND(hh, n->processes, &pid, sizeof(pid), e);
    if (e && is_gone(pid))
        drop(n, e);
    else if (e)
        set_stray(n, e, true);
}

static bool has_file(const struct provided *e, const struct provider_file *f)
{
    for (size_t i = 0; i < e->file_count; i++)
        if (e->files[i] == f)
            return true;
    return false;
}

/* Bounded before anything is asked of the file: one may be mapped thousands of times. */
static int add_file(struct usdt_providers *n, const struct process *process, const struct process_mapping *m,
                    struct provided *e)
{
    struct provider_file *f;
    if (e->file_count == FILES_A_PROCESS_MAX || n->asked_in_look == ASKS_A_LOOK_MAX) {
        n->left_out += !e->has_more;
        e->has_more = true;
        return 0;
    }
    n->asked_in_look++;
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
                       struct provided *e, uint64_t end_ns)
{
    struct known_object *o;
    int r = m->object && m->path ? get_object(n, m->object, end_ns, &o) : 0;
    if (r <= 0 || !o->probes)
        return r;
    if (o->look != n->look) {
        o->look = n->look;
        e->providers += o->providers;
        e->probes += o->probes;
    }
    return o->is_wanted ? add_file(n, process, m, e) : 0;
}

/* What could not be asked for now may be what was there before. */
static void keep(const struct provided *before, struct provided *now)
{
    now->providers = now->providers > before->providers ? now->providers : before->providers;
    now->probes = now->probes > before->probes ? now->probes : before->probes;
    now->has_more |= before->has_more;
    for (size_t i = 0; i < before->file_count && now->file_count < FILES_A_PROCESS_MAX; i++) {
        if (has_file(now, before->files[i]))
            continue;
        before->files[i]->users++;
        now->files[now->file_count++] = before->files[i];
    }
}

static bool has_unmapped(const struct provided *before, const struct provided *now)
{
    for (size_t i = 0; i < before->file_count; i++)
        if (before->files[i]->taken && !has_file(now, before->files[i]))
            return true;
    return before->has_more;
}

/* What was found takes the place of what was known. Only now, so that files which are still mapped stay
 * taken. */
static int replace(struct usdt_providers *n, struct provided *now, bool is_whole)
{
    struct provided *before;
    HASH_FIND(hh, n->processes, &now->pid, sizeof(now->pid), before);
    if (before && !is_whole)
        keep(before, now);
    struct provided *e = now->probes && HASH_COUNT(n->processes) < PROCESSES_MAX ? calloc(1, sizeof(*e)) : NULL;
    if (before && has_unmapped(before, now))
        n->options.unmapped(n->options.context, now->pid);
    if (before)
        drop(n, before);
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

static int look(struct usdt_providers *n, const struct process *process, uint64_t end_ns)
{
    struct provided now = {.pid = process->pid};
    int r = 0;
    if (process->exited)
        return 0;
    n->look++;
    n->asked_in_look = 0;
    for (size_t i = 0; i < process->mapping_count && r != -EAGAIN; i++) {
        int one = add_mapping(n, process, &process->mappings[i], &now, end_ns);
        r = one < 0 ? one : r;
    }
    int replaced = replace(n, &now, r == 0);
    return r < 0 ? r : replaced;
}

/* ---- who is looked at, and who has gone ---- */

static int look_at(void *context, uint32_t pid, uint64_t end_ns)
{
    struct usdt_providers *n = context;
    const struct process *process = processes_find(n->options.processes, pid, 0);
    if (process)
        return look(n, process, end_ns);
    usdt_providers_forget(n, pid);
    return 0;
}

/* The table of processes also forgets some that live on, and is not told of their end any more. */
static void look_for_gone(struct usdt_providers *n, uint64_t now_ns)
{
    struct provided *e, *next;
    size_t looks = 0;
    if (n->strays == 0 || now_ns - n->gone_looked_ns < GONE_LOOK_NS)
        return;
    n->gone_looked_ns = now_ns;
    HASH_FIND(hh, n->processes, &n->gone_from, sizeof(n->gone_from), e);
    for (e = e ? e : n->processes; e && looks < GONE_LOOKS_MAX; e = next) {
        next = e->hh.next;
        looks += e->is_stray;
        if (e->is_stray && is_gone(e->pid))
            drop(n, e);
    }
    n->gone_from = e ? e->pid : 0;
}

static bool has_waiting(const struct provided *e)
{
    for (size_t i = 0; i < e->file_count; i++)
        if (e->files[i]->waits)
            return true;
    return false;
}

/* All in turn, from where it ended the last time; a few each second, so that newcomers are looked at meanwhile.
 */
static void ask_again(struct usdt_providers *n, uint64_t now_ns)
{
    struct provided *e;
    if (n->ask_left == 0 || now_ns - n->asked_ns < ASK_AGAIN_NS)
        return;
    n->asked_ns = now_ns;
    HASH_FIND(hh, n->processes, &n->ask_from, sizeof(n->ask_from), e);
    for (size_t asked = 0; n->processes && n->ask_left > 0 && asked < ASK_AGAIN_MAX; n->ask_left--) {
        e = e ? e : n->processes;
        if (has_waiting(e)) {
            usdt_scan_want(n->looks, e->pid);
            asked++;
        }
        e = e->hh.next;
    }
    n->ask_from = e ? e->pid : 0;
}

void usdt_providers_ask_again(struct usdt_providers *n)
{
    n->ask_left = HASH_COUNT(n->processes);
}

void usdt_providers_look(struct usdt_providers *n, uint32_t pid)
{
    usdt_scan_want(n->looks, pid);
}

void usdt_providers_look_at_all(struct usdt_providers *n)
{
    struct provided *e;
    for (e = n->processes; e; e = e->hh.next)
        set_stray(n, e, true); /* until it is found again */
    usdt_scan_want_all(n->looks);
}

void usdt_providers_turn(struct usdt_providers *n, uint64_t budget_ns)
{
    usdt_scan_turn(n->looks, budget_ns);
    const uint64_t now_ns = clock_monotonic_ns();
    look_for_gone(n, now_ns);
    ask_again(n, now_ns);
}

/* ---- life, figures ---- */

int usdt_providers_new(const struct usdt_providers_options *options, struct usdt_providers **ret)
{
    _cleanup_(usdt_providers_freep) struct usdt_providers *n = calloc(1, sizeof(*n));
    if (!n)
        return -ENOMEM;
    n->options = *options;
    int r = usdt_scan_new(&(struct usdt_scan_options){.context = n, .look = look_at}, &n->looks);
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
        drop(n, n->processes);
    forget_objects(n);
    usdt_scan_free(n->looks);
    free(n);
}

void usdt_providers_metrics(const struct usdt_providers *n, struct metric_set *set)
{
    metric_add(set, "sonde_usdt_processes", METRIC_GAUGE, "", "Processes that have native probes (USDT).",
               (double)HASH_COUNT(n->processes), METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_providers", METRIC_GAUGE, "", "Their providers, of all processes together.",
               (double)n->providers, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_probes", METRIC_GAUGE, "", "Their probes, of all processes together.",
               (double)n->probes, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_left_out", METRIC_COUNTER, "",
               "Processes and files with native probes that found no room.", (double)n->left_out, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_files_without_room", METRIC_GAUGE, "",
               "Files that were to be attached to, and are offered again when there is room.", (double)n->waiting,
               METRIC_NO_LABELS);
    struct usdt_scan_stats looks;
    usdt_scan_stats(n->looks, &looks);
    metric_add(set, "sonde_usdt_scans_waiting", METRIC_GAUGE, "",
               "Processes that are still to be looked at for native probes.", (double)looks.waiting, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_scans_unread", METRIC_COUNTER, "",
               "Looks at processes in which a file could not be read; tried again a few times.", (double)looks.unread,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_scans_given_up", METRIC_COUNTER, "", "Processes for which that was tried often enough.",
               (double)looks.given_up, METRIC_NO_LABELS);
}
