/* A list under a lock. See node_events.h. */
#include "aggregate/node_events.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KINDS_MAX 32 /* whose events are counted */

struct node_events {
    pthread_mutex_t lock;
    struct kept_node_event *kept[NODE_EVENTS_MAX]; /* as they were added */
    size_t count;
    uint64_t since_ns; /* since when all are kept */
};

int node_events_new(struct node_events **ret)
{
    struct node_events *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    pthread_mutex_init(&e->lock, NULL);
    *ret = e;
    return 0;
}

void node_events_free(struct node_events *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->count; i++)
        free(e->kept[i]);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* The place of the oldest event of the most frequent name. */
static size_t place_to_free(const struct node_events *e)
{
    struct {
        const char *name;
        size_t count, oldest;
    } kinds[KINDS_MAX];
    size_t kind_count = 0, most = 0;
    for (size_t i = 0; i < e->count; i++) {
        const char *name = e->kept[i]->event.name;
        size_t k = 0;
        while (k < kind_count && strcmp(kinds[k].name, name) != 0)
            k++;
        if (k == KINDS_MAX)
            continue;
        if (k == kind_count) {
            kinds[kind_count].name = name;
            kinds[kind_count].count = 0;
            kinds[kind_count++].oldest = i;
        }
        kinds[k].count++;
    }
    for (size_t k = 1; k < kind_count; k++)
        if (kinds[k].count > kinds[most].count)
            most = k;
    return kinds[most].oldest;
}

int node_events_add(struct node_events *e, const struct node_event *event, uint64_t unix_ns)
{
    struct kept_node_event *k;
    int r = node_event_keep(event, unix_ns, &k);
    if (r < 0)
        return r;
    struct kept_node_event *gone = NULL;
    pthread_mutex_lock(&e->lock);
    if (e->count == NODE_EVENTS_MAX) {
        const size_t place = place_to_free(e);
        gone = e->kept[place];
        if (gone->event.time_ns >= e->since_ns)
            e->since_ns = gone->event.time_ns + 1;
        e->count--;
        memmove(&e->kept[place], &e->kept[place + 1], (e->count - place) * sizeof(e->kept[0]));
    }
    e->kept[e->count++] = k;
    pthread_mutex_unlock(&e->lock);
    free(gone);
    return 0;
}

void node_events_each(struct node_events *e, uint64_t since_ns, size_t max,
                      void (*take)(void *context, const struct node_event *event, uint64_t unix_ns), void *context)
{
    pthread_mutex_lock(&e->lock);
    for (size_t i = e->count; i > 0 && max > 0; i--) {
        const struct kept_node_event *k = e->kept[i - 1];
        if (k->event.time_ns < since_ns)
            continue;
        take(context, &k->event, k->unix_ns);
        max--;
    }
    pthread_mutex_unlock(&e->lock);
}

uint64_t node_events_kept_since(struct node_events *e)
{
    pthread_mutex_lock(&e->lock);
    const uint64_t since_ns = e->since_ns;
    pthread_mutex_unlock(&e->lock);
    return since_ns;
}
