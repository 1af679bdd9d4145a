/* Queue of profiles from the pipeline thread to the sender thread, bounded in bytes: a receiver that is unavailable
 * for long costs the oldest profiles, counted, and never blocks the pipeline. Times are CLOCK_MONOTONIC; the queue
 * reads no clock. */
#pragma once

#include "base/cleanup.h"
#include "model/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_queue;

/* An empty, open queue; the caller frees `*ret`. -ENOMEM. */
int profile_queue_new(size_t max_bytes, struct profile_queue **ret);
void profile_queue_free(struct profile_queue *q); /* including queued profiles; no thread may wait in it any more */
DEFINE_FREEP(profile_queue)

/* Takes ownership of `p`. Drops the oldest profiles if needed, and `p` itself if it does not fit. Returns the number
 * of dropped samples. Any thread. */
uint64_t profile_queue_push(struct profile_queue *q, struct profile *p);
/* Drops the older half of the queue. Returns the number of dropped samples. Any thread. */
uint64_t profile_queue_trim(struct profile_queue *q);
/* Blocks until there is a profile, which the caller owns; NULL: closed and empty. */
struct profile *profile_queue_pop(struct profile_queue *q);

/* Closes the queue to further profiles and wakes all waiting threads. `now_ns` must not be 0; a second call changes
 * nothing. */
void profile_queue_close(struct profile_queue *q, uint64_t now_ns);
/* Sleeps until `end_ns`; false: the queue is closed, or was closed meanwhile. */
bool profile_queue_pause(struct profile_queue *q, uint64_t end_ns);
uint64_t profile_queue_closed_ns(struct profile_queue *q); /* when it was closed; 0: open */

size_t profile_queue_bytes(struct profile_queue *q);
