/* The latest events of the node (model/node_event.h), a fixed number of them. Any thread. */
#pragma once

#include "base/cleanup.h"
#include "model/node_event.h"

#include <stddef.h>
#include <stdint.h>

#define NODE_EVENTS_MAX 256

struct node_events;

/* 0 or -ENOMEM; the caller frees `*ret`. */
int node_events_new(struct node_events **ret);
void node_events_free(struct node_events *e);
DEFINE_FREEP(node_events)

/* Adds a copy of an event that ended at `unix_ns`, since 1970. If there are NODE_EVENTS_MAX, the oldest event of the
 * most frequent name goes: a signal with many events does not displace the events of other signals. -E2BIG: more than
 * NODE_EVENT_ATTRIBUTES_MAX attributes; -ENOMEM. */
int node_events_add(struct node_events *e, const struct node_event *event, uint64_t unix_ns);

/* Since when all events are kept (CLOCK_MONOTONIC): after the newest one that had to go; 0: none had to. */
uint64_t node_events_kept_since(struct node_events *e);

/* Calls `take` for every event that ended at `since_ns` (CLOCK_MONOTONIC) or later, newest first, at most `max`.
 * `unix_ns` is that of node_events_add. What `take` gets is valid until it returns; it must not call other functions of
 * this file. */
void node_events_each(struct node_events *e, uint64_t since_ns, size_t max,
                      void (*take)(void *context, const struct node_event *event, uint64_t unix_ns), void *context);
