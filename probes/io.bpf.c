/* BPF side of I/O monitoring: what programs ask of file systems, counted by cgroup, mount and operation; and what block
 * devices get of that, counted by cgroup, device and operation.
 *
 * Two methods see system calls: the kernel functions of those that concern files, and the tracepoints at the entry and
 * exit of all system calls, which cost every system call of the node something. io_uring has tracepoints of its own.
 *
 * Losses: operations that do not fit a table (struct io_stats). */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_tracing.h>

#include "probes/common/run_timer.bpf.h"
#include "probes/io/io_block.bpf.h"
#include "probes/io/io_cache.bpf.h"
#include "probes/io/io_call.bpf.h"
#include "probes/io/io_pages.bpf.h"
#include "probes/io/io_uring.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline const volatile struct io_syscall *syscall_of(__u64 number, bool is_compat)
{
    if (number >= IO_MAX_SYSCALLS)
        return NULL;
    return is_compat ? &syscalls_32[number] : &syscalls[number];
}

#define NUMBER_OF(registers) (__u32) REGISTERS_NUMBER((const struct syscall_registers *)(registers))

static __always_inline int syscall_enters(struct pt_regs *registers, long number, bool with_aio)
{
    bool is_compat = is_32_bit();
    const volatile struct io_syscall *s = syscall_of(number, is_compat);
    if (!s || !s->operation || !enabled || !access_wanted(current_task()))
        return 0;
    __u64 start_ns = timer_start(IO_TIMER_BEGIN);
    call_begin((const struct syscall_registers *)registers, s, is_compat, with_aio);
    timer_stop(IO_TIMER_BEGIN, start_ns);
    return 0;
}

static __always_inline int syscall_exits(struct pt_regs *registers, long result, bool with_aio)
{
    const struct syscall_registers *r = (const struct syscall_registers *)registers;
    bool is_compat = is_32_bit();
    const volatile struct io_syscall *s = syscall_of(NUMBER_OF(registers), is_compat);
    if (!s || !s->operation)
        return 0;
    if (!enabled) {
        file_call_forget();
        return 0;
    }
    __u64 start_ns = timer_start(IO_TIMER_END);
    call_end(r, s, is_compat, result, with_aio);
    timer_stop(IO_TIMER_END, start_ns);
    return 0;
}

/* ---- by their functions ---- */

#if defined(__TARGET_ARCH_x86)
#define FUNCTION_OF(name)    "__x64_sys_" #name
#define RESULT_OF(registers) ((const struct user_registers *)(registers))->ax
#elif defined(__TARGET_ARCH_arm64)
#define FUNCTION_OF(name)    "__arm64_sys_" #name
#define RESULT_OF(registers) ((const struct user_registers *)(registers))->regs[0]
#endif

/* The frequent calls, which may also wait for long, have programs of their own. The programs of one call do the work
 * for all: each program that the kernel must check takes it a while. */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} frequent_enter SEC(".maps"), frequent_exit SEC(".maps");

SEC("fentry/" FUNCTION_OF(read))
int BPF_PROG(io_read_enter, struct pt_regs *registers)
{
    return syscall_enters(registers, NUMBER_OF(registers), false);
}

SEC("fexit/" FUNCTION_OF(read))
int BPF_PROG(io_read_exit, struct pt_regs *registers, long result)
{
    return syscall_exits(registers, result, false);
}

#define FREQUENT_CALL(name)                                                                                            \
    SEC("fentry/" FUNCTION_OF(name))                                                                                   \
    int io_##name##_enter(void *context)                                                                               \
    {                                                                                                                  \
        bpf_tail_call(context, &frequent_enter, 0);                                                                    \
        return 0;                                                                                                      \
    }                                                                                                                  \
    SEC("fexit/" FUNCTION_OF(name))                                                                                    \
    int io_##name##_exit(void *context)                                                                                \
    {                                                                                                                  \
        bpf_tail_call(context, &frequent_exit, 0);                                                                     \
        return 0;                                                                                                      \
    }

FREQUENT_CALL(write)
FREQUENT_CALL(pread64)
FREQUENT_CALL(pwrite64)
FREQUENT_CALL(readv)
FREQUENT_CALL(writev)
FREQUENT_CALL(openat)
FREQUENT_CALL(close)
FREQUENT_CALL(newfstat)
FREQUENT_CALL(newfstatat)

/* All other calls, and all calls of 32-bit programs. */
SEC("kprobe.multi")
int io_function_enter(struct pt_regs *context)
{
    struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
    return syscall_enters(registers, NUMBER_OF(registers), true);
}

SEC("kretprobe.multi")
int io_function_exit(struct pt_regs *context)
{
    struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
    return syscall_exits(registers, RESULT_OF(context), true);
}

/* ---- by the tracepoints of all system calls ---- */

SEC("tp_btf/sys_enter")
int BPF_PROG(io_syscall_enter, struct pt_regs *registers, long number)
{
    return syscall_enters(registers, number, true);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(io_syscall_exit, struct pt_regs *registers, long result)
{
    return syscall_exits(registers, result, true);
}

/* The same without AIO, whose loops kernels before 5.17 refuse even where they are never reached. */
SEC("tp_btf/sys_enter")
int BPF_PROG(io_syscall_enter_plain, struct pt_regs *registers, long number)
{
    return syscall_enters(registers, number, false);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(io_syscall_exit_plain, struct pt_regs *registers, long result)
{
    return syscall_exits(registers, result, false);
}

/* ---- mmap (6.11 and later) ---- */

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(io_page_fault, struct address_space *mapping, unsigned long index)
{
    if (enabled)
        pages_mapped(mapping, 1);
    return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(io_map_pages, struct address_space *mapping, unsigned long first, unsigned long last)
{
    if (enabled && last >= first)
        pages_mapped(mapping, last - first + 1);
    return 0;
}

/* ---- the page cache ---- */

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(io_pages_added, struct folio *folio)
{
    if (enabled)
        pages_added(folio);
    return 0;
}

/* ---- io_uring ---- */

static __always_inline int uring_submitted(const struct io_kiocb *request)
{
    if (!enabled)
        return 0;
    __u64 start_ns = timer_start(IO_TIMER_URING);
    request_submitted(request);
    timer_stop(IO_TIMER_URING, start_ns);
    return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(io_uring_submitted, struct io_kiocb *request)
{
    return uring_submitted(request);
}

/* The same, before 6.4. */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(io_uring_submitted_old, struct io_kiocb *request)
{
    return uring_submitted(request);
}

SEC("tp_btf/io_uring_complete")
int io_uring_completed(__u64 *arguments)
{
    const struct io_kiocb *request = (const struct io_kiocb *)arguments[1];
    if (!enabled || !request)
        return 0;
    __u64 start_ns = timer_start(IO_TIMER_URING);
    if (has_cqe) {
        const struct io_uring_cqe *cqe = (const struct io_uring_cqe *)arguments[2];
        request_completed(request, BPF_CORE_READ(cqe, res), BPF_CORE_READ(cqe, flags));
    } else {
        request_completed(request, arguments[3], arguments[4]);
    }
    timer_stop(IO_TIMER_URING, start_ns);
    return 0;
}

/* ---- block devices ---- */

SEC("raw_tp/block_rq_issue")
int io_device_issued(__u64 *arguments)
{
    if (!enabled)
        return 0;
    __u64 start_ns = timer_start(IO_TIMER_DEVICE);
    if (issue_passes_queue)
        device_request_issued((const void *)arguments[1]);
    else
        device_request_issued((const void *)arguments[0]);
    timer_stop(IO_TIMER_DEVICE, start_ns);
    return 0;
}

SEC("raw_tp/block_rq_complete")
int io_device_completed(__u64 *arguments)
{
    const void *request = (const void *)arguments[0];
    if (!enabled) {
        device_request_forget(request);
        return 0;
    }
    __u64 start_ns = timer_start(IO_TIMER_DEVICE);
    device_request_ended(request, (__u32)arguments[1] != 0, arguments[2]);
    timer_stop(IO_TIMER_DEVICE, start_ns);
    return 0;
}
