/* The state of source "drops", its snapshots and its metrics. Private to src/sources/drops. */
#pragma once

#include "sources/drops/drops.h"
#include "sources/drops/drops_listeners.h"
#include "sources/drops/drops_reasons.h"
#include "sources/sampling/cgroup_names.h"

struct drops_count {
    struct drops_key key;
    uint64_t value;
};

struct drops_peer_total {
    struct drops_peer peer;
    struct drops_peer_count count;
};

/* A copy of the program's tables, each sorted by key. */
struct drops_snapshot {
    struct drops_count *counts; /* DROPS_MAX_COUNTERS */
    size_t count_count;
    struct drops_peer_total *peers; /* DROPS_MAX_PEERS + 1 */
    size_t peer_count;
};

struct drops_bpf;
struct bpf_link;

struct drops_source {
    struct drops_bpf *bpf;
    const struct shared_tables *tables;
    struct drops_options options;
    struct drops_reasons reasons; /* valid with has_reasons */
    bool has_reasons, is_started;
    struct bpf_link *walk; /* NULL: listening sockets are not read */
    struct drops_listeners listeners;
    struct cgroup_names names;
    struct drops_snapshot last; /* of the last check */
    struct drops_snapshot next; /* of a check, or of a reading of the metrics */
    uint64_t checked_ns, next_check_ns;
    uint64_t batch_full; /* records that a full batch refused */
};

/* False: no memory; clear it all the same. */
bool drops_snapshot_init(struct drops_snapshot *n);
void drops_snapshot_clear(struct drops_snapshot *n);

/* The counter, or the peer, with this key. NULL: there is none. Valid until the snapshot is filled again. */
const struct drops_count *drops_snapshot_count(const struct drops_snapshot *n, const struct drops_key *key);
const struct drops_peer_total *drops_snapshot_peer(const struct drops_snapshot *n, const struct drops_peer *peer);

/* Fills s->next from the tables, and reads the names of new cgroups. */
void drops_read(struct drops_source *s, uint64_t now_ns);

/* The label of a cgroup: its path, "other" for DROPS_OTHER, "none" for DROPS_NO_SOCKET. NULL: not known, or gone. Valid
 * until `names` are refreshed. */
const char *drops_cgroup_text(const struct cgroup_names *names, uint64_t cgroup_id);

void drops_put_metrics(struct drops_source *s, struct metric_set *set);
