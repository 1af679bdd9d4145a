/* A file that is read over a socket to the helper process (file_helper.h), with a deadline. Not thread-safe.
 */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct remote_file;

#define FILE_READ_BYTES (32u << 10) /* at most, in one answer */

/* Over the socket, from the reader to the helper. An offset of FILE_SIZE asks for the size of the file, one
 * of FILE_READER which thread answers. */
#define FILE_SIZE   UINT64_MAX
#define FILE_READER (UINT64_MAX - 1)
struct file_read {
    uint64_t offset;
    uint64_t size;
};

struct file_piece {
    int64_t result;    /* how many bytes follow (0: the end), the size, the thread, or -errno */
    uint64_t slept_ns; /* how long it took, where the file system let the reader sleep; else 0 */
};

bool remote_file_is(int fd);

/* Borrows `fd`. -ETIMEDOUT, -EIO. */
int remote_file_new(int fd, struct remote_file **ret, uint64_t *ret_size);
void remote_file_free(struct remote_file *f);
DEFINE_FREEP(remote_file)

/* Exactly `size` bytes; -EIO: they are not there; -ETIMEDOUT: not in time, and from then on at once. */
int remote_file_read(struct remote_file *f, uint64_t offset, void *data, size_t size);
/* 0, or -ETIMEDOUT once a read was not answered: what was made of the file is not to be relied on. */
int remote_file_error(const struct remote_file *f);
