/* Finds symbols and DWARF that were stripped from a file: in a separate debug file, found by build ID or by debug
 * link. A file found is verified by build ID, else by its checksum. */
#pragma once

#include "resolve/elf/elf.h"

#include <stdbool.h>
#include <stddef.h>

#define DEBUG_PATH_BYTES 4096

/* Fetches files that are not on this machine (debuginfod.h). Returns a descriptor for elf_open, -ENOENT or
 * -ECANCELED. */
struct debug_fetcher {
    int (*fetch)(void *context, const char *build_id);
    void *context;
};

struct debug_search {
    const char *path;     /* of the file whose symbols are searched */
    const char *build_id; /* hexadecimal; "" */
    const char *root;     /* "/usr/lib/debug" */
    bool wants_dwarf;     /* search for DWARF instead of symbols */
    char *found_path;     /* receives the path found, DEBUG_PATH_BYTES; NULL: not needed */
    /* Open a path in our own mount namespace, and in the namespace of the processes that run the file (a container,
     * say). Return a descriptor for elf_open or -errno. NULL: not available. */
    int (*open_in_own_root)(const void *context, const char *path);
    int (*open_in_process_root)(const void *context, const char *path);
    const void *context;
    const struct debug_fetcher *fetcher; /* tried last; NULL: nothing is fetched */
};

/* Tries ROOT/.build-id/xx/yyyy.debug, then the debug link in the file's directory, in its .debug subdirectory and
 * under ROOT, in both mount namespaces; then the fetcher. The caller frees `*ret`. -ENOENT: none; -ECANCELED:
 * fetching was interrupted. */
int debug_files_find(const struct elf_file *file, const struct debug_search *search, struct elf_file **ret);

/* 1: the file has this build ID, 0: another one, -ENOENT: none. */
int debug_files_has_build_id(const struct elf_file *file, const char *build_id);
bool debug_files_has_dwarf(const struct elf_file *file);

/* Finds the file into which dwz moved what several debug files share (.gnu_debugaltlink), by the build ID that
 * `file`, at `path`, names. The build ID must match. -ENOENT: none is named, or it was not found; `ret_named`
 * distinguishes the two. */
int debug_files_find_alternative(const struct elf_file *file, const char *path, const struct debug_search *search,
                                 bool *ret_named, struct elf_file **ret);
