/* A row a port, process and protocol, with its bytes in slots of time: see opaque_ports.h. */
#include "aggregate/opaque_ports.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_NS (5 * 1000000000ull)
#define SLOTS   61 /* five minutes, and the one that is being filled */

struct row {
    struct opaque_port port; /* without its rate */
    uint64_t bytes;          /* since the first */
    uint64_t last_ns;
    uint64_t slots[SLOTS];
};

struct opaque_ports {
    pthread_mutex_t lock;
    uint64_t first_ns, slot; /* of all: time of the first traffic; number of the slot that is being filled */
    size_t count;
    struct row rows[OPAQUE_PORTS_MAX + 1]; /* the first: of port 0 */
};

int opaque_ports_new(struct opaque_ports **ret)
{
    struct opaque_ports *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    pthread_mutex_init(&o->lock, NULL);
    o->count = 1;
    *ret = o;
    return 0;
}

void opaque_ports_free(struct opaque_ports *o)
{
    if (!o)
        return;
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* Clears the slots between the last one used and that of `now_ns`. */
static void advance_slots(struct opaque_ports *o, uint64_t now_ns)
{
    const uint64_t slot = now_ns / SLOT_NS;
    for (uint64_t i = 0; o->slot < slot && i < SLOTS; i++) {
        o->slot = slot - o->slot > SLOTS ? slot - SLOTS + 1 : o->slot + 1;
        for (size_t r = 0; r < o->count; r++)
            o->rows[r].slots[o->slot % SLOTS] = 0;
    }
}

static bool is_of(const struct row *row, const struct opaque_traffic *traffic)
{
    return row->port.port == traffic->port && row->port.protocol == traffic->protocol &&
           strncmp(row->port.process, traffic->process, sizeof(row->port.process) - 1) == 0;
}

/* Of the rows that had no traffic for as long as slots reach back, the one idle for longest; NULL: no such row. */
static struct row *find_idle(struct opaque_ports *o, uint64_t now_ns)
{
    struct row *idle = NULL;
    for (size_t r = 1; r < o->count; r++)
        if (now_ns - o->rows[r].last_ns > SLOTS * SLOT_NS && (!idle || o->rows[r].last_ns < idle->last_ns))
            idle = &o->rows[r];
    return idle;
}

static struct row *find_row(struct opaque_ports *o, const struct opaque_traffic *traffic)
{
    for (size_t r = 1; r < o->count; r++)
        if (is_of(&o->rows[r], traffic))
            return &o->rows[r];
    struct row *row = !traffic->port                 ? NULL
                      : o->count <= OPAQUE_PORTS_MAX ? &o->rows[o->count++]
                                                     : find_idle(o, traffic->time_ns);
    if (!row)
        return &o->rows[0];
    *row = (struct row){.port = {.port = traffic->port, .protocol = traffic->protocol}};
    snprintf(row->port.process, sizeof(row->port.process), "%s", traffic->process);
    return row;
}

void opaque_ports_add(struct opaque_ports *o, const struct opaque_traffic *traffic)
{
    pthread_mutex_lock(&o->lock);
    o->first_ns = o->first_ns ?: traffic->time_ns;
    advance_slots(o, traffic->time_ns);
    struct row *row = find_row(o, traffic);
    row->bytes += traffic->bytes;
    row->port.connections += traffic->connections;
    row->last_ns = traffic->time_ns;
    row->slots[o->slot % SLOTS] += traffic->bytes;
    pthread_mutex_unlock(&o->lock);
}

static int busier_first(const void *a, const void *b)
{
    const struct opaque_port *x = a, *y = b;
    return x->bytes_per_second < y->bytes_per_second ? 1 : x->bytes_per_second > y->bytes_per_second ? -1 : 0;
}

static uint64_t bytes_since(const struct opaque_ports *o, const struct row *row, uint64_t first_slot)
{
    uint64_t sum = 0;
    for (uint64_t slot = first_slot; slot <= o->slot; slot++)
        sum += row->slots[slot % SLOTS];
    return sum;
}

size_t opaque_ports_list(struct opaque_ports *o, uint64_t since_ns, uint64_t now_ns, struct opaque_port *ret,
                         size_t max, size_t *ret_omitted)
{
    struct opaque_port all[OPAQUE_PORTS_MAX + 1];
    size_t count = 0;
    pthread_mutex_lock(&o->lock);
    advance_slots(o, now_ns);
    uint64_t first_slot = since_ns / SLOT_NS;
    if (first_slot + SLOTS <= o->slot)
        first_slot = o->slot - SLOTS + 1;
    const uint64_t from_ns = first_slot * SLOT_NS > o->first_ns ? first_slot * SLOT_NS : o->first_ns;
    const double seconds = now_ns > from_ns ? (double)(now_ns - from_ns) / 1e9 : 0;
    for (size_t r = 0; r < o->count; r++) {
        const uint64_t bytes = bytes_since(o, &o->rows[r], first_slot);
        if (!bytes)
            continue;
        all[count] = o->rows[r].port;
        all[count++].bytes_per_second = (double)bytes / (seconds > 1 ? seconds : 1);
    }
    pthread_mutex_unlock(&o->lock);
    qsort(all, count, sizeof(all[0]), busier_first);
    const size_t listed = count < max ? count : max;
    memcpy(ret, all, listed * sizeof(all[0]));
    *ret_omitted = count - listed;
    return listed;
}

void opaque_ports_metrics(struct opaque_ports *o, struct metric_set *set)
{
    pthread_mutex_lock(&o->lock);
    for (size_t r = 0; r < o->count; r++) {
        const struct row *row = &o->rows[r];
        char port[8];
        snprintf(port, sizeof(port), "%u", row->port.port);
        if (!row->bytes)
            continue;
        metric_add(set, "sonde_opaque_bytes", METRIC_COUNTER, "bytes",
                   "Bytes that servers received and sent in protocols that cannot be read, by listening port.",
                   (double)row->bytes,
                   METRIC_LABELS({"port", port}, {"service_name", row->port.process},
                                 {"protocol", opaque_protocol_name(row->port.protocol)}));
        metric_add(set, "sonde_opaque_connections", METRIC_COUNTER, "",
                   "Accepted connections whose first bytes were in such a protocol.", (double)row->port.connections,
                   METRIC_LABELS({"port", port}, {"service_name", row->port.process},
                                 {"protocol", opaque_protocol_name(row->port.protocol)}));
    }
    pthread_mutex_unlock(&o->lock);
}
