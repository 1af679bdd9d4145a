/* One table from system calls and wake-ups to kinds of components; see path_wait.h. */
#include "diagnose/path/path_wait.h"

#include "diagnose/flight/syscalls.h"

#include <sys/syscall.h>

/* select() for no file is how programs sleep: time.sleep before Python 3.11. */
static bool is_select_of_nothing(const struct recorder_record *left)
{
#if defined(SYS_select)
    if (left->syscall == SYS_select)
        return left->object == 0;
#endif
    return left->syscall == SYS_pselect6 && left->object == 0;
}

bool path_wait_is_for_events(const struct recorder_record *left)
{
    if (!left || is_select_of_nothing(left))
        return false;
    switch (left->syscall) {
#if defined(SYS_epoll_wait)
    case SYS_epoll_wait:
#endif
#if defined(SYS_poll)
    case SYS_poll:
    case SYS_select:
#endif
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_accept:
    case SYS_accept4:
    case SYS_io_uring_enter:
        return true;
    default:
        return false;
    }
}

bool path_wait_is_for_lock(const struct recorder_record *left)
{
    return left && syscall_reason(left->syscall) == SYSCALL_REASON_LOCK;
}

bool path_wait_is_signal(const struct recorder_record *woken)
{
    return !(woken->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ)) &&
           (woken->syscall == SYS_kill || woken->syscall == SYS_tkill || woken->syscall == SYS_tgkill ||
            woken->syscall == SYS_rt_sigqueueinfo || woken->syscall == SYS_rt_tgsigqueueinfo ||
            woken->syscall == SYS_pidfd_send_signal);
}

bool path_wait_is_creation(const struct recorder_record *woken)
{
    return woken->syscall == SYS_clone || woken->syscall == SYS_clone3
#if defined(SYS_fork)
           || woken->syscall == SYS_fork || woken->syscall == SYS_vfork
#endif
        ;
}

bool path_wait_is_send(int number)
{
    return number == SYS_write || number == SYS_writev || number == SYS_sendto || number == SYS_sendmsg ||
           number == SYS_sendfile;
}

bool path_wait_is_receive(int number)
{
    return number == SYS_read || number == SYS_readv || number == SYS_recvfrom || number == SYS_recvmsg;
}

static void set_unattributed(struct path_segment *s, const char *reason)
{
    s->kind = REQUEST_PART_UNATTRIBUTED;
    s->owner = REQUEST_OWNER_UNKNOWN;
    s->reason = reason;
}

/* The wait was ended by an interrupt, or its end was not recorded. Sockets wake their readers from softirqs: a read
 * that a timer ends is a read of a timerfd. */
static void set_by_system_call(const struct recorder_record *left, const struct recorder_record *woken,
                               struct path_segment *s)
{
    const bool is_timer = woken && woken->flags & RECORDER_IN_HARDIRQ;
    if (is_timer && (path_wait_is_for_events(left) || path_wait_is_for_lock(left) || left->syscall == SYS_read)) {
        s->kind = REQUEST_PART_SLEEP;
        s->reason = "until a timer expired";
        s->is_inferred = true;
    } else if (!woken) {
        set_unattributed(s, "its wake-up was not recorded");
    } else if (path_wait_is_for_events(left)) {
        set_unattributed(s, "the network woke it, for nothing that it then read");
    } else if (path_wait_is_send(left->syscall)) {
        s->kind = REQUEST_PART_NETWORK;
        s->reason = "the receiver's buffer was full";
        s->is_inferred = true;
    } else if (path_wait_is_receive(left->syscall) || left->syscall == SYS_connect) {
        s->kind = REQUEST_PART_DOWNSTREAM;
        s->is_inferred = true;
    } else {
        s->kind = REQUEST_PART_OTHER;
    }
}

/* Packets also arrive in a thread of the kernel, ksoftirqd, and without the interrupt's flag where that is not known.
 */
static bool is_on_socket(const struct recorder_record *left)
{
    return left->syscall == SYS_connect || left->syscall == SYS_recvfrom || left->syscall == SYS_recvmsg ||
           left->syscall == SYS_sendto || left->syscall == SYS_sendmsg;
}

/* Where the kernel waits for I/O, the thread needed pages again that were reclaimed. Otherwise the kernel delays the
 * thread, as its cgroup is above memory.high or the node's reclaim is too slow; or the thread sleeps in a reclaim that
 * has no record (path_reclaim.h). The switch does not show the reason. */
static void set_memory_stall(const struct recorder_record *left, struct path_segment *s)
{
    const bool is_io = left->flags & RECORDER_IO_WAIT;
    s->kind = is_io ? REQUEST_PART_DISK : REQUEST_PART_OTHER;
    s->reason = is_io ? "reads back memory that was reclaimed" : "stalled on memory";
}

void path_wait_set_arrival(const struct recorder_record *left, const struct recorder_record *woken,
                           struct path_segment *s)
{
    if (s->kind != REQUEST_PART_OTHER || !woken || !(woken->flags & RECORDER_KERNEL_THREAD) ||
        left->flags & (RECORDER_STOPPED | RECORDER_MEMSTALL))
        return;
    s->reason = "";
    set_by_system_call(left, woken, s);
}

enum wait_source path_wait_source(const struct recorder_record *left, const struct recorder_record *woken,
                                  struct path_segment *s)
{
    const bool by_thread =
        woken && !(woken->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ)) && recorder_low(woken->value) != 0;
    if (!left) {
        set_unattributed(s, "it slept, since before the first recorded event");
        return by_thread ? WAIT_ENDED_BY_THREAD : WAIT_KNOWN;
    }
    const enum syscall_reason reason = syscall_reason(left->syscall);
    const bool by_kernel = by_thread && woken->flags & RECORDER_KERNEL_THREAD;
    if (left->flags & RECORDER_STOPPED) {
        s->kind = REQUEST_PART_OTHER;
        s->reason = "stopped by a signal, a debugger or a freezer";
    } else if (left->flags & RECORDER_MEMSTALL) {
        set_memory_stall(left, s);
    } else if (reason == SYSCALL_REASON_SLEEP || is_select_of_nothing(left)) {
        s->kind = REQUEST_PART_SLEEP;
    } else if (left->flags & RECORDER_IO_WAIT ||
               (left->flags & RECORDER_UNINTERRUPTIBLE && (by_kernel || !by_thread))) {
        s->kind = REQUEST_PART_DISK;
    } else if (by_kernel && reason == SYSCALL_REASON_DISK) {
        s->kind = REQUEST_PART_DISK;
    } else if (by_kernel && is_on_socket(left)) {
        set_by_system_call(left, woken, s);
    } else if (by_kernel) {
        s->kind = REQUEST_PART_OTHER;
        s->reason = "woken by a thread of the kernel";
    } else if (by_thread) {
        return WAIT_ENDED_BY_THREAD;
    } else {
        set_by_system_call(left, woken, s);
    }
    return WAIT_KNOWN;
}

struct path_segment path_run_queue_segment(const struct flight_list *thread, const struct thread_span *span)
{
    const bool is_throttled = span->left && !span->woken && span->left->flags & RECORDER_THROTTLED;
    return (struct path_segment){.kind = REQUEST_PART_RUN_QUEUE,
                                 .tid = (uint32_t)thread->key,
                                 .pid = thread->pid,
                                 .owner = REQUEST_OWNER_THIS,
                                 .syscall = RECORDER_NO_SYSCALL,
                                 .reason = is_throttled ? "its cgroup's CPU quota was used up" : ""};
}
