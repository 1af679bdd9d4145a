/* The counters of all operations. Part of io.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/direct.bpf.h"
#include "probes/io/io_access.bpf.h"
#include "probes/io/io_buckets.bpf.h"
#include "probes/io/io_errors.bpf.h"
#include "probes/io/io_names.bpf.h"
#include "probes/io/io_slow.bpf.h"
#include "probes/io/io_uses.bpf.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_COUNTERS);
    __type(key, struct io_key);
    __type(value, struct io_counters);
} counters SEC(".maps");

/* Counters for operations that found `counters` full, where it is by process or file: these are counted without process
 * and file. Syncs keep their process: they are few, and show which process makes a disk busy. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_RESERVE);
    __type(key, struct io_key);
    __type(value, struct io_counters);
} reserve SEC(".maps");

/* Set before loading: whether processes and files have counters of their own. */
const volatile bool by_process = false, by_file = false;

/* In place of new counters on the stack, whose size is limited. */
static const struct io_counters no_counters = {};

/* For a global function, which takes no pointers to kernel objects. */
static __always_inline __u64 address_of(const void *pointer)
{
    __u64 address = 0;
    bpf_probe_read_kernel(&address, sizeof(address), &pointer);
    return address;
}

/* Names both, and returns for how many there was no room. The kernel checks a global function once, not for each path
 * to it. */
__weak int name_counters(__u64 mount, __u64 mount_id, __u64 cgroup, __u64 cgroup_id)
{
    int full = 0;
    if (mount && mount_id != IO_NO_MOUNT && !is_mount_named((const struct mount *)mount, mount_id))
        full += mount_name_add((const struct mount *)mount, mount_id) < 0;
    if (cgroup && !bpf_map_lookup_elem(&cgroup_names, &cgroup_id))
        full += cgroup_name_add((struct cgroup *)cgroup, cgroup_id) < 0;
    return full;
}

static __always_inline struct io_counters *reserve_add(struct io_key *key)
{
    if (key->operation != IO_SYNC)
        key->process = key->file = 0;
    struct io_counters *c = bpf_map_lookup_elem(&reserve, key);
    if (c)
        return c;
    bpf_map_update_elem(&reserve, key, &no_counters, BPF_NOEXIST);
    return bpf_map_lookup_elem(&reserve, key);
}

/* Adds counters for the first operation of its kind. Cgroups that do not fit count as one cgroup. `cgroup`, `mount`:
 * NULL, they may be gone, and are not named. */
static __noinline struct io_counters *counters_add(struct io_key *key, struct cgroup *cgroup, const struct mount *mount)
{
    struct io_stats *stat = stats_get();
    /* The names come first: counters without a name are taken for counters of IO_OTHER. */
    int full = name_counters(address_of(mount), key->mount, address_of(cgroup), key->cgroup_id);
    if (stat)
        stat->names_full += full;
    bpf_map_update_elem(&counters, key, &no_counters, BPF_NOEXIST);
    struct io_counters *c = bpf_map_lookup_elem(&counters, key);
    if (by_process)
        command_note(key->process);
    if (c)
        return c;
    if (by_process || by_file) {
        c = reserve_add(key);
        if (c && stat)
            stat->coarse++;
        if (c)
            return c;
    }
    if (stat)
        stat->counters_full++;
    *key = (struct io_key){.cgroup_id = IO_OTHER, .mount = IO_NO_MOUNT, .operation = key->operation};
    return bpf_map_lookup_elem(&counters, key);
}

/* The cgroup of a task, as cgroup_of finds it. */
static __always_inline const void *io_cgroup_of(const void *task)
{
    const void *set = DIRECT_READ(struct task_struct, task, cgroups);
    int index = controller_index();
    if (index < 0)
        return DIRECT_READ(struct css_set, set, dfl_cgrp);
    const void *state = direct_pointer(set + bpf_core_field_offset(struct css_set, subsys) + 8 * index);
    return DIRECT_READ(struct cgroup_subsys_state, state, cgroup);
}

static __always_inline __u64 io_cgroup_id(const void *cgroup)
{
    const void *node = DIRECT_READ(struct cgroup, cgroup, kn);
    return DIRECT_READ(struct kernfs_node, node, id);
}

static __always_inline struct io_counters *counters_of(__u64 cgroup_id, const void *cgroup, const struct io_file *file,
                                                       __u8 operation, struct io_key *ret_key)
{
    *ret_key = (struct io_key){.cgroup_id = cgroup_id,
                               .mount = file->mount_id,
                               .file = by_file ? file->file : 0,
                               .process = by_process ? file->process : 0,
                               .operation = operation,
                               .flags = file->flags};
    struct io_counters *c = bpf_map_lookup_elem(&counters, ret_key);
    return c ? c : counters_add(ret_key, (struct cgroup *)cgroup, (const struct mount *)file->mount);
}

static __always_inline void count_bytes(struct io_counters *c, __u8 operation, __u64 bytes)
{
    __u32 bucket = size_bucket(bytes);
    if (operation != IO_READ && operation != IO_WRITE && operation != IO_MAP)
        return;
    if (bucket < IO_SIZES)
        __sync_fetch_and_add(&c->sizes[bucket], 1);
    __sync_fetch_and_add(&c->bytes, bytes);
}

/* Counts an operation without a known end. `cgroup`: NULL if it and the mount of the file may be gone. */
static __always_inline void count_untimed(__u64 cgroup_id, const void *cgroup, const struct io_file *file,
                                          __u8 operation, __u64 bytes)
{
    struct io_key key;
    struct io_file named = *file;
    if (!cgroup)
        named.mount = 0;
    if (by_access) {
        access_add(&named, operation, bytes, 0, 0);
        return;
    }
    struct io_counters *c = counters_of(cgroup_id, cgroup, &named, operation, &key);
    if (!c)
        return;
    c->last_ns = bpf_ktime_get_ns();
    __sync_fetch_and_add(&c->untimed, 1);
    count_bytes(c, operation, bytes);
}

/* One operation of a task of this cgroup ended at `now`. `result`: bytes, or a negative errno. */
static __always_inline void count_operation(const void *cgroup, const struct io_file *file, __u8 operation,
                                            __s64 result, __u64 start_ns, __u64 now)
{
    struct io_key key;
    if (by_access) {
        access_add(file, operation, result, start_ns, now);
        return;
    }
    struct io_counters *c = counters_of(io_cgroup_id(cgroup), cgroup, file, operation, &key);
    __u64 ns = now - start_ns;
    if (!c)
        return;
    c->last_ns = now;
    __u32 bucket = duration_bucket(ns);
    if (bucket < IO_BUCKETS)
        __sync_fetch_and_add(&c->durations[bucket], 1);
    __sync_fetch_and_add(&c->sum_ns, ns);
    if (slow_ns && ns >= slow_ns)
        slow_ended(file, operation, result, start_ns, now);
    if (counts_uses)
        use_add(file, operation, io_cgroup_id(cgroup), ns, result);
    if (result < 0) {
        __sync_fetch_and_add(&c->errors, 1);
        count_error(&key, file, -result);
    } else {
        count_bytes(c, operation, result);
    }
}
