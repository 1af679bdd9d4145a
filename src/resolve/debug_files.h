/* Symbols that were taken out of a file and put elsewhere: into a debug file found by build id or by debug
 * link, or packed into the file itself (.gnu_debugdata). What is found is checked to belong to the file: by
 * build id, else by its checksum. */
#pragma once

#include "resolve/elf.h"

#include <stddef.h>

struct debug_search {
    const char *path;     /* of the file whose symbols are sought */
    const char *build_id; /* hexadecimal; "" */
    const char *root;     /* "/usr/lib/debug" */
    /* Open a path as we see it, and as those do who run the file, in a container perhaps; a descriptor for
     * elf_open or -errno. NULL: there is no such view. */
    int (*open_ours)(const void *context, const char *path);
    int (*open_beside)(const void *context, const char *path);
    const void *context;
};

/* ROOT/.build-id/xx/yyyy.debug, then the debug link beside the file, in .debug beside it, and under ROOT.
 * -ENOENT: none. */
int debug_files_find(const struct elf_file *file, const struct debug_search *search, struct elf_file **ret);

/* The small ELF file in .gnu_debugdata (xz). -ENOENT: there is none; -EFBIG: larger than we unpack. */
int debug_files_unpack(const struct elf_file *file, struct elf_file **ret, size_t *ret_bytes);
