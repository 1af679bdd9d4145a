/* The folder of what debuginfod servers sent, the one that elfutils, gdb and others share: FOLDER/BUILD-ID/debuginfo is
 * the file, and where that is empty no server had it when it was made. Elfutils' clients clear it out; we only add to
 * it. */
#pragma once

#include <stddef.h>

#define DEBUGINFOD_CACHE_PATH_BYTES 4096

/* Where it is, by the environment: $DEBUGINFOD_CACHE_PATH, else what is there of elfutils' places, else
 * $XDG_CACHE_HOME/debuginfod_client or ~/.cache/debuginfod_client. -ENOENT: the environment does not tell. */
int debuginfod_cache_path(char ret[DEBUGINFOD_CACHE_PATH_BYTES]);

/* A descriptor of the folder, which is made if it is not there. -EPERM: it is somebody else's, or anybody may write to
 * it: a root that has kept the environment of a user leaves that one's folder alone. */
int debuginfod_cache_open(const char *path);

/* Build ids are lower-case hexadecimal here. A descriptor of the file; -ENODATA: no server had it lately; -ENOENT:
 * nothing is known. */
int debuginfod_cache_find(int folder, const char *build_id);

/* A file that is being written, to be kept or dropped; what a recording that is killed leaves of it is nobody's. */
struct debuginfod_cache_entry {
    int folder, fd;       /* the entry's own folder */
    int cache;            /* borrowed */
    const char *build_id; /* borrowed */
    char name[32];
};
int debuginfod_cache_begin(int folder, const char *build_id, struct debuginfod_cache_entry *ret);
/* Both end it. Empty, it says that no server has it. */
int debuginfod_cache_keep(struct debuginfod_cache_entry *e);
void debuginfod_cache_drop(struct debuginfod_cache_entry *e);
