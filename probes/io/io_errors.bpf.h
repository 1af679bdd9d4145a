/* How often operations failed, by error, and the paths of calls that failed. Part of io.bpf.c. Operations that succeed
 * cost nothing here. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/common/hash.h"
#include "probes/io/io_buckets.bpf.h"
#include "probes/io/io_uses.bpf.h"

/* Set before loading: accesses of the tasks that the filter selects are recorded (io_access.bpf.h), and nothing else is
 * counted. */
const volatile bool by_access = false;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_ERRORS);
    __type(key, struct io_error_key);
    __type(value, __u64);
} errors SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, IO_MAX_PATHS);
    __type(key, __u64);
    __type(value, struct io_path);
} failed_paths SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct io_path);
} path_scratch SEC(".maps");

/* Whether an error is counted by process and file. */
static __always_inline bool is_error_named(__u32 error)
{
    return by_access || (counts_uses && !io_error_is_expected(error));
}

/* Keeps the path that a failed call named, and returns its hash; 0: it cannot be read. */
static __noinline __u64 failed_path_note(const char *user)
{
    const __u32 zero = 0;
    static const struct io_path none = {};
    struct io_path *p = bpf_map_lookup_elem(&path_scratch, &zero);
    if (!p)
        return 0;
    *p = none;
    if (bpf_probe_read_user_str(p->text, sizeof(p->text), user) <= 1)
        return 0;
    __u64 hash = 0;
    for (int i = 0; i < IO_PATH_WORDS; i++)
        hash = hash_mix(hash, p->words[i]);
    hash = hash ?: 1;
    if (!bpf_map_lookup_elem(&failed_paths, &hash))
        bpf_map_update_elem(&failed_paths, &hash, p, BPF_ANY);
    return hash;
}

static __always_inline bool error_add(const struct io_error_key *key)
{
    __u64 one = 1, *count = bpf_map_lookup_elem(&errors, key);
    if (!count && bpf_map_update_elem(&errors, key, &one, BPF_NOEXIST) == 0)
        return true;
    count = bpf_map_lookup_elem(&errors, key);
    if (count)
        __sync_fetch_and_add(count, 1);
    return count;
}

/* `key`: of the counters of the operation. Expected errors, and those without room for process and file, count without
 * both: a thousand programs that look for their libraries need one entry. */
static __noinline int count_error(const struct io_key *key, const struct io_file *file, __u32 error)
{
    struct io_error_key named = {.key = *key, .error = error}, plain = named;
    struct io_stats *stat;
    plain.key.file = plain.key.process = 0;
    if (is_error_named(error)) {
        named.key.process = file->process;
        named.key.file = file->file ?: file->path;
        if (counts_uses)
            command_note(file->process);
        if (error_add(&named))
            return 0;
    }
    if (!error_add(&plain) && (stat = stats_get()))
        stat->errors_full++;
    return 0;
}
