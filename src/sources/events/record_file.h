/* Wire records in a file: what --record-events writes and --replay reads, so that everything after the kernel
 * can be tried again without it, and without rights. A file is 16 bytes of head ("SONDEWIR", a version, zero)
 * and records, each whole, little-endian, in the order in which the pipeline took them.
 *
 * A file is somebody else's input: every record is checked (record_check.h) before it gets into a batch. Not
 * thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "sources/events/batch.h"

#include <stdio.h>

struct record_writer;
struct record_reader;

/* Makes the file anew, readable by its owner only: records tell what a machine does. */
int record_writer_open(const char *path, struct record_writer **ret);
void record_writer_free(struct record_writer *w);
DEFINE_FREEP(record_writer)

/* Writes all records of the batch; on return they are the kernel's. -ENOSPC and the like stay: later calls
 * fail alike. */
int record_writer_add(struct record_writer *w, const struct batch *batch);

/* -EPROTO: not such a file, or of another version. */
int record_reader_open(const char *path, struct record_reader **ret);
/* Takes `file` on success. */
int record_reader_new(FILE *file, struct record_reader **ret);
void record_reader_free(struct record_reader *r);
DEFINE_FREEP(record_reader)

/* Appends as many records as the batch has comfortable room for. -ENODATA: the end. -EBADMSG: what follows is
 * no record, or a record cut short; the records before it have been handed on by earlier calls. */
int record_reader_next(struct record_reader *r, struct batch *batch);

/* Where in the file the last record began, and what was wrong with it ("" when nothing was). */
uint64_t record_reader_position(const struct record_reader *r);
const char *record_reader_error(const struct record_reader *r);
