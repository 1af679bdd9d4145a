/* Shares of the memory of bodies; see body_memory.h. */
#include "server/body_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define CLIENTS_MAX                                                                                                    \
    1024 /* with bodies; more than the connections of a listener, each of which usually has one client */

struct holder {
    uint64_t client;
    size_t bytes;
};

struct body_memory {
    pthread_mutex_t lock;
    size_t max, held, count;
    struct holder holders[CLIENTS_MAX];
};

int body_memory_new(size_t max_bytes, struct body_memory **ret)
{
    struct body_memory *m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    pthread_mutex_init(&m->lock, NULL);
    m->max = max_bytes;
    *ret = m;
    return 0;
}

void body_memory_free(struct body_memory *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* NULL: the client holds nothing. */
static struct holder *find_holder(struct body_memory *m, uint64_t client)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->holders[i].client == client)
            return &m->holders[i];
    return NULL;
}

/* Afterwards, the client has at most as much as is free. */
static bool has_space(const struct body_memory *m, const struct holder *holder, size_t bytes)
{
    const size_t free_bytes = m->max - m->held, own = holder ? holder->bytes : 0;
    return (holder || m->count < CLIENTS_MAX) && bytes <= free_bytes && own + bytes <= free_bytes - bytes;
}

bool body_memory_allows(struct body_memory *m, uint64_t client, size_t bytes)
{
    pthread_mutex_lock(&m->lock);
    const bool allows = has_space(m, find_holder(m, client), bytes);
    pthread_mutex_unlock(&m->lock);
    return allows;
}

bool body_memory_take(struct body_memory *m, uint64_t client, size_t bytes)
{
    if (!bytes)
        return true;
    pthread_mutex_lock(&m->lock);
    struct holder *holder = find_holder(m, client);
    const bool takes = has_space(m, holder, bytes);
    if (takes && !holder) {
        holder = &m->holders[m->count++];
        *holder = (struct holder){.client = client};
    }
    if (takes) {
        holder->bytes += bytes;
        m->held += bytes;
    }
    pthread_mutex_unlock(&m->lock);
    return takes;
}

void body_memory_give(struct body_memory *m, uint64_t client, size_t bytes)
{
    if (!bytes)
        return;
    pthread_mutex_lock(&m->lock);
    struct holder *holder = find_holder(m, client);
    holder->bytes -= bytes;
    m->held -= bytes;
    if (!holder->bytes)
        *holder = m->holders[--m->count];
    pthread_mutex_unlock(&m->lock);
}

size_t body_memory_held(struct body_memory *m)
{
    pthread_mutex_lock(&m->lock);
    const size_t held = m->held;
    pthread_mutex_unlock(&m->lock);
    return held;
}
