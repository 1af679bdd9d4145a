/* Rate limits by the generic cell rate algorithm; see rate_limit.h. */
#include "server/rate_limit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <xxhash.h>

#define SECOND_NS 1000000000ull
#define SETS      1024
#define WAYS      16

/* A client whose `paid_ns` is over may make a whole burst, as one that is not known: its place is free. */
struct cell {
    uint64_t client;
    uint64_t paid_ns; /* until when the requests that it made last at its rate */
};

struct rate_limit {
    uint64_t (*now_ns)(void);
    uint64_t interval_ns; /* between two requests */
    pthread_mutex_t lock;
    uint64_t refused; /* this and the following: under the lock */
    struct cell cells[SETS][WAYS];
};

int rate_limit_new(unsigned per_second, uint64_t (*now_ns)(void), struct rate_limit **ret)
{
    struct rate_limit *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->now_ns = now_ns;
    l->interval_ns = per_second ? SECOND_NS / per_second : 0;
    pthread_mutex_init(&l->lock, NULL);
    *ret = l;
    return 0;
}

void rate_limit_free(struct rate_limit *l)
{
    if (!l)
        return;
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* The client's cell. A new client gets the one of its set that is free, or will be first. */
static struct cell *find_cell(struct rate_limit *l, uint64_t client)
{
    struct cell *set = l->cells[XXH3_64bits(&client, sizeof(client)) % SETS], *first = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].client == client)
            return &set[i];
        if (set[i].paid_ns < first->paid_ns)
            first = &set[i];
    }
    *first = (struct cell){.client = client};
    return first;
}

bool rate_limit_allows(struct rate_limit *l, uint64_t client)
{
    const uint64_t now_ns = l->now_ns();
    pthread_mutex_lock(&l->lock);
    struct cell *cell = find_cell(l, client);
    const uint64_t paid_ns = (cell->paid_ns > now_ns ? cell->paid_ns : now_ns) + l->interval_ns;
    const bool allows = paid_ns <= now_ns + RATE_LIMIT_BURST_S * SECOND_NS;
    if (allows)
        cell->paid_ns = paid_ns;
    else
        l->refused++;
    pthread_mutex_unlock(&l->lock);
    return allows;
}

uint64_t rate_limit_refused(struct rate_limit *l)
{
    pthread_mutex_lock(&l->lock);
    const uint64_t refused = l->refused;
    pthread_mutex_unlock(&l->lock);
    return refused;
}
