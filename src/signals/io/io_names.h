/* Cgroups and mounts of the kernel's I/O tables with their names, each read once and kept. */
#pragma once

#include "base/cleanup.h"
#include "resolve/proc/job.h"

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

struct io_named {
    uint64_t id;
    char path[IO_PATH_BYTES]; /* of a cgroup as in /proc/PID/cgroup; of a mount in its own namespace, "(unmounted)" if
                                 it was unmounted while files on it were open */
    struct job job;           /* of a cgroup */
    char type[48];            /* of a mount's file system */
    bool is_cut;              /* the path lacks names */
    bool is_hidden;           /* a mount that no program sees */
    bool is_gone;             /* a cgroup, when last checked */
    bool is_used;             /* in this round of its owner */
    UT_hash_handle hh;
};

struct io_names {
    void *source; /* borrowed (sources/io/io.h) */
    struct io_named *cgroups, *mounts;
};

void io_names_clear(struct io_names *n);

/* NULL: not known, or out of memory. Valid until forgotten. */
struct io_named *io_names_cgroup(struct io_names *n, uint64_t id);
struct io_named *io_names_mount(struct io_names *n, uint64_t id);

/* Writes the path of a file of this mount, cut to fit. `below`: its path below the mount point, beginning with "/".
 * `is_outside`: the mount does not show the file, and `below` is its path in the file system: "ext4:/data/file". */
void io_named_join(const struct io_named *mount, const char *below, bool is_outside, char *ret, size_t size);

/* Writes the path of a file of a mount, cut to fit; for calls that name a path, words that say so. */
void io_names_file(struct io_names *n, uint64_t mount, uint64_t file, char *ret, size_t size);

/* Reads the names of the known mounts again: a mount may have been moved. */
void io_names_refresh_mounts(struct io_names *n);

/* Notes which of the known cgroups are gone. `root`: the directory of the root of their hierarchy, borrowed. */
void io_names_find_gone(struct io_names *n, int root);

/* Forgets it, here and in the kernel's table. */
void io_names_forget_cgroup(struct io_names *n, struct io_named *cgroup);
void io_names_forget_mount(struct io_names *n, struct io_named *mount);
