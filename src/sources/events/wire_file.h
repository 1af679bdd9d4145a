/* Wire records in a file: what --record-wire writes and --replay reads, so that everything after the kernel
 * can be tried again without it, and without rights. A file is 16 bytes of head ("SONDEWIR", a version, zero)
 * and records, each whole, little-endian, in the order in which the pipeline took them.
 *
 * A file is somebody else's input: every record is checked (wire_check.h) before it gets into a batch. Not
 * thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "sources/events/batch.h"

#include <stdio.h>

struct wire_writer;
struct wire_reader;

/* Makes the file anew, readable by its owner only: records tell what a machine does. */
int wire_writer_open(const char *path, struct wire_writer **ret);
void wire_writer_free(struct wire_writer *w);
DEFINE_FREEP(wire_writer)

/* Writes all records of the batch; on return they are the kernel's. -ENOSPC and the like stay: later calls
 * fail alike. */
int wire_writer_add(struct wire_writer *w, const struct batch *batch);

/* -EPROTO: not such a file, or of another version. */
int wire_reader_open(const char *path, struct wire_reader **ret);
/* Takes `file` on success. */
int wire_reader_new(FILE *file, struct wire_reader **ret);
void wire_reader_free(struct wire_reader *r);
DEFINE_FREEP(wire_reader)

/* Appends as many records as the batch has comfortable room for. -ENODATA: the end. -EBADMSG: what follows is
 * no record, or a record cut short; the records before it have been handed on by earlier calls. */
int wire_reader_next(struct wire_reader *r, struct batch *batch);

/* Where in the file the last record began, and what was wrong with it ("" when nothing was). */
uint64_t wire_reader_position(const struct wire_reader *r);
const char *wire_reader_error(const struct wire_reader *r);
