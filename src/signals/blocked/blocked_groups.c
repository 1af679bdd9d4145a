/* See blocked_groups.h. */
#include "signals/blocked/blocked_groups.h"

#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void blocked_groups_add(struct blocked_groups *g, const char *stack, const char *name, uint32_t tid, uint64_t ns)
{
    size_t i = 0;
    g->tasks++;
    g->oldest_ns = ns > g->oldest_ns ? ns : g->oldest_ns;
    while (i < g->count && strcmp(g->items[i].stack, stack) != 0)
        i++;
    if (i == BLOCKED_GROUPS_MAX)
        return;
    struct blocked_group *group = &g->items[i];
    if (i == g->count) {
        g->count++;
        snprintf(group->stack, sizeof(group->stack), "%s", stack);
    }
    group->count++;
    if (ns > group->oldest_ns) {
        group->oldest_ns = ns;
        group->oldest_tid = tid;
        snprintf(group->oldest_name, sizeof(group->oldest_name), "%s", name);
    }
}

static int compare_ages(const void *a, const void *b)
{
    const struct blocked_group *one = a, *other = b;
    return one->oldest_ns > other->oldest_ns ? -1 : one->oldest_ns < other->oldest_ns;
}

void blocked_groups_text(struct blocked_groups *g, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    qsort(g->items, g->count, sizeof(g->items[0]), compare_ages);
    for (size_t i = 0; i < g->count && used < size; i++) {
        const struct blocked_group *group = &g->items[i];
        char age[32];
        units_format_duration(group->oldest_ns, age, sizeof(age));
        used += (size_t)snprintf(out + used, size - used, "%s%u in %s, the oldest for %s (%s, thread %u)",
                                 i ? "; " : "", group->count, group->stack, age, group->oldest_name, group->oldest_tid);
    }
}
