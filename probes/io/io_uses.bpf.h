/* Which processes and files operations took their time for, of the last while: `sonde io` names those with the most.
 * Part of io.bpf.c. The least recently used ones give way, so that counters stay exact however many files there are. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/io.h"

/* Set before loading: uses are counted, and files and processes have names also where counters are not by file. */
const volatile bool counts_uses = false;

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, IO_MAX_USES);
    __type(key, struct io_key);
    __type(value, struct io_use);
} uses SEC(".maps");

static __noinline int use_add(const struct io_file *file, __u8 operation, __u64 cgroup_id, __u64 ns)
{
    struct io_key key = {.cgroup_id = cgroup_id,
                         .mount = file->mount_id,
                         .file = file->file,
                         .process = file->process,
                         .operation = operation};
    struct io_use *use = bpf_map_lookup_elem(&uses, &key);
    if (!use) {
        struct task_struct *task = (struct task_struct *)bpf_get_current_task();
        struct io_use first = {};
        if (key.process == (__u32)(bpf_get_current_pid_tgid() >> 32)) /* not where another task completes a request */
            bpf_probe_read_kernel_str(first.command, sizeof(first.command), BPF_CORE_READ(task, group_leader, comm));
        bpf_map_update_elem(&uses, &key, &first, BPF_NOEXIST);
        use = bpf_map_lookup_elem(&uses, &key);
        if (!use)
            return 0;
    }
    __sync_fetch_and_add(&use->operations, 1);
    __sync_fetch_and_add(&use->ns, ns);
    return 0;
}
