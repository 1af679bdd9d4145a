/* See off_cpu.h. */
#include "diagnose/off_cpu.h"

#include "base/cleanup.h"
#include "diagnose/flight/syscalls.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define KERNEL_FRAMES_MAX 12

/* ---- the reason: by system call, object, state, and kernel stack last, because kernel function names change between
 * versions and system call numbers do not ---- */

struct kernel_frames {
    const struct frame *items[KERNEL_FRAMES_MAX];
    size_t count;
};

static bool on_stack(const struct kernel_frames *frames, const char *start)
{
    for (size_t i = 0; i < frames->count; i++)
        if (strncmp(frames->items[i]->function, start, strlen(start)) == 0)
            return true;
    return false;
}

static bool is_kernel_lock(const struct kernel_frames *frames)
{
    return on_stack(frames, "rwsem_down") || on_stack(frames, "__mutex_lock") || on_stack(frames, "percpu_rwsem") ||
           on_stack(frames, "__percpu_down") || on_stack(frames, "rt_mutex") ||
           on_stack(frames, "lock_mm_and_find_vma") || on_stack(frames, "__break_lease");
}

/* On older kernels, and with the cgroup v2 freezer, only a function on the stack identifies a frozen task. */
static bool is_stopped(const struct kernel_frames *frames)
{
    return on_stack(frames, "__refrigerator") || on_stack(frames, "do_freezer_trap");
}

static bool is_journal(const struct kernel_frames *frames)
{
    return on_stack(frames, "jbd2") || on_stack(frames, "xfs_") || on_stack(frames, "btrfs_") ||
           on_stack(frames, "blk_");
}

/* Descriptors that are neither files nor sockets are identified by kernel functions on the stack. */
static const char *reason_of_stack(const struct kernel_frames *frames)
{
    static const struct {
        const char *function, *reason;
    } known[] = {{"fifo_open", "ipc"}, {"eventfd_", "events"}, {"inotify_read", "events"}, {"signalfd_read", "signal"}};
    for (size_t i = 0; i < array_size(known); i++)
        if (on_stack(frames, known[i].function))
            return known[i].reason;
    return "other";
}

/* The reason by system call, for waits that neither object, lock nor state explains. */
static const char *reason_of_call(int number, const struct kernel_frames *frames)
{
    switch (number) {
#if defined(__x86_64__)
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_io_uring_enter:
        return "events";
#if defined(__x86_64__)
    case SYS_pause:
#endif
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
        return "signal";
    case SYS_wait4:
    case SYS_waitid:
        return "child";
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_mq_timedreceive:
    case SYS_mq_timedsend:
        return "ipc";
    default:
        return reason_of_stack(frames);
    }
}

/* A wait on a file; sendfile to a socket counts as I/O while it waits for the file. Without I/O, a process may wait for
 * another one to open the other end of a pipe. */
static const char *reason_of_file(const struct off_cpu_wait *w, const struct kernel_frames *frames)
{
    if (w->state & OFF_CPU_WAIT_IO || w->object == OFF_CPU_OBJECT_FILE)
        return "disk";
    if (on_stack(frames, "fifo_open"))
        return "ipc";
    return is_kernel_lock(frames) ? "lock" : "disk";
}

/* Uninterruptible without a lock: page faults without a stack, and file system journals that do not count as I/O. */
static const char *reason_of_state(const struct off_cpu_wait *w, const struct kernel_frames *frames)
{
    if (is_kernel_lock(frames))
        return "lock";
    if (on_stack(frames, "timerfd_read"))
        return "sleep";
    if (w->state & OFF_CPU_WAIT_UNINTERRUPTIBLE && is_journal(frames))
        return "disk";
    return w->object == OFF_CPU_OBJECT_PIPE ? "ipc" : reason_of_call(w->syscall, frames);
}

static const char *reason_of_wait(const struct off_cpu_wait *w, const struct kernel_frames *frames)
{
    const enum syscall_reason reason = syscall_reason(w->syscall);
    if (w->state & OFF_CPU_WAIT_STOPPED)
        return "stopped";
    if (is_stopped(frames))
        return w->object == OFF_CPU_OBJECT_PIPE ? "ipc" : reason_of_call(w->syscall, frames);
    if (reason == SYSCALL_REASON_LOCK)
        return "lock"; /* flock has a file but does not wait for a disk */
    if (w->state & OFF_CPU_WAIT_IO)
        return "disk";
    if (w->object == OFF_CPU_OBJECT_SOCKET || w->object == OFF_CPU_OBJECT_UNIX)
        return w->object == OFF_CPU_OBJECT_UNIX ? "ipc" : "network";
    if (w->object == OFF_CPU_OBJECT_FILE || reason == SYSCALL_REASON_DISK)
        return reason_of_file(w, frames);
    return reason == SYSCALL_REASON_SLEEP ? "sleep" : reason_of_state(w, frames);
}

const char *off_cpu_reason(const struct off_cpu_wait *wait, const struct sample *s)
{
    struct kernel_frames frames = {.count = 0};
    for (size_t i = 0; i < s->frame_count && frames.count < array_size(frames.items); i++)
        if (s->frames[i].kind == FRAME_KERNEL)
            frames.items[frames.count++] = &s->frames[i];
    return reason_of_wait(wait, &frames);
}

const char *off_cpu_text(const struct off_cpu_wait *wait, const struct sample *s, char out[OFF_CPU_TEXT_BYTES])
{
    const char *reason = off_cpu_reason(wait, s);
    char call[32];
    bool has_user = false;
    for (size_t i = 0; i < s->frame_count; i++)
        has_user |= s->frames[i].kind != FRAME_KERNEL;
    if (wait->syscall >= 0)
        snprintf(out, OFF_CPU_TEXT_BYTES, "[%s: %s]", reason, syscall_name(wait->syscall, call, sizeof(call)));
    else
        snprintf(out, OFF_CPU_TEXT_BYTES, has_user ? "[%s: page fault]" : "[%s: kernel thread]", reason);
    return out;
}

/* ---- the waker ---- */

static bool begins_with_one_of(const struct frame *frame, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (frame->kind == FRAME_KERNEL && strncmp(frame->function, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Interrupt entry functions of x86-64 and arm64, since 5.10. */
static bool is_entry(const struct frame *frame)
{
    static const char *const names[] = {"asm_sysvec_", "asm_common_interrupt", "asm_spurious_interrupt",
                                        "asm_exc_nmi", "ret_from_intr",        "el1h_64_irq",
                                        "el0t_64_irq", "el0t_32_irq",          "el1_irq",
                                        "el0_irq"};
    return begins_with_one_of(frame, names, array_size(names));
}

/* Where a thread, for instance on leaving the network stack, runs pending softirqs. */
static bool is_softirq_entry(const struct frame *frame)
{
    static const char *const names[] = {"do_softirq.", "__local_bh_enable_ip"};
    return begins_with_one_of(frame, names, array_size(names)) || strcmp(frame->function, "do_softirq") == 0;
}

static bool serves_softirq(const struct frame *frame)
{
    static const char *const names[] = {"__do_softirq", "handle_softirqs", "__softirqentry_text_start"};
    return begins_with_one_of(frame, names, array_size(names));
}

/* The per-CPU backlog of loopback packets: a thread that sends such a packet and then processes the backlog is the
 * waker. */
static bool is_own_packet(const struct frame *frame)
{
    static const char *const names[] = {"process_backlog", "__process_backlog"};
    return begins_with_one_of(frame, names, array_size(names));
}

static size_t count_kernel(const struct sample *s)
{
    size_t n = 0;
    while (n < s->frame_count && (s->frames[n].kind == FRAME_KERNEL || s->frames[n].kind == FRAME_BPF))
        n++;
    return n;
}

/* Returns the index after the first run of consecutive frames that satisfy `is_part`; 0 if no frame does. */
static size_t end_of(const struct frame *frames, size_t count, bool (*is_part)(const struct frame *))
{
    size_t i = 0;
    while (i < count && !is_part(&frames[i]))
        i++;
    if (i == count)
        return 0;
    while (i < count && is_part(&frames[i]))
        i++;
    return i;
}

size_t off_cpu_waker_frames(unsigned waker, const struct sample *s, bool *ret_is_interrupt)
{
    const size_t kernel = count_kernel(s), entry = end_of(s->frames, kernel, is_entry),
                 softirq = end_of(s->frames, kernel, is_softirq_entry);
    const bool in_softirq =
        waker == OFF_CPU_WAKER_SOFTIRQ || (waker == OFF_CPU_WAKER_UNKNOWN && end_of(s->frames, kernel, serves_softirq));
    const bool is_own = softirq && (!entry || softirq < entry) && end_of(s->frames, softirq, is_own_packet);
    *ret_is_interrupt =
        waker == OFF_CPU_WAKER_INTERRUPT || (in_softirq && !is_own) || (waker == OFF_CPU_WAKER_UNKNOWN && entry);
    if (!*ret_is_interrupt)
        return s->frame_count;
    if (entry && (!softirq || entry < softirq))
        return entry;
    return in_softirq && softirq ? softirq : kernel;
}

const char *off_cpu_waker_text(const struct sample *s, uint32_t pid, char out[OFF_CPU_TEXT_BYTES])
{
    if (!s)
        snprintf(out, OFF_CPU_TEXT_BYTES, "[woken by an interrupt]");
    else if (s->resource->pid == pid || strcmp(s->resource->command, s->thread_name) == 0)
        snprintf(out, OFF_CPU_TEXT_BYTES, "[woken by %s]", s->thread_name);
    else
        snprintf(out, OFF_CPU_TEXT_BYTES, "[woken by %s of %.24s]", s->thread_name, s->resource->command);
    return out;
}
