/* Something that happened on the node and is worth a line of its own. Plain data. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NODE_EVENT_ATTRIBUTES_MAX 12

struct node_event_attribute {
    const char *name, *value;
};

struct node_event {
    uint64_t time_ns; /* CLOCK_MONOTONIC, when it ended */
    uint64_t duration_ns;
    const char *name; /* "runqueue.delayed" */
    const char *text; /* a sentence for people */
    const struct node_event_attribute *attributes;
    size_t attribute_count;
};

/* What people can do about events of this name, a sentence; "" for a name that is not known. A static string. */
const char *node_event_advice(const char *name);
