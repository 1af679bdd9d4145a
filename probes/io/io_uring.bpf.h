/* io_uring: from the submission of a request to its completion. Part of io.bpf.c.
 *
 * A request counts for the task that set it up, whichever thread runs it: with SQPOLL and for blocking work those are
 * the kernel's. One that posts no completion when it succeeds (IOSQE_CQE_SKIP_SUCCESS) counts when it is submitted,
 * with the bytes that were asked for, as unconfirmed. A completion that found the ring full has no tracepoint: its
 * request counts so, too, when the kernel uses its memory for the next one.
 *
 * Which file it is, is known for certain when the request has run: one with a fixed file may follow the one that puts
 * it there. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/io/io_file.bpf.h"
#include "probes/io/io_readers.bpf.h"

/* As the flags of the submission: ABI. */
#define REQ_F_FIXED_FILE  (1U << 0)
#define REQ_F_CQE_SKIP    (1U << 6)
#define IORING_CQE_F_MORE (1U << 1)

/* Set before loading: the completion's tracepoint passes the entry of the queue instead of its fields. */
const volatile bool has_cqe = false;

/* By the request's address. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_REQUESTS);
    __type(key, __u64);
    __type(value, struct io_request);
} requests SEC(".maps");

/* ABI: enum io_uring_op. */
static __always_inline __u8 operation_of_opcode(__u8 opcode)
{
    switch (opcode) {
    case 1:  /* READV */
    case 4:  /* READ_FIXED */
    case 22: /* READ */
    case 60: /* READV_FIXED */
        return IO_READ;
    case 2:  /* WRITEV */
    case 5:  /* WRITE_FIXED */
    case 23: /* WRITE */
    case 30: /* SPLICE: only the output is seen */
    case 61: /* WRITEV_FIXED */
        return IO_WRITE;
    case 3: /* FSYNC */
    case 8: /* SYNC_FILE_RANGE */
        return IO_SYNC;
    case 17:
        return IO_ALLOCATE;
    case 18: /* OPENAT */
    case 28: /* OPENAT2 */
        return IO_OPEN;
    case 19:
        return IO_CLOSE;
    case 21: /* STATX */
        return IO_STAT;
    case 35: /* RENAMEAT */
        return IO_RENAME;
    case 36: /* UNLINKAT */
        return IO_UNLINK;
    case 37: /* MKDIRAT */
        return IO_MKDIR;
    case 38: /* SYMLINKAT */
    case 39: /* LINKAT */
        return IO_LINK;
    case 55: /* FTRUNCATE */
        return IO_TRUNCATE;
    }
    return IO_NONE;
}

/* Whether the request's length is in bytes, not in parts. */
static __always_inline bool is_in_bytes(__u8 opcode)
{
    return opcode == 4 || opcode == 5 || opcode == 22 || opcode == 23;
}

/* Whether the request says where it begins; -1: where the file stands, which other requests move, too. */
static __always_inline bool is_located(__u8 opcode)
{
    return opcode == 1 || opcode == 2 || opcode == 60 || opcode == 61 || is_in_bytes(opcode);
}

static __always_inline struct task_struct *request_owner(const struct io_kiocb *request)
{
    struct io_kiocb___task *old = (struct io_kiocb___task *)request;
    if (bpf_core_field_exists(old->task))
        return BPF_CORE_READ(old, task);
    return BPF_CORE_READ(request, tctx, task);
}

static __always_inline bool has_file(__u8 operation)
{
    return operation == IO_READ || operation == IO_WRITE || operation == IO_SYNC || operation == IO_ALLOCATE ||
           operation == IO_TRUNCATE;
}

/* The file at this place of the ring's table. NULL: none, or not known. */
static __always_inline const void *fixed_file(const struct io_kiocb *request, __u32 place)
{
    if (!bpf_core_field_exists(((struct io_ring_ctx *)0)->file_table.data.nodes)) /* before 6.13 */
        return NULL;
    struct io_ring_ctx *ring = BPF_CORE_READ(request, ctx);
    if (place >= BPF_CORE_READ(ring, file_table.data.nr))
        return NULL;
    struct io_rsrc_node **nodes = BPF_CORE_READ(ring, file_table.data.nodes), *node = NULL;
    bpf_probe_read_kernel(&node, sizeof(node), &nodes[place]);
    return (const void *)(BPF_CORE_READ(node, file_ptr) & ~7ul); /* without the kernel's flags */
}

/* Finds the file that a request names. False: nothing of a file system. */
static __always_inline bool find_named_file(const struct io_kiocb *request, __u64 flags, struct io_request *r)
{
    const struct io_close *close = (const struct io_close *)request;
    const void *file;
    bool is_fixed = flags & REQ_F_FIXED_FILE;
    __s32 fd = BPF_CORE_READ(request, cqe.fd);
    if (r->operation == IO_CLOSE) {
        is_fixed = BPF_CORE_READ(close, file_slot) != 0;
        fd = is_fixed ? BPF_CORE_READ(close, file_slot) - 1 : BPF_CORE_READ(close, fd);
    }
    file = is_fixed ? fixed_file(request, fd) : open_file(request_owner(request), fd);
    if (is_fixed && !file) {
        r->is_file_unknown = true;
        return true;
    }
    if (!file_of(file, &r->file))
        return false;
    if (r->operation == IO_READ)
        reader_note(file, &r->file, request_owner(request));
    return true;
}

/* Without a completion that could be seen. `cgroup`: NULL, it may be gone. */
static __always_inline void count_unconfirmed(const struct io_request *r, const void *cgroup)
{
    struct io_stats *stat = stats_get();
    struct io_file file = r->file;
    if (r->is_file_unknown) {
        if (stat)
            stat->unseen++;
        return;
    }
    file.flags |= IO_IS_UNCONFIRMED;
    file.offset = r->offset;
    count_untimed(r->cgroup_id, cgroup, &file, r->operation, r->asked_bytes);
}

/* What the request will do. False: no I/O of a file system. */
static __always_inline bool describe_request(const struct io_kiocb *request, __u64 flags, struct io_request *r)
{
    __u8 opcode = BPF_CORE_READ(request, opcode);
    r->operation = operation_of_opcode(opcode);
    if (!r->operation)
        return false;
    if (r->operation == IO_OPEN)
        r->is_opening = BPF_CORE_READ((const struct io_open *)request, file_slot) == 0;
    if (r->operation == IO_UNLINK && BPF_CORE_READ((const struct io_unlink *)request, flags) & AT_REMOVEDIR)
        r->operation = IO_RMDIR;
    if (is_in_bytes(opcode))
        r->asked_bytes = BPF_CORE_READ((const struct io_rw *)request, len);
    r->offset = (by_access || slow_ns) && is_located(opcode)
                    ? BPF_CORE_READ((const struct io_rw *)request, kiocb.ki_pos)
                    : IO_OFFSET_UNKNOWN;
    if (has_file(r->operation) || r->operation == IO_CLOSE)
        return find_named_file(request, flags, r);
    return true;
}

static __always_inline void request_submitted(const struct io_kiocb *request)
{
    __u64 id = (__u64)request, flags = BPF_CORE_READ_BITFIELD_PROBED(request, flags); /* of either width */
    const void *owner = request_owner(request), *cgroup;
    struct io_request r = {}, *before = bpf_map_lookup_elem(&requests, &id);
    if (before) {
        note_begun(-1);
        count_unconfirmed(before, NULL);
        bpf_map_delete_elem(&requests, &id);
    }
    if (!access_wanted(owner) || !describe_request(request, flags, &r))
        return;
    cgroup = io_cgroup_of(owner);
    r.cgroup_id = io_cgroup_id(cgroup);
    file_set_process(&r.file, DIRECT_READ(struct task_struct, owner, tgid));
    r.start_ns = bpf_ktime_get_ns();
    if (flags & REQ_F_CQE_SKIP) {
        count_unconfirmed(&r, cgroup);
        return;
    }
    if (bpf_map_update_elem(&requests, &id, &r, BPF_ANY) < 0)
        count_unconfirmed(&r, cgroup);
    else
        note_begun(1);
}

/* Which file it was, in the end. False: nothing of a file system. */
static __always_inline bool find_used_file(const struct io_kiocb *request, struct io_request *r, __s32 result)
{
    const void *owner = request_owner(request), *file = NULL;
    if (r->is_opening && result >= 0) {
        file = open_file(owner, result);
        if (file && DIRECT_READ(struct file, file, f_mode) & FMODE_CREATED)
            r->operation = IO_CREATE;
    } else if (has_file(r->operation)) {
        file = BPF_CORE_READ(request, file);
    }
    if (!file)
        return !r->is_file_unknown;
    if (!file_of(file, &r->file))
        return false;
    r->file.offset = r->offset;
    file_set_process(&r->file, DIRECT_READ(struct task_struct, owner, tgid));
    return true;
}

static __always_inline void request_completed(const struct io_kiocb *request, __s32 result, __u32 flags)
{
    __u64 id = (__u64)request;
    struct io_request *found = bpf_map_lookup_elem(&requests, &id), r;
    if (!found)
        return;
    r = *found;
    if (!(flags & IORING_CQE_F_MORE)) {
        bpf_map_delete_elem(&requests, &id);
        note_begun(-1);
    }
    if (find_used_file(request, &r, result))
        count_operation(io_cgroup_of(request_owner(request)), &r.file, r.operation, result, r.start_ns,
                        bpf_ktime_get_ns());
}
