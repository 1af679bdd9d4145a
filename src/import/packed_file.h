/* Bytes of a file that may be packed with gzip or zstd, told by its first bytes and not by its name; several packed
 * parts one after the other are read as one. Memory is a window of the packing and a buffer, whatever the file's size.
 */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct packed_file;

/* "-" is standard input. */
int packed_file_open(const char *path, struct packed_file **ret);
void packed_file_free(struct packed_file *f);
DEFINE_FREEP(packed_file)

/* Up to `size` unpacked bytes, 0 at the end. -ENODATA: the packed bytes end too early (what was given out before is
 * good); -EBADMSG: they are broken; otherwise what read() gives. */
ssize_t packed_file_read(struct packed_file *f, void *to, size_t size);

/* How much of the file itself was read, and its size (0: not known), for telling progress. */
uint64_t packed_file_position(const struct packed_file *f);
uint64_t packed_file_size(const struct packed_file *f);
