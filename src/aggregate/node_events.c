/* A list under a lock. Each event is one allocation: the struct, its attributes and their strings. See node_events.h.
 */
#include "aggregate/node_events.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KINDS_MAX 32 /* whose events are counted */

struct kept_event {
    struct node_event event;
    uint64_t unix_ns;
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    char strings[];
};

struct node_events {
    pthread_mutex_t lock;
    struct kept_event *kept[NODE_EVENTS_MAX]; /* as they were added */
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

int node_events_add(struct node_events *e, const struct node_event *event)
{
    if (event->attribute_count > NODE_EVENT_ATTRIBUTES_MAX)
        return -E2BIG;
    struct kept_event *k = copy_event(event);
    if (!k)
        return -ENOMEM;
    struct kept_event *gone = NULL;
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
        const struct kept_event *k = e->kept[i - 1];
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
