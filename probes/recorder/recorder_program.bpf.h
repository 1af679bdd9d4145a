/* Records the tasks of programs that schedule them on their threads themselves, if the current thread's is one: Go's
 * goroutines, asyncio's tasks; and the holder of Python's GIL. User space knows the programs as it does for samples:
 * one search in the table of processes is all that other programs pay. */
#pragma once

#include "probes/recorder/recorder_goroutine.bpf.h"
#include "probes/recorder/recorder_python.bpf.h"
#include "probes/unwind/unwind_tables.bpf.h"

/* Set before loading: the maps of tasks, goroutine labels and processes exist. */
const volatile bool has_tasks = false;

/* Where the current thread is. */
enum recorder_moment {
    RECORDER_AT_SCHEDULER, /* it wakes another, or leaves its CPU */
    RECORDER_AT_FUTEX,     /* it leaves its CPU to wait for a futex */
    RECORDER_AT_SOCKET,    /* it sends or receives */
    RECORDER_AT_MESSAGE,   /* it sends on a socket of AF_UNIX */
};

/* `moment`: enum recorder_moment; `word`: of the futex. A global function: the verifier checks it once, and not at each
 * call. */
__noinline int record_program(__u64 now_ns, __u32 moment, __u64 word)
{
    __u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (!has_tasks) /* here, too: it is checked without its callers, and there are no maps */
        return 0;
    const struct unwind_process *process = bpf_map_lookup_elem(&unwind_processes, &pid);
    if (!process)
        return 0;
    if (process->interpreters.go.g_m)
        record_goroutine(now_ns, moment >= RECORDER_AT_SOCKET);
    else if (process->interpreters.python.thread_context && moment >= RECORDER_AT_SOCKET)
        record_python_task(&process->interpreters.python, now_ns, moment == RECORDER_AT_MESSAGE);
    else if (process->interpreters.python.thread_context && moment == RECORDER_AT_FUTEX)
        record_python_wait(&process->interpreters.python, now_ns, word);
    return 0;
}
