/* Profiles on their way from the pipeline's thread to the one that sends them. Bounded by what the profiles
 * hold: a receiver that is away for long costs the oldest of them, counted, and the pipeline never waits.
 * Times are CLOCK_MONOTONIC; the queue reads no clock. */
#pragma once

#include "base/cleanup.h"
#include "model/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_queue;

int profile_queue_new(size_t max_bytes, struct profile_queue **ret);
void profile_queue_free(struct profile_queue *q); /* with what is in it */
DEFINE_FREEP(profile_queue)

/* Takes `p`. How many samples were dropped for it, the oldest first; at last its own. Any thread. */
uint64_t profile_queue_push(struct profile_queue *q, struct profile *p);
/* Drops the older half of what waits. How many samples that were. Any thread. */
uint64_t profile_queue_trim(struct profile_queue *q);
/* Waits for a profile, which is the caller's then; NULL: closed and empty. */
struct profile *profile_queue_pop(struct profile_queue *q);

/* Nothing more will come: wakes all waiting threads. A second call changes nothing. */
void profile_queue_close(struct profile_queue *q, uint64_t now_ns);
/* Waits until `end_ns`; false: the queue is closed, or was meanwhile. */
bool profile_queue_pause(struct profile_queue *q, uint64_t end_ns);
uint64_t profile_queue_closed_ns(struct profile_queue *q); /* when it was closed; 0: it is open */

size_t profile_queue_bytes(struct profile_queue *q);
