/* See span_queue.h. */
#include "send/span_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A request whose reply goes on is recorded again as soon as it took a quarter longer (probes/request). */
#define HELD_NS   2000000000ull
#define TAKEN_IDS 1024

struct span_queue {
    struct export_end end; /* its lock protects all members below */
    size_t bytes, max_bytes;
    uint32_t first, count;
    struct request *requests[SPAN_QUEUE_MAX]; /* a ring buffer */
    uint64_t taken[TAKEN_IDS];                /* the latest taken request with this remainder of its ID */
};

int span_queue_new(size_t max_bytes, struct span_queue **ret)
{
    struct span_queue *q = calloc(1, sizeof(*q));
    if (!q)
        return -ENOMEM;
    q->max_bytes = max_bytes;
    export_end_init(&q->end);
    *ret = q;
    return 0;
}

static struct request **at(struct span_queue *q, uint32_t i)
{
    return &q->requests[(q->first + i) % SPAN_QUEUE_MAX];
}

/* Under the lock, as those below. */
static void drop_first(struct span_queue *q)
{
    struct request *r = *at(q, 0);
    q->first = (q->first + 1) % SPAN_QUEUE_MAX;
    q->count--;
    q->bytes -= r->bytes;
    request_free(r);
}

void span_queue_free(struct span_queue *q)
{
    if (!q)
        return;
    while (q->count)
        drop_first(q);
    export_end_fini(&q->end);
    free(q);
}

/* The newest ones are updated. */
static struct request **find(struct span_queue *q, uint64_t id)
{
    for (uint32_t i = q->count; i-- > 0;)
        if ((*at(q, i))->id == id)
            return at(q, i);
    return NULL;
}

static void replace(struct span_queue *q, struct request **old, struct request *r)
{
    q->bytes -= (*old)->bytes;
    q->bytes += r->bytes;
    request_free(*old);
    *old = r;
}

static struct span_queued push_locked(struct span_queue *q, struct request *r)
{
    struct span_queued result = {.is_late = r->id && q->taken[r->id % TAKEN_IDS] == r->id};
    struct request **old = r->id ? find(q, r->id) : NULL;
    if (result.is_late || q->end.begun_ns || r->bytes > q->max_bytes) {
        result.dropped = result.is_late ? 0 : 1;
        request_free(r);
        return result;
    }
    if (old) {
        replace(q, old, r);
    } else {
        for (; q->count == SPAN_QUEUE_MAX; result.dropped++)
            drop_first(q);
        *at(q, q->count++) = r;
        q->bytes += r->bytes;
    }
    for (; q->bytes > q->max_bytes; result.dropped++)
        drop_first(q);
    return result;
}

struct span_queued span_queue_push(struct span_queue *q, struct request *r)
{
    pthread_mutex_lock(&q->end.lock);
    const struct span_queued result = push_locked(q, r);
    pthread_mutex_unlock(&q->end.lock);
    return result;
}

static bool is_due(const struct request *r, uint64_t now_ns)
{
    return now_ns >= r->start_ns + r->duration_ns + r->duration_ns / 4 + HELD_NS;
}

static int compare_services(const void *a, const void *b)
{
    const struct request *x = *(struct request *const *)a, *y = *(struct request *const *)b;
    return strcmp(x->service, y->service)             ?: strcmp(x->unit, y->unit)
           ?: strcmp(x->container_id, y->container_id) ?: x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

size_t span_queue_take(struct span_queue *q, uint64_t now_ns, size_t max, struct request **ret)
{
    size_t taken = 0;
    uint32_t kept = 0;
    pthread_mutex_lock(&q->end.lock);
    for (uint32_t i = 0; i < q->count; i++) {
        struct request *r = *at(q, i);
        if (taken == max || (!q->end.begun_ns && !is_due(r, now_ns))) {
            *at(q, kept++) = r;
            continue;
        }
        q->taken[r->id % TAKEN_IDS] = r->id;
        q->bytes -= r->bytes;
        ret[taken++] = r;
    }
    q->count = kept;
    pthread_mutex_unlock(&q->end.lock);
    qsort(ret, taken, sizeof(*ret), compare_services);
    return taken;
}

uint64_t span_queue_trim(struct span_queue *q)
{
    uint64_t dropped = 0;
    pthread_mutex_lock(&q->end.lock);
    for (uint32_t left = q->count / 2; q->count > left; dropped++)
        drop_first(q);
    pthread_mutex_unlock(&q->end.lock);
    return dropped;
}

struct export_end *span_queue_end(struct span_queue *q)
{
    return &q->end;
}

size_t span_queue_bytes(struct span_queue *q)
{
    pthread_mutex_lock(&q->end.lock);
    const size_t bytes = q->bytes;
    pthread_mutex_unlock(&q->end.lock);
    return bytes;
}
