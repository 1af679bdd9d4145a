/* The files of a spool (spool.h): NUMBER.segment has batches, NUMBER.begun what was known before the first attempt to
 * insert that segment, NUMBER.keys the keys of a segment that the engine has, NUMBER.refused is a segment that the
 * engine refuses. A batch in a segment is a header with its size and checksum, and its data. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"
#include "server/spool.h"

#include <limits.h>

enum spool_file_kind { SPOOL_SEGMENT, SPOOL_KEYS, SPOOL_REFUSED, SPOOL_BEGUN };

#define SPOOL_NAME_BYTES 32
const char *spool_file_name(char out[SPOOL_NAME_BYTES], uint64_t number, enum spool_file_kind kind);

/* Calls `each` for every file of the spool, in order of their numbers; other files are ignored, and a file that was
 * not completed is deleted. Ends at the first error of `each`. */
int spool_files_list(int directory, int (*each)(void *context, uint64_t number, enum spool_file_kind kind),
                     void *context);

int spool_file_read(int directory, uint64_t number, enum spool_file_kind kind, struct buf *out);

/* Appends a batch, as it is written to a segment, to `out`. */
int spool_batch_write(struct buf *out, const struct spool_batch *batch);
/* Bytes of a batch in a segment. */
size_t spool_batch_bytes(size_t data_size);

/* Finds the next whole batch behind a place where the contents are damaged. False: the rest has no whole batch. */
bool spool_find_batch(struct cursor *contents, struct spool_batch *ret);

/* Durably writes a file. 0 or -errno. */
int spool_file_write(int directory, uint64_t number, enum spool_file_kind kind, const void *data, size_t size);
/* Whether a segment is there, refused or not. */
bool spool_files_have_segment(int directory, uint64_t number);

/* Durably replaces a segment by the keys of its batches. */
int spool_files_keep_keys(int directory, uint64_t number);
/* Durably writes the keys and renames the segment to NUMBER.refused. */
int spool_files_set_aside(int directory, uint64_t number);

/* Writes all of `data`. 0 or -errno. */
int spool_write_all(int fd, const void *data, size_t size);
