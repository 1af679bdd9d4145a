/* A BPF ring buffer of event records, drained into a batch; counts the records that the batch cannot take. Not
 * thread-safe; owned by its source. */
#pragma once

#include "model/loss.h"

#include <stdint.h>

struct batch;
struct ring_buffer;

struct record_ring {
    struct ring_buffer *ring; /* NULL: not open */
    struct batch *batch;      /* set only during a drain */
    uint64_t newest_ns;       /* of the records of this drain; 0: none yet */
    uint64_t batch_full, malformed;
};

/* Opens the ring buffer of `map_fd`, which is borrowed. Returns 0 or -errno; `r` is zeroed memory, or was closed, and
 * stays at its address until it is closed. */
int record_ring_open(struct record_ring *r, int map_fd);
/* Keeps the counts. Does nothing for a ring that is not open. */
void record_ring_close(struct record_ring *r);

/* The functions below need an open ring, except record_ring_losses. */

/* A borrowed descriptor, which becomes readable when a drain is worthwhile. */
int record_ring_poll_fd(const struct record_ring *r);

/* Appends records until the ring is empty or the batch takes no more samples; the rest stays in the ring for the next
 * batch. Returns 0, or an error of libbpf. */
int record_ring_drain(struct record_ring *r, struct batch *batch);

/* Adds malformed records and records that a full batch refused. */
void record_ring_losses(const struct record_ring *r, struct losses *losses);
