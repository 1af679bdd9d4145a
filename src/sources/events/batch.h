/* A batch of event records from all sources, in time order: the unit of work of one pipeline cycle.
 *
 * The order is exact because of the drain order: sources of samples are drained first, the process source last. An
 * event that happened to a process before a sample was written to its ring before that sample, so it is in the same
 * batch or an earlier one. An event after a sample that is not drained yet must not overtake it: records that arrived
 * after batch_begin are held back for the next batch. Not thread-safe; owned by the pipeline. */
#pragma once

#include "base/cleanup.h"

#include "sources/events/record_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch;

/* Creates a batch of at most `max_bytes` of records. `check` (not NULL) validates each record. The caller frees `*ret`.
 * -ENOMEM; -EINVAL: fewer than RECORD_MAX_BYTES or 4 GiB and more. */
int batch_new(size_t max_bytes, record_check *check, struct batch **ret);
void batch_free(struct batch *b);
DEFINE_FREEP(batch)

/* Copies one whole record of header->size_bytes. -ENOSPC: full (the caller counts the loss); -EBADMSG: it is
 * not valid. */
int batch_add(struct batch *b, const struct record_header *header);

/* Like batch_add, for `size` bytes read from a ring of samples. -EBADMSG also when the header claims more than `size`
 * bytes. */
int batch_add_bytes(struct batch *b, const void *data, size_t size);

/* A ring of samples holds more records than this batch takes; `newest_ns` is the time of the newest one that it gave.
 * Later records of all sources wait for the next batch. */
void batch_cut_at(struct batch *b, uint64_t newest_ns);

/* Reserves a zeroed record that the caller fills in place, with only header->size_bytes set; it is not checked.
 * `size_bytes` is rounded up to 8. Valid until the next batch_begin or batch_clear. NULL: full, or not a size between a
 * header's and RECORD_MAX_BYTES. */
void *batch_reserve(struct batch *b, size_t size_bytes);

/* Whether sources of samples may add another record. They stop when a quarter of the batch is left, so that process
 * lifecycle events always fit; the rest of their rings comes with the next batch. */
bool batch_takes_samples(const struct batch *b);

/* Free space, and total capacity. */
size_t batch_room_bytes(const struct batch *b);
size_t batch_max_bytes(const struct batch *b);

/* Starts the next batch with the records that the last one held back. `now_ns`: CLOCK_MONOTONIC. */
void batch_begin(struct batch *b, uint64_t now_ns);

/* Closes the batch: sorts by time_ns (stable) and holds back records that arrived after batch_begin, and records newer
 * than what a ring gave that was not drained completely (batch_cut_at). At most a quarter of the capacity is held back,
 * otherwise nothing, so that the pipeline always makes progress. Nothing is held back either when a record lies in the
 * future: its clock is then not ours. */
void batch_end(struct batch *b, uint64_t now_ns);

/* Records that are not held back: their number, and the record of an index below it, valid until the next batch_begin
 * or batch_clear. In time order after batch_end, before that in the order of adding. */
size_t batch_count(const struct batch *b);
const struct record_header *batch_get(const struct batch *b, size_t i);
/* Drops all records, including those held back. */
void batch_clear(struct batch *b);
