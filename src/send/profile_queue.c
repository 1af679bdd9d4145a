/* See profile_queue.h. */
#include "send/profile_queue.h"

#include <errno.h>

#define PROFILES_MAX 1024

struct profile_queue {
    struct export_end end; /* its lock protects all members below */
    size_t bytes, max_bytes;
    uint32_t first, count;
    struct profile *profiles[PROFILES_MAX]; /* a ring buffer */
};

int profile_queue_new(size_t max_bytes, struct profile_queue **ret)
{
    struct profile_queue *q = calloc(1, sizeof(*q));
    if (!q)
        return -ENOMEM;
    q->max_bytes = max_bytes;
    export_end_init(&q->end);
    *ret = q;
    return 0;
}

/* Under the lock. */
static struct profile *take_first(struct profile_queue *q)
{
    struct profile *p = q->profiles[q->first];
    q->first = (q->first + 1) % PROFILES_MAX;
    q->count--;
    q->bytes -= profile_bytes(p);
    return p;
}

void profile_queue_free(struct profile_queue *q)
{
    if (!q)
        return;
    while (q->count)
        profile_free(take_first(q));
    export_end_fini(&q->end);
    free(q);
}

static uint64_t drop(struct profile *p)
{
    const uint64_t samples = profile_samples(p);
    profile_free(p);
    return samples;
}

uint64_t profile_queue_push(struct profile_queue *q, struct profile *p)
{
    const size_t bytes = profile_bytes(p);
    uint64_t dropped = 0;
    pthread_mutex_lock(&q->end.lock);
    while (q->count && (q->count == PROFILES_MAX || q->bytes + bytes > q->max_bytes))
        dropped += drop(take_first(q));
    const bool fits = bytes <= q->max_bytes && !q->end.begun_ns;
    if (fits) {
        q->profiles[(q->first + q->count++) % PROFILES_MAX] = p;
        q->bytes += bytes;
        pthread_cond_broadcast(&q->end.changed);
    }
    pthread_mutex_unlock(&q->end.lock);
    return fits ? dropped : dropped + drop(p);
}

uint64_t profile_queue_trim(struct profile_queue *q)
{
    uint64_t dropped = 0;
    pthread_mutex_lock(&q->end.lock);
    for (uint32_t left = q->count / 2; q->count > left;)
        dropped += drop(take_first(q));
    pthread_mutex_unlock(&q->end.lock);
    return dropped;
}

struct profile *profile_queue_pop(struct profile_queue *q)
{
    pthread_mutex_lock(&q->end.lock);
    while (!q->count && !q->end.begun_ns)
        pthread_cond_wait(&q->end.changed, &q->end.lock);
    struct profile *p = q->count ? take_first(q) : NULL;
    pthread_mutex_unlock(&q->end.lock);
    return p;
}

struct export_end *profile_queue_end(struct profile_queue *q)
{
    return &q->end;
}

size_t profile_queue_bytes(struct profile_queue *q)
{
    pthread_mutex_lock(&q->end.lock);
    const size_t bytes = q->bytes;
    pthread_mutex_unlock(&q->end.lock);
    return bytes;
}
