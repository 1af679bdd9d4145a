/* See record_gpu.h. A process has the library where its environment named it when it started: the installed file, or
 * that of its container. */
#include "cli/record/record_gpu.h"

#include "base/log.h"
#include "model/task_filter.h"
#include "resolve/elf/elf.h"
#include "resolve/usdt/usdt_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROVIDER "sonde_cuda"
#define VARIABLE "CUDA_INJECTION64_PATH"

struct probe_sites {
    struct user_probe_site all[USER_PROBE_SITES_MAX];
    size_t count;
};

struct library {
    uint64_t device, inode;
    int fd;
};

struct record_gpu {
    struct probe_sites launches, records;
    struct library libraries[USER_PROBE_SITES_MAX];
    size_t library_count;
    uint32_t pid; /* attach to this process only; 0: to all */
};

int record_gpu_new(struct record_gpu **ret)
{
    struct record_gpu *g = calloc(1, sizeof(*g));
    *ret = g;
    return g ? 0 : -ENOMEM;
}

void record_gpu_free(struct record_gpu *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->library_count; i++)
        close(g->libraries[i].fd);
    free(g);
}

static const char *library_path(void)
{
    const char *path = getenv(VARIABLE);
    return path && path[0] ? path : SONDE_CUDA_LIBRARY;
}

int record_gpu_prepare_command(void)
{
    if (access(library_path(), R_OK) < 0)
        return log_errno(-errno, "record: %s cannot be read", library_path());
    return setenv(VARIABLE, library_path(), 1) < 0 ? -errno : 0;
}

/* Returns the descriptor of the file, which is opened once, or -errno. */
static int open_library(struct record_gpu *g, const char *path)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    for (size_t i = 0; i < g->library_count; i++)
        if (g->libraries[i].device == st.st_dev && g->libraries[i].inode == st.st_ino)
            return g->libraries[i].fd;
    if (g->library_count == USER_PROBE_SITES_MAX)
        return -ENOSPC;
    struct library *l = &g->libraries[g->library_count++];
    *l = (struct library){.device = st.st_dev, .inode = st.st_ino, .fd = take_fd(&fd)};
    return l->fd;
}

/* Once a file and process. */
static void add_site(struct probe_sites *to, const struct user_probe_site *site)
{
    for (size_t i = 0; i < to->count; i++)
        if (to->all[i].fd == site->fd && to->all[i].pid == site->pid)
            return;
    if (to->count < USER_PROBE_SITES_MAX)
        to->all[to->count++] = *site;
    else
        log_warning("record: more than %d processes or copies of libsonde-cuda: some are left out",
                    USER_PROBE_SITES_MAX);
}

static void add_sites(struct record_gpu *g, const char *path, const struct usdt_site *sites, size_t count)
{
    const int fd = open_library(g, path);
    if (fd < 0)
        return; /* the process is gone */
    for (size_t i = 0; i < count; i++) {
        struct probe_sites *to = strcmp(sites[i].name, "launch") == 0   ? &g->launches
                                 : strcmp(sites[i].name, "record") == 0 ? &g->records
                                                                        : NULL;
        if (to)
            add_site(to, &(struct user_probe_site){.fd = fd,
                                                   .file_offset = sites[i].file_offset,
                                                   .semaphore_offset = sites[i].semaphore_offset,
                                                   .pid = g->pid});
    }
}

static int take_probe(void *context, const struct usdt_probe *probe)
{
    add_sites(context, probe->map_file, probe->sites, probe->site_count);
    return 0;
}

/* The library that later processes will load. */
static int add_installed(struct record_gpu *g)
{
    _cleanup_(usdt_probes_freep) struct usdt_probes *probes = NULL;
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    _cleanup_close_ int fd = open(library_path(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int r = elf_open(fd, &elf);
    if (r < 0)
        return r;
    take_fd(&fd);
    r = usdt_probes_read(elf, &probes);
    for (size_t i = 0; r == 0 && i < probes->count; i++)
        if (strcmp(probes->sites[i].provider, PROVIDER) == 0)
            add_sites(g, library_path(), &probes->sites[i], 1);
    return r;
}

static int find_in_named(struct record_gpu *g, struct usdt_processes *processes, const struct task_filter *filter)
{
    for (size_t i = 0; i < filter->pid_count; i++) {
        const size_t before = g->launches.count;
        g->pid = filter->pids[i];
        int r = usdt_processes_look(processes, g->pid);
        if (r < 0)
            return r;
        if (g->launches.count == before) {
            log_error("record: process %u does not have libsonde-cuda: start it with " VARIABLE "=%s", g->pid,
                      library_path());
            return -ENOENT;
        }
    }
    return 0;
}

static int find_in_all(struct record_gpu *g, struct usdt_processes *processes)
{
    int installed = add_installed(g), r = usdt_processes_walk(processes);
    if (r < 0 || g->launches.count)
        return r;
    return log_errno(installed, "record: no process has libsonde-cuda, and %s cannot be read", library_path());
}

int record_gpu_find(struct record_gpu *g, const struct task_filter *filter, bool has_command,
                    struct sample_event *event)
{
    const struct usdt_filter of_library = {.provider = PROVIDER};
    _cleanup_(usdt_processes_freep) struct usdt_processes *processes = NULL;
    int r = usdt_processes_new(&of_library, take_probe, g, &processes);
    if (r == 0)
        r = filter->pid_count && !has_command ? find_in_named(g, processes, filter) : find_in_all(g, processes);
    event->sites = g->launches.all;
    event->site_count = g->launches.count;
    event->record_sites = g->records.all;
    event->record_site_count = g->records.count;
    return r;
}
