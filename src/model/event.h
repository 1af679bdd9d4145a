/* Something that happened on the node and is worth a line of its own. Plain data. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define EVENT_ATTRIBUTES_MAX 8

struct event_attribute {
    const char *name, *value;
};

struct event {
    uint64_t time_ns; /* CLOCK_MONOTONIC, when it ended */
    uint64_t duration_ns;
    const char *name; /* "runqueue.delayed" */
    const char *text; /* a sentence for people */
    const struct event_attribute *attributes;
    size_t attribute_count;
};
