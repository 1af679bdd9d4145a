/* The table of threads that work for traced requests (link.h): link.bpf.c fills it, and user space passes the same map
 * to the programs that read it. Without links `links` is false and the map is not created. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/hash.h"
#include "probes/link.h"

const volatile bool links = false;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, LINK_THREADS_MAX + 1);
    __type(key, __u32);
    __type(value, struct thread_link);
} thread_links SEC(".maps");

static __always_inline __u64 link_epoch(void)
{
    const __u32 key = LINK_EPOCH_KEY;
    const struct thread_link *l = bpf_map_lookup_elem(&thread_links, &key);

    return l ? l->epoch : 0;
}

static __always_inline bool link_is_valid(const volatile struct thread_link *l)
{
    return l->epoch && l->epoch == link_epoch();
}

/* What an entry shows for the time from `start_ns` to `end_ns`. */
struct link_seen {
    struct link_ids ids; /* of the trace, and its span entered first */
    __u64 other_until_ns;
    __u64 check; /* the expected check of the entry; see below */
    bool begun, meanwhile;
};

/* Reads each field of an entry once and computes the check of the values read. A mismatch with the stored check reveals
 * a torn read: of an entry being written, or whose writes reach this CPU in another order, because programs on old
 * kernels have no barriers. Fields are evaluated as they are read, because a copy of the entry does not fit on the BPF
 * stack. */
static __always_inline void link_read(const volatile struct thread_link *l, __u64 start_ns, __u64 end_ns,
                                      struct link_seen *ret)
{
    __u64 working = l->working, hash = hash_mix(1, working), value, until_ns;

    hash = hash_mix(hash, ret->ids.trace_id_high = l->ids.trace_id_high);
    hash = hash_mix(hash, ret->ids.trace_id_low = l->ids.trace_id_low);
    hash = hash_mix(hash, l->ids.span_id);
    hash = hash_mix(hash, ret->ids.span_id = l->first_span_id);
    hash = hash_mix(hash, value = l->since_ns);
    ret->begun = value <= end_ns;
    hash = hash_mix(hash, value = l->entered_ns);
    hash = hash_mix(hash, until_ns = l->until_ns);
    ret->meanwhile = value <= end_ns && (working || until_ns >= start_ns);
    hash = hash_mix(hash, value = l->earlier_until_ns);
    ret->meanwhile |= value >= start_ns && value <= end_ns;
    ret->check = hash_mix(hash, ret->other_until_ns = l->other_until_ns);
}

static __always_inline __u64 link_check(const volatile struct thread_link *l)
{
    struct link_seen seen;

    link_read(l, 0, 0, &seen);
    return seen.check;
}

/* The request that the current thread works for; NULL: none. The thread may have been interrupted while it wrote its
 * entry. */
static __always_inline const struct link_ids *link_of_current(struct task_struct *task, __u32 tid)
{
    const struct thread_link *l = bpf_map_lookup_elem(&thread_links, &tid);

    if (!l || !l->working || l->check != link_check(l) || l->started_ns != BPF_CORE_READ(task, start_time) ||
        !link_is_valid(l))
        return NULL;
    return &l->ids;
}

enum link_answer { LINK_NOT_KNOWN, LINK_ONE, LINK_SEVERAL };

/* The trace that a thread worked for at some time between `start_ns` and `end_ns`, if it was exactly one. Later the
 * entry may no longer show it. The thread may be running on another CPU. */
static __always_inline enum link_answer link_of_span(__u32 pid, __u32 tid, __u64 start_ns, __u64 end_ns,
                                                     struct link_ids *ret)
{
    const volatile struct thread_link *l = bpf_map_lookup_elem(&thread_links, &tid);
    struct link_seen seen;

    if (!l || l->pid != pid || !link_is_valid(l))
        return LINK_NOT_KNOWN;
    /* A thread that started later reuses the ID of the thread that served. */
    if (l->started_ns > start_ns)
        return LINK_NOT_KNOWN;
    link_read(l, start_ns, end_ns, &seen);
    if (seen.check != l->check || !seen.begun || !seen.meanwhile)
        return LINK_NOT_KNOWN;
    if (seen.other_until_ns > start_ns)
        return LINK_SEVERAL;
    *ret = seen.ids;
    return LINK_ONE;
}
