/* Finds operations that have been going on for long: walks over all tasks, and writes a record of each that is in a
 * system call on a file since `slow_ns` or longer, with the kernel's stack of the thread. Uses the maps of io.bpf.c,
 * which has the calls. Linux 5.15 and later, where a walk can read the storage and registers of tasks.
 *
 * Losses: as of io.bpf.c. */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_tracing.h>

#include "probes/io/io_call.bpf.h"
#include "probes/io/io_slow.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline void name_mount(const struct io_file *file)
{
    const struct mount *mount = (const struct mount *)file->mount;
    if (mount && file->mount_id != IO_NO_MOUNT && !is_mount_named(mount, file->mount_id))
        mount_name_add(mount, file->mount_id);
}

/* False: the end of that call was not seen, and the thread is elsewhere now. */
static __always_inline bool is_in_call(struct task_struct *task, __s32 number)
{
    struct syscall_registers registers;
    return bpf_probe_read_kernel(&registers, sizeof(registers), (const void *)bpf_task_pt_regs(task)) == 0 &&
           REGISTERS_NUMBER(&registers) == number;
}

SEC("iter/task")
int io_pending_task(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    const __u64 now = bpf_ktime_get_ns();
    if (!task)
        return 0;
    const struct io_call *c = bpf_task_storage_get(&calls, task, NULL, 0);
    if (!c || !c->operation || c->start_ns + slow_ns > now || !is_in_call(task, c->number))
        return 0;
    struct io_call call = *c; /* it may end meanwhile: the record is then of a slow one all the same */
    name_mount(&call.first);
    struct io_slow *s = slow_begin(&call.first, task, call.operation, call.start_ns, now);
    if (!s)
        return 0;
    s->is_pending = true;
    long bytes = bpf_get_task_stack(task, s->stack, sizeof(s->stack), 0);
    s->frames = bytes > 0 ? bytes / 8 : 0;
    if (c->start_ns == call.start_ns && c->operation)
        slow_send(s);
    return 0;
}
