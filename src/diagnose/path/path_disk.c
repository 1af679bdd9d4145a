/* Sums requests of block devices up by device and process; see path_disk.h. */
#include "diagnose/path/path_disk.h"

#include "base/units.h"
#include "diagnose/flight/flight_index.h"
#include "diagnose/path/path_names.h"
#include "diagnose/path/path_segments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DEVICES_MAX  4 /* that lines are about */
#define USERS_MAX    64
#define USERS_SHOWN  4
#define SECTOR_BYTES 512
#define NS_OF_MICRO  1000

static struct path_disk_request request_of(const struct flight_index *index, const struct recorder_record *r)
{
    const struct flight_list *thread = flight_index_thread(index, r->tid);
    return (struct path_disk_request){
        .time_ns = r->time_ns,
        .queue_ns = (uint64_t)recorder_low(r->value) * NS_OF_MICRO,
        .device_ns = (uint64_t)recorder_high(r->value) * NS_OF_MICRO,
        .bytes = (uint64_t)recorder_low(r->object) * SECTOR_BYTES,
        .device = recorder_high(r->object),
        .tid = r->tid,
        .pid = thread ? thread->pid : 0,
        .is_write = r->flags & RECORDER_DISK_WRITES,
        .is_failed = r->flags & RECORDER_DISK_FAILED,
    };
}

int path_disk_find(const struct flight_index *index, const struct path_segments *path, struct path_disk_request **ret,
                   size_t *ret_count)
{
    const struct flight_window *window = flight_index_window(index);
    const uint64_t end_ns = path->count ? path->items[path->count - 1].end_ns : path->begin_ns;
    const size_t first = flight_window_since(window, path->begin_ns), end = flight_window_since(window, end_ns + 1);
    size_t count = 0;
    for (size_t i = first; i < end; i++)
        count += window->records[i].kind == RECORDER_DISK;
    struct path_disk_request *list = calloc(count + 1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    count = 0;
    for (size_t i = first; i < end; i++)
        if (window->records[i].kind == RECORDER_DISK)
            list[count++] = request_of(index, &window->records[i]);
    *ret = list;
    *ret_count = count;
    return 0;
}

/* ---- sums ---- */

struct use {
    uint32_t tid, pid; /* pid 0: known by its thread only */
    size_t requests, failed;
    uint64_t bytes, queue_ns, device_ns;
};

struct device_use {
    uint32_t device;
    struct use own;
    struct use others[USERS_MAX + 1]; /* the last one: further ones */
    size_t other_count;
};

static bool overlaps(const struct path_disk_request *r, uint64_t from_ns, uint64_t to_ns)
{
    return r->time_ns > from_ns && r->time_ns < to_ns + r->device_ns + r->queue_ns;
}

static bool is_own(const struct path_disk_request *r, const struct path_segments *path, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (path->items[i].tid == r->tid && overlaps(r, path->items[i].start_ns, path->items[i].end_ns))
            return true;
    return false;
}

static void add_request(struct use *u, const struct path_disk_request *r)
{
    u->requests++;
    u->failed += r->is_failed;
    u->bytes += r->bytes;
    u->queue_ns += r->queue_ns;
    u->device_ns += r->device_ns;
}

/* Those that there is no room for are one. */
static struct use *find_other(struct device_use *d, const struct path_disk_request *r)
{
    for (size_t i = 0; i < d->other_count; i++)
        if (d->others[i].pid == r->pid && (r->pid || d->others[i].tid == r->tid))
            return &d->others[i];
    if (d->other_count == USERS_MAX)
        return &d->others[USERS_MAX];
    d->others[d->other_count] = (struct use){.tid = r->tid, .pid = r->pid};
    return &d->others[d->other_count++];
}

/* NULL: it is not among them, and none may be added. */
static struct device_use *find_device(struct device_use *devices, size_t *count, uint32_t device, bool may_add)
{
    for (size_t i = 0; i < *count; i++)
        if (devices[i].device == device)
            return &devices[i];
    if (!may_add || *count == DEVICES_MAX)
        return NULL;
    devices[*count] = (struct device_use){.device = device};
    return &devices[(*count)++];
}

/* `own`: of the path's threads; otherwise of all others. */
static void sum_requests(const struct path_segments *path, size_t first, size_t end, bool own,
                         struct device_use *devices, size_t *count)
{
    const struct path_evidence *e = &path->evidence;
    const uint64_t from_ns = path->items[first].start_ns, to_ns = path->items[end - 1].end_ns;
    const bool may_add = own || !*count; /* others matter where its own requests were, if there are any */
    for (size_t i = 0; i < e->disk_count; i++) {
        const struct path_disk_request *r = &e->disks[i];
        if (!overlaps(r, from_ns, to_ns) || is_own(r, path, first, end) != own)
            continue;
        struct device_use *d = find_device(devices, count, r->device, may_add);
        struct use *u = !d ? NULL : own ? &d->own : find_other(d, r);
        if (u)
            add_request(u, r);
    }
}

/* ---- words ---- */

static int compare_uses(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    return x->device_ns != y->device_ns ? (x->device_ns > y->device_ns ? -1 : 1)
           : x->tid < y->tid            ? -1
                                        : x->tid > y->tid;
}

static void put_use(const struct use *u, struct buf *out)
{
    char size[32], time[32];
    buf_printf(out, "%zu request%s, %s, %s%s", u->requests, u->requests == 1 ? "" : "s",
               units_format_size(u->bytes, size, sizeof(size)),
               units_format_duration((u->queue_ns + u->device_ns) / u->requests, time, sizeof(time)),
               u->requests == 1 ? "" : " each");
    if (u->failed)
        buf_printf(out, ", %zu failed", u->failed);
}

static void put_own(const struct use *u, const char *device, struct buf *out)
{
    char queue[32], served[32];
    buf_printf(out, "%s%s: ", out->size ? "\n" : "", device);
    put_use(u, out);
    buf_printf(out, ": %s queued, %s at the device",
               units_format_duration(u->queue_ns / u->requests, queue, sizeof(queue)),
               units_format_duration(u->device_ns / u->requests, served, sizeof(served)));
}

static void put_user(const struct use *u, const struct path_names *names, struct buf *out)
{
    const uint32_t id = u->pid ?: u->tid;
    char name[PATH_PROCESS_BYTES] = "";
    if (u->pid && names->process)
        names->process(names->context, id, name);
    else if (!u->pid && names->thread)
        names->thread(names->context, id, name);
    buf_printf(out, "%s%s%s %" PRIu32 "%s ", name, name[0] ? " (" : "", u->pid ? "process" : "thread", id,
               name[0] ? ")" : "");
    put_use(u, out);
}

static void put_others(struct device_use *d, const char *device, const struct path_names *names, struct buf *out)
{
    if (!d->other_count)
        return;
    qsort(d->others, d->other_count, sizeof(d->others[0]), compare_uses);
    buf_printf(out, "%son %s meanwhile: ", out->size ? "\n" : "", device);
    for (size_t i = 0; i < d->other_count && i < USERS_SHOWN; i++) {
        buf_puts(out, i ? "; " : "");
        put_user(&d->others[i], names, out);
    }
    if (d->other_count > USERS_SHOWN)
        buf_printf(out, "; %zu%s more", d->other_count - USERS_SHOWN, d->others[USERS_MAX].requests ? " and" : "");
}

static void name_device(uint32_t device, const struct path_names *names, char *ret, size_t size)
{
    snprintf(ret, size, "device %" PRIu32 ":%" PRIu32, recorder_device_major(device), recorder_device_minor(device));
    if (names->device)
        names->device(names->context, device, ret, size);
}

void path_disk_put(const struct path_segments *path, size_t first, size_t end, const struct path_names *names,
                   struct buf *out)
{
    struct device_use *devices = calloc(DEVICES_MAX, sizeof(*devices));
    size_t count = 0;
    char device[48];
    if (!devices)
        return;
    sum_requests(path, first, end, true, devices, &count);
    sum_requests(path, first, end, false, devices, &count);
    for (size_t i = 0; i < count; i++) {
        name_device(devices[i].device, names, device, sizeof(device));
        if (devices[i].own.requests)
            put_own(&devices[i].own, device, out);
        put_others(&devices[i], device, names, out);
    }
    free(devices);
}
