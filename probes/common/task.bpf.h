/* What the kernel knows of a thread: scheduler accounting, its wait state, its open files. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define AF_UNIX  1
#define AF_INET  2
#define AF_INET6 10

#define S_IFMT   0170000
#define S_IFIFO  0010000
#define S_IFCHR  0020000
#define S_IFDIR  0040000
#define S_IFBLK  0060000
#define S_IFREG  0100000
#define S_IFSOCK 0140000

/* The kernel's flags; TASK_FROZEN: 6.1 and later. */
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STOPPED         0x4
#define TASK_TRACED          0x8
#define TASK_FROZEN          0x8000
#define TASK_DEAD            0x80 /* the final switch of an exiting thread */

/* The thread's TLS base, where its C library keeps the thread's data. */
static __always_inline __u64 task_thread_pointer(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
    return BPF_CORE_READ(task, thread.fsbase);
#else
    return BPF_CORE_READ(task, thread.uw.tp_value);
#endif
}

/* CPU time of a thread, from the scheduler's accounting. */
static __always_inline __u64 task_runtime(struct task_struct *task)
{
    return BPF_CORE_READ(task, se.sum_exec_runtime);
}

/* Time that a thread spent runnable without a CPU, from the same accounting: up to when it last got one. */
static __always_inline __u64 task_queued(struct task_struct *task)
{
    if (!bpf_core_field_exists(task->sched_info.run_delay))
        return 0;
    return BPF_CORE_READ(task, sched_info.run_delay);
}

static __always_inline __u32 task_wait_state(struct task_struct *task)
{
    __u64 state;
    if (bpf_core_field_exists(((struct task_struct___state_new *)0)->__state))
        state = BPF_CORE_READ((struct task_struct___state_new *)task, __state);
    else
        state = BPF_CORE_READ((struct task_struct___state_old *)task, state);
    return state;
}

/* The open file of a descriptor of the thread; NULL: none. */
static __always_inline struct file *task_file(struct task_struct *task, __s32 fd)
{
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    struct file **files = BPF_CORE_READ(table, fd), *file = NULL;
    if (fd < 0 || (__u32)fd >= BPF_CORE_READ(table, max_fds))
        return NULL;
    return bpf_probe_read_kernel(&file, sizeof(file), &files[fd]) == 0 ? file : NULL;
}

/* Returns the socket of an open file; NULL: the file is no socket. */
static __always_inline struct sock *file_socket(struct file *file)
{
    if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
        return NULL;
    struct socket *socket = BPF_CORE_READ(file, private_data);
    return socket ? BPF_CORE_READ(socket, sk) : NULL;
}
