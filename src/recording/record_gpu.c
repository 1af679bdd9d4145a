/* See record_gpu.h. A process has the library where its environment named it when it started: the installed file, or
 * that of its container. */
#include "recording/record_gpu.h"

#include "base/log.h"
#include "model/task_filter.h"
#include "recording/opened_files.h"
#include "resolve/usdt/usdt_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PROVIDER "sonde_cuda"
#define VARIABLE "CUDA_INJECTION64_PATH"
#define BUILT    "/lib/libsonde-cuda.so" /* beside a program that was not installed */

struct probe_sites {
    struct user_probe_site all[USER_PROBE_SITES_MAX];
    size_t count;
};

struct record_gpu {
    struct probe_sites launches, records;
    struct opened_files libraries;
    uint32_t pid;        /* attach to this process only; 0: to all */
    bool is_recording;   /* another `sonde record --gpu` holds the lock of a library */
    char path[PATH_MAX]; /* of the library that programs should load */
};

/* The one that the environment names; else the one of this program's build, or the installed one. */
static void set_path(struct record_gpu *g)
{
    const char *given = getenv(VARIABLE);
    char program[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - sizeof(BUILT));
    snprintf(g->path, sizeof(g->path), "%s", given && given[0] ? given : SONDE_CUDA_LIBRARY);
    if (n <= 0 || (given && given[0]))
        return;
    program[n] = '\0';
    memcpy(strrchr(program, '/'), BUILT, sizeof(BUILT));
    if (access(program, R_OK) == 0)
        snprintf(g->path, sizeof(g->path), "%s", program);
}

int record_gpu_new(struct record_gpu **ret)
{
    struct record_gpu *g = calloc(1, sizeof(*g));
    if (g)
        set_path(g);
    *ret = g;
    return g ? 0 : -ENOMEM;
}

void record_gpu_free(struct record_gpu *g)
{
    if (!g)
        return;
    opened_files_close(&g->libraries);
    free(g);
}

int record_gpu_prepare_command(const struct record_gpu *g)
{
    if (access(g->path, R_OK) < 0)
        return log_errno(-errno, "record: %s cannot be read", g->path);
    return setenv(VARIABLE, g->path, 1) < 0 ? -errno : 0;
}

/* Two recorders would share the windows of the processes, and the later one would count what ran before it came. The
 * lock lasts as long as a process has the descriptor: until the end of the recorder and of its helpers. Some network
 * file systems have no such locks. */
static bool is_locked_by_other(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Returns the descriptor of the file, which is opened and locked once, or -errno. */
static int open_library(struct record_gpu *g, const char *path)
{
    bool is_new;
    const int fd = opened_files_get(&g->libraries, OPENED_FILES_MAX, path, &is_new);
    g->is_recording |= fd >= 0 && is_new && is_locked_by_other(fd);
    return g->is_recording ? -EBUSY : fd;
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
        return; /* the process is gone, or another recorder is there */
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

/* The library that later processes will load. -EBADMSG: another library. */
static int add_installed(struct record_gpu *g)
{
    _cleanup_(usdt_probes_freep) struct usdt_probes *probes = NULL;
    const int fd = open(g->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const int r = fd < 0 ? -errno : usdt_probes_read_file(fd, &probes);
    bool has_probes = false;
    if (r < 0)
        return r;
    for (size_t i = 0; i < probes->count; i++)
        if (strcmp(probes->sites[i].provider, PROVIDER) == 0) {
            add_sites(g, g->path, &probes->sites[i], 1);
            has_probes = true;
        }
    return has_probes ? 0 : -EBADMSG;
}

static int find_in_named(struct record_gpu *g, struct usdt_processes *processes, const struct task_filter *filter)
{
    for (size_t i = 0; i < filter->pid_count; i++) {
        const size_t before = g->launches.count;
        g->pid = filter->pids[i];
        int r = usdt_processes_look(processes, g->pid);
        if (r < 0 || g->is_recording)
            return r;
        if (g->launches.count == before) {
            log_error("record: process %u does not have libsonde-cuda: start it with " VARIABLE "=%s", g->pid, g->path);
            return -ENOENT;
        }
    }
    return 0;
}

static int explain_library(const struct record_gpu *g, int error)
{
    if (error != -EBADMSG)
        return log_errno(error, "record: no process has libsonde-cuda, and %s cannot be read", g->path);
    log_error("record: %s is not libsonde-cuda: unset " VARIABLE, g->path);
    return error;
}

static int find_in_all(struct record_gpu *g, struct usdt_processes *processes, bool has_command)
{
    int installed = add_installed(g), r = usdt_processes_walk(processes);
    if (r < 0 || g->is_recording)
        return r;
    return g->launches.count == 0 || (has_command && installed < 0) ? explain_library(g, installed) : 0;
}

int record_gpu_find(struct record_gpu *g, const struct task_filter *filter, bool has_command,
                    struct sample_event *event)
{
    const struct usdt_filter of_library = {.provider = PROVIDER};
    _cleanup_(usdt_processes_freep) struct usdt_processes *processes = NULL;
    int r = usdt_processes_new(&of_library, take_probe, g, &processes);
    if (r == 0)
        r = filter->pid_count && !has_command ? find_in_named(g, processes, filter)
                                              : find_in_all(g, processes, has_command);
    if (r == 0 && g->is_recording) {
        log_error("record: another `sonde record --gpu` is running: its end, or Ctrl-C there, lets this one begin");
        r = -EBUSY;
    }
    event->sites = g->launches.all;
    event->site_count = g->launches.count;
    event->record_sites = g->records.all;
    event->record_site_count = g->records.count;
    return r;
}

/* NVIDIA's module, or the device by which Windows lends its GPUs to WSL. */
static bool has_driver(void)
{
    return access("/proc/driver/nvidia/version", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

const char *record_gpu_explain_none(void)
{
    return has_driver() ? "nothing ran on a GPU that a selected process with libsonde-cuda launched"
                        : "nothing ran on a GPU: NVIDIA's driver is not loaded on this machine";
}
