/* Records of slow operations. Part of io.bpf.c and io_pending.bpf.c.
 *
 * An operation is slow when it ends late; one that never ends is found by the walk of io_pending.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/io/io_buckets.bpf.h"
#include "probes/io/io_names.bpf.h"

/* Set before loading; 0: no records. */
const volatile __u64 slow_ns = 0;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, IO_SLOW_BYTES);
} slow_records SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct io_slow);
} slow_scratch SEC(".maps");

static __always_inline void slow_name_file(struct io_slow *s, const struct io_file *file)
{
    const struct mount *mount = (const struct mount *)file->mount;
    s->file.size = 0;
    s->file.is_cut = s->file.is_outside = false;
    if (mount && file->dentry)
        path_append(&s->file, (const struct dentry *)file->dentry, BPF_CORE_READ(mount, mnt.mnt_root));
}

/* The part that ended and pending ones have in common. NULL: nothing to write to. */
static __always_inline struct io_slow *slow_begin(const struct io_file *file, struct task_struct *task, __u8 operation,
                                                  __u64 start_ns, __u64 now)
{
    const __u32 zero = 0;
    struct io_slow *s = bpf_map_lookup_elem(&slow_scratch, &zero);
    if (!s)
        return NULL;
    s->h = (struct record_header){.size_bytes = sizeof(*s),
                                  .kind = RECORD_IO_SLOW,
                                  .time_ns = now,
                                  .pid = BPF_CORE_READ(task, tgid),
                                  .tid = BPF_CORE_READ(task, pid)};
    s->start_ns = start_ns;
    s->mount = file->mount_id;
    s->offset = operation == IO_READ || operation == IO_WRITE ? file->offset : IO_OFFSET_UNKNOWN;
    s->operation = operation;
    s->is_pending = false;
    s->frames = 0;
    s->result = 0;
    bpf_probe_read_kernel_str(s->comm, sizeof(s->comm), &task->comm);
    slow_name_file(s, file);
    return s;
}

static __always_inline void slow_send(struct io_slow *s)
{
    struct io_stats *stat;
    if (bpf_ringbuf_output(&slow_records, s, sizeof(*s), 0) < 0 && (stat = stats_get()))
        stat->slow_full++;
}

/* It ended at `now`, in the context of the current thread: of its own call, or where a request was completed. */
static __noinline int slow_ended(const struct io_file *file, __u8 operation, __s64 result, __u64 start_ns, __u64 now)
{
    struct io_slow *s = slow_begin(file, (struct task_struct *)bpf_get_current_task(), operation, start_ns, now);
    if (!s)
        return 0;
    s->result = result;
    slow_send(s);
    return 0;
}
