/* A fuzzer's input as a memory file, for parsers that open a path. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_FILE_PATH_BYTES 32

/* Returns a descriptor, owned by the caller; `path` names it. */
static inline int memory_file(const void *data, size_t size, char path[static MEMORY_FILE_PATH_BYTES])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, MEMORY_FILE_PATH_BYTES, "/proc/self/fd/%d", fd);
    return fd;
}
