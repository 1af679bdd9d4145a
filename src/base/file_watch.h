/* Notices that a file has changed: by its identity, size and times, without reading it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct file_version {
    uint64_t device, inode, size, changed_ns; /* zeros: it does not exist */
};

/* One file: as it was read, and as it was last seen. */
struct file_watch {
    struct file_version read, seen;
};

/* To be called before the file is read. `path` NULL: as a file that does not exist. */
void file_watch_start(struct file_watch *w, const char *path);

/* To be called from time to time. True, once for each change: the file is another one than was read, and has been so
 * since the last call, so that it is not read while it is being written. */
bool file_watch_has_changed(struct file_watch *w, const char *path);
