/* Requests of block devices, from when a thread hands them in to when they end. Only they pay for it. Part of
 * recorder.bpf.c. */
#pragma once

#include "probes/common/block_request.bpf.h"
#include "probes/recorder/recorder.bpf.h"

#define SECTOR_SHIFT 9

/* Set before loading: the tracepoint passes the queue, then the request (before 5.11). */
const volatile bool issue_passes_queue = false;

struct disk_request {
    __u64 start_ns;             /* the kernel's: another one at the same address has another */
    __u64 queued_ns, issued_ns; /* the former 0: it was given to the device at once; the latter 0: not yet */
    __u32 tid;
    __u32 bytes;
};

/* By the request's address. Entries of lost requests are evicted. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u64);
    __type(value, struct disk_request);
} recorder_requests SEC(".maps");

/* The current thread hands it in: it queues it, or gives it to the device. Later it may be any other one, also for a
 * request that the driver handed back. */
static __always_inline struct disk_request *find_request(const void *request)
{
    __u64 id = (__u64)request;
    struct disk_request *known = bpf_map_lookup_elem(&recorder_requests, &id);
    struct disk_request r = {.start_ns = DIRECT_READ(struct request, request, start_time_ns),
                             .tid = (__u32)bpf_get_current_pid_tgid()};
    if (known && known->start_ns == r.start_ns)
        return known;
    bpf_map_update_elem(&recorder_requests, &id, &r, BPF_ANY);
    return bpf_map_lookup_elem(&recorder_requests, &id);
}

static __always_inline void note_request_queued(const void *request)
{
    struct disk_request *r = find_request(request);
    if (r && !r->queued_ns)
        r->queued_ns = bpf_ktime_get_ns();
}

static __always_inline void note_request_issued(const void *request)
{
    struct disk_request *r = find_request(request);
    if (!r)
        return;
    r->issued_ns = bpf_ktime_get_ns();
    r->bytes = DIRECT_READ(struct request, request, __data_len);
}

static __always_inline __u64 microseconds(__u64 ns)
{
    return ns / 1000 < 0xffffffff ? ns / 1000 : 0xffffffff;
}

static __always_inline void set_request(struct recorder_record *r, const void *request, const struct disk_request *d,
                                        bool is_failed)
{
    const void *disk = request_disk(request);
    const __u64 queue_ns = d->queued_ns ? d->issued_ns - d->queued_ns : 0;
    r->kind = RECORDER_DISK;
    r->flags =
        (DIRECT_READ(struct request, request, cmd_flags) & 1 ? RECORDER_DISK_WRITES : 0) | /* odd operations write */
        (is_failed ? RECORDER_DISK_FAILED : 0);
    r->syscall = RECORDER_NO_SYSCALL;
    r->tid = d->tid;
    r->object = (__u64)(disk ? disk_number(disk) : 0) << 32 | d->bytes >> SECTOR_SHIFT;
    r->value = microseconds(r->time_ns - d->issued_ns) << 32 | microseconds(queue_ns);
}

/* So many bytes of it have ended: all that are left, or a part. */
static __always_inline void record_request_ended(const struct recorder_place *place, const void *request,
                                                 bool is_failed, __u32 bytes)
{
    __u64 id = (__u64)request;
    struct recorder_record r = {.time_ns = bpf_ktime_get_ns()};
    struct disk_request *d = bpf_map_lookup_elem(&recorder_requests, &id);
    if (!d || !d->issued_ns || bytes < DIRECT_READ(struct request, request, __data_len))
        return;
    set_request(&r, request, d, is_failed);
    bpf_map_delete_elem(&recorder_requests, &id);
    recorder_put_object(place, &r);
}
