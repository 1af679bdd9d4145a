/* See profile_queue.h. */
#include "agent/profile_queue.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>

#define PROFILES_MAX 1024

struct profile_queue {
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t changed;
    size_t bytes, max_bytes;
    uint64_t closed_ns; /* when it was closed; 0: open */
    uint32_t first, count;
    struct profile *profiles[PROFILES_MAX]; /* a ring buffer */
};

int profile_queue_new(size_t max_bytes, struct profile_queue **ret)
{
    struct profile_queue *q = calloc(1, sizeof(*q));
    pthread_condattr_t monotonic;
    if (!q)
        return -ENOMEM;
    q->max_bytes = max_bytes;
    pthread_mutex_init(&q->lock, NULL); /* none of these can fail on Linux */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&q->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
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
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
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
    pthread_mutex_lock(&q->lock);
    while (q->count && (q->count == PROFILES_MAX || q->bytes + bytes > q->max_bytes))
        dropped += drop(take_first(q));
    const bool fits = bytes <= q->max_bytes && !q->closed_ns;
    if (fits) {
        q->profiles[(q->first + q->count++) % PROFILES_MAX] = p;
        q->bytes += bytes;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return fits ? dropped : dropped + drop(p);
}

uint64_t profile_queue_trim(struct profile_queue *q)
{
    uint64_t dropped = 0;
    pthread_mutex_lock(&q->lock);
    for (uint32_t left = q->count / 2; q->count > left;)
        dropped += drop(take_first(q));
    pthread_mutex_unlock(&q->lock);
    return dropped;
}

struct profile *profile_queue_pop(struct profile_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (!q->count && !q->closed_ns)
        pthread_cond_wait(&q->changed, &q->lock);
    struct profile *p = q->count ? take_first(q) : NULL;
    pthread_mutex_unlock(&q->lock);
    return p;
}

void profile_queue_close(struct profile_queue *q, uint64_t now_ns)
{
    assert(now_ns); /* 0 means open */
    pthread_mutex_lock(&q->lock);
    if (!q->closed_ns)
        q->closed_ns = now_ns;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

bool profile_queue_pause(struct profile_queue *q, uint64_t end_ns)
{
    const struct timespec end = clock_timespec_of(end_ns);
    pthread_mutex_lock(&q->lock);
    for (int r = 0; !q->closed_ns && r == 0;)
        r = pthread_cond_timedwait(&q->changed, &q->lock, &end);
    const bool is_open = !q->closed_ns;
    pthread_mutex_unlock(&q->lock);
    return is_open;
}

uint64_t profile_queue_closed_ns(struct profile_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const uint64_t closed_ns = q->closed_ns;
    pthread_mutex_unlock(&q->lock);
    return closed_ns;
}

size_t profile_queue_bytes(struct profile_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const size_t bytes = q->bytes;
    pthread_mutex_unlock(&q->lock);
    return bytes;
}
