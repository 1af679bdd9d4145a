/* A batch of wire records from all sources, put in order of time: what one turn of the pipeline works on.
 *
 * Order is exact because of how it is filled: first the sources of samples are drained, then the process
 * source. Whatever happened to a process before a sample was written to its ring before that sample was, so
 * it is in the same batch or an earlier one. And what happened after a sample that was not drained yet does not
 * overtake it: all that came in since the batch began waits for the next one. Not thread-safe; owned by the pipeline.
 */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/common/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch;

/* Holds at most `max_bytes` of records. */
int batch_new(size_t max_bytes, struct batch **ret);
void batch_free(struct batch *b);
DEFINE_FREEP(batch)

/* Copies one whole record of header->size_bytes. -ENOSPC: full (the caller counts the loss); -EBADMSG: header
 * makes no sense. */
int batch_add(struct batch *b, const struct record_header *header);

/* The same of `size` bytes from a ring of samples, which may be shorter than a record says that it is: -EBADMSG. */
int batch_add_bytes(struct batch *b, const void *data, size_t size);

/* Room for one record to be filled in place by the caller, NULL when full. `size_bytes` is rounded up to 8.
 */
void *batch_reserve(struct batch *b, size_t size_bytes);

/* Whether sources of samples may add another record: they stop at three quarters, so that lives of processes
 * always find room; what is left comes with the next batch. */
bool batch_takes_samples(const struct batch *b);

/* Bytes left, and in all. */
size_t batch_room_bytes(const struct batch *b);
size_t batch_max_bytes(const struct batch *b);

/* A new one, with what the last one held back. `now_ns`: CLOCK_MONOTONIC. */
void batch_begin(struct batch *b, uint64_t now_ns);

/* All that it is to have is in it: sorts by time_ns, stably, and holds back what came in since it began, or is later
 * than all samples of a ring that had more than there was room for. Held back is a quarter of what it holds at most,
 * else nothing: time would stand still. Nor where a record is of a time that is yet to come, for then the clocks are
 * not the same. */
void batch_end(struct batch *b, uint64_t now_ns);

/* Of those that are not held back. */
size_t batch_count(const struct batch *b);
const struct record_header *batch_get(const struct batch *b, size_t i);
/* Empties it of all. */
void batch_clear(struct batch *b);
