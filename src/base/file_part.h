/* Atomic replacement of a file: data goes to a temporary file with an unpredictable name in the same directory, which
 * is renamed when complete. After a full disk or a kill the old file is still in place. */
#pragma once

#include <stddef.h>

#define FILE_PART_PATH_BYTES 4096

struct file_part {
    int fd; /* -1: none */
    char path[FILE_PART_PATH_BYTES];
};

#define FILE_PART_NONE                                                                                                 \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

/* Creates the temporary file for `path`. 0 or -errno; on failure `*ret` is unchanged. */
int file_part_create(const char *path, struct file_part *ret);
/* Writes all of `data`, retrying short writes and EINTR. 0 or -errno. */
int file_part_write_all(int fd, const char *data, size_t size);
/* Closes the file and renames it to `path`. 0 or -errno: then the temporary file is removed. */
int file_part_commit(struct file_part *part, const char *path);
/* Removes a temporary file that was not committed. For _cleanup_. */
void file_part_discard(struct file_part *part);
