/* Queue of profiles from the pipeline thread to the sender thread, bounded in bytes: a receiver that is unavailable
 * for long costs the oldest profiles, counted, and never blocks the pipeline. The queue reads no clock. */
#pragma once

#include "base/cleanup.h"
#include "model/profile.h"
#include "send/export_io.h"

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

/* When it begins, the queue is closed to further profiles. Borrowed. */
struct export_end *profile_queue_end(struct profile_queue *q);

size_t profile_queue_bytes(struct profile_queue *q);
