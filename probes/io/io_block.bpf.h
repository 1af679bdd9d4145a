/* Requests of block devices: in the queue, then at the device. Part of io.bpf.c.
 *
 * A request is noted when it is given to the device, and counted when it ends. Drivers issue requests outside of
 * interrupts only: counters and names are made there. A completion may interrupt anything, so it makes no names.
 *
 * A request counts for the cgroup of its first bio: of the task that asked for it or, where the file system and cgroup
 * v2 support that, that dirtied the pages. The kernel merges no bios of different cgroups. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/block_request.bpf.h"
#include "probes/common/direct.bpf.h"
#include "probes/io/io_count.bpf.h"

/* Set before loading: the tracepoint passes the queue, then the request (before 5.11). */
const volatile bool issue_passes_queue = false;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_DEVICE_COUNTERS);
    __type(key, struct io_device_key);
    __type(value, struct io_device_counters);
} device_counters SEC(".maps");

/* By the request's address, from its issue to its completion. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_REQUESTS);
    __type(key, __u64);
    __type(value, struct io_device_request);
} device_requests SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_DEVICES);
    __type(key, __u32);
    __type(value, struct io_device_name);
} device_names SEC(".maps");

static const struct io_device_counters no_device_counters = {};

/* As the kernel's own statistics do (/proc/diskstats). The numbers are the same since 5.10: enum req_opf, later req_op.
 */
static __always_inline __u8 device_operation(__u32 flags)
{
    __u8 operation = flags;
    switch (operation) {
    case 0:
        return IO_DEVICE_READ;
    case 2:
        return IO_DEVICE_FLUSH;
    case 3:
        return IO_DEVICE_DISCARD;
    }
    /* From 32 on: commands of the driver. The rest: odd numbers write. */
    return operation < 32 && operation & 1 ? IO_DEVICE_WRITE : IO_DEVICE_NONE;
}

/* NULL: the kernel counts no block I/O by cgroup, or the request has no bio: a flush that several requests wait for. */
static __always_inline const void *request_cgroup(const void *request)
{
    if (!bpf_core_field_exists(((struct bio *)0)->bi_blkg))
        return NULL;
    const void *bio = DIRECT_READ(struct request, request, bio);
    const void *group = bio ? DIRECT_READ(struct bio, bio, bi_blkg) : NULL;
    const void *controller = group ? DIRECT_READ(struct blkcg_gq, group, blkcg) : NULL;
    return controller ? DIRECT_READ(struct blkcg, controller, css.cgroup) : NULL;
}

static __noinline int device_name_add(const struct gendisk *disk, __u32 device)
{
    struct io_device_name name = {};
    bpf_probe_read_kernel_str(name.text, sizeof(name.text), &disk->disk_name);
    return bpf_map_update_elem(&device_names, &device, &name, BPF_ANY);
}

/* For the first request of its kind; names come first, as in counters_add. */
static __noinline int device_counters_add(struct io_device_key *key, struct cgroup *cgroup, const struct gendisk *disk)
{
    struct io_stats *stat = stats_get();
    __u64 id = key->cgroup_id;
    if (stat)
        stat->names_full += device_name_add(disk, key->device) < 0;
    if (stat && cgroup && !bpf_map_lookup_elem(&cgroup_names, &id))
        stat->names_full += cgroup_name_add(cgroup, id) < 0;
    bpf_map_update_elem(&device_counters, key, &no_device_counters, BPF_NOEXIST);
    if (bpf_map_lookup_elem(&device_counters, key))
        return 0;
    if (stat)
        stat->counters_full++;
    *key = (struct io_device_key){.cgroup_id = IO_OTHER, .operation = key->operation};
    return 0;
}

/* When the request began. 0: the kernel did not note it. Since 6.12 it may then have the time of another request that
 * was at the same address. Flushes always have theirs. */
static __always_inline __u64 request_start_ns(const void *request, __u8 operation)
{
    if (operation != IO_DEVICE_FLUSH && bpf_core_enum_value_exists(enum rqf_flags, __RQF_IO_STAT) &&
        !(DIRECT_READ(struct request, request, rq_flags) & 1u << bpf_core_enum_value(enum rqf_flags, __RQF_IO_STAT)))
        return 0;
    return DIRECT_READ(struct request, request, start_time_ns);
}

/* A request that the driver hands back is issued again: what counts is the last time. */
static __always_inline void device_request_issued(const void *request)
{
    struct io_device_request r = {.key.operation = device_operation(DIRECT_READ(struct request, request, cmd_flags))};
    const void *disk = r.key.operation ? request_disk(request) : NULL, *cgroup;
    __u64 id = (__u64)request;
    if (!disk)
        return;
    cgroup = request_cgroup(request);
    r.key.cgroup_id = cgroup ? io_cgroup_id(cgroup) | IO_BLOCK_CGROUP : IO_KERNEL;
    r.key.device = disk_number(disk);
    if (!bpf_map_lookup_elem(&device_counters, &r.key))
        device_counters_add(&r.key, (struct cgroup *)cgroup, (const struct gendisk *)disk);
    r.queued_ns = request_start_ns(request, r.key.operation);
    r.issued_ns = bpf_ktime_get_ns();
    if (bpf_map_update_elem(&device_requests, &id, &r, BPF_ANY) < 0) {
        struct io_stats *stat = stats_get();
        if (stat)
            stat->calls_full++;
    }
}

static __always_inline void add_duration(__u64 *sum_ns, __u64 *buckets, __u64 ns)
{
    __u32 bucket = duration_bucket(ns);
    if (bucket < IO_BUCKETS)
        __sync_fetch_and_add(&buckets[bucket], 1);
    __sync_fetch_and_add(sum_ns, ns);
}

static __always_inline void count_device_request(struct io_device_counters *c, const struct io_device_request *r)
{
    __u64 now = bpf_ktime_get_ns();
    c->last_ns = now;
    if (r->is_failed)
        __sync_fetch_and_add(&c->errors, 1);
    add_duration(&c->service_ns, c->served, now - r->issued_ns);
    if (r->queued_ns)
        add_duration(&c->queue_ns, c->queued, r->issued_ns > r->queued_ns ? r->issued_ns - r->queued_ns : 0);
}

/* So many bytes of the request have ended: all of it, or a part. */
static __always_inline void device_request_ended(const void *request, bool is_failed, __u32 bytes)
{
    __u64 id = (__u64)request;
    struct io_device_request *r = bpf_map_lookup_elem(&device_requests, &id);
    if (!r)
        return;
    struct io_device_counters *c = bpf_map_lookup_elem(&device_counters, &r->key);
    if (!c) { /* user space took them out meanwhile */
        bpf_map_update_elem(&device_counters, &r->key, &no_device_counters, BPF_NOEXIST);
        c = bpf_map_lookup_elem(&device_counters, &r->key);
    }
    r->is_failed |= is_failed;
    if (c && !is_failed)
        __sync_fetch_and_add(&c->bytes, bytes);
    if (bytes < DIRECT_READ(struct request, request, __data_len)) /* the remaining bytes, including `bytes` */
        return;
    struct io_stats *stat = stats_get();
    if (c)
        count_device_request(c, r);
    else if (stat)
        stat->unseen++;
    bpf_map_delete_elem(&device_requests, &id);
}

/* The end of a request while nothing is counted. */
static __always_inline void device_request_forget(const void *request)
{
    __u64 id = (__u64)request;
    bpf_map_delete_elem(&device_requests, &id);
}
