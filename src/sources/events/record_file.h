/* Event records in a file: written by --record-events, read by --replay, so that everything above the kernel can be
 * repeated without a kernel and without privileges. The file is a 16-byte head ("SONDEWIR", version, zero) and whole
 * records, little-endian, in the order of the pipeline.
 *
 * A file is untrusted input: every record is validated (record_type.h) before it enters a batch. Not thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "sources/events/batch.h"

#include <stdio.h>

#define RECORD_FILE_VERSION 2

struct record_writer;
struct record_reader;

/* Creates or truncates the file, mode 0600: records reveal the programs of the machine. The caller frees `*ret`. -errno
 * of open(2) or write(2), -ENOMEM. */
int record_writer_open(const char *path, struct record_writer **ret);
void record_writer_free(struct record_writer *w);
DEFINE_FREEP(record_writer)

/* Writes all records of the batch; on success the kernel has them (no fsync). An error such as -ENOSPC is sticky:
 * later calls return it too. */
int record_writer_add(struct record_writer *w, const struct batch *batch);

/* Opens a recording and reads its head. The caller frees `*ret`. -EPROTO: not a Sonde recording, or of an unsupported
 * version; -errno of open(2), -EIO, -ENOMEM. */
int record_reader_open(const char *path, struct record_reader **ret);
/* As record_reader_open, on an open file; takes ownership of `file` on success. */
int record_reader_new(FILE *file, struct record_reader **ret);
void record_reader_free(struct record_reader *r);
DEFINE_FREEP(record_reader)

/* Appends records until the batch takes no more samples. 0: some were appended. -ENODATA: end of file. -EBADMSG: the
 * file continues with an invalid or truncated record; the records before it were returned by earlier calls. */
int record_reader_next(struct record_reader *r, struct batch *batch);

/* File offset of the next record, or of the invalid one, and its error ("": no error). */
uint64_t record_reader_position(const struct record_reader *r);
const char *record_reader_error(const struct record_reader *r);
