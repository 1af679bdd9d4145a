/* The interpreters of the current task, in relation to the walk of its native stack: Python's frames are walked before
 * it; frames of V8 and HotSpot are native frames that it passes. A sample contains the frames of one interpreter. */
#pragma once

#include "probes/interpreter/hotspot.bpf.h"
#include "probes/interpreter/python.bpf.h"
#include "probes/interpreter/v8.bpf.h"

/* Called before the native walk. */
static __always_inline void interpreters_walk(struct unwind_scratch *scratch, struct task_struct *task, __u64 id,
                                              __u64 time_ns)
{
    __u32 pid = id >> 32;
    const struct unwind_process *process = bpf_map_lookup_elem(&unwind_processes, &pid);

    if (!process)
        return;
    python_walk(scratch, process, task, id, time_ns);
    if (no_runtimes)
        return;
    if (process->interpreters.runtime == INTERPRETER_HOTSPOT)
        hotspot_begin(scratch, process, task, id, time_ns);
    else if (process->interpreters.runtime == INTERPRETER_V8 && !scratch->walk.interpreted)
        v8_begin(scratch, process, task, id, time_ns);
}

/* Called after the native walk. */
static __always_inline void interpreters_walked(struct unwind_scratch *scratch, __u64 id)
{
    if (!no_runtimes && scratch->walk.places)
        v8_emit_queued();
    else
        python_recheck_thread(scratch, id);
}
