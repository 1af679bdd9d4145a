/* The callback of libbpf's ring buffer, and its counters: see record_ring.h. */
#include "sources/events/record_ring.h"

#include "sources/events/batch.h"

#include <assert.h>
#include <bpf/libbpf.h>
#include <errno.h>

static int add_record_to_batch(void *context, void *data, size_t size)
{
    struct record_ring *r = context;
    const struct record_header *header = data;
    const int error = batch_add_bytes(r->batch, data, size);
    if (error == -EBADMSG)
        r->malformed++;
    else if (error < 0)
        r->batch_full++;
    else if (header->time_ns > r->newest_ns)
        r->newest_ns = header->time_ns;
    return batch_takes_samples(r->batch) ? 0 : -ENOSPC;
}

int record_ring_open(struct record_ring *r, int map_fd)
{
    assert(!r->ring);
    r->ring = ring_buffer__new(map_fd, add_record_to_batch, r, NULL);
    return r->ring ? 0 : -errno;
}

void record_ring_close(struct record_ring *r)
{
    ring_buffer__free(r->ring);
    r->ring = NULL;
}

int record_ring_poll_fd(const struct record_ring *r)
{
    assert(r->ring);
    return ring_buffer__epoll_fd(r->ring);
}

int record_ring_drain(struct record_ring *r, struct batch *batch)
{
    assert(r->ring && batch);
    r->batch = batch;
    r->newest_ns = 0;
    const int error = ring_buffer__consume(r->ring);
    r->batch = NULL;
    if (error == -ENOSPC && r->newest_ns)
        batch_cut_at(batch, r->newest_ns);
    return error < 0 && error != -ENOSPC ? error : 0;
}

void record_ring_losses(const struct record_ring *r, struct losses *losses)
{
    losses->count[LOSS_RING_FULL] += r->batch_full;
    losses->count[LOSS_DECODE] += r->malformed;
}
