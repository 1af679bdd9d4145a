/* Writes a record of a task that a program schedules on its threads itself, and where that is called. */
#pragma once

#include "probes/recorder/recorder.bpf.h"
#include "probes/recorder/recorder_tasks.bpf.h"

/* Where the current thread is. */
enum recorder_moment {
    RECORDER_AT_SCHEDULER,  /* it wakes another, or has received nothing as nothing had arrived */
    RECORDER_AT_PREEMPTION, /* it leaves its CPU and could go on */
    RECORDER_AT_FUTEX,      /* it leaves its CPU to wait for a futex */
    RECORDER_AT_SLEEP,      /* it leaves its CPU to wait for something else */
    RECORDER_AT_RELEASE,    /* it wakes another by a futex */
    RECORDER_AT_WRITE,      /* it wakes another by write(): by an eventfd or a pipe */
    RECORDER_AT_SOCKET,     /* it sends or receives */
    RECORDER_AT_MESSAGE,    /* its message on a socket of AF_UNIX arrives */
};

/* Of a task of the current process. `tid`: the thread that runs it or ran it last; 0: not known. `how`:
 * RECORDER_BY_WRITE, RECORDER_OFF_CPU, recorder_creator or 0. `site`: recorder_site, or RECORDER_NO_SYSCALL. */
static __always_inline void record_task_of(const struct recorder_place *place, __u32 tid, __u64 id, __u8 state,
                                           __u32 how, __s16 site, __u64 now_ns)
{
    struct recorder_record r = {.time_ns = now_ns,
                                .kind = RECORDER_TASK,
                                .flags = state,
                                .syscall = site,
                                .tid = tid,
                                .object = id,
                                .value = (bpf_get_current_pid_tgid() & 0xffffffff00000000ULL) | how};
    recorder_put_object(place, &r);
}

/* Of the current thread. */
static __always_inline void record_task(const struct recorder_place *place, __u64 id, __u8 state, __u32 how, __s16 site,
                                        __u64 now_ns)
{
    record_task_of(place, bpf_get_current_pid_tgid(), id, state, how, site, now_ns);
}
