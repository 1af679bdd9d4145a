/* A ring of entries, oldest first, and a hash table with chains that finds them. */
#include "signals/gpu_time/launch_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHAINS LAUNCH_STACKS_MAX
#define NONE   UINT32_MAX

_Static_assert((LAUNCH_STACKS_MAX & (LAUNCH_STACKS_MAX - 1)) == 0, "places count on past 2^32");

struct entry {
    struct stack_record *record; /* NULL: dropped */
    uint32_t next;               /* in the chain */
};

struct launch_stacks {
    struct entry entries[LAUNCH_STACKS_MAX]; /* place i % LAUNCH_STACKS_MAX for the i-th */
    uint32_t chains[CHAINS];
    uint32_t first, end; /* entries in use: [first, end), which count on */
    size_t bytes, max_bytes;
};

int launch_stacks_new(size_t max_bytes, struct launch_stacks **ret)
{
    struct launch_stacks *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->max_bytes = max_bytes;
    memset(l->chains, 0xff, sizeof(l->chains)); /* NONE */
    *ret = l;
    return 0;
}

static uint32_t *chain_of(struct launch_stacks *l, uint32_t pid, uint32_t launch)
{
    const uint64_t hash = ((uint64_t)pid << 32 | launch) * 0x9e3779b97f4a7c15u;
    return &l->chains[(hash >> 32) % CHAINS];
}

static uint32_t launch_of(const struct stack_record *record)
{
    return (uint32_t)record->sample.value;
}

/* Frees the record of the entry at `place`, and takes it out of its chain. */
static void drop(struct launch_stacks *l, uint32_t place)
{
    struct entry *e = &l->entries[place];
    if (!e->record)
        return;
    uint32_t *at = chain_of(l, e->record->h.pid, launch_of(e->record));
    while (*at != place)
        at = &l->entries[*at].next;
    *at = e->next;
    l->bytes -= e->record->h.size_bytes;
    free(e->record);
    e->record = NULL;
}

static void drop_oldest(struct launch_stacks *l)
{
    drop(l, l->first++ % LAUNCH_STACKS_MAX);
}

void launch_stacks_free(struct launch_stacks *l)
{
    if (!l)
        return;
    while (l->first != l->end)
        drop_oldest(l);
    free(l);
}

static uint32_t find(const struct launch_stacks *l, uint32_t pid, uint32_t launch)
{
    uint32_t at = *chain_of((struct launch_stacks *)l, pid, launch);
    while (at != NONE && (l->entries[at].record->h.pid != pid || launch_of(l->entries[at].record) != launch))
        at = l->entries[at].next;
    return at;
}

int launch_stacks_put(struct launch_stacks *l, const struct stack_record *record)
{
    const uint32_t known = find(l, record->h.pid, launch_of(record)); /* numbers come again after 2^32 calls */
    if (known != NONE)
        drop(l, known);
    struct stack_record *copy = malloc(record->h.size_bytes);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, record, record->h.size_bytes);
    while (l->first != l->end &&
           (l->end - l->first == LAUNCH_STACKS_MAX || l->bytes + copy->h.size_bytes > l->max_bytes))
        drop_oldest(l);
    const uint32_t place = l->end++ % LAUNCH_STACKS_MAX;
    uint32_t *chain = chain_of(l, copy->h.pid, launch_of(copy));
    l->entries[place] = (struct entry){.record = copy, .next = *chain};
    *chain = place;
    l->bytes += copy->h.size_bytes;
    return 0;
}

const struct stack_record *launch_stacks_get(const struct launch_stacks *l, uint32_t pid, uint32_t launch)
{
    const uint32_t at = find(l, pid, launch);
    return at == NONE ? NULL : l->entries[at].record;
}

void launch_stacks_forget(struct launch_stacks *l, uint32_t pid)
{
    for (uint32_t i = l->first; i != l->end; i++)
        if (l->entries[i % LAUNCH_STACKS_MAX].record && l->entries[i % LAUNCH_STACKS_MAX].record->h.pid == pid)
            drop(l, i % LAUNCH_STACKS_MAX);
}
