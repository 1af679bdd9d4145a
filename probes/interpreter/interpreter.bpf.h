/* The common part of the walks of all interpreters (interpreter.h): the entries of the current sample, the table of
 * code with an emitted record, the memory that builds these records, and the entries' place in the stack record. A
 * sample contains the frames of one interpreter. */
#pragma once

#include "probes/common/vmlinux.h"

#include "probes/interpreter/emitted_codes.bpf.h"
#include "probes/interpreter/interpreter.h"

#define UNWIND_MARKS
#define UNWIND_RUNTIME
/* No monitored process has a runtime with JIT code: the walk through that is skipped and, since Linux 6.8, not even
 * verified. */
const volatile bool no_runtimes = false;

#define UNWIND_TAIL_WORDS                                                                                              \
    (INTERPRETER_MAX_ENTRIES * sizeof(struct interpreter_entry) / 8 + 1 +                                              \
     GO_LABELS_MAX * sizeof(struct go_label) / 8 + 4) /* for links */
#include "probes/common/task.bpf.h"
#include "probes/unwind/unwind_sample.bpf.h"

#include "probes/interpreter/interpreter_scratch.h"

#define EMITTED_CODES_PER_SAMPLE 128
/* Records are sorted by time: this backdates the record of code before every sample that may rely on it. */
#define EMITTED_CODES_AHEAD_NS 10000000

/* Size of the ring, which samples share. */
const volatile __u64 ring_bytes = 0;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096); /* set at load */
} records SEC(".maps");

/* The reader polls now and then. It is woken when a quarter of the ring is full, or at once. */
static __always_inline __u64 records_wakeup(bool at_once)
{
    return at_once || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 4 ? BPF_RB_FORCE_WAKEUP
                                                                                      : BPF_RB_NO_WAKEUP;
}

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set at load: possible CPUs */
    __type(key, __u32);
    __type(value, struct interpreter_scratch);
} interpreter_scratch SEC(".maps");

static __always_inline struct interpreter_scratch *interpreter_scratch_get(void)
{
    __u32 cpu = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&interpreter_scratch, &cpu);
}

static __always_inline int interpreter_read(void *to, __u32 size, __u64 address)
{
    return bpf_probe_read_user(to, size, (const void *)address);
}

/* ---- records of code ---- */

/* Initializes the header of the code records of this sample. */
static __always_inline void interpreter_begin_codes(struct interpreter_scratch *p, struct task_struct *task, __u64 id,
                                                    __u64 time_ns, __u32 record_kind)
{
    struct record_header *header = (struct record_header *)p->code;

    p->seed = hash_mix(BPF_CORE_READ(task, group_leader, start_time), BPF_CORE_READ(task, self_exec_id));
    p->seed = hash_mix(p->seed, id >> 32);
    __builtin_memset(header, 0, sizeof(*header));
    header->kind = record_kind;
    header->pid = id >> 32;
    header->tid = id;
    header->time_ns = time_ns - EMITTED_CODES_AHEAD_NS;
}

/* The slot for `*ret_hash`, to be set once this code's record is emitted; NULL: already emitted, or not to be emitted
 * now. Names are emitted again with later samples, sampled data is not, so names leave the last quarter of the ring
 * free. Stack copies, which may fill half of the ring while unwind tables are missing, do not block them. */
static __always_inline __u64 *emitted_code_slot(struct interpreter_scratch *p, __u32 pid, __u64 code, __u32 check,
                                                __u64 *ret_hash)
{
    __u64 hash = emitted_code_hash(pid, code, check), *emitted;
    __u32 at = emitted_code_index(hash);

    emitted = bpf_map_lookup_elem(&emitted_codes, &at);
    if (!emitted || *emitted == hash || p->emitted >= EMITTED_CODES_PER_SAMPLE ||
        bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 4 * 3)
        return NULL;
    p->emitted++;
    *ret_hash = hash;
    return emitted;
}

/* 0: the ring took the record. */
static __always_inline int interpreter_emit(const struct record_header *code, __u64 bytes)
{
    return bpf_ringbuf_output(&records, (void *)code, bytes, BPF_RB_NO_WAKEUP) ? -1 : 0;
}

/* ---- entries ---- */

/* Appends the entries to the record of `size` bytes; returns their size. Counts in `lost` if they do not fit. */
static __always_inline __u64 sample_interpreted(struct unwind_scratch *scratch, __u64 *lost, __u64 size)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct stack_record *s = stack_record_of(scratch);
    struct interpreter_tail tail = {};
    __u64 at = size - sizeof(*s), bytes;

    if (!p || !scratch->walk.interpreted)
        return 0;
    bytes = (__u64)p->entries * sizeof(p->entry[0]);
    UNWIND_SAME_REGISTER(at);
    UNWIND_SAME_REGISTER(bytes);
    if (at > sizeof(scratch->data) - sizeof(p->entry) - sizeof(tail) || bytes > sizeof(p->entry)) {
        ++*lost;
        return 0;
    }
    if (bytes && bpf_probe_read_kernel((__u8 *)scratch->data + at, bytes, p->entry)) {
        ++*lost;
        return 0;
    }
    tail.entries = p->entries;
    tail.end = p->end;
    tail.flags = p->flags;
    tail.interpreter = p->kind;
    at += bytes;
    UNWIND_SAME_REGISTER(at);
    if (at > sizeof(scratch->data) - sizeof(tail))
        return 0;
    bpf_probe_read_kernel((__u8 *)scratch->data + at, sizeof(tail), &tail);
    s->flags |= STACK_RECORD_INTERPRETED;
    return bytes + sizeof(tail);
}
