/* A file that appears under its name only when it is whole: written beside its place under a name that nobody could
 * foresee, then renamed. A full disk or a kill leaves what was there before. */
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

int file_part_create(const char *path, struct file_part *ret);
int file_part_write_all(int fd, const char *data, size_t size);
/* Closes it and gives it its name; an error of the disk shows here at the latest. */
int file_part_commit(struct file_part *part, const char *path);
/* Takes away what was not committed; for _cleanup_. */
void file_part_discard(struct file_part *part);
