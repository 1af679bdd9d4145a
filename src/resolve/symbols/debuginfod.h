/* Debug files that are not here, fetched from debuginfod servers (debuginfod(8)) by build id: only when the recording
 * is over, only where the environment names servers, and within bounds. What comes is kept in the folder that elfutils'
 * clients share (debuginfod_cache.h) once it is an ELF file of that build id. A server that fails in any way is not
 * asked again. One thread at a time. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct debuginfod;

struct debuginfod_options {
    const char *urls;       /* as $DEBUGINFOD_URLS has them, white space between them */
    const char *cache_path; /* see debuginfod_cache_path */
    uint64_t file_max_bytes, all_max_bytes;
    unsigned stall_seconds; /* a server that sends less than 100 kB meanwhile has failed */
    unsigned file_max_seconds, all_max_seconds;
    int stop_fd;                                                      /* readable: no more is wanted; -1: none */
    void (*progress)(void *context, const char *url, uint64_t bytes); /* some times a second; may be NULL */
    void *context;
};

/* From DEBUGINFOD_URLS, _TIMEOUT, _MAXSIZE and _MAXTIME, and our own bounds where these say nothing. -ENOENT: no server
 * is named. */
int debuginfod_options_from_environment(struct debuginfod_options *ret);

/* What is in `options` is to stay. -ENOPKG: there is no libcurl; -EPERM and others: the cache's folder cannot be used.
 */
int debuginfod_new(const struct debuginfod_options *options, struct debuginfod **ret);
void debuginfod_free(struct debuginfod *d);
DEFINE_FREEP(debuginfod)

/* A descriptor of the file with the DWARF, to read; its build id is right. -ENOENT: no server has it, or could be
 * asked; -ECANCELED: stop_fd; -EINVAL: no build id. */
int debuginfod_find(struct debuginfod *d, const char *build_id);

struct debuginfod_stats { /* build ids; one that is asked for again counts again */
    uint32_t fetched, cached;
    uint32_t absent, too_large,
        unasked; /* no server has it; past file_max_bytes; past a bound of all, or no server is left */
};
void debuginfod_stats(const struct debuginfod *d, struct debuginfod_stats *ret);

/* The servers that have failed, one by one: its URL without a password, and why. NULL: that were all. */
const char *debuginfod_failure(const struct debuginfod *d, size_t number, const char **ret_why);
