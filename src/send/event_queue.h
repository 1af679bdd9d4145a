/* Queue of events from the pipeline thread to the sender thread, bounded in bytes and number: a receiver that is
 * unavailable for long costs the oldest events, counted, and never blocks the pipeline. */
#pragma once

#include "base/cleanup.h"
#include "model/node_event.h"
#include "send/export_io.h"

#include <stddef.h>
#include <stdint.h>

#define EVENT_QUEUE_MAX 1024 /* events */

struct event_queue;

/* An empty, open queue; the caller frees `*ret`. -ENOMEM. */
int event_queue_new(size_t max_bytes, struct event_queue **ret);
void event_queue_free(struct event_queue *q); /* including queued events; no thread may wait in it any more */
DEFINE_FREEP(event_queue)

/* Takes ownership of `k`. Returns how many events were dropped for lack of space, older ones or this one. Any thread.
 */
uint64_t event_queue_push(struct event_queue *q, struct kept_node_event *k);

/* Moves to `ret` the oldest events, at most `max`. The caller owns them. Returns how many. Any thread. */
size_t event_queue_take(struct event_queue *q, size_t max, struct kept_node_event **ret);

/* Drops the older half of the queue. Returns the number of dropped events. Any thread. */
uint64_t event_queue_trim(struct event_queue *q);

/* When it begins, the queue is closed to further events. Borrowed. */
struct export_end *event_queue_end(struct event_queue *q);

size_t event_queue_bytes(struct event_queue *q);
