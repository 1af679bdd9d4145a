/* What each thread does with each file, for `sonde io report`: offsets, sizes, times. Part of io.bpf.c.
 *
 * A record belongs to one thread, which is in one operation at a time: it needs no atomic additions, and "the one
 * before" means something. User space sums the threads of a process. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/direct.bpf.h"
#include "probes/common/task_filter.bpf.h"
#include "probes/io/io_buckets.bpf.h"
#include "probes/io/io_errors.bpf.h"
#include "probes/io/io_names.bpf.h"

/* Set before loading. */
const volatile bool has_task_storage = true; /* 5.11 and later */

volatile __u64 access_start_ns = 0; /* of the report */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_ACCESSES);
    __type(key, struct io_access_key);
    __type(value, struct io_access);
} accesses SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_INTERVALS);
    __type(key, struct io_interval_key);
    __type(value, struct io_interval);
} access_intervals SEC(".maps");

static const struct io_access no_access = {};
static const struct io_interval no_interval = {};

/* So many operations begin, or end: negative. */
static __always_inline void note_begun(int count)
{
    struct io_stats *stat = by_access ? stats_get() : NULL;
    if (!stat)
        return;
    if (count > 0)
        stat->begun += count;
    else
        stat->ended -= count;
}

/* ---- arguments of access_take_arguments: of each thread its own ---- */

struct access_arguments {
    struct io_file file;
    __u64 start_ns, end_ns;
    __s64 result;
    __u8 operation;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct access_arguments);
} access_arguments SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, IO_MAX_THREADS);
    __type(key, __u32);
    __type(value, struct access_arguments);
} access_arguments_by_thread SEC(".maps");

static const struct access_arguments no_arguments = {};

static __always_inline struct access_arguments *access_arguments_get(void)
{
    if (has_task_storage)
        return bpf_task_storage_get(&access_arguments, bpf_get_current_task_btf(), NULL,
                                    BPF_LOCAL_STORAGE_GET_F_CREATE);
    __u32 tid = bpf_get_current_pid_tgid();
    struct access_arguments *a = bpf_map_lookup_elem(&access_arguments_by_thread, &tid);
    if (a)
        return a;
    bpf_map_update_elem(&access_arguments_by_thread, &tid, &no_arguments, BPF_ANY);
    return bpf_map_lookup_elem(&access_arguments_by_thread, &tid);
}

/* Whether operations of this task are counted. */
static __always_inline bool access_wanted(const void *task)
{
    return !by_access || task_wanted((struct task_struct *)task, DIRECT_READ(struct task_struct, task, tgid));
}

static __always_inline void note_process(struct io_access *a)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    bpf_probe_read_kernel_str(a->command, sizeof(a->command), BPF_CORE_READ(task, group_leader, comm));
    a->user = bpf_get_current_uid_gid();
}

static __noinline struct io_access *access_new(const struct io_access_key *key, const struct io_file *file)
{
    const struct mount *mount = (const struct mount *)file->mount;
    struct io_stats *stat = stats_get();
    if (mount && stat && !is_mount_named(mount, key->mount))
        stat->names_full += mount_name_add(mount, key->mount) < 0;
    bpf_map_update_elem(&accesses, key, &no_access, BPF_NOEXIST);
    struct io_access *a = bpf_map_lookup_elem(&accesses, key);
    if (!a) {
        if (stat)
            stat->accesses_full++;
        return NULL;
    }
    if (mount)
        a->block_bytes = BPF_CORE_READ(mount, mnt.mnt_sb, s_blocksize);
    note_process(a);
    return a;
}

static __always_inline void note_time(struct io_access_time *t, __u64 start_ns, __u64 end_ns)
{
    if (!t->first_ns)
        t->first_ns = start_ns;
    t->last_ns = end_ns;
    t->ns += end_ns - start_ns;
}

static __noinline int note_common(struct io_common *c, __u64 value)
{
    __u32 rarest = 0;
    for (__u32 i = 0; i < IO_COMMON; i++) {
        if (c->count[i] && c->value[i] == value) {
            c->count[i]++;
            return 0;
        }
        if (c->count[i] < c->count[rarest])
            rarest = i;
    }
    c->value[rarest & (IO_COMMON - 1)] = value;
    c->count[rarest & (IO_COMMON - 1)] = 1;
    return 0;
}

static __always_inline void note_offset(struct io_access *a, struct io_access_direction *d, __u64 offset, __u64 bytes)
{
    if (d->located) {
        d->followed++;
        d->sequential += offset >= d->next_offset;
        d->consecutive += offset == d->next_offset;
        if (offset > d->next_offset)
            note_common(&a->strides, offset - d->next_offset);
    }
    d->located++;
    d->unaligned += a->block_bytes && offset % a->block_bytes;
    d->next_offset = offset + bytes;
    if (d->end_offset < offset + bytes)
        d->end_offset = offset + bytes;
}

static __always_inline void note_interval(__u32 process, bool is_write, __u64 bytes, __u64 now)
{
    struct io_interval_key key = {.process = process, .interval = (now - access_start_ns) / IO_INTERVAL_NS};
    struct io_interval *i = bpf_map_lookup_elem(&access_intervals, &key);
    struct io_stats *stat;
    if (!i) {
        bpf_map_update_elem(&access_intervals, &key, &no_interval, BPF_NOEXIST);
        i = bpf_map_lookup_elem(&access_intervals, &key);
    }
    if (i)
        __sync_fetch_and_add(is_write ? &i->write_bytes : &i->read_bytes, bytes);
    else if ((stat = stats_get()))
        stat->intervals_full++;
}

static __always_inline void note_transfer(struct io_access *a, struct io_access_direction *d, __u8 operation,
                                          __u64 offset, __u64 bytes, __u64 ns)
{
    __u32 bucket = size_bucket(bytes);
    d->operations++;
    d->bytes += bytes;
    if (bucket < IO_SIZES)
        d->sizes[bucket]++;
    if (ns > d->slowest_ns) {
        d->slowest_ns = ns;
        d->slowest_bytes = bytes;
    }
    a->switches += a->last_operation && a->last_operation != operation;
    a->last_operation = operation;
    if (bytes)
        note_common(&a->sizes, bytes);
    if (offset != IO_OFFSET_UNKNOWN)
        note_offset(a, d, offset, bytes);
}

static __always_inline void note_metadata(struct io_access *a, __u8 operation, __u64 start_ns, __u64 end_ns)
{
    note_time(&a->metadata, start_ns, end_ns);
    if (operation == IO_OPEN || operation == IO_CREATE)
        note_time(&a->open, start_ns, end_ns);
    else if (operation == IO_CLOSE)
        note_time(&a->close, start_ns, end_ns);
    else if (operation == IO_SYNC)
        note_time(&a->sync, start_ns, end_ns);
}

/* Adds what the current thread's arguments say. A global function, which the kernel checks once, not for each way to
 * it: it has no arguments that programs could pass. */
__weak int access_take_arguments(void)
{
    if (!by_access)
        return 0;
    const struct access_arguments *arguments = access_arguments_get();
    if (!arguments)
        return 0;
    const struct io_file *file = &arguments->file;
    __u8 operation = arguments->operation;
    __s64 result = arguments->result;
    __u64 start_ns = arguments->start_ns, end_ns = arguments->end_ns;
    struct io_access_key key = {file->mount_id, file->file, file->process, (__u32)bpf_get_current_pid_tgid()};
    struct io_access *a = bpf_map_lookup_elem(&accesses, &key);
    bool is_write = operation == IO_WRITE;
    if (!a)
        a = access_new(&key, file);
    if (!a || operation >= IO_OPERATIONS)
        return 0;
    a->operations[operation]++;
    a->last_ns = end_ns ? end_ns : bpf_ktime_get_ns();
    if (result < 0) {
        const struct io_key failed = {.mount = file->mount_id, .process = file->process, .operation = operation};
        a->errors++;
        count_error(&failed, file, -result);
    }
    a->direct += file->flags & IO_IS_DIRECT && (is_write || operation == IO_READ);
    if (operation == IO_MAP) {
        a->mapped_bytes += result;
        return 0;
    }
    if (operation != IO_READ && !is_write) {
        if (end_ns)
            note_metadata(a, operation, start_ns, end_ns);
        return 0;
    }
    struct io_access_direction *d = is_write ? &a->writes : &a->reads;
    if (end_ns)
        note_time(&d->time, start_ns, end_ns);
    if (result >= 0) {
        note_transfer(a, d, operation, file->offset, result, end_ns - start_ns);
        note_interval(key.process, is_write, result, a->last_ns);
    }
    return 0;
}

/* One operation of the current thread ended. `result`: bytes, or a negative errno. `end_ns` 0: it is not timed. */
static __always_inline void access_add(const struct io_file *file, __u8 operation, __s64 result, __u64 start_ns,
                                       __u64 end_ns)
{
    struct access_arguments *a = access_arguments_get();
    struct io_stats *stat;
    if (a) {
        a->file = *file;
        a->operation = operation;
        a->result = result;
        a->start_ns = start_ns;
        a->end_ns = end_ns;
        access_take_arguments();
    } else if ((stat = stats_get())) {
        stat->accesses_full++;
    }
}
