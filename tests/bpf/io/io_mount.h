/* A file system of the test's own, so that only its operations count there, and the counters of its mount. */
#pragma once

#include "sources/io/io.h"

#include <limits.h>
#include <stdint.h>

struct io_mount {
    char path[64];
    const char *type; /* of the file system */
    void *source;     /* whose counters are read */
};

/* Mounts a tmpfs, or with NFS where that is served (io_nfs.h); ends with io_mount_end. */
struct io_mount io_mount_begin(void *source);
void io_mount_end(struct io_mount *m);

/* "PATH/name", valid until the next call but three. */
const char *io_mount_file(const struct io_mount *m, const char *name);

/* The counters of the mount for this operation, with any flags; `operation` IO_OPERATIONS: for all. */
struct io_counted {
    uint64_t operations, bytes, errors, untimed, sum_ns;
    uint64_t sizes[IO_SIZES];
};
struct io_counted io_mount_counted(const struct io_mount *m, uint8_t operation);
/* The counters of operations with one of `flags`. */
struct io_counted io_mount_flagged(const struct io_mount *m, uint8_t operation, uint8_t flags);
/* Operations that ended with this errno. */
uint64_t io_mount_errors(const struct io_mount *m, uint8_t operation, int error);

/* Fails unless exactly that was counted since the mount's begin. */
void io_mount_expect(const struct io_mount *m, uint8_t operation, uint64_t operations, uint64_t bytes);
