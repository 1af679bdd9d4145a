/* The rules are those of a request's waits (waits.c), and what those leave open is told by the system call; see off_cpu.h. */
#include "diagnose/off_cpu.h"

#include "diagnose/syscalls.h"
#include "diagnose/waits.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* What waits that no file, lock or state explains are for, by system call. */
static const char *reason_of_call(int number)
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
        return "other";
    }
}

static const char *reason_of(const struct off_cpu_wait *wait, const struct wait_frames *frames)
{
    const struct request_wait w = {.syscall = wait->syscall, .object = wait->object, .state = wait->state};
    if (wait->state & REQUEST_WAIT_STOPPED)
        return "stopped";
    switch (wait_kind(&w, frames)) {
    case REQUEST_PART_DISK:
        return "disk";
    case REQUEST_PART_LOCK:
        return "lock";
    case REQUEST_PART_SLEEP:
        return "sleep";
    case REQUEST_PART_NETWORK:
    case REQUEST_PART_DOWNSTREAM:
        return wait->object == REQUEST_OBJECT_UNIX ? "ipc" : "network";
    default:
        return wait->object == REQUEST_OBJECT_PIPE ? "ipc" : reason_of_call(wait->syscall);
    }
}

const char *off_cpu_text(const struct off_cpu_wait *wait, const struct sample *s, char out[OFF_CPU_TEXT_BYTES])
{
    struct wait_frames frames = {0};
    char call[32];
    bool has_user = false;
    for (size_t i = 0; i < s->frame_count; i++) {
        has_user |= s->frames[i].kind != FRAME_KERNEL;
        if (s->frames[i].kind == FRAME_KERNEL && frames.kernel_count < array_size(frames.kernel))
            frames.kernel[frames.kernel_count++] = s->frames[i];
    }
    const char *reason = reason_of(wait, &frames);
    if (wait->syscall >= 0)
        snprintf(out, OFF_CPU_TEXT_BYTES, "[%s: %s]", reason, syscall_name(wait->syscall, call, sizeof(call)));
    else
        snprintf(out, OFF_CPU_TEXT_BYTES, has_user ? "[%s: page fault]" : "[%s: kernel thread]", reason);
    return out;
}
