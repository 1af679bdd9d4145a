/* Something that happened on the node and is worth a line of its own. Plain data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_EVENT_ATTRIBUTES_MAX 16

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

/* A copy of an event that owns its strings and attributes. One allocation. */
struct kept_node_event {
    struct node_event event;
    uint64_t unix_ns;          /* event.time_ns since 1970 */
    uint64_t observed_unix_ns; /* when it was copied */
    size_t bytes;              /* of the allocation */
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    char strings[];
};

/* Copies an event; the caller frees `*ret`. -E2BIG: more than NODE_EVENT_ATTRIBUTES_MAX attributes; -ENOMEM. */
int node_event_keep(const struct node_event *event, uint64_t unix_ns, struct kept_node_event **ret);

/* Whether an event of this name is of `kind`, which is its name or its signal: "drops.packets" is of "drops". */
bool node_event_is_of(const char *name, const char *kind);

/* Whether something failed or does not go on: a killed process, a task or an I/O that hangs. Other events delay. */
bool node_event_is_error(const char *name);

/* What people can do about events of this name, a sentence; "" for a name that is not known. A static string. */
const char *node_event_advice(const char *name);
