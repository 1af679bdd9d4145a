/* Reads the iterator of drops.bpf.c; see drops_listeners.h. */
#include "sources/drops/drops_listeners.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
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

/* Processes that share a socket list it several times: once is enough. */
static size_t merge_same_sockets(struct drops_listener *list, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(list, count, sizeof(*list), compare_sockets);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || list[kept - 1].socket != list[i].socket)
            list[kept++] = list[i];
    return kept;
}

static int read_listeners(struct drops_listeners *l, size_t *ret_count)
{
    struct drops_listener page[64];
    size_t count = 0;
    _cleanup_close_ int fd = bpf_iter_create(l->walk_fd);
    if (fd < 0)
        return -errno;
    for (;;) {
        const ssize_t bytes = read(fd, page, sizeof(page));
        if (bytes < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (bytes <= 0) {
            *ret_count = merge_same_sockets(l->next, count);
            return bytes < 0 ? -errno : 0;
        }
        for (size_t i = 0; i < (size_t)bytes / sizeof(page[0]); i++) {
            if (count == DROPS_MAX_LISTENERS)
                count = merge_same_sockets(l->next, count);
            if (count < DROPS_MAX_LISTENERS)
                l->next[count++] = page[i];
            else
                l->unread++;
        }
    }
}

int drops_listeners_walk(struct drops_listeners *l, drops_refused *refused, void *context)
{
    size_t count = 0;
    const int r = read_listeners(l, &count);
    if (r < 0)
        return r;
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
