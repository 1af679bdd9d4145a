/* See cuda_files.h. */
#include "signals/cuda/cuda_files.h"

#include "base/log.h"
#include "resolve/elf/cuda_sites.h"
#include "resolve/usdt/usdt_providers.h"
#include "signals/cuda/cuda_metrics.h"
#include "sources/cuda/cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define START_NS 200000000
#define TURN_NS  5000000

struct cuda_file {
    struct cuda_file *prev, *next;
    int fd;
    struct cuda_sites sites;
    struct uprobe_attachment *attachments[CUDA_CALLS]; /* NULL: not attached to */
};

struct cuda_files {
    void *source;
    struct uprobe_attachments *attachments;
    struct usdt_providers *files_in_use;
    struct cuda_file *files;
    bool is_paused;
    bool is_detaching; /* the counts begin again when all is detached */
};

static bool is_candidate(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, "libcuda.so", 10) == 0;
}

static bool is_wanted(void *context, const struct elf_file *f)
{
    struct cuda_sites sites;
    (void)context;
    return cuda_sites_find(f, &sites) == 0;
}

/* ---- attachments ---- */

static void attach_calls(struct cuda_files *c, struct cuda_file *file, size_t call)
{
    struct uprobe_site sites[CUDA_SITES_MAX];
    const struct cuda_call_sites *found = &file->sites.calls[call];
    _Static_assert(CUDA_SITES_MAX <= UPROBE_SITES_MAX, "a kind is one attachment");
    for (size_t i = 0; i < found->count; i++)
        sites[i] = (struct uprobe_site){.file_offset = found->file_offsets[i], .kind = (uint32_t)call};
    if (uprobe_attachments_add(c->attachments, file->fd, UPROBE_EVERY_PROCESS, sites, found->count,
                               &file->attachments[call]) < 0)
        file->attachments[call] = NULL; /* for lack of places or descriptors: the next turn tries again */
}

static void detach_calls(struct cuda_files *c, struct cuda_file *file, size_t call)
{
    if (file->attachments[call])
        uprobe_attachments_remove(c->attachments, file->attachments[call]);
    file->attachments[call] = NULL;
}

static void attach_all(struct cuda_files *c)
{
    struct cuda_file *file;
    DL_FOREACH(c->files, file)
    {
        for (size_t call = 0; call < CUDA_CALLS; call++)
            if (!file->attachments[call] && file->sites.calls[call].count)
                attach_calls(c, file, call);
    }
}

static void detach_all(struct cuda_files *c)
{
    struct cuda_file *file;
    DL_FOREACH(c->files, file)
    {
        for (size_t call = 0; call < CUDA_CALLS; call++)
            detach_calls(c, file, call);
    }
}

void cuda_files_pause(struct cuda_files *c, bool is_paused)
{
    if (is_paused && !c->is_paused) {
        detach_all(c);
        c->is_detaching = true;
    }
    c->is_paused = is_paused;
}

/* Programs count until the last file is detached. */
static void settle_attachments(struct cuda_files *c)
{
    struct uprobe_attachments_stats stats;
    uprobe_attachments_stats(c->attachments, &stats);
    if (c->is_detaching && !stats.attached && !stats.waiting) {
        cuda_source_reset(c->source);
        c->is_detaching = false;
    }
    if (!c->is_paused && !c->is_detaching)
        attach_all(c);
}

/* ---- files ---- */

static int find_sites(int fd, struct cuda_sites *ret)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return -EMFILE;
    int r = elf_open(copy, &elf);
    if (r < 0) {
        close(copy);
        return r;
    }
    return cuda_sites_find(elf, ret);
}

static void log_declined(const struct cuda_file *file, uint32_t pid)
{
    for (size_t i = 0; i < CUDA_CALLS; i++)
        if (file->sites.calls[i].declined[0])
            log_warning("libcuda of process %u: calls of kind %s are not counted: %s cannot be probed at a low cost",
                        pid, cuda_call_name(i), file->sites.calls[i].declined);
}

static int take_file(void *context, const struct usdt_provider_file *mapped, void **ret)
{
    struct cuda_files *c = context;
    struct cuda_file *file = calloc(1, sizeof(*file));
    if (!file)
        return -ENOMEM;
    int r = find_sites(mapped->fd, &file->sites);
    file->fd = r < 0 ? -1 : fcntl(mapped->fd, F_DUPFD_CLOEXEC, 0);
    if (file->fd < 0) {
        free(file);
        return r < 0 ? r : -EMFILE;
    }
    DL_APPEND(c->files, file);
    log_declined(file, mapped->process->pid);
    *ret = file;
    return 0;
}

static void release_file(void *context, void *taken)
{
    struct cuda_files *c = context;
    struct cuda_file *file = taken;
    for (size_t call = 0; call < CUDA_CALLS; call++)
        detach_calls(c, file, call);
    DL_DELETE(c->files, file);
    close(file->fd);
    free(file);
}

/* ---- life cycle ---- */

int cuda_files_new(void *cuda_source, struct processes *processes, struct cuda_files **ret)
{
    _cleanup_(cuda_files_freep) struct cuda_files *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->source = cuda_source;
    c->attachments = cuda_source_attachments(cuda_source);
    const struct usdt_providers_options options = {.processes = processes,
                                                   .is_candidate = is_candidate,
                                                   .is_wanted = is_wanted,
                                                   .context = c,
                                                   .appeared = take_file,
                                                   .gone = release_file};
    int r = usdt_providers_new(&options, &c->files_in_use);
    if (r < 0)
        return r;
    *ret = take_ptr(c);
    return 0;
}

void cuda_files_free(struct cuda_files *c)
{
    if (!c)
        return;
    usdt_providers_free(c->files_in_use);
    free(c);
}

void cuda_files_start(struct cuda_files *c)
{
    usdt_providers_look_at_all(c->files_in_use);
    usdt_providers_turn(c->files_in_use, START_NS);
}

void cuda_files_turn(struct cuda_files *c, const struct mapped_processes *mapped)
{
    if (mapped->is_incomplete)
        usdt_providers_look_at_all(c->files_in_use);
    for (size_t i = 0; i < mapped->count; i++)
        usdt_providers_look(c->files_in_use, mapped->pids[i]);
    usdt_providers_turn(c->files_in_use, TURN_NS);
    settle_attachments(c);
}

void cuda_files_forget(struct cuda_files *c, uint32_t pid)
{
    usdt_providers_forget(c->files_in_use, pid);
}

/* A process that was not scanned so far may map any of the files. */
uint32_t cuda_files_counted(const struct cuda_files *c, uint32_t pid)
{
    uint32_t counted = c->files && !c->is_paused && !c->is_detaching ? (1u << CUDA_CALLS) - 1 : 0;
    const struct cuda_file *file;
    DL_FOREACH(c->files, file)
    {
        if (!usdt_providers_may_map(c->files_in_use, pid, file))
            continue;
        for (size_t call = 0; call < CUDA_CALLS; call++)
            if (!file->attachments[call] || !uprobe_attachment_is_on(file->attachments[call]))
                counted &= ~(1u << call);
    }
    return counted;
}

void cuda_files_metrics(const struct cuda_files *c, struct metric_set *set)
{
    struct uprobe_attachments_stats stats;
    size_t declined[CUDA_CALLS] = {0};
    const struct cuda_file *file;
    uprobe_attachments_stats(c->attachments, &stats);
    DL_FOREACH(c->files, file)
    {
        for (size_t call = 0; call < CUDA_CALLS; call++)
            declined[call] += file->sites.calls[call].declined[0] != '\0';
    }
    metric_add(set, "sonde_cuda_attachments", METRIC_GAUGE, "",
               "Kinds of calls, each of a file, that the agent is attached to.", (double)stats.attached,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_cuda_attachments_waiting", METRIC_GAUGE, "",
               "Kinds of calls, each of a file, that wait to be attached to or detached.", (double)stats.waiting,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_cuda_attachments_refused", METRIC_GAUGE, "",
               "Kinds of calls, each of a file, that the kernel refused to attach to.", (double)stats.refused,
               METRIC_NO_LABELS);
    for (size_t call = 0; call < CUDA_CALLS; call++)
        metric_add(
            set, "sonde_cuda_files_declined", METRIC_GAUGE, "",
            "Files of libcuda in which a kind of calls is not counted: a function cannot be probed at a low cost.",
            (double)declined[call], METRIC_LABELS({"call", cuda_call_name(call)}));
}
