/* Series of block devices; see io_devices.h. */
#include "signals/io/io_devices.h"

#include "signals/io/io_names.h"
#include "signals/io/io_series.h"
#include "sources/io/io.h"
#include "sources/sampling/cgroup_search.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERIES_MAX     20000
#define TEXT_MAX_BYTES ((size_t)32 << 20) /* of a page */
#define SEARCH_NS      10000000000ull
#define IDLE_NS        60000000000ull

/* As flags of a series' key. */
enum { AT_DEVICE, IN_QUEUE };

struct io_devices {
    void *source;
    struct io_series *series;
    struct io_names names; /* of cgroups */
    uint64_t now_ns, searched_ns;
    size_t seen, counted; /* keys in this round and the last one */
};

int io_devices_new(void *source, size_t max_series, struct io_devices **ret)
{
    struct io_devices *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->source = d->names.source = source;
    const int r = io_series_new(max_series < SERIES_MAX ? max_series : SERIES_MAX, TEXT_MAX_BYTES, &d->series);
    if (r < 0)
        free(d);
    else
        *ret = d;
    return r;
}

void io_devices_free(struct io_devices *d)
{
    if (!d)
        return;
    io_names_clear(&d->names);
    io_series_free(d->series);
    free(d);
}

/* NULL: of no single cgroup, or not known. */
static struct io_named *find_cgroup(struct io_devices *d, const struct io_device_key *key)
{
    return key->cgroup_id & IO_BLOCK_CGROUP ? io_names_cgroup(&d->names, key->cgroup_id) : NULL;
}

static void device_name(struct io_devices *d, uint32_t device, struct io_device_name *ret)
{
    if (io_source_device(d->source, device, ret))
        return;
    if (device)
        snprintf(ret->text, sizeof(ret->text), "%u:%u", device >> 20, device & 0xfffff);
    else
        snprintf(ret->text, sizeof(ret->text), "unknown");
}

/* If the table is half full, also idle counters of removed devices, although their cgroup lives on. */
static bool is_final(void *context, const struct io_device_key *key, const struct io_device_counters *counters)
{
    struct io_devices *d = context;
    const struct io_named *cgroup = find_cgroup(d, key);
    if (!cgroup) /* it was gone before the request ended */
        return key->cgroup_id & IO_BLOCK_CGROUP && counters->last_ns && counters->last_ns + IDLE_NS < d->now_ns;
    return cgroup->is_gone || (d->counted > io_source_device_counters_max(d->source) / 2 && counters->last_ns &&
                               counters->last_ns + IDLE_NS < d->now_ns);
}

static void take_counters(void *context, const struct io_device_key *key, const struct io_device_counters *counters,
                          bool is_last)
{
    static const struct io_device_counters none;
    static const struct job kernel = {.manager = "kernel", .id = "kernel"};
    struct io_devices *d = context;
    struct io_device_name name;
    struct io_counters queue = {.sum_ns = counters->queue_ns};
    struct io_counters device = {.bytes = counters->bytes, .errors = counters->errors, .sum_ns = counters->service_ns};
    d->seen++;
    if (memcmp(counters, &none, sizeof(none)) == 0)
        return;
    memcpy(queue.durations, counters->queued, sizeof(queue.durations));
    memcpy(device.durations, counters->served, sizeof(device.durations));
    const struct io_named *cgroup = find_cgroup(d, key);
    const struct job *job = cgroup ? &cgroup->job : key->cgroup_id == IO_KERNEL ? &kernel : NULL;
    struct io_key series_key = {.operation = key->operation, .flags = AT_DEVICE};
    device_name(d, key->device, &name);
    (void)io_series_add(d->series, job, name.text, "", &series_key, 0, &device, is_last);
    series_key.flags = IN_QUEUE;
    (void)io_series_add(d->series, job, name.text, "", &series_key, 0, &queue, is_last);
}

static void find_gone_cgroups(struct io_devices *d)
{
    const int root = cgroup_search_open_controller("blkio");
    d->searched_ns = d->now_ns;
    if (root < 0)
        return;
    io_names_find_gone(&d->names, root);
    close(root);
}

static void keep_or_forget_cgroups(struct io_devices *d)
{
    struct io_named *n, *next;
    HASH_ITER (hh, d->names.cgroups, n, next) {
        if (n->is_gone)
            io_names_forget_cgroup(&d->names, n);
        else
            io_series_keep(d->series, &n->job);
    }
}

void io_devices_refresh(struct io_devices *d, uint64_t now_ns)
{
    const struct io_device_reader reader = {.context = d, .is_final = is_final, .take = take_counters};
    d->now_ns = now_ns;
    d->seen = 0;
    if (now_ns - d->searched_ns >= SEARCH_NS)
        find_gone_cgroups(d);
    io_series_begin(d->series, now_ns);
    (void)io_source_read_devices(d->source, &reader);
    keep_or_forget_cgroups(d);
    io_series_end(d->series);
    d->counted = d->seen;
}

struct each {
    void (*take)(void *context, const struct io_device_point *point);
    void *context;
};

static void pass_point(void *context, const struct io_point *p)
{
    const struct each *each = context;
    const struct io_device_point point = {.job = p->job,
                                          .device = p->mountpoint,
                                          .operation = p->operation,
                                          .is_queue = p->flags == IN_QUEUE,
                                          .counters = p->counters};
    each->take(each->context, &point);
}

void io_devices_each(const struct io_devices *d, void (*take)(void *context, const struct io_device_point *point),
                     void *context)
{
    struct each each = {take, context};
    io_series_each(d->series, pass_point, &each);
}

size_t io_devices_folded(const struct io_devices *d)
{
    return io_series_folded(d->series);
}
