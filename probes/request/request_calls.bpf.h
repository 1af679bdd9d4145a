/* Which system call a thread is in, by the registers it entered the kernel with. They lie at the top of its kernel
 * stack until it leaves, so nothing needs to be hooked for them. Part of request.bpf.c. */
#pragma once

#include "probes/common/syscalls.bpf.h"
#include "probes/request/request_state.bpf.h"

struct request_syscall {
    __s32 number; /* -1: none, an exception or interrupt */
    __u64 argument[3];
};

/* From registers that may be read directly. */
static __always_inline void syscall_from_registers(const struct syscall_registers *registers,
                                                   struct request_syscall *ret)
{
    ret->number = REGISTERS_NUMBER(registers);
    ret->argument[0] = REGISTERS_FIRST(registers);
    ret->argument[1] = REGISTERS_SECOND(registers);
    ret->argument[2] = REGISTERS_THIRD(registers);
}

static __noinline void syscall_of_task(struct task_struct *task, struct request_syscall *ret)
{
    if (has_task_registers) {
        syscall_from_registers((const struct syscall_registers *)bpf_task_pt_regs(task), ret);
        return;
    }
    struct syscall_registers copy;
    void *top = BPF_CORE_READ(task, stack) + stack_offset;
    *ret = (struct request_syscall){.number = -1};
    if (bpf_probe_read_kernel(&copy, sizeof(copy), top - sizeof(copy)) == 0)
        syscall_from_registers(&copy, ret);
}

/* The user stack pointer of the running thread when it entered the kernel. */
static __always_inline __u64 syscall_stack_pointer(void)
{
    if (has_task_registers)
        return ((const struct syscall_registers *)bpf_task_pt_regs(bpf_get_current_task_btf()))->user.sp;
    __u64 value = 0;
    const char *top = (const char *)BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), stack) + stack_offset;
    bpf_probe_read_kernel(&value, sizeof(value),
                          top - sizeof(struct syscall_registers) +
                              __builtin_offsetof(struct syscall_registers, user.sp));
    return value;
}

/* The goroutine, in a program of Go; else any number. 0: not known. */
static __always_inline __u64 syscall_goroutine(void)
{
#if defined(__TARGET_ARCH_x86)
    if (has_task_registers)
        return ((const struct syscall_registers *)bpf_task_pt_regs(bpf_get_current_task_btf()))->user.r14;
#endif
    return 0;
}

static __always_inline void syscall_current(struct request_syscall *ret)
{
    if (has_task_registers)
        syscall_from_registers((const struct syscall_registers *)bpf_task_pt_regs(bpf_get_current_task_btf()), ret);
    else
        syscall_of_task((struct task_struct *)bpf_get_current_task(), ret);
}

/* The system call that the running thread is in: `known`, or found by its registers and put into `room`. */
static __always_inline const struct request_syscall *syscall_known(const struct request_syscall *known,
                                                                   struct request_syscall *room)
{
    if (known)
        return known;
    syscall_current(room);
    return room;
}

/* Where in user memory the bytes begin that the call received or sent: the buffer itself or the first part of a vector.
 * NULL where there are none to see (sendfile, io_uring). */
static __always_inline const void *syscall_buffer(const struct request_syscall *call, __u32 *ret_size)
{
    struct {
        __u64 base, size;
    } vector;
    const void *at = (const void *)call->argument[1];
    *ret_size = 0xffffffff;
    switch (call->number) {
    case NR_read:
    case NR_write:
    case NR_recvfrom:
    case NR_sendto:
        return at;
    case NR_recvmsg:
    case NR_sendmsg:
        if (bpf_probe_read_user(&at, sizeof(at), at + 16) < 0)
            return NULL;
        break;
    case NR_readv:
    case NR_writev:
        break;
    default:
        return NULL;
    }
    for (int i = 0; i < 2; i++) { /* the first that is not empty */
        if (bpf_probe_read_user(&vector, sizeof(vector), at) < 0)
            return NULL;
        if (vector.size)
            break;
        at += sizeof(vector);
    }
    *ret_size = vector.size > 0xffffffff ? 0xffffffff : vector.size;
    return (const void *)vector.base;
}
