/* What a thread that leaves its CPU waits for: its state, its system call and the object of that. For offcpu.bpf.c. */
#pragma once

#include "probes/common/syscalls.bpf.h"
#include "probes/common/task.bpf.h"
#include "probes/offcpu.h"

static __always_inline __u8 object_of(struct file *file)
{
    switch (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
        return OFF_CPU_OBJECT_FILE;
    case S_IFIFO:
        return OFF_CPU_OBJECT_PIPE;
    case S_IFSOCK:
        break;
    default:
        return OFF_CPU_OBJECT_OTHER;
    }
    struct socket *socket = BPF_CORE_READ(file, private_data);
    __u16 family = BPF_CORE_READ(socket, sk, __sk_common.skc_family);
    return family == AF_UNIX                         ? OFF_CPU_OBJECT_UNIX
           : family == AF_INET || family == AF_INET6 ? OFF_CPU_OBJECT_SOCKET
                                                     : OFF_CPU_OBJECT_OTHER;
}

/* `is_current`: its memory can be read. Not inlined, like all functions below that are not part of the walk: the walk
 * needs the BPF stack. */
static __noinline void set_cause(struct off_cpu_thread *t, struct task_struct *task, const void *registers,
                                 bool is_current)
{
    struct syscall_registers r;
    __u32 state = task_wait_state(task);
    t->state = (state & TASK_UNINTERRUPTIBLE ? OFF_CPU_WAIT_UNINTERRUPTIBLE : 0) |
               (state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN) ? OFF_CPU_WAIT_STOPPED : 0) |
               (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait) ? OFF_CPU_WAIT_IO : 0);
    t->syscall = -1;
    t->object = OFF_CPU_OBJECT_NONE;
    if (BPF_CORE_READ(task, flags) & PF_KTHREAD || bpf_probe_read_kernel(&r, sizeof(r), registers) < 0)
        return;
    __s32 number = REGISTERS_NUMBER(&r), fd = -1;
    if (number < 0)
        return;
    t->syscall = number;
    if (is_on_descriptor(number) || number == NR_accept || number == NR_accept4)
        fd = REGISTERS_FIRST(&r);
    else if (is_poll(number) && is_current && REGISTERS_SECOND(&r) == 1)
        bpf_probe_read_user(&fd, sizeof(fd), (const void *)REGISTERS_FIRST(&r));
    struct file *file = fd >= 0 ? task_file(task, fd) : NULL;
    if (file)
        t->object = object_of(file);
}
