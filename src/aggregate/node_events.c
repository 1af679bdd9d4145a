/* A ring under a lock. Each event is one allocation: the struct, its attributes and their strings. See events.h. */
#include "aggregate/node_events.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept_event {
    struct node_event event;
    uint64_t unix_ns;
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    char strings[];
};

struct node_events {
    pthread_mutex_t lock;
    struct kept_event *ring[NODE_EVENTS_MAX];
    size_t added; /* of all times; the next one goes to ring[added % NODE_EVENTS_MAX] */
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
    for (size_t i = 0; i < NODE_EVENTS_MAX; i++)
        free(e->ring[i]);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static size_t string_bytes(const struct node_event *event)
{
    size_t bytes = strlen(event->name) + strlen(event->text) + 2;
    for (size_t i = 0; i < event->attribute_count; i++)
        bytes += strlen(event->attributes[i].name) + strlen(event->attributes[i].value) + 2;
    return bytes;
}

static const char *keep_string(char **at, const char *text)
{
    const size_t size = strlen(text) + 1;
    const char *kept = memcpy(*at, text, size);
    *at += size;
    return kept;
}

static struct kept_event *copy_event(const struct node_event *event)
{
    struct kept_event *k = malloc(sizeof(*k) + string_bytes(event));
    if (!k)
        return NULL;
    char *at = k->strings;
    k->event = *event;
    k->unix_ns = clock_unix_from_monotonic(event->time_ns);
    k->event.name = keep_string(&at, event->name);
    k->event.text = keep_string(&at, event->text);
    k->event.attributes = k->attributes;
    for (size_t i = 0; i < event->attribute_count; i++)
        k->attributes[i] = (struct node_event_attribute){.name = keep_string(&at, event->attributes[i].name),
                                                         .value = keep_string(&at, event->attributes[i].value)};
    return k;
}

int node_events_add(struct node_events *e, const struct node_event *event)
{
    if (event->attribute_count > NODE_EVENT_ATTRIBUTES_MAX)
        return -E2BIG;
    struct kept_event *k = copy_event(event);
    if (!k)
        return -ENOMEM;
    pthread_mutex_lock(&e->lock);
    struct kept_event **place = &e->ring[e->added++ % NODE_EVENTS_MAX];
    struct kept_event *oldest = *place;
    *place = k;
    pthread_mutex_unlock(&e->lock);
    free(oldest);
    return 0;
}

void node_events_each(struct node_events *e, uint64_t since_ns, size_t max,
                      void (*take)(void *context, const struct node_event *event, uint64_t unix_ns), void *context)
{
    pthread_mutex_lock(&e->lock);
    for (size_t i = 1; i <= NODE_EVENTS_MAX && i <= e->added && max > 0; i++) {
        const struct kept_event *k = e->ring[(e->added - i) % NODE_EVENTS_MAX];
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
    const uint64_t since_ns = e->added > NODE_EVENTS_MAX ? e->ring[e->added % NODE_EVENTS_MAX]->event.time_ns : 0;
    pthread_mutex_unlock(&e->lock);
    return since_ns;
}
