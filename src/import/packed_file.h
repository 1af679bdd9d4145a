/* Reads a file that may be compressed with gzip or zstd, detected by its first bytes and not by its name.
 * Concatenated compressed streams are read as one. Memory is the decompression window plus a buffer, independent of
 * the file size. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct packed_file;

/* Opens a file; "-" is standard input. */
int packed_file_open(const char *path, struct packed_file **ret);
void packed_file_free(struct packed_file *f);
DEFINE_FREEP(packed_file)

/* Reads up to `size` decompressed bytes; 0 at the end. -ENODATA: the compressed stream is truncated (bytes returned
 * before are valid); -EBADMSG: it is corrupt; otherwise the error of read(). */
ssize_t packed_file_read(struct packed_file *f, void *to, size_t size);

/* How many bytes of the file itself were read, and its size (0: unknown), for progress reports. */
uint64_t packed_file_position(const struct packed_file *f);
uint64_t packed_file_size(const struct packed_file *f);
