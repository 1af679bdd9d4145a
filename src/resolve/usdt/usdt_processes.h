/* The native probes of processes: of all that run now, in a walk through /proc, whose processes come and go
 * meanwhile, or of one that is known to have changed. A probe counts where the file that tells of it is
 * mapped, be it a program, a library or an object in memory. */
#pragma once

#include "resolve/usdt/usdt_probes.h"

#include <stdbool.h>
#include <stdint.h>

enum usdt_attached { NATIVE_NOT_ATTACHED, NATIVE_ATTACHED, NATIVE_ATTACHED_UNKNOWN };

/* A probe in a process. Borrowed until the call returns. */
struct native_probe {
    uint32_t pid;
    const char *process;    /* as /proc/PID/comm */
    const char *path;       /* of the file, as the process sees it */
    const char *map_file;   /* where it can be opened while the process lives: in /proc/PID/map_files */
    uint64_t device, inode; /* of it: files of the same content are read once, and are several */
    const struct usdt_site *sites;
    size_t site_count;
    bool has_semaphore;
    enum usdt_attached attached;
};

struct usdt_filter {
    uint32_t pid;                /* 0: every process */
    const char *provider, *name; /* NULL: any */
};

/* What the walk could not see. Processes that ended meanwhile are no loss. */
struct usdt_losses {
    uint64_t refused;       /* processes that we have no right to look at */
    uint64_t unreadable;    /* processes and files that could not be read for another reason, also in time */
    uint64_t damaged_notes; /* in all files */
    uint64_t left_out;      /* probes and mappings past the bounds */
};

/* A value other than 0 ends the walk and is returned by it. */
typedef int native_take(void *context, const struct native_probe *probe);

struct usdt_processes;

int usdt_processes_new(const struct usdt_filter *filter, native_take *take, void *context, struct usdt_processes **ret);
void usdt_processes_free(struct usdt_processes *n);
DEFINE_FREEP(usdt_processes)

/* Calls `take` for every probe, process by process. -ESRCH: there is no process filter.pid. */
int usdt_processes_walk(struct usdt_processes *n);
/* The same for one process, unless the filter leaves it out. That it has ended is no failure. */
int usdt_processes_look(struct usdt_processes *n, uint32_t pid);

void usdt_processes_losses(const struct usdt_processes *n, struct usdt_losses *ret);
