/* Opens the files with the DWARF of an object for the process that reads it (line_helper.h): the object's own file
 * or its separate debug file, the file that dwz moved parts of it to, and .dwo files on request. Only regular files
 * are opened, by the same paths as in symbol_files.h. DWARF sections of a remote file are copied, because its file
 * system may block the reader. */
#pragma once

#include "resolve/object/object.h"

#define LINE_FILES_COPY_MAX ((uint64_t)1 << 30) /* of a recording: DWARF of a remote file */

struct debug_fetcher;

struct line_files {
    int fd, alt_fd;          /* closed by the caller; alt_fd -1: no alternative file */
    bool misses_alternative; /* one is named, and was not found */
};

/* Files that are not on this machine are requested from `fetcher` (NULL: none). -ENODATA: no file has DWARF for it;
 * -EFBIG: the file is remote and has more than `copy_max` bytes of DWARF; -ECANCELED: interrupted; any other error: the
 * file cannot be opened. */
int line_files_open(const struct object *object, const char *debug_root, const struct debug_fetcher *fetcher,
                    uint64_t copy_max, struct line_files *ret);

/* True when split DWARF is in a package next to the object (its name with .dwp), as dwp(1) creates them. */
bool line_files_has_package(const struct object *object);

/* Opens a file that DWARF names by its path, if it contains split DWARF. A descriptor or -errno. */
int line_files_open_split(const struct object *object, const char *path, uint64_t copy_max);
