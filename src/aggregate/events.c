/* A ring under a lock. Each event is one allocation: the struct, its attributes and their strings. See events.h. */
#include "aggregate/events.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept_event {
    struct event event;
    struct event_attribute attributes[EVENT_ATTRIBUTES_MAX];
    char strings[];
};

struct events {
    pthread_mutex_t lock;
    struct kept_event *ring[EVENTS_MAX];
    size_t added; /* of all times; the next one goes to ring[added % EVENTS_MAX] */
};

int events_new(struct events **ret)
{
    struct events *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    pthread_mutex_init(&e->lock, NULL);
    *ret = e;
    return 0;
}

void events_free(struct events *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < EVENTS_MAX; i++)
        free(e->ring[i]);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static size_t string_bytes(const struct event *event)
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

static struct kept_event *copy_event(const struct event *event)
{
    struct kept_event *k = malloc(sizeof(*k) + string_bytes(event));
    if (!k)
        return NULL;
    char *at = k->strings;
    k->event = *event;
    k->event.name = keep_string(&at, event->name);
    k->event.text = keep_string(&at, event->text);
    k->event.attributes = k->attributes;
    for (size_t i = 0; i < event->attribute_count; i++)
        k->attributes[i] = (struct event_attribute){.name = keep_string(&at, event->attributes[i].name),
                                                    .value = keep_string(&at, event->attributes[i].value)};
    return k;
}

int events_add(struct events *e, const struct event *event)
{
    if (event->attribute_count > EVENT_ATTRIBUTES_MAX)
        return -E2BIG;
    struct kept_event *k = copy_event(event);
    if (!k)
        return -ENOMEM;
    pthread_mutex_lock(&e->lock);
    struct kept_event **place = &e->ring[e->added++ % EVENTS_MAX];
    struct kept_event *oldest = *place;
    *place = k;
    pthread_mutex_unlock(&e->lock);
    free(oldest);
    return 0;
}

void events_each(struct events *e, uint64_t since_ns, size_t max,
                 void (*take)(void *context, const struct event *event), void *context)
{
    pthread_mutex_lock(&e->lock);
    for (size_t i = 1; i <= EVENTS_MAX && i <= e->added && max > 0; i++) {
        const struct event *event = &e->ring[(e->added - i) % EVENTS_MAX]->event;
        if (event->time_ns < since_ns)
            continue;
        take(context, event);
        max--;
    }
    pthread_mutex_unlock(&e->lock);
}
