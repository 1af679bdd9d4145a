/* Which programs and files operations took their time for, of the last while: `sonde io` names those with the most.
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
    __type(key, struct io_use_key);
    __type(value, struct io_use);
} uses SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, IO_MAX_COMMANDS);
    __type(key, __u32);
    __type(value, struct io_command);
} process_commands SEC(".maps");

/* False: another task completes a request of the process, whose name is not known then. */
static __always_inline bool command_read(__u32 process, struct io_command *ret)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    const __u64 id = bpf_get_current_pid_tgid();
    if (process != (__u32)(id >> 32))
        return false;
    if (process == (__u32)id) /* the main thread: cheaper */
        return bpf_get_current_comm(ret->text, sizeof(ret->text)) == 0;
    return bpf_probe_read_kernel_str(ret->text, sizeof(ret->text), BPF_CORE_READ(task, group_leader, comm)) > 0;
}

/* Keeps the present name of the process that runs; it changes with exec. */
static __noinline int command_note(__u32 process)
{
    struct io_command command = {};
    if (process && command_read(process, &command))
        bpf_map_update_elem(&process_commands, &process, &command, BPF_ANY);
    return 0;
}

static __always_inline void command_find(__u32 process, struct io_command *ret)
{
    if (command_read(process, ret))
        return;
    const struct io_command *known = bpf_map_lookup_elem(&process_commands, &process);
    if (known)
        *ret = *known;
}

static __noinline int use_add(const struct io_file *file, __u8 operation, __u64 cgroup_id, __u64 ns, __s64 result)
{
    struct io_use_key key = {
        .cgroup_id = cgroup_id, .mount = file->mount_id, .file = file->file, .operation = operation};
    const __u32 process = file->process;
    struct io_command command = {};
    command_find(process, &command);
    __builtin_memcpy(key.command, command.text, sizeof(key.command));
    struct io_use *use = bpf_map_lookup_elem(&uses, &key);
    if (!use) {
        const struct io_use first = {.process = process};
        bpf_map_update_elem(&uses, &key, &first, BPF_NOEXIST);
        use = bpf_map_lookup_elem(&uses, &key);
        if (!use)
            return 0;
        command_note(process);
    }
    __sync_fetch_and_add(&use->operations, 1);
    __sync_fetch_and_add(&use->ns, ns);
    if (result > 0 && (operation == IO_READ || operation == IO_WRITE))
        __sync_fetch_and_add(&use->bytes, result);
    if (use->process != process) {
        use->process = process;
        use->is_several = true;
    }
    return 0;
}
