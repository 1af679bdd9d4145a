/* A harness's input as a file in memory, for parsers that open a path. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_FILE_PATH_BYTES 32

/* A descriptor, the caller's; `path` names it. */
static inline int memory_file(const void *data, size_t size, char path[static MEMORY_FILE_PATH_BYTES])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, MEMORY_FILE_PATH_BYTES, "/proc/self/fd/%d", fd);
    return fd;
}
