/* The blocked tasks of a walk by the stack that they wait in. Plain data, bounded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BLOCKED_STACK_BYTES 192
#define BLOCKED_GROUPS_MAX  16 /* further stacks are left out; their tasks count */

struct blocked_group {
    char stack[BLOCKED_STACK_BYTES];
    uint32_t count;
    uint64_t oldest_ns; /* how long its oldest task has been blocked */
    uint32_t oldest_tid;
    char oldest_name[16];
};

/* Zeroed: none. */
struct blocked_groups {
    uint32_t tasks;
    uint64_t oldest_ns;
    size_t count;
    struct blocked_group items[BLOCKED_GROUPS_MAX];
};

void blocked_groups_add(struct blocked_groups *g, const char *stack, const char *name, uint32_t tid, uint64_t ns);

/* Writes the groups, the one with the oldest task first: "3 in a < b, the oldest for 31.0 s (cat, thread 12); 1 in c,
 * ...". */
void blocked_groups_text(struct blocked_groups *g, char *out, size_t size);
