/* Reads of local files a few bytes at a time: tables are searched and lists are walked. The blocks around the last such
 * reads are kept, so that most of them need no system call. Any thread: one that finds them in use by another reads
 * without them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A number for a file that is opened now, which no other one has had. Any thread. */
uint64_t file_blocks_number(void);

/* Reads exactly `size` bytes at `offset` of the file with that number, which has `file_bytes` bytes. The caller has
 * checked that they lie within these. What has been read may be read again after the file has changed. -EIO: the file
 * does not have them any more. */
int file_blocks_read(int fd, uint64_t number, uint64_t file_bytes, uint64_t offset, void *data, size_t size);
