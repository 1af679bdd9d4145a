/* Queue of requests from the pipeline thread to the sender thread, bounded in bytes and number: a receiver that is
 * unavailable for long costs the oldest requests, counted, and never blocks the pipeline. A request is held back while
 * a newer record of it may replace it, because a span is sent once. The queue reads no clock. */
#pragma once

#include "base/cleanup.h"
#include "model/request.h"
#include "send/export_io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPAN_QUEUE_MAX 4096 /* requests */

struct span_queue;

/* An empty, open queue; the caller frees `*ret`. -ENOMEM. */
int span_queue_new(size_t max_bytes, struct span_queue **ret);
void span_queue_free(struct span_queue *q); /* including queued requests; no thread may wait in it any more */
DEFINE_FREEP(span_queue)

/* What became of a request. */
struct span_queued {
    uint64_t dropped; /* older requests, or this one, for lack of space */
    bool is_late;     /* an older record of it was already taken: it is dropped */
};

/* Takes ownership of `r`, which replaces a queued request of the same ID. Any thread. */
struct span_queued span_queue_push(struct span_queue *q, struct request *r);

/* Moves to `ret` the requests that ended long enough before `now_ns` (CLOCK_MONOTONIC), or all once the export ends, at
 * most `max`, in the order of their service. The caller owns them. Returns how many. Any thread. */
size_t span_queue_take(struct span_queue *q, uint64_t now_ns, size_t max, struct request **ret);

/* Drops the older half of the queue. Returns the number of dropped requests. Any thread. */
uint64_t span_queue_trim(struct span_queue *q);

/* When it begins, the queue is closed to further requests. Borrowed. */
struct export_end *span_queue_end(struct span_queue *q);

size_t span_queue_bytes(struct span_queue *q);
