/* Files that are opened once each: two paths may name one file. Main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPENED_FILES_MAX 256

/* Zeroed: none. */
struct opened_files {
    size_t count;
    struct opened_file {
        uint64_t device, inode;
        int fd;
    } all[OPENED_FILES_MAX];
};

/* Returns the descriptor of the file at `path`, which the list keeps. `*ret_is_new`: the file was opened just now.
 * -ENOSPC: it would be one more than `max`; -errno. */
int opened_files_get(struct opened_files *f, size_t max, const char *path, bool *ret_is_new);
void opened_files_close(struct opened_files *f);
