/* The files of a trace: Triton and libsonde rotate FILE.0, FILE.1, ..., which may then be compressed. */
#pragma once

#include <stddef.h>

#define TRITON_FILES_MAX 100000

struct triton_files {
    char **paths; /* owned; in the order of their numbers */
    size_t count;
};

/* Finds `path` ("-": standard input), or where it does not exist, the rotated set of this name. Logs a warning for a
 * file that is missing in the set, and for one that is left out because another one has its number. 0; -ENOENT: there
 * is neither; -E2BIG: more than TRITON_FILES_MAX files; -errno. */
int triton_files_find(const char *path, struct triton_files *ret);
void triton_files_clear(struct triton_files *files);
