/* See event_queue.h. */
#include "send/event_queue.h"

#include <errno.h>
#include <stdlib.h>

struct event_queue {
    struct export_end end; /* its lock protects all members below */
    size_t bytes, max_bytes;
    uint32_t first, count;
    struct kept_node_event *events[EVENT_QUEUE_MAX]; /* a ring buffer */
};

int event_queue_new(size_t max_bytes, struct event_queue **ret)
{
    struct event_queue *q = calloc(1, sizeof(*q));
    if (!q)
        return -ENOMEM;
    q->max_bytes = max_bytes;
    export_end_init(&q->end);
    *ret = q;
    return 0;
}

/* Under the lock, as those below. The caller owns the event. */
static struct kept_node_event *take_first(struct event_queue *q)
{
    struct kept_node_event *k = q->events[q->first];
    q->first = (q->first + 1) % EVENT_QUEUE_MAX;
    q->count--;
    q->bytes -= k->bytes;
    return k;
}

void event_queue_free(struct event_queue *q)
{
    if (!q)
        return;
    while (q->count)
        free(take_first(q));
    export_end_fini(&q->end);
    free(q);
}

static uint64_t push_locked(struct event_queue *q, struct kept_node_event *k)
{
    uint64_t dropped = 0;
    if (q->end.begun_ns || k->bytes > q->max_bytes) {
        free(k);
        return 1;
    }
    for (; q->count == EVENT_QUEUE_MAX || q->bytes + k->bytes > q->max_bytes; dropped++)
        free(take_first(q));
    q->events[(q->first + q->count++) % EVENT_QUEUE_MAX] = k;
    q->bytes += k->bytes;
    return dropped;
}

uint64_t event_queue_push(struct event_queue *q, struct kept_node_event *k)
{
    pthread_mutex_lock(&q->end.lock);
    const uint64_t dropped = push_locked(q, k);
    pthread_mutex_unlock(&q->end.lock);
    return dropped;
}

size_t event_queue_take(struct event_queue *q, size_t max, struct kept_node_event **ret)
{
    size_t taken = 0;
    pthread_mutex_lock(&q->end.lock);
    while (q->count && taken < max)
        ret[taken++] = take_first(q);
    pthread_mutex_unlock(&q->end.lock);
    return taken;
}

uint64_t event_queue_trim(struct event_queue *q)
{
    uint64_t dropped = 0;
    pthread_mutex_lock(&q->end.lock);
    for (uint32_t left = q->count / 2; q->count > left; dropped++)
        free(take_first(q));
    pthread_mutex_unlock(&q->end.lock);
    return dropped;
}

struct export_end *event_queue_end(struct event_queue *q)
{
    return &q->end;
}

size_t event_queue_bytes(struct event_queue *q)
{
    pthread_mutex_lock(&q->end.lock);
    const size_t bytes = q->bytes;
    pthread_mutex_unlock(&q->end.lock);
    return bytes;
}
