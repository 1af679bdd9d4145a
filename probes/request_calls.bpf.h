/* Which system call a thread is in, by the registers it entered the kernel with. They lie at the top of its kernel stack until it
 * leaves, so nothing needs to be hooked for them. Part of request.bpf.c. */
#pragma once

#include "request_state.bpf.h"

struct request_syscall {
    __s32 number; /* -1: none, an exception or interrupt */
    __u64 argument[3];
};

#if defined(__TARGET_ARCH_x86)
enum {
    NR_read = 0, NR_write = 1, NR_poll = 7, NR_readv = 19, NR_writev = 20, NR_select = 23, NR_sendfile = 40, NR_connect = 42,
    NR_accept = 43, NR_sendto = 44, NR_recvfrom = 45, NR_sendmsg = 46, NR_recvmsg = 47, NR_futex = 202, NR_epoll_wait = 232,
    NR_pselect6 = 270, NR_ppoll = 271, NR_splice = 275, NR_epoll_pwait = 281, NR_accept4 = 288, NR_io_uring_enter = 426,
    NR_epoll_pwait2 = 441,
};
struct request_registers { struct user_registers user; };
#define REGISTERS_NUMBER(r)  ((__s32)(r)->user.orig_ax)
#define REGISTERS_FIRST(r)   (r)->user.di
#define REGISTERS_SECOND(r)  (r)->user.si
#define REGISTERS_THIRD(r)   (r)->user.dx
#elif defined(__TARGET_ARCH_arm64)
enum {
    NR_read = 63, NR_write = 64, NR_poll = -2, NR_readv = 65, NR_writev = 66, NR_select = -3, NR_sendfile = 71, NR_connect = 203,
    NR_accept = 202, NR_sendto = 206, NR_recvfrom = 207, NR_sendmsg = 211, NR_recvmsg = 212, NR_futex = 98, NR_epoll_wait = -4,
    NR_pselect6 = 72, NR_ppoll = 73, NR_splice = 76, NR_epoll_pwait = 22, NR_accept4 = 242, NR_io_uring_enter = 426,
    NR_epoll_pwait2 = 441,
};
struct request_registers { struct user_registers user; __u64 orig_x0; __s32 syscallno; };
#define REGISTERS_NUMBER(r)  (r)->syscallno
#define REGISTERS_FIRST(r)   (r)->orig_x0
#define REGISTERS_SECOND(r)  (r)->user.regs[1]
#define REGISTERS_THIRD(r)   (r)->user.regs[2]
#endif

/* From registers that may be read directly. */
static __always_inline void syscall_from_registers(const struct request_registers *registers, struct request_syscall *ret)
{
    ret->number = REGISTERS_NUMBER(registers);
    ret->argument[0] = REGISTERS_FIRST(registers);
    ret->argument[1] = REGISTERS_SECOND(registers);
    ret->argument[2] = REGISTERS_THIRD(registers);
}

static __always_inline void syscall_of_task(struct task_struct *task, struct request_syscall *ret)
{
    if (has_task_registers) {
        syscall_from_registers((const struct request_registers *)bpf_task_pt_regs(task), ret);
        return;
    }
    struct request_registers copy;
    void *top = BPF_CORE_READ(task, stack) + stack_offset;
    ret->number = -1;
    if (bpf_probe_read_kernel(&copy, sizeof(copy), top - sizeof(copy)) == 0)
        syscall_from_registers(&copy, ret);
}

static __always_inline void syscall_current(struct request_syscall *ret)
{
    if (has_task_registers)
        syscall_from_registers((const struct request_registers *)bpf_task_pt_regs(bpf_get_current_task_btf()), ret);
    else
        syscall_of_task((struct task_struct *)bpf_get_current_task(), ret);
}

static __always_inline bool is_receive(__s32 number)
{
    return number == NR_read || number == NR_recvfrom || number == NR_recvmsg || number == NR_readv;
}

static __always_inline bool is_send(__s32 number)
{
    return number == NR_write || number == NR_sendto || number == NR_writev || number == NR_sendmsg;
}

/* Calls in which an event loop or an idle worker waits for whatever comes next. */
static __always_inline bool is_waiting_for_work(__s32 number)
{
    return number == NR_epoll_wait || number == NR_epoll_pwait || number == NR_epoll_pwait2 || number == NR_select ||
           number == NR_pselect6 || number == NR_accept || number == NR_accept4 || number == NR_io_uring_enter;
}

static __always_inline bool is_poll(__s32 number)
{
    return number == NR_poll || number == NR_ppoll;
}

/* Does the first argument name the file it waits on? */
static __always_inline bool is_on_descriptor(__s32 number)
{
    switch (number) {
#if defined(__TARGET_ARCH_x86)
    case 0: case 1: case 5: case 8: case 16: case 17: case 18: case 19: case 20: case 40: case 42: case 44: case 45: case 46:
    case 47: case 72: case 73: case 74: case 75: case 76: case 77: case 78: case 187: case 217: case 221: case 275: case 277:
    case 285: case 295: case 296: case 299: case 306: case 307: case 326: case 327: case 328:
#elif defined(__TARGET_ARCH_arm64)
    case 25: case 29: case 32: case 46: case 47: case 61: case 62: case 63: case 64: case 65: case 66: case 67: case 68: case 69:
    case 70: case 71: case 76: case 80: case 82: case 83: case 84: case 203: case 206: case 207: case 211: case 212: case 213:
    case 223: case 243: case 267: case 269: case 286: case 287:
#endif
        return true;
    }
    return false;
}

/* Where in user memory the bytes begin that the call received or sent: the buffer itself or the first part of a vector. NULL where
 * there are none to see (sendfile, io_uring). */
static __always_inline const void *syscall_buffer(const struct request_syscall *call, __u32 *ret_size)
{
    struct { __u64 base, size; } vector;
    const void *at = (const void *)call->argument[1];
    *ret_size = 0xffffffff;
    switch (call->number) {
    case NR_read: case NR_write: case NR_recvfrom: case NR_sendto:
        return at;
    case NR_recvmsg: case NR_sendmsg:
        if (bpf_probe_read_user(&at, sizeof(at), at + 16) < 0)
            return NULL;
        break;
    case NR_readv: case NR_writev:
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
