/* Notes what user space needs to know of each program that is started, so that it need not read it from /proc for
 * each process: a process may have exited by then.
 *
 * One is whether the environment has variables of OpenTelemetry. The kernel may block a reader of /proc/PID/environ
 * (see src/resolve/files/file_opener.h). At exec() the environment has just been copied, and reading it never blocks.
 * Where it is too long or cannot be read, user space reads it. */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/program_start.h"

char LICENSE[] SEC("license") = "GPL";

#define PIECE_BYTES 256
#define PIECE_WORDS (PIECE_BYTES / 8)
#define PIECES_MAX  24

/* By process ID. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, PROGRAM_STARTS_MAX);
    __type(key, __u32);
    __type(value, struct program_start_entry);
} starts SEC(".maps");

struct piece {
    __u64 words[PIECE_WORDS];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct piece);
} pieces SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct program_start_stats);
} stats_of_starts SEC(".maps");

/* 1 if the text "OTEL" starts in `word` and, if need be, continues in `next`. It has no branches, because they would
 * multiply the verifier's work. */
static __always_inline __u64 has_prefix(__u64 word, __u64 next)
{
    const __u64 prefix = 'O' | 'T' << 8 | 'E' << 16 | 'L' << 24;
    __u64 found = 0;

#pragma clang loop unroll(full)
    for (int i = 0; i < 8; i++) {
        __u64 four = (i ? word >> 8 * i | next << (64 - 8 * i) : word) & 0xffffffff;

        found |= ((four ^ prefix) - 1) >> 63;
    }
    return found;
}

static __always_inline struct piece *piece_get(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&pieces, &zero);
}

/* Whether the prefix starts in the word `before` the piece, or in the piece. A global function: the verifier checks it
 * once, and not for each piece. */
__noinline int find_prefix(__u64 before)
{
    struct piece *piece = piece_get();
    __u64 found = 0;

    if (!piece)
        return 1;
#pragma clang loop unroll(disable)
    for (int k = 0; k < PIECE_WORDS; k++) {
        __u64 word = piece->words[k];

        found |= has_prefix(before, word);
        before = word;
    }
    return found;
}

/* Whether the environment contains the prefix, or cannot be checked. After the end of the environment, a piece holds
 * bytes of an earlier one: they can only add a prefix, so that user space reads an environment without need. */
static __always_inline bool has_variables(struct piece *piece, __u64 start, __u64 end)
{
    __u64 before = 0;

    for (int i = 0; i < PIECES_MAX; i++) {
        __u64 size = end - start;

        if (start >= end)
            break;
        if (size > PIECE_BYTES)
            size = PIECE_BYTES;
        if (bpf_probe_read_user(piece, size, (const void *)start) || find_prefix(before))
            return true;
        before = piece->words[PIECE_WORDS - 1];
        start += PIECE_BYTES;
    }
    return start < end || has_prefix(before, 0);
}

static __always_inline void note_start(struct piece *piece, __u64 now)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct mm_struct *mm = BPF_CORE_READ(task, mm);
    struct mnt_namespace *mounts = BPF_CORE_READ(task, nsproxy, mnt_ns);
    __u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct program_start_entry start = {.exec_ns = now, .mount_namespace = BPF_CORE_READ(mounts, ns.inum)};

    start.lacks_service = !has_variables(piece, BPF_CORE_READ(mm, env_start), BPF_CORE_READ(mm, env_end));
    bpf_map_update_elem(&starts, &pid, &start, BPF_ANY);
}

SEC("raw_tp/sched_process_exec")
int program_exec(void *ctx)
{
    __u64 now = bpf_ktime_get_ns();
    __u32 zero = 0;
    struct piece *piece = piece_get();
    struct program_start_stats *stats = bpf_map_lookup_elem(&stats_of_starts, &zero);

    if (!piece || !stats)
        return 0;
    note_start(piece, now);
    stats->runs++;
    stats->run_time_ns += bpf_ktime_get_ns() - now;
    return 0;
}
