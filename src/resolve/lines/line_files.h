/* The files that hold the DWARF of an object, opened for the process that reads it (line_helper.h): the object's own or
 * its separate debug file, what dwz took out of that, and .dwo files that it asks for. Only regular files are opened,
 * by the ways of symbol_files.h; what lies on a file system that may keep a reader waiting is copied, as far as it is
 * DWARF. */
#pragma once

#include "resolve/object/objects.h"

struct debug_fetcher;

struct line_files {
    int fd, alt_fd;          /* for the caller to close; alt_fd -1: there is none */
    bool misses_alternative; /* there should be one, and it was not found */
};

/* What is not on this machine is asked of `fetcher` (NULL: nobody). -ENODATA: no file has DWARF for it; -EFBIG: more
 * DWARF than is copied; -ECANCELED: no more is wanted; else why its file cannot be opened. */
int line_files_open(const struct object *object, const char *debug_root, const struct debug_fetcher *fetcher,
                    struct line_files *ret);

/* Whether split DWARF lies in a package beside the object (its name with .dwp), as dwp(1) makes them. */
bool line_files_has_package(const struct object *object);

/* A file that DWARF names, by its path: only one with split DWARF in it. A descriptor or -errno. */
int line_files_open_split(const struct object *object, const char *path);
