/* The system call that a thread is in: its files, when it began. Part of io.bpf.c.
 *
 * Files are found when the call begins, as close(2) leaves none. If another thread closes or replaces the descriptor
 * between that and the kernel's own look, the operation counts for the file that was open when it began. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/syscalls.bpf.h"
#include "probes/io/io_aio.bpf.h"
#include "probes/io/io_file.bpf.h"

/* Results that no program sees: the call begins again (linux/errno.h of the kernel). */
#define ERESTART_FIRST 512
#define ERESTART_LAST  516

/* Set before loading. */
const volatile struct io_syscall syscalls[IO_MAX_SYSCALLS] = {};
const volatile struct io_syscall syscalls_32[IO_MAX_SYSCALLS] = {};

volatile bool enabled = false;

struct io_call {
    __u64 start_ns;
    struct io_file first, second;
    __s32 number;   /* of the call */
    __u8 operation; /* IO_NONE: not in a call that concerns files */
    __u8 second_operation;
    __u8 is_opening;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct io_call);
} calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_THREADS);
    __type(key, __u32);
    __type(value, struct io_call);
} calls_by_thread SEC(".maps");

static const struct io_call no_call = {};

static __always_inline struct io_call *thread_call_add(void)
{
    if (has_task_storage)
        return bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
    __u32 tid = bpf_get_current_pid_tgid();
    struct io_call *c = bpf_map_lookup_elem(&calls_by_thread, &tid);
    if (c)
        return c;
    bpf_map_update_elem(&calls_by_thread, &tid, &no_call, BPF_ANY);
    return bpf_map_lookup_elem(&calls_by_thread, &tid);
}

static __always_inline struct io_call *thread_call(void)
{
    if (has_task_storage)
        return bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, 0);
    __u32 tid = bpf_get_current_pid_tgid();
    return bpf_map_lookup_elem(&calls_by_thread, &tid);
}

static __always_inline void thread_call_end(struct io_call *c)
{
    if (by_access && (c->operation || c->second_operation))
        note_begun(-1);
    c->operation = c->second_operation = IO_NONE;
    if (!has_task_storage) {
        __u32 tid = bpf_get_current_pid_tgid();
        bpf_map_delete_elem(&calls_by_thread, &tid);
    }
}

static __always_inline struct task_struct *current_task(void)
{
    return (struct task_struct *)bpf_get_current_task();
}

/* Whether the running thread entered the kernel as a 32-bit program, whose calls have other numbers. */
static __always_inline bool is_32_bit(void)
{
#if defined(__TARGET_ARCH_x86)
    return DIRECT_READ(struct task_struct, current_task(), thread_info.status) & 2; /* TS_COMPAT */
#elif defined(__TARGET_ARCH_arm64)
    return DIRECT_READ(struct task_struct, current_task(), thread_info.flags) & 1 << 22; /* TIF_32BIT */
#endif
}

/* Without the calls that name files by anything else. */
static __always_inline __u64 argument_of(const struct syscall_registers *r, __u8 argument, bool is_compat)
{
#if defined(__TARGET_ARCH_x86)
    if (is_compat)
        return (__u32)(argument == IO_ARGUMENT_FIRST    ? r->user.bx
                       : argument == IO_ARGUMENT_SECOND ? r->user.cx
                                                        : r->user.dx);
#endif
    return argument == IO_ARGUMENT_FIRST    ? REGISTERS_FIRST(r)
           : argument == IO_ARGUMENT_SECOND ? REGISTERS_SECOND(r)
                                            : REGISTERS_THIRD(r);
}

/* The fourth argument, of 64 bits. */
static __always_inline __u64 fourth_argument(const struct syscall_registers *r, bool is_compat)
{
#if defined(__TARGET_ARCH_x86)
    if (is_compat)
        return (__u32)r->user.si | (__u64)(__u32)r->user.di << 32;
#endif
    return REGISTERS_FOURTH(r);
}

static __always_inline __u64 offset_of(const struct syscall_registers *r, __u8 from, bool is_compat, __u8 operation,
                                       const void *file)
{
    __u64 offset = from == IO_OFFSET_FOURTH ? fourth_argument(r, is_compat) : ~0ull;
    if (from == IO_OFFSET_NONE)
        return IO_OFFSET_UNKNOWN;
    return offset == ~0ull ? file_position(file, operation) : offset; /* also preadv2's -1 */
}

/* False: nothing of a file system. `offset`: enum io_offset. */
static __always_inline bool find_file(const struct syscall_registers *r, __u8 argument, bool is_compat, __u8 operation,
                                      __u8 offset, struct io_file *ret)
{
    const void *file = open_file(current_task(), argument_of(r, argument, is_compat));
    if (!file)
        return false;
    if (file_of(file, ret)) {
        if (by_access || slow_ns)
            ret->offset = offset_of(r, offset, is_compat, operation, file);
        return true;
    }
    if (operation == IO_READ)
        note_reader(file);
    return false;
}

/* Whether the call names a file by a descriptor in this argument; stat does so with an empty path. */
static __always_inline bool has_descriptor(const struct syscall_registers *r, __u8 file, bool is_compat)
{
    char first = 'x';
    if (file < IO_ARGUMENT_RESULT)
        return true;
    if (file != IO_ARGUMENT_STAT && file != IO_ARGUMENT_STATX)
        return false;
    if (!((file == IO_ARGUMENT_STATX ? argument_of(r, IO_ARGUMENT_THIRD, is_compat)
                                     : (__u32)fourth_argument(r, is_compat)) &
          AT_EMPTY_PATH))
        return false;
    const void *path = (const void *)argument_of(r, IO_ARGUMENT_SECOND, is_compat);
    return !path || (bpf_probe_read_user(&first, 1, path) == 0 && !first); /* no path at all: 6.11 and later */
}

/* A call that names its files begins. A function, so that AIO's deep calls do not have its stack above theirs. */
static __noinline int file_call_begin(const struct syscall_registers *r, const volatile struct io_syscall *s,
                                      bool is_compat)
{
    struct io_file first = {}, second = {};
    __u8 operation = s->operation, second_operation = s->second, file = s->file;
    if (file == IO_ARGUMENT_REMOVE && argument_of(r, IO_ARGUMENT_THIRD, is_compat) & AT_REMOVEDIR)
        operation = IO_RMDIR;
    else if (has_descriptor(r, file, is_compat) && !find_file(r, file < IO_ARGUMENT_RESULT ? file : IO_ARGUMENT_FIRST,
                                                              is_compat, operation, s->offset, &first))
        operation = IO_NONE;
    if (second_operation && !find_file(r, s->second_file, is_compat, second_operation, IO_OFFSET_NONE, &second))
        second_operation = IO_NONE;
    struct io_call *c = operation || second_operation ? thread_call_add() : thread_call();
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    if (!c) {
        struct io_stats *stat = stats_get();
        if (stat && (operation || second_operation))
            stat->calls_full++;
        return 0;
    }
    if (c->operation || c->second_operation) { /* of a call whose end was not seen */
        struct io_stats *stat = stats_get();
        if (stat)
            stat->unended++;
    }
    if (!operation && !second_operation) {
        thread_call_end(c);
        return 0;
    }
    if (by_access && !c->operation && !c->second_operation)
        note_begun(1);
    file_set_process(&first, process);
    c->first = first;
    c->operation = operation;
    c->second_operation = second_operation;
    if (second_operation) {
        file_set_process(&second, process);
        c->second = second;
    }
    c->number = REGISTERS_NUMBER(r);
    c->is_opening = file == IO_ARGUMENT_RESULT;
    c->start_ns = bpf_ktime_get_ns();
    return 0;
}

/* open: which file that was. False: nothing of a file system. */
static __always_inline bool find_opened(struct io_call *c, __s64 result)
{
    if (result < 0)
        return true;
    const void *file = open_file(current_task(), result);
    if (!file_of(file, &c->first))
        return false;
    file_set_process(&c->first, bpf_get_current_pid_tgid() >> 32);
    if (DIRECT_READ(struct file, file, f_mode) & FMODE_CREATED)
        c->operation = IO_CREATE;
    return true;
}

static __always_inline void file_call_end(const struct syscall_registers *r, const volatile struct io_syscall *s,
                                          bool is_compat, __s64 result)
{
    struct io_call *c = thread_call();
    if (!c || (!c->operation && !c->second_operation))
        return;
    bool is_restarted = result <= -ERESTART_FIRST && result >= -ERESTART_LAST;
    if (result < 0 && !c->first.mount && s->file >= IO_ARGUMENT_RESULT && s->path < IO_ARGUMENT_RESULT &&
        is_error_named(-result))
        c->first.path = failed_path_note((const char *)argument_of(r, s->path, is_compat));
    if (!is_restarted && (!c->is_opening || find_opened(c, result))) {
        __u64 now = bpf_ktime_get_ns();
        const void *cgroup = io_cgroup_of(current_task());
        if (c->operation)
            count_operation(cgroup, &c->first, c->operation, result, c->start_ns, now);
        if (c->second_operation)
            count_operation(cgroup, &c->second, c->second_operation, result, c->start_ns, now);
    }
    thread_call_end(c);
}

/* The end of a call while nothing is counted. */
static __always_inline void file_call_forget(void)
{
    struct io_call *c = thread_call();
    if (c)
        thread_call_end(c);
}

/* ---- all calls ---- */

static __always_inline void call_begin(const struct syscall_registers *r, const volatile struct io_syscall *s,
                                       bool is_compat, bool with_aio)
{
    __u8 file = s->file;
    if (file < IO_AIO_SETUP)
        file_call_begin(r, s, is_compat);
    else if (with_aio && !is_compat)
        aio_call_begin(r, file);
}

static __always_inline void call_end(const struct syscall_registers *r, const volatile struct io_syscall *s,
                                     bool is_compat, __s64 result, bool with_aio)
{
    __u8 file = s->file;
    if (file < IO_AIO_SETUP)
        file_call_end(r, s, is_compat, result);
    else if (with_aio && !is_compat)
        aio_call_end(r, file, result);
}
