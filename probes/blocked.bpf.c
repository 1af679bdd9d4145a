/* The tasks in uninterruptible sleep (state D), with their kernel stacks and, where it is known, the thread that holds
 * the lock that a task waits for. An iterator, which user space reads: no program runs between two walks.
 *
 * A task in state D counts for the load average. Idle kernel threads (TASK_NOLOAD) and frozen tasks do not, and are
 * left out. */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "probes/blocked.h"
#include "probes/common/task.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define TASK_NOLOAD        0x0400
#define PF_FROZEN          0x00010000 /* before 6.1; newer kernels give this bit to kcompactd, a kernel thread */
#define OWNER_FLAGS        7          /* low bits of a lock's owner */
#define BLOCKER_TYPE_MASK  3
#define RWSEM_READER_OWNED 1

enum blocker_type { BLOCKER_MUTEX, BLOCKER_SEM, BLOCKER_RWSEM_READER, BLOCKER_RWSEM_WRITER };

struct blocked_counts counts = {};

/* The task in the `owner` of a mutex or of a rw_semaphore that a writer has; NULL: none. */
static __always_inline struct task_struct *owner_of_lock(__u64 blocker)
{
    const void *lock = (const void *)(blocker & ~(__u64)BLOCKER_TYPE_MASK);
    const __u32 type = blocker & BLOCKER_TYPE_MASK;
    if (type == BLOCKER_MUTEX)
        return (struct task_struct *)(BPF_CORE_READ((const struct mutex *)lock, owner.counter) & ~(__u64)OWNER_FLAGS);
    if (type == BLOCKER_SEM)
        return NULL;
    const __u64 owner = BPF_CORE_READ((const struct rw_semaphore *)lock, owner.counter);
    return owner & RWSEM_READER_OWNED ? NULL : (struct task_struct *)(owner & ~(__u64)OWNER_FLAGS);
}

/* The child that has borrowed the memory of its parent, until it executes a program or exits: the youngest one of a
 * parent that waits for it. NULL: none. Kernel threads use `vfork_done` for another purpose, so that their parent,
 * kthreadd, has no such child. */
static __always_inline struct task_struct *vforked_child(struct task_struct *parent)
{
    struct list_head *youngest = BPF_CORE_READ(parent, children.prev);
    if (!youngest || BPF_CORE_READ(parent, flags) & PF_KTHREAD ||
        (__u64)youngest == (__u64)parent + bpf_core_field_offset(parent->children))
        return NULL;
    struct task_struct *child = (struct task_struct *)((__u64)youngest - bpf_core_field_offset(parent->sibling));
    return BPF_CORE_READ(child, vfork_done) ? child : NULL;
}

static __always_inline void set_holder(struct blocked_task *b, struct task_struct *task)
{
    struct task_struct *holder = NULL;
    if (bpf_core_field_exists(((struct task_struct___blocker *)0)->blocker)) { /* 6.16 and later */
        const __u64 blocker = BPF_CORE_READ((struct task_struct___blocker *)task, blocker);
        holder = blocker ? owner_of_lock(blocker) : NULL;
    }
    if (!holder) {
        holder = vforked_child(task);
        b->flags |= holder ? BLOCKED_BY_CHILD : 0;
    }
    if (!holder)
        return;
    b->holder_pid = BPF_CORE_READ(holder, tgid);
    b->holder_tid = BPF_CORE_READ(holder, pid);
    BPF_CORE_READ_STR_INTO(&b->holder_comm, holder, comm);
}

/* Kernel threads are frozen only while the node is suspended, and then no walk runs. */
static __always_inline bool is_frozen(__u32 flags)
{
    return (flags & (PF_FROZEN | PF_KTHREAD)) == PF_FROZEN;
}

SEC("iter/task")
int blocked_tasks(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    struct blocked_task b = {};
    if (!task)
        return 0;
    const __u32 state = task_wait_state(task), flags = BPF_CORE_READ(task, flags);
    counts.tasks++;
    counts.runnable += state == 0;
    if ((state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) != TASK_UNINTERRUPTIBLE || is_frozen(flags))
        return 0;
    if (counts.uninterruptible++ >= BLOCKED_MAX_TASKS)
        return 0;
    b.pid = BPF_CORE_READ(task, tgid);
    b.tid = BPF_CORE_READ(task, pid);
    b.switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
    b.flags = flags & PF_KTHREAD ? BLOCKED_KERNEL_THREAD : 0;
    BPF_CORE_READ_STR_INTO(&b.comm, task, comm);
    const long bytes = bpf_get_task_stack(task, b.stack, sizeof(b.stack), 0);
    b.frames = bytes > 0 ? bytes / sizeof(b.stack[0]) : 0;
    set_holder(&b, task);
    bpf_seq_write(ctx->meta->seq, &b, sizeof(b));
    return 0;
}
