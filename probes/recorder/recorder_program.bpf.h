/* Records the tasks of programs that schedule them on their threads themselves, if the current thread's is one: Go's
 * goroutines, asyncio's tasks; and the holder of Python's GIL. Other programs pay for one search in a small table. */
#pragma once

#include "probes/recorder/recorder_goroutine.bpf.h"
#include "probes/recorder/recorder_python.bpf.h"

/* `moment`: enum recorder_moment; `word`: of the futex. A global function: the verifier checks it once, and not at each
 * call. */
__noinline int record_program(__u64 now_ns, __u32 moment, __u64 word)
{
    __u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (!has_tasks)
        return 0;
    const struct recorder_program *program = bpf_map_lookup_elem(&recorder_programs, &pid);
    if (!program)
        return 0;
    if (program->is_go) {
        const bool has_run = record_goroutine(now_ns, moment == RECORDER_AT_SOCKET);
        if (has_run && (moment == RECORDER_AT_FUTEX || moment == RECORDER_AT_SLEEP))
            record_noted_goroutines(now_ns);
    } else if (moment != RECORDER_AT_SCHEDULER)
        record_python(&program->python, now_ns, moment, word);
    return 0;
}
