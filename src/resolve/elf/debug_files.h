/* Symbols that were taken out of a file and put elsewhere: into a debug file found by build id or by debug
 * link, or packed into the file itself (.gnu_debugdata). What is found is checked to belong to the file: by
 * build id, else by its checksum. */
#pragma once

#include "resolve/elf/elf.h"

#include <stdbool.h>
#include <stddef.h>

#define DEBUG_PATH_BYTES 4096

/* Who has files that are not on this machine (debuginfod.h). A descriptor for elf_open, -ENOENT, -ECANCELED. */
struct debug_fetcher {
    int (*fetch)(void *context, const char *build_id);
    void *context;
};

struct debug_search {
    const char *path;     /* of the file whose symbols are sought */
    const char *build_id; /* hexadecimal; "" */
    const char *root;     /* "/usr/lib/debug" */
    bool wants_dwarf;     /* what is sought is DWARF, not symbols */
    char *found_path;     /* DEBUG_PATH_BYTES for where it was found; NULL: nobody wants to know */
    /* Open a path as we see it, and as those do who run the file, in a container perhaps; a descriptor for
     * elf_open or -errno. NULL: there is no such view. */
    int (*open_ours)(const void *context, const char *path);
    int (*open_beside)(const void *context, const char *path);
    const void *context;
    const struct debug_fetcher *fetcher; /* asked last; NULL: nothing is fetched */
};

/* ROOT/.build-id/xx/yyyy.debug, then the debug link beside the file, in .debug beside it, and under ROOT.
 * Then from afar. -ENOENT: none; -ECANCELED: fetching was ended. */
int debug_files_find(const struct elf_file *file, const struct debug_search *search, struct elf_file **ret);

/* Is this the build id of the file? 1: yes, 0: no, -ENOENT: the file has none. */
int debug_files_has_build_id(const struct elf_file *file, const char *build_id);
bool debug_files_has_dwarf(const struct elf_file *file);

/* What dwz took out of several debug files and put into one that they share (.gnu_debugaltlink): by the build id that
 * `file`, which lies at `path`, names, and only if it is that one. -ENOENT: none is named, or found; `ret_named` tells
 * which. */
int debug_files_find_alternative(const struct elf_file *file, const char *path, const struct debug_search *search,
                                 bool *ret_named, struct elf_file **ret);

/* The small ELF file in .gnu_debugdata (xz). -ENOENT: there is none; -EFBIG: larger than we unpack. */
int debug_files_unpack(const struct elf_file *file, struct elf_file **ret, size_t *ret_bytes);
