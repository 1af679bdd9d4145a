/* The latest events of the node (model/event.h), a fixed number of them. Any thread. */
#pragma once

#include "base/cleanup.h"
#include "model/event.h"

#include <stddef.h>
#include <stdint.h>

#define EVENTS_MAX 256

struct events;

/* 0 or -ENOMEM; the caller frees `*ret`. */
int events_new(struct events **ret);
void events_free(struct events *e);
DEFINE_FREEP(events)

/* Adds a copy, in place of the oldest one if there are EVENTS_MAX. -ENOMEM. */
int events_add(struct events *e, const struct event *event);

/* Calls `take` for every event that ended at `since_ns` (CLOCK_MONOTONIC) or later, newest first, at most `max`. What
 * it gets is valid until it returns; it must not call other functions of this file. */
void events_each(struct events *e, uint64_t since_ns, size_t max,
                 void (*take)(void *context, const struct event *event), void *context);
