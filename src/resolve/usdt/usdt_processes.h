/* The USDT probes in processes: of all running processes, in one walk through /proc while processes start and exit,
 * or of one process that is known to have changed. A probe counts where the file with its note is mapped, be it a
 * program, a library or a file in memory. */
#pragma once

#include "resolve/usdt/usdt_probes.h"

#include <stdbool.h>
#include <stdint.h>

enum usdt_attached { USDT_NOT_ATTACHED, USDT_ATTACHED, USDT_ATTACHED_UNKNOWN };

/* A probe in a process. Borrowed for the duration of the callback. */
struct usdt_probe {
    uint32_t pid;
    const char *process;    /* as in /proc/PID/comm */
    const char *path;       /* of the file, as the process sees it */
    const char *map_file;   /* path in /proc/PID/map_files, valid while the process runs */
    uint64_t device, inode; /* of the file; files with the same content are read once but remain distinct here */
    const struct usdt_site *sites;
    size_t site_count;
    bool has_semaphore;
    enum usdt_attached attached;
};

struct usdt_filter {
    uint32_t pid;                /* 0: every process */
    const char *provider, *name; /* NULL: any */
};

/* What the walk could not read. Processes that exited meanwhile are not counted. */
struct usdt_losses {
    uint64_t refused;       /* processes that we are not permitted to read */
    uint64_t unreadable;    /* processes and files that could not be read for another reason, timeouts included */
    uint64_t damaged_notes; /* in all files */
    uint64_t left_out;      /* probes and mappings past the bounds */
};

/* Callback per probe. A value other than 0 ends the walk, which then returns it. */
typedef int usdt_probe_take(void *context, const struct usdt_probe *probe);

struct usdt_processes;

/* `filter` is copied, its strings are borrowed. The caller frees `*ret`. -ENOMEM or -errno. */
int usdt_processes_new(const struct usdt_filter *filter, usdt_probe_take *take, void *context,
                       struct usdt_processes **ret);
void usdt_processes_free(struct usdt_processes *n);
DEFINE_FREEP(usdt_processes)

/* Calls `take` for every probe, process by process. Returns 0 or the callback's value. -ESRCH: the process
 * filter.pid does not exist. */
int usdt_processes_walk(struct usdt_processes *n);
/* The same for one process, unless the filter excludes it. A process that has exited is not an error. */
int usdt_processes_look(struct usdt_processes *n, uint32_t pid);

void usdt_processes_losses(const struct usdt_processes *n, struct usdt_losses *ret);
