/* The cache directory of debuginfod clients, shared with elfutils, gdb and others. DIRECTORY/BUILD-ID/debuginfo is
 * the file; an empty file means that no server had it when it was created. Elfutils' clients clean the cache; this
 * code only adds to it. */
#pragma once

#include <stddef.h>

#define DEBUGINFOD_CACHE_PATH_BYTES 4096

/* The path, by the environment: $DEBUGINFOD_CACHE_PATH, else elfutils' legacy place if it exists, else
 * $XDG_CACHE_HOME/debuginfod_client or ~/.cache/debuginfod_client. -ENOENT: the environment names none. */
int debuginfod_cache_path(char ret[DEBUGINFOD_CACHE_PATH_BYTES]);

/* A descriptor of the directory, which is created if missing. -EPERM: it belongs to another user, or is
 * world-writable. A root process that kept a user's environment thus leaves that user's cache alone. */
int debuginfod_cache_open(const char *path);

/* Build IDs are lower-case hexadecimal here. A descriptor of the file; -ENODATA: no server had it recently; -ENOENT:
 * not cached. */
int debuginfod_cache_find(int folder, const char *build_id);

/* A file being written, to be kept or dropped. A killed recording leaves a temporary file that no client reads. */
struct debuginfod_cache_entry {
    int folder, fd;       /* `folder`: the entry's own directory */
    int cache;            /* borrowed */
    const char *build_id; /* borrowed */
    char name[32];
};
int debuginfod_cache_begin(int folder, const char *build_id, struct debuginfod_cache_entry *ret);
/* Both end the entry. Keeping an empty file records that no server has it. */
int debuginfod_cache_keep(struct debuginfod_cache_entry *e);
void debuginfod_cache_drop(struct debuginfod_cache_entry *e);
