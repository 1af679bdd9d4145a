/* The listening sockets of the node, in all network namespaces, and the connections that each has refused. The kernel
 * counts those for each socket; a walk over all file descriptors reads the counts. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/types.h>

#include "probes/drops.h"

struct cgroup_names;

#define DROPS_MAX_LISTENERS 512 /* sockets that are remembered; further ones are not read */
#define DROPS_MAX_PORTS     256 /* series; the rest count for port 0 */

/* The listeners of one port and cgroup, since the first walk. */
struct drops_port {
    uint64_t cgroup_id;
    uint32_t port;
    uint64_t refused;
};

struct drops_listeners {
    struct drops_listener *seen; /* DROPS_MAX_LISTENERS, by address of the socket, as of the last walk */
    struct drops_listener *next; /* likewise, of the walk in progress */
    size_t count;
    struct drops_port *ports; /* DROPS_MAX_PORTS + 1 */
    size_t port_count;
    uint64_t unread; /* the most file descriptors of listeners that did not fit, of one walk */
    int walk_fd;     /* link of the iterator, borrowed; -1: none */
    bool has_walked;
};

/* Called for a listener that has refused `count` connections since the walk before. */
typedef void drops_refused(void *context, const struct drops_listener *listener, uint32_t count);

/* 0 or -ENOMEM. `l` is zeroed memory. */
int drops_listeners_init(struct drops_listeners *l, int walk_fd);
void drops_listeners_clear(struct drops_listeners *l);

/* Walks over all file descriptors. Calls `refused` from the second walk on. 0 or -errno. */
int drops_listeners_walk(struct drops_listeners *l, drops_refused *refused, void *context);

/* Forgets the ports of cgroups without a path in `names`, which must be current: these cgroups are gone. */
void drops_listeners_forget(struct drops_listeners *l, const struct cgroup_names *names);
