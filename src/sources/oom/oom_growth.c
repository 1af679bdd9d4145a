/* See oom_growth.h. */
#include "sources/oom/oom_growth.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_NS 60000000000ll /* growth is forgotten in about so long */

void oom_growth_begin(struct oom_growth *g, uint64_t now_ns, uint64_t left_pages)
{
    memcpy(g->before, g->processes, g->count * sizeof(g->processes[0]));
    g->before_count = g->count;
    g->before_ns = g->now_ns;
    g->now_ns = now_ns;
    g->left_pages = left_pages;
    g->count = g->growth = 0;
}

static int compare_pids(const void *a, const void *b)
{
    const struct oom_grown *one = a, *other = b;
    return one->pid < other->pid ? -1 : one->pid > other->pid;
}

/* Returns how much of growth `before` still counts after the time between the two walks. */
static int64_t growth_left(const struct oom_growth *g, uint32_t before)
{
    const int64_t passed_ns = (int64_t)(g->now_ns - g->before_ns), growth = before;
    return passed_ns >= MEMORY_NS ? 0 : growth - growth * (passed_ns / 1000000) / (MEMORY_NS / 1000000);
}

void oom_growth_add(struct oom_growth *g, const struct oom_process *p)
{
    const uint64_t pages = oom_grown_pages(&p->memory);
    struct oom_grown next = {.pid = p->pid, .pages = (uint32_t)pages, .start_ms = (uint32_t)(p->start_ns / 1000000)};
    const uint64_t left = p->left_pages < g->left_pages ? p->left_pages : g->left_pages;
    int64_t growth = 0;
    if (pages < OOM_LEAST_PAGES || pages > UINT32_MAX || g->count == OOM_PROCESSES_MAX)
        return;
    const struct oom_grown *before = bsearch(&next, g->before, g->before_count, sizeof(next), compare_pids);
    if (before && before->start_ms == next.start_ms)
        growth = growth_left(g, before->growth) + next.pages - before->pages;
    else if (g->before_ns)
        growth = next.pages;
    next.growth = growth < 0 ? 0 : growth > UINT32_MAX ? UINT32_MAX : (uint32_t)growth;
    next.left = left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
    g->growth += next.growth;
    g->processes[g->count++] = next;
}

size_t oom_growth_fastest(const struct oom_growth *g, uint32_t ret_pids[OOM_FASTEST_MAX])
{
    uint32_t growths[OOM_FASTEST_MAX];
    size_t count = 0;
    for (size_t i = 0; i < g->count; i++) {
        size_t at = count < OOM_FASTEST_MAX ? count : 0;
        for (size_t k = 0; count == OOM_FASTEST_MAX && k < count; k++)
            at = growths[k] < growths[at] ? k : at;
        if (g->processes[i].growth < OOM_LEAST_GROWTH || g->processes[i].left > g->growth * OOM_NEAR_MINUTES ||
            (count == OOM_FASTEST_MAX && growths[at] >= g->processes[i].growth))
            continue;
        growths[at] = g->processes[i].growth;
        ret_pids[at] = g->processes[i].pid;
        count += count < OOM_FASTEST_MAX;
    }
    return count;
}
