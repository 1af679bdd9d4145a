/* A remote file: one whose file system may block (NFS, FUSE, overlayfs), read over a socket to the file helper
 * (file_helper.h) with a deadline. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct remote_file;

#define FILE_READ_BYTES (32u << 10) /* maximum per reply */

/* Protocol on the socket, from the reader to the helper. Offset FILE_SIZE requests the size of the file, offset
 * FILE_READER the ID of the thread that serves it. */
#define FILE_SIZE   UINT64_MAX
#define FILE_READER (UINT64_MAX - 1)
struct file_read {
    uint64_t offset;
    uint64_t size;
};

struct file_piece {
    int64_t result;    /* number of bytes that follow (0: end of file), the size, the thread ID, or -errno */
    uint64_t slept_ns; /* duration of the read if the file system made the reader sleep; else 0 */
};

bool remote_file_is(int fd);

/* Borrows `fd`, which must stay open. Returns 0, -ETIMEDOUT, -EIO or -ENOMEM. */
int remote_file_new(int fd, struct remote_file **ret, uint64_t *ret_size);
void remote_file_free(struct remote_file *f);
DEFINE_FREEP(remote_file)

/* Reads exactly `size` bytes. -EIO when the file does not have them; -ETIMEDOUT when the reply is late: every later
 * read then fails at once. */
int remote_file_read(struct remote_file *f, uint64_t offset, void *data, size_t size);
/* 0, or -ETIMEDOUT once a read was not answered. Results derived from the file are then incomplete and must be
 * discarded. */
int remote_file_error(const struct remote_file *f);
