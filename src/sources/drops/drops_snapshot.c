/* Copies of the tables of probes/drops.bpf.c, and the names of their cgroups; see drops_private.h. */
#include "sources/drops/drops_private.h"

#include "sources/attach/map_walk.h"
#include "sources/run_timers.h"

#include "base/cleanup.h"

#include "drops.skel.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

void drops_snapshot_clear(struct drops_snapshot *n)
{
    free(n->counts);
    free(n->peers);
}

bool drops_snapshot_init(struct drops_snapshot *n)
{
    n->counts = calloc(DROPS_MAX_COUNTERS, sizeof(*n->counts));
    n->peers = calloc(DROPS_MAX_PEERS + 1, sizeof(*n->peers));
    return n->counts && n->peers;
}

static int compare_counts(const void *a, const void *b)
{
    return memcmp(&((const struct drops_count *)a)->key, &((const struct drops_count *)b)->key,
                  sizeof(struct drops_key));
}

static int compare_peers(const void *a, const void *b)
{
    return memcmp(&((const struct drops_peer_total *)a)->peer, &((const struct drops_peer_total *)b)->peer,
                  sizeof(struct drops_peer));
}

const struct drops_count *drops_snapshot_count(const struct drops_snapshot *n, const struct drops_key *key)
{
    const struct drops_count wanted = {.key = *key};
    return bsearch(&wanted, n->counts, n->count_count, sizeof(wanted), compare_counts);
}

const struct drops_peer_total *drops_snapshot_peer(const struct drops_snapshot *n, const struct drops_peer *peer)
{
    const struct drops_peer_total wanted = {.peer = *peer};
    return bsearch(&wanted, n->peers, n->peer_count, sizeof(wanted), compare_peers);
}

static void read_counts(const struct drops_source *s, struct drops_snapshot *n)
{
    const int fd = bpf_map__fd(s->bpf->maps.counters);
    struct drops_count c = {0};
    _cleanup_(map_walk_end) struct map_walk walk;
    n->count_count = 0;
    for (map_walk_begin(&walk, fd); n->count_count < DROPS_MAX_COUNTERS && map_walk_next(&walk, &c.key, &c.value);)
        n->counts[n->count_count++] = c;
    qsort(n->counts, n->count_count, sizeof(*n->counts), compare_counts);
}

static void read_peers(const struct drops_source *s, struct drops_snapshot *n)
{
    const int fd = bpf_map__fd(s->bpf->maps.peers);
    struct drops_peer_total p = {0};
    _cleanup_(map_walk_end) struct map_walk walk;
    n->peer_count = 0;
    for (map_walk_begin(&walk, fd); n->peer_count < DROPS_MAX_PEERS + 1 && map_walk_next(&walk, &p.peer, &p.count);)
        n->peers[n->peer_count++] = p;
    qsort(n->peers, n->peer_count, sizeof(*n->peers), compare_peers);
}

/* A cgroup that is gone takes its counters and its ports with it. */
static void name_cgroups(struct drops_source *s, uint64_t now_ns)
{
    const int fd = bpf_map__fd(s->bpf->maps.counters);
    _cleanup_free_ uint64_t *ids = calloc(DROPS_MAX_COUNTERS + DROPS_MAX_PORTS, sizeof(*ids));
    size_t count = 0;
    for (size_t i = 0; ids && i < s->next.count_count; i++)
        if (s->next.counts[i].key.cgroup_id != DROPS_NO_SOCKET)
            ids[count++] = s->next.counts[i].key.cgroup_id;
    for (size_t i = 0; ids && i < s->listeners.port_count; i++)
        if (s->listeners.ports[i].cgroup_id != DROPS_NO_SOCKET)
            ids[count++] = s->listeners.ports[i].cgroup_id;
    if (!ids || !cgroup_names_refresh(&s->names, ids, count, now_ns))
        return;
    for (size_t i = 0; i < s->next.count_count; i++) {
        const struct drops_key *key = &s->next.counts[i].key;
        if (!drops_cgroup_text(&s->names, key->cgroup_id))
            (void)bpf_map_delete_elem(fd, key);
    }
    drops_listeners_forget(&s->listeners, &s->names);
}

void drops_read(struct drops_source *s, uint64_t now_ns)
{
    read_counts(s, &s->next);
    read_peers(s, &s->next);
    name_cgroups(s, now_ns);
}
