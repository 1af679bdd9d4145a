/* System call numbers, and the user registers saved at the top of a thread's kernel stack at system call entry. */
#pragma once

#include "probes/common/vmlinux.h"

#if defined(__TARGET_ARCH_x86)
enum {
    NR_read = 0,
    NR_write = 1,
    NR_poll = 7,
    NR_pread64 = 17,
    NR_pwrite64 = 18,
    NR_readv = 19,
    NR_writev = 20,
    NR_select = 23,
    NR_sendfile = 40,
    NR_connect = 42,
    NR_accept = 43,
    NR_sendto = 44,
    NR_recvfrom = 45,
    NR_sendmsg = 46,
    NR_recvmsg = 47,
    NR_flock = 73,
    NR_preadv = 295,
    NR_preadv2 = 327,
    NR_futex = 202,
    NR_epoll_wait = 232,
    NR_pselect6 = 270,
    NR_ppoll = 271,
    NR_splice = 275,
    NR_epoll_pwait = 281,
    NR_accept4 = 288,
    NR_io_uring_enter = 426,
    NR_epoll_pwait2 = 441,
};
struct syscall_registers {
    struct user_registers user;
};
#define REGISTERS_NUMBER(r) ((__s32)(r)->user.orig_ax)
#define REGISTERS_FIRST(r)  (r)->user.di
#define REGISTERS_SECOND(r) (r)->user.si
#define REGISTERS_THIRD(r)  (r)->user.dx
#define REGISTERS_FOURTH(r) (r)->user.r10
#elif defined(__TARGET_ARCH_arm64)
enum {
    NR_read = 63,
    NR_write = 64,
    NR_poll = -2,
    NR_flock = 32,
    NR_pread64 = 67,
    NR_pwrite64 = 68,
    NR_readv = 65,
    NR_preadv = 69,
    NR_preadv2 = 286,
    NR_writev = 66,
    NR_select = -3,
    NR_sendfile = 71,
    NR_connect = 203,
    NR_accept = 202,
    NR_sendto = 206,
    NR_recvfrom = 207,
    NR_sendmsg = 211,
    NR_recvmsg = 212,
    NR_futex = 98,
    NR_epoll_wait = -4,
    NR_pselect6 = 72,
    NR_ppoll = 73,
    NR_splice = 76,
    NR_epoll_pwait = 22,
    NR_accept4 = 242,
    NR_io_uring_enter = 426,
    NR_epoll_pwait2 = 441,
};
struct syscall_registers {
    struct user_registers user;
    __u64 orig_x0;
    __s32 syscallno;
};
#define REGISTERS_NUMBER(r) (r)->syscallno
#define REGISTERS_FIRST(r)  (r)->orig_x0
#define REGISTERS_SECOND(r) (r)->user.regs[1]
#define REGISTERS_THIRD(r)  (r)->user.regs[2]
#define REGISTERS_FOURTH(r) (r)->user.regs[3]
#endif

static __always_inline bool is_poll(__s32 number)
{
    return number == NR_poll || number == NR_ppoll;
}

/* Whether the first argument is the file descriptor that the call waits on. */
static __always_inline bool is_on_descriptor(__s32 number)
{
    switch (number) {
#if defined(__TARGET_ARCH_x86)
    case 0:
    case 1:
    case 5:
    case 8:
    case 16:
    case 17:
    case 18:
    case 19:
    case 20:
    case 40:
    case 42:
    case 44:
    case 45:
    case 46:
    case 47:
    case 72:
    case 73:
    case 74:
    case 75:
    case 76:
    case 77:
    case 78:
    case 187:
    case 217:
    case 221:
    case 275:
    case 277:
    case 285:
    case 295:
    case 296:
    case 299:
    case 306:
    case 307:
    case 326:
    case 327:
    case 328:
#elif defined(__TARGET_ARCH_arm64)
    case 25:
    case 29:
    case 32:
    case 46:
    case 47:
    case 61:
    case 62:
    case 63:
    case 64:
    case 65:
    case 66:
    case 67:
    case 68:
    case 69:
    case 70:
    case 71:
    case 76:
    case 80:
    case 82:
    case 83:
    case 84:
    case 203:
    case 206:
    case 207:
    case 211:
    case 212:
    case 213:
    case 223:
    case 243:
    case 267:
    case 269:
    case 286:
    case 287:
#endif
        return true;
    }
    return false;
}

/* On a file or socket by its descriptor, the first argument. */
static __always_inline bool is_receive(__s32 number)
{
    return number == NR_read || number == NR_recvfrom || number == NR_recvmsg || number == NR_readv;
}

static __always_inline bool is_send(__s32 number)
{
    return number == NR_write || number == NR_sendto || number == NR_writev || number == NR_sendmsg;
}
