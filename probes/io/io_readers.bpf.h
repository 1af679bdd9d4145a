/* The files that requests of io_uring and Linux AIO read, by process: any of its threads may bring their pages into the
 * page cache. Part of io.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/io/io_file.bpf.h"

/* Set before loading: misses of the page cache are counted (io_cache.bpf.h). */
const volatile bool counts_misses = false;

struct io_reader_key {
    __u64 inode, process;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, IO_MAX_READERS);
    __type(key, struct io_reader_key);
    __type(value, struct io_key);
} readers SEC(".maps");

/* A request of `owner` begins to read this file. */
static __noinline int reader_note(const void *opened, const struct io_file *file, const void *owner)
{
    if (!counts_misses || file->flags & IO_IS_DIRECT)
        return 0;
    const void *cgroup = io_cgroup_of(owner);
    struct io_reader_key reader = {(__u64)DIRECT_READ(struct file, opened, f_inode),
                                   DIRECT_READ(struct task_struct, owner, tgid)};
    struct io_key key;
    if (!counters_of(io_cgroup_id(cgroup), cgroup, file, IO_READ, &key))
        return 0;
    const struct io_key *noted = bpf_map_lookup_elem(&readers, &reader);
    if (!noted || noted->cgroup_id != key.cgroup_id || noted->mount != key.mount || noted->file != key.file)
        bpf_map_update_elem(&readers, &reader, &key, BPF_ANY);
    return 0;
}
