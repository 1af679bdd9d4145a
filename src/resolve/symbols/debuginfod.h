/* Fetches debug files that are not on this machine from debuginfod servers (debuginfod(8)) by build ID: only after
 * the recording has ended, only if the environment names servers, and within limits. Files are stored in the cache
 * directory that elfutils' clients share (debuginfod_cache.h), once they are verified to be ELF files with that
 * build ID. A server that fails in any way is not used again. One thread at a time. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct debuginfod;

struct debuginfod_options {
    const char *urls;       /* as in $DEBUGINFOD_URLS, separated by white space */
    const char *cache_path; /* see debuginfod_cache_path */
    uint64_t file_max_bytes, all_max_bytes;
    unsigned stall_seconds; /* a server that sends less than 100 kB in this time has failed */
    unsigned file_max_seconds, all_max_seconds;
    int stop_fd;                                                      /* readable: cancel; -1: none */
    void (*progress)(void *context, const char *url, uint64_t bytes); /* called a few times a second; may be NULL */
    void *context;
};

/* From DEBUGINFOD_URLS, _TIMEOUT, _MAXSIZE and _MAXTIME, with our own limits as defaults. -ENOENT: no server is
 * named. */
int debuginfod_options_from_environment(struct debuginfod_options *ret);

/* The contents of `options` must stay valid. -ENOPKG: no libcurl; -EPERM and others: the cache directory cannot be
 * used. */
int debuginfod_new(const struct debuginfod_options *options, struct debuginfod **ret);
void debuginfod_free(struct debuginfod *d);
DEFINE_FREEP(debuginfod)

/* A descriptor for reading the file with the DWARF; its build ID has been verified. -ENOENT: no server has it, or
 * none could be asked; -ECANCELED: by stop_fd; -EINVAL: not a build ID. */
int debuginfod_find(struct debuginfod *d, const char *build_id);

struct debuginfod_stats { /* numbers of requests by build ID; a repeated request counts again */
    uint32_t fetched, cached;
    uint32_t absent, too_large,
        unasked; /* no server has it; larger than file_max_bytes; past a total limit, or no server is left */
};
void debuginfod_stats(const struct debuginfod *d, struct debuginfod_stats *ret);

/* Iterates over the servers that have failed: the URL without user and password, and the reason. NULL: no more. */
const char *debuginfod_failure(const struct debuginfod *d, size_t number, const char **ret_why);
