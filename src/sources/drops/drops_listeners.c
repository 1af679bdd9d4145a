/* Reads the iterator of drops.bpf.c; see drops_listeners.h. */
#include "sources/drops/drops_listeners.h"

#include "sources/attach/iterator.h"
#include "sources/drops/drops_private.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int drops_listeners_init(struct drops_listeners *l, int walk_fd)
{
    l->walk_fd = walk_fd;
    l->seen = calloc(DROPS_MAX_LISTENERS, sizeof(*l->seen));
    l->next = calloc(DROPS_MAX_LISTENERS, sizeof(*l->next));
    l->ports = calloc(DROPS_MAX_PORTS + 1, sizeof(*l->ports));
    return l->seen && l->next && l->ports ? 0 : -ENOMEM;
}

void drops_listeners_clear(struct drops_listeners *l)
{
    free(l->seen);
    free(l->next);
    free(l->ports);
    *l = (struct drops_listeners){.walk_fd = -1};
}

static int compare_sockets(const void *a, const void *b)
{
    const struct drops_listener *one = a, *other = b;
    return one->socket < other->socket ? -1 : one->socket > other->socket;
}

static struct drops_port *port_of(struct drops_listeners *l, uint64_t cgroup_id, uint32_t port)
{
    for (size_t i = 0; i < l->port_count; i++)
        if (l->ports[i].port == port && l->ports[i].cgroup_id == cgroup_id)
            return &l->ports[i];
    if (l->port_count < DROPS_MAX_PORTS) {
        l->ports[l->port_count] = (struct drops_port){.cgroup_id = cgroup_id, .port = port};
        return &l->ports[l->port_count++];
    }
    return &l->ports[DROPS_MAX_PORTS]; /* DROPS_OTHER, port 0 */
}

/* Makes room by forgetting ports that have refused nothing: those that are still listened to come back. */
static void forget_idle_ports(struct drops_listeners *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->port_count; i++)
        if (l->ports[i].refused)
            l->ports[kept++] = l->ports[i];
    l->port_count = kept;
}

/* Keeps the list sorted. Processes that share a socket list it several times: once is enough. False: no room. */
static bool insert_listener(struct drops_listener *list, size_t *count, const struct drops_listener *added)
{
    size_t low = 0, high = *count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list[middle].socket < added->socket)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < *count && list[low].socket == added->socket)
        return true;
    if (*count == DROPS_MAX_LISTENERS)
        return false;
    memmove(&list[low + 1], &list[low], (*count - low) * sizeof(*list));
    list[low] = *added;
    ++*count;
    return true;
}

static int read_listeners(struct drops_listeners *l, size_t *ret_count)
{
    struct drops_listener page[64];
    size_t count = 0;
    uint64_t unread = 0;
    ssize_t bytes;
    _cleanup_close_ int fd = bpf_iter_create(l->walk_fd);
    if (fd < 0)
        return -errno;
    while ((bytes = iterator_read(fd, page, sizeof(page))) > 0)
        for (ssize_t i = 0; i < bytes / (ssize_t)sizeof(page[0]); i++)
            unread += !insert_listener(l->next, &count, &page[i]);
    if (bytes < 0)
        return (int)bytes;
    l->unread = unread > l->unread ? unread : l->unread;
    *ret_count = count;
    return 0;
}

int drops_listeners_walk(struct drops_listeners *l, drops_refused *refused, void *context)
{
    size_t count = 0;
    const int r = read_listeners(l, &count);
    if (r < 0)
        return r;
    if (l->port_count == DROPS_MAX_PORTS)
        forget_idle_ports(l);
    for (size_t i = 0; i < count; i++) {
        const struct drops_listener *now = &l->next[i];
        const struct drops_listener *before = bsearch(now, l->seen, l->count, sizeof(*l->seen), compare_sockets);
        /* A new socket may have the address of one that is gone. */
        const bool is_same = before && before->port == now->port && before->drops <= now->drops;
        const uint32_t more = now->drops - (is_same ? before->drops : 0);
        struct drops_port *port = port_of(l, now->cgroup_id, now->port);
        if (!l->has_walked || !more)
            continue;
        port->refused += more;
        refused(context, now, more);
    }
    struct drops_listener *swapped = l->seen;
    l->seen = l->next;
    l->next = swapped;
    l->count = count;
    l->has_walked = true;
    return 0;
}

void drops_listeners_forget(struct drops_listeners *l, const struct cgroup_names *names)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->port_count; i++)
        if (drops_cgroup_text(names, l->ports[i].cgroup_id))
            l->ports[kept++] = l->ports[i];
    l->port_count = kept;
}
